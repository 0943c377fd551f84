"""The evidence rows that the verdict of a judged window rests on, and its reason as statements.

Each statement has one nature (replay/findings/sentences.py): facts that the log records, bounds that evidence proves,
assumptions and predictions are never mixed.
"""

from __future__ import annotations

from typing import Any

from replay.findings.statements import statement
from replay.loss.judged_windows import JudgedWindow
from replay.loss.premises import Premise
from replay.loss.verdicts import EXCLUDED, POSSIBLE, PROVEN
from replay.offsets.cited_rows import observation_row, source_columns, state_row
from replay.offsets.evidence import Row

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
        *_unacked(window),
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


def _membership(window: JudgedWindow) -> list[Row]:
    """All premises of the protocol's promise if the verdict relies on it, else what fails or contradicts it."""
    membership, judgement = window.election_facts.election.membership, window.judgement
    leader, isr, elr = window.election_facts.election.leader, window.before["isr"], window.before["elr"]
    statements = []
    if membership.taken_in and leader not in isr:
        statements.append(statement("taken_in"))
    elif leader not in (*isr, *elr):
        statements.append(statement("outsider"))
    if judgement.by_protocol:
        statements += [_premise(p) for p in membership.premises]
        statements.append(statement("held_by_protocol"))
    return statements + [_premise(p) for p in judgement.against]


def _premise(premise: Premise) -> Row:
    return statement(premise.code, brokers=premise.brokers, offset=premise.offset)


def _bounds(window: JudgedWindow) -> list[Row]:
    judgement = window.judgement
    floor, ceiling = judgement.floor, judgement.ceiling
    least, most = judgement.log_end_min.value, judgement.log_end_max.value
    statements = []
    if floor.value is not None and floor.row is not None:
        code = floor.inference or "high_watermark_at_least"
        statements.append(statement(code, brokers=[floor.row["broker_id"]], value=floor.value))
    if ceiling.value is not None:
        statements.append(statement("high_watermark_at_most", value=ceiling.value))
    if ceiling.row is not None and ceiling.inference is not None:
        statements.append(statement(ceiling.inference, brokers=[ceiling.row["broker_id"]], value=ceiling.value))
    if most is not None:
        statements.append(statement("log_end" if least == most else "log_end_at_most", value=most))
    if least is not None and least != most:
        statements.append(statement("log_end_at_least", value=least))
    if judgement.verdict == EXCLUDED and least and not judgement.by_protocol:
        statements.append(statement("premise_epochs_written_once"))
    if floor.value is None and most is None and judgement.verdict != EXCLUDED:
        statements.append(statement("nothing_bounds"))
    return statements


def _result(window: JudgedWindow) -> list[Row]:
    judgement = window.judgement
    top = statement("lost_open")
    if judgement.loss_max is not None:
        top = statement("lost_at_most", value=judgement.loss_max)
    if judgement.verdict == PROVEN:
        statements = [statement("lost_at_least", value=judgement.loss_min), top]
        first = judgement.first_lost_offset
        return statements if first is None else [*statements, statement("first_lost", value=first)]
    if judgement.verdict == EXCLUDED:
        return [statement("nothing_lost")] if judgement.ceiling.value is not None else []
    return [statement("nothing_proven"), top] if judgement.verdict == POSSIBLE else []


def _unacked(window: JudgedWindow) -> list[Row]:
    judgement = window.judgement
    statements = []
    if judgement.unacked_min:
        statements.append(statement("unacked_at_least", value=judgement.unacked_min))
    if judgement.unacked_max is not None:
        statements.append(statement("unacked_at_most", value=judgement.unacked_max))
    return statements


def _missing(window: JudgedWindow) -> list[Row]:
    """The evidence that could have closed a bound that is open. Empty if the verdict is excluded."""
    judgement, election = window.judgement, window.election_facts.election
    if judgement.verdict == EXCLUDED:
        return []
    statements, term = [], election.term
    if judgement.log_end_max.value is None:
        statements.append(statement("missing_log_end", brokers=[election.leader], leader_epoch=election.leader_epoch))
    elif judgement.log_end_min.value is None and term is not None:
        doubted = next((d.brokers for d in election.doubts if d.brokers), (term.leader,))
        statements.append(statement("missing_word_of_process", brokers=doubted))
    if judgement.ceiling.value is None and term is not None:
        statements.append(statement("missing_high_watermark_ceiling", brokers=[term.leader]))
    if judgement.floor.value is None:
        statements.append(statement("missing_high_watermark"))
    return statements
