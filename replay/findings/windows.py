"""Findings of judged windows: the recorded window, and what other rules would have lost or elected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replay.findings.kinds import COUNTERFACTUAL, DIVERGENCE, HWM_REGRESSION, finding_id
from replay.findings.statements import prose, statement
from replay.findings.window_reason import MEANINGS, evidence_rows, reason
from replay.loss.judged_windows import JudgedWindow
from replay.loss.verdict import POSSIBLE, PROVEN, RULE, RULE_VERSION, SEVERITY
from replay.offsets.evidence import Row
from replay.whatif import recovery_policies

_RECOVERY = (recovery_policies.ALL_REPLICAS, recovery_policies.AGGRESSIVE, recovery_policies.BALANCED)


def window_findings(seen: JudgedWindow, number: str, answers: Sequence[Row], cluster_id: str) -> list[Row]:
    """schemas.FINDINGS rows of one judged window: the recorded one first, then what would have been.

    number: finding_id of the recorded one; answers: schemas.COUNTERFACTUALS rows of the window.
    """
    window = _window(seen, number, answers)
    predicted = _would_have_lost(seen, answers, window, cluster_id)
    return [window, *predicted, *_divergences(seen, answers, window, cluster_id)]


def window_id(seen: JudgedWindow, cluster_id: str, kind: str, *more: object) -> str:
    after = seen.after
    return finding_id(cluster_id, kind, after["topic_id"], after["partition"], after["offset"], *more)


def _window(seen: JudgedWindow, number: str, answers: Sequence[Row]) -> Row:
    """The recorded window."""
    differing = next((r for r in _recoveries(seen, answers) if r["policy"] == recovery_policies.ALL_REPLICAS), None)
    judgement = seen.judgement
    told = reason(seen, differing["leader"] if differing else None)
    severity = SEVERITY[judgement.verdict]
    if seen.after["topic"] in MEANINGS and judgement.verdict == POSSIBLE:
        severity = "high"
    return {
        **_place(seen),
        "finding_id": number,
        "kind": HWM_REGRESSION,
        "verdict": judgement.verdict,
        "severity": severity,
        "loss_min": judgement.loss_min,
        "loss_max": judgement.loss_max,
        "first_lost_offset": judgement.first_lost_offset,
        "unacked_min": judgement.unacked_min,
        "unacked_max": judgement.unacked_max,
        "would_be_leader": differing["leader"] if differing else None,
        "policy": differing["policy"] if differing else None,
        "evidence": evidence_rows(seen),
        "reason": told,
        "explanation": prose(told),
    }


def _place(seen: JudgedWindow) -> dict[str, Any]:
    after, end = seen.after, seen.end
    return {
        **{n: after[n] for n in ("topic_id", "topic", "partition")},
        "start_offset": seen.start["offset"],
        "end_offset": end["offset"] if end else None,
        "start_timestamp_ms": seen.start["timestamp_ms"],
        "end_timestamp_ms": end["timestamp_ms"] if end else None,
        "election_offset": after["offset"],
        "recorded_leader": after["leader"],
        "rule": RULE,
        "rule_version": RULE_VERSION,
    }


def _would_have_lost(seen: JudgedWindow, answers: Sequence[Row], window: Row, cluster_id: str) -> list[Row]:
    """Policies whose leader, another than the recorded one, would surely have lost acknowledged records."""
    rows = []
    for answer in answers:
        if answer["differs"] and answer["loss_min"]:
            rows.append(_prediction(seen, answer, _predicted(seen, answer), window, COUNTERFACTUAL, "low", cluster_id))
    return rows


def _divergences(seen: JudgedWindow, answers: Sequence[Row], window: Row, cluster_id: str) -> list[Row]:
    """The leader that unclean recovery would have picked, where it is another; once for each."""
    rows: dict[int, Row] = {}
    for answer in _recoveries(seen, answers):
        if answer["leader"] not in rows:
            told = _predicted(seen, answer)
            if window["loss_min"]:
                told.append(statement("lost_by_recorded", value=window["loss_min"]))
            severity = "medium" if window["verdict"] == PROVEN else "low"
            rows[answer["leader"]] = _prediction(seen, answer, told, window, DIVERGENCE, severity, cluster_id)
    return list(rows.values())


def _recoveries(seen: JudgedWindow, answers: Sequence[Row]) -> list[Row]:
    """Answers of unclean recovery that name another leader; none where a member of the ISR or ELR was elected that the
    controller itself trusts."""
    if seen.case.election.elected_clean:
        return []
    by_policy = {r["policy"]: r for r in answers}
    return [by_policy[name] for name in _RECOVERY if by_policy[name]["differs"]]


def _predicted(seen: JudgedWindow, answer: Row) -> list[Row]:
    """What a policy would have done, and what that would have lost."""
    leader, after = answer["leader"], seen.after
    told = [
        statement("recorded_leader", brokers=[after["leader"]], offset=after["offset"]),
        statement("policy_elects", brokers=[leader], text=answer["policy"]),
    ]
    if answer["log_end_offset"] is not None:
        known = {"value": answer["log_end_offset"], "leader_epoch": answer["last_written_leader_epoch"]}
        told.append(statement("last_seen", brokers=[leader], **known))
    if answer["loss_min"]:
        told.append(statement("would_lose_at_least", value=answer["loss_min"]))
    if answer["loss_max"] is not None:
        told.append(statement("would_lose_at_most", value=answer["loss_max"]))
    return told


def _prediction(
    seen: JudgedWindow, answer: Row, told: list[Row], window: Row, kind: str, severity: str, cluster_id: str
) -> Row:
    """A finding about what would have been. Never proven: whom another rule would have picked is a prediction."""
    return {
        **_place(seen),
        "finding_id": window_id(seen, cluster_id, kind, answer["policy"]),
        "kind": kind,
        "verdict": POSSIBLE,
        "severity": severity,
        "loss_min": answer["loss_min"],
        "loss_max": answer["loss_max"],
        "would_be_leader": answer["leader"],
        "policy": answer["policy"],
        "evidence": window["evidence"],
        "reason": told,
        "explanation": prose(told),
    }
