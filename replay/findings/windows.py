"""Findings of judged windows: the recorded window, and what other rules would have elected or lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replay.findings.kinds import COUNTERFACTUAL, DIVERGENCE, HWM_REGRESSION, finding_id
from replay.findings.statements import prose, statement
from replay.findings.window_reason import MEANINGS, evidence_rows, reason
from replay.loss.judged_windows import JudgedWindow
from replay.loss.verdict import RULE, RULE_VERSION
from replay.loss.verdicts import POSSIBLE, PROVEN, SEVERITY
from replay.offsets.evidence import Row
from replay.whatif import recovery_policies

_RECOVERY = (recovery_policies.ALL_REPLICAS, recovery_policies.AGGRESSIVE, recovery_policies.BALANCED)


def window_findings(window: JudgedWindow, recorded_id: str, answers: Sequence[Row], cluster_id: str) -> list[Row]:
    """schemas.FINDINGS rows of one judged window: the recorded one first, then predictions under other rules.

    recorded_id: finding_id of the recorded one; answers: schemas.COUNTERFACTUALS rows of the window.
    """
    recorded = _recorded_finding(window, recorded_id, answers)
    predicted = _counterfactuals(window, answers, recorded, cluster_id)
    return [recorded, *predicted, *_divergences(window, answers, recorded, cluster_id)]


def window_id(window: JudgedWindow, cluster_id: str, kind: str, *more: object) -> str:
    """The finding_id of a finding about the window."""
    after = window.after
    return finding_id(cluster_id, kind, after["topic_id"], after["partition"], after["offset"], *more)


def _recorded_finding(window: JudgedWindow, recorded_id: str, answers: Sequence[Row]) -> Row:
    """The schemas.FINDINGS row of the recorded window."""
    differing = next((r for r in _recoveries(window, answers) if r["policy"] == recovery_policies.ALL_REPLICAS), None)
    judgement = window.judgement
    statements = reason(window, differing["leader"] if differing else None)
    severity = SEVERITY[judgement.verdict]
    if window.after["topic"] in MEANINGS and judgement.verdict == POSSIBLE:
        severity = "high"
    return {
        **_common_columns(window),
        "finding_id": recorded_id,
        "kind": HWM_REGRESSION,
        "verdict": judgement.verdict,
        "severity": severity,
        "loss_min": judgement.loss_min,
        "loss_max": judgement.loss_max,
        "first_lost_offset": judgement.first_lost_offset,
        "high_watermark_min": judgement.floor.value,
        "log_end_max": judgement.log_end_max.value,
        "clock_error_ms": window.clock.error_ms,
        "unacked_min": judgement.unacked_min,
        "unacked_max": judgement.unacked_max,
        **_likely(window),
        "would_be_leader": differing["leader"] if differing else None,
        "policy": differing["policy"] if differing else None,
        "evidence": evidence_rows(window),
        "reason": statements,
        "explanation": prose(statements),
    }


def _likely(window: JudgedWindow) -> dict[str, Any]:
    found = window.likely
    if found is None:
        return {}
    counts = (found.right, found.of) if found.rule else (None, None)
    return {"likely": found.leaning, "likely_rule": found.rule, "likely_right": counts[0], "likely_of": counts[1]}


def _common_columns(window: JudgedWindow) -> dict[str, Any]:
    after, end = window.after, window.end
    return {
        **{n: after[n] for n in ("topic_id", "topic", "partition")},
        "start_offset": window.start["offset"],
        "end_offset": end["offset"] if end else None,
        "start_timestamp_ms": window.start["timestamp_ms"],
        "end_timestamp_ms": end["timestamp_ms"] if end else None,
        "election_offset": after["offset"],
        "recorded_leader": after["leader"],
        "rule": RULE,
        "rule_version": RULE_VERSION,
    }


def _counterfactuals(window: JudgedWindow, answers: Sequence[Row], recorded: Row, cluster_id: str) -> list[Row]:
    """Findings of policies whose leader differs from the recorded one and would certainly have lost acknowledged
    records."""
    rows = []
    for answer in answers:
        if answer["differs"] and answer["loss_min"]:
            statements = _predicted_statements(window, answer)
            rows.append(_predicted_finding(window, answer, statements, recorded, COUNTERFACTUAL, "low", cluster_id))
    return rows


def _divergences(window: JudgedWindow, answers: Sequence[Row], recorded: Row, cluster_id: str) -> list[Row]:
    """Findings of other leaders that unclean recovery would have picked, one for each such leader."""
    rows: dict[int, Row] = {}
    for answer in _recoveries(window, answers):
        if answer["leader"] not in rows:
            statements = _predicted_statements(window, answer)
            if recorded["loss_min"]:
                statements.append(statement("lost_by_recorded", value=recorded["loss_min"]))
            severity = "medium" if recorded["verdict"] == PROVEN else "low"
            rows[answer["leader"]] = _predicted_finding(
                window, answer, statements, recorded, DIVERGENCE, severity, cluster_id
            )
    return list(rows.values())


def _recoveries(window: JudgedWindow, answers: Sequence[Row]) -> list[Row]:
    """Answers of unclean recovery that name another leader; empty if the elected leader was a member of the ISR or ELR
    that the controller itself trusts."""
    if window.election_facts.election.elected_clean:
        return []
    by_policy = {r["policy"]: r for r in answers}
    return [by_policy[name] for name in _RECOVERY if by_policy[name]["differs"]]


def _predicted_statements(window: JudgedWindow, answer: Row) -> list[Row]:
    """Statements about what a policy would have done and what that would have lost."""
    leader, after = answer["leader"], window.after
    statements = [
        statement("recorded_leader", brokers=[after["leader"]], offset=after["offset"]),
        statement("policy_elects", brokers=[leader], text=answer["policy"]),
    ]
    if answer["log_end_offset"] is not None:
        known = {"value": answer["log_end_offset"], "leader_epoch": answer["last_written_leader_epoch"]}
        statements.append(statement("last_seen", brokers=[leader], **known))
    if answer["loss_min"]:
        statements.append(statement("would_lose_at_least", value=answer["loss_min"]))
    if answer["loss_max"] is not None:
        statements.append(statement("would_lose_at_most", value=answer["loss_max"]))
    return statements


def _predicted_finding(
    window: JudgedWindow, answer: Row, statements: list[Row], recorded: Row, kind: str, severity: str, cluster_id: str
) -> Row:
    """A finding about another rule. Its verdict is never proven: who another rule would have picked is a prediction."""
    return {
        **_common_columns(window),
        "finding_id": window_id(window, cluster_id, kind, answer["policy"]),
        "kind": kind,
        "verdict": POSSIBLE,
        "severity": severity,
        "loss_min": answer["loss_min"],
        "loss_max": answer["loss_max"],
        "would_be_leader": answer["leader"],
        "policy": answer["policy"],
        "evidence": recorded["evidence"],
        "reason": statements,
        "explanation": prose(statements),
    }
