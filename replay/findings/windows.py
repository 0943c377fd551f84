"""Findings of judged windows: the recorded window, and what other rules would have elected or lost.

Each statement of a reason has one nature (replay/findings/sentences.toml): facts that the log records, bounds that
evidence proves, assumptions and predictions are never mixed.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from replay.findings.kinds import COUNTERFACTUAL, DIVERGENCE, HWM_REGRESSION, finding_id
from replay.findings.statements import observation_row, prose, source_columns, state_row, statement
from replay.loss.judged_windows import JudgedWindow
from replay.loss.verdict import RULE, RULE_VERSION
from replay.loss.verdicts import EXCLUDED, POSSIBLE, PROVEN, SEVERITY
from replay.offsets.evidence import Row
from replay.terms.premises import Premise
from replay.whatif import recovery_policies

_OF_JUDGEMENT = ("verdict", "loss_min", "loss_max", "first_lost_offset", "unacked_min", "unacked_max")
# Statement codes: what a loss in one of Kafka's own topics means for its users.
MEANINGS = {"__consumer_offsets": "consumer_offsets", "__transaction_state": "transaction_state"}


def evidence_rows(window: JudgedWindow) -> list[dict[str, Any]]:
    """schemas.EVIDENCE_ROW dicts: states around the election, bounds, and the last observation of every replica."""
    judgement = window.judgement
    states = [("window_start", window.start), ("state_before", window.before), ("election", window.after)]
    bounds = [
        ("high_watermark_floor", "high_watermark", judgement.floor.row),
        ("high_watermark_limit", "epoch_start_offset", judgement.floor.limit),
        ("high_watermark_ceiling", "log_end_offset", judgement.ceiling.row),
        ("leader_log_end", "epoch_start_offset", judgement.log_end_max.row),
        ("old_leader_log_end", "log_end_offset", judgement.old_log_max.row or judgement.old_log_min.row),
        ("old_leader_log_start", "log_start_offset", judgement.log_start.row),
    ]
    rows = [state_row(role, state) for role, state in states]
    rows += [observation_row(role, row, column) for role, column, row in bounds if row is not None]
    for _, replica in sorted(window.situation.last_seen.items()):
        figures = {"value": replica.log_end_offset, "leader_epoch": replica.last_written_leader_epoch}
        rows.append({**source_columns(replica.row, "replica_last_seen"), **figures})
    return rows


def reason(window: JudgedWindow, would_be_leader: int | None) -> list[Row]:
    """The reason for the verdict: schemas.STATEMENT dicts, in the order in which they are read."""
    election, after = window.election_facts.election, window.after
    statements = [
        statement(
            "elected",
            brokers=[election.leader],
            offset=after["offset"],
            leader_epoch=election.leader_epoch,
            text=f"{after['topic']}-{after['partition']}",
        ),
        statement("isr_before", brokers=window.before["isr"]),
        statement("elr_before", brokers=window.before["elr"]),
        *_membership(window),
        *_bounds(window),
        *_result(window),
        *_missing(window),
    ]
    decided = window.judgement.verdict in (PROVEN, EXCLUDED)
    if window.clock.error_ms or decided:
        statements.append(statement("clocks", value=window.clock.error_ms))
    if window.clock.measured_ms:
        statements.append(statement("clocks_measured", value=window.clock.measured_ms))
    if decided and window.assumed_timeout_ms is not None:
        statements.append(statement("session_timeout_assumed", value=window.assumed_timeout_ms))
    if window.before["min_isr_source"] == "assumed_default":
        statements.append(statement("min_isr_assumed", value=window.before["min_isr"]))
    if after["topic"] in MEANINGS and window.judgement.verdict != EXCLUDED:
        statements.append(statement(MEANINGS[after["topic"]]))
    if would_be_leader is not None:
        statements.append(statement("would_elect", brokers=[would_be_leader]))
    return statements


def _membership(window: JudgedWindow) -> Iterator[Row]:
    """All premises of the protocol's promise if the verdict relies on it, else what fails or contradicts it."""
    membership, judgement = window.election_facts.election.membership, window.judgement
    leader, isr, elr = window.election_facts.election.leader, window.before["isr"], window.before["elr"]
    if membership.taken_in and leader not in isr:
        yield statement("taken_in")
    elif leader not in (*isr, *elr):
        yield statement("outsider")
    if judgement.by_protocol:
        yield from map(_premise, membership.premises)
        yield statement("held_by_protocol")
    yield from map(_premise, judgement.against)


def _premise(premise: Premise) -> Row:
    return statement(premise.code, brokers=premise.brokers, offset=premise.offset)


def _bounds(window: JudgedWindow) -> Iterator[Row]:
    judgement = window.judgement
    floor, ceiling = judgement.floor, judgement.ceiling
    least, most = judgement.log_end_min.value, judgement.log_end_max.value
    if floor.value and floor.row is not None:  # at least 0 is no news
        code = floor.inference or "high_watermark_at_least"
        broker = floor.row["broker_id"]  # None: whoever led told a client
        yield statement(code, brokers=[] if broker is None else [broker], value=floor.value)
    if ceiling.value is not None:
        yield statement("high_watermark_at_most", value=ceiling.value)
    if ceiling.row is not None and ceiling.inference is not None:
        yield statement(ceiling.inference, brokers=[ceiling.row["broker_id"]], value=ceiling.value)
    if most is not None:
        yield statement("log_end" if least == most else "log_end_at_most", value=most)
    if judgement.log_end_max.inference and judgement.log_end_max.row is not None:
        yield statement(judgement.log_end_max.inference, brokers=[judgement.log_end_max.row["broker_id"]])
    if least and least != most:
        yield statement("log_end_at_least", value=least)
    if judgement.verdict == EXCLUDED and least and not judgement.by_protocol:
        yield statement("premise_epochs_written_once")
    if not floor.value and most is None and judgement.verdict != EXCLUDED:
        yield statement("nothing_bounds")


def _result(window: JudgedWindow) -> Iterator[Row]:
    judgement = window.judgement
    if judgement.verdict == PROVEN:
        yield statement("lost_at_least", value=judgement.loss_min)
    elif judgement.verdict == POSSIBLE:
        yield statement("nothing_proven")
    elif judgement.verdict == EXCLUDED and judgement.ceiling.value is not None:
        yield statement("nothing_lost")
    if judgement.verdict in (PROVEN, POSSIBLE):
        most = judgement.loss_max
        yield statement("lost_open") if most is None else statement("lost_at_most", value=most)
    if judgement.verdict == PROVEN and judgement.first_lost_offset is not None:
        yield statement("first_lost", value=judgement.first_lost_offset)
    if judgement.log_start.value is not None and judgement.log_start.row is not None:
        broker = judgement.log_start.row["broker_id"]
        yield statement("deleted_before", brokers=[broker], value=judgement.log_start.value)
    if judgement.unacked_min:
        yield statement("unacked_at_least", value=judgement.unacked_min)
    if judgement.unacked_max is not None:
        yield statement("unacked_at_most", value=judgement.unacked_max)


def _missing(window: JudgedWindow) -> Iterator[Row]:
    """The evidence that could have closed a bound that is open. Nothing if the verdict is excluded."""
    judgement, election = window.judgement, window.election_facts.election
    if judgement.verdict == EXCLUDED:
        return
    term = election.term
    if judgement.log_end_max.value is None:
        yield statement("missing_log_end", brokers=[election.leader], leader_epoch=election.leader_epoch)
    elif judgement.log_end_min.value is None and term is not None:
        doubted = next((d.brokers for d in election.doubts if d.brokers), (term.leader,))
        yield statement("missing_word_of_process", brokers=doubted)
    if judgement.ceiling.value is None and term is not None:
        yield statement("missing_high_watermark_ceiling", brokers=[term.leader])
    if judgement.floor.value is None:
        yield statement("missing_high_watermark")


_RECOVERY = (recovery_policies.ALL_REPLICAS, recovery_policies.AGGRESSIVE, recovery_policies.BALANCED)


def window_findings(window: JudgedWindow, recorded_id: str, answers: Sequence[Row], cluster_id: str) -> list[Row]:
    """schemas.FINDINGS rows of one judged window: the recorded one first, then predictions under other rules.

    recorded_id: finding_id of the recorded one; answers: schemas.COUNTERFACTUALS rows of the window.
    """
    recorded = _recorded_finding(window, recorded_id, answers)
    # Of policies whose leader differs from the recorded one and would certainly have lost acknowledged records.
    losing = [answer for answer in answers if answer["differs"] and answer["loss_min"]]
    # Of other leaders that unclean recovery would have picked, one for each such leader.
    picked: dict[int, Row] = {}
    for answer in _recoveries(window, answers):
        picked.setdefault(answer["leader"], answer)
    severity = "medium" if recorded["verdict"] == PROVEN else "low"
    return [
        recorded,
        *(_predicted_finding(window, answer, recorded, COUNTERFACTUAL, "low", cluster_id) for answer in losing),
        *(_predicted_finding(window, answer, recorded, DIVERGENCE, severity, cluster_id) for answer in picked.values()),
    ]


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
        **{name: getattr(judgement, name) for name in _OF_JUDGEMENT},
        "severity": severity,
        "high_watermark_min": judgement.floor.value,
        "log_end_max": judgement.log_end_max.value,
        "clock_error_ms": window.clock.error_ms,
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


def _recoveries(window: JudgedWindow, answers: Sequence[Row]) -> list[Row]:
    """Answers of unclean recovery that name another leader; empty if the elected leader was a member of the ISR or ELR
    that the controller itself trusts."""
    if window.election_facts.election.elected_clean:
        return []
    by_policy = {r["policy"]: r for r in answers}
    return [by_policy[name] for name in _RECOVERY if by_policy[name]["differs"]]


def _predicted_statements(window: JudgedWindow, answer: Row) -> Iterator[Row]:
    """Statements about what a policy would have done and what that would have lost."""
    leader, after = answer["leader"], window.after
    yield statement("recorded_leader", brokers=[after["leader"]], offset=after["offset"])
    yield statement("policy_elects", brokers=[leader], text=answer["policy"])
    if answer["log_end_offset"] is not None:
        known = {"value": answer["log_end_offset"], "leader_epoch": answer["last_written_leader_epoch"]}
        yield statement("last_seen", brokers=[leader], **known)
    if answer["loss_min"]:
        yield statement("would_lose_at_least", value=answer["loss_min"])
    if answer["loss_max"] is not None:
        yield statement("would_lose_at_most", value=answer["loss_max"])


def _predicted_finding(
    window: JudgedWindow, answer: Row, recorded: Row, kind: str, severity: str, cluster_id: str
) -> Row:
    """A finding about another rule. Its verdict is never proven: who another rule would have picked is a prediction."""
    statements = list(_predicted_statements(window, answer))
    if kind == DIVERGENCE and recorded["loss_min"]:
        statements.append(statement("lost_by_recorded", value=recorded["loss_min"]))
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
