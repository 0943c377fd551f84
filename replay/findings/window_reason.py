"""A judged window for people: the evidence rows that its verdict stands on, and the reason as statements.

Facts (what the log records), bounds (what evidence proves), assumptions and predictions are never mixed: each statement
is of one nature (replay/findings/sentences.py).
"""

from __future__ import annotations

from typing import Any

from replay.findings.statements import statement
from replay.loss.judged_windows import JudgedWindow
from replay.loss.premises import Premise
from replay.loss.verdict import EXCLUDED, POSSIBLE, PROVEN
from replay.offsets.cited_rows import observation_row, placed, state_row
from replay.offsets.evidence import Row

# What a loss in one of Kafka's own topics means for those who use them.
MEANINGS = {"__consumer_offsets": "consumer_offsets", "__transaction_state": "transaction_state"}


def evidence_rows(seen: JudgedWindow) -> list[dict[str, Any]]:
    """tables.EVIDENCE_ROW dicts: the states around the election, the bounds, the last sight of every replica."""
    judgement = seen.judgement
    states = [("window_start", seen.start), ("state_before", seen.before), ("election", seen.after)]
    bounds = [
        ("high_watermark_floor", "high_watermark", judgement.floor.row),
        ("high_watermark_limit", "epoch_start_offset", judgement.floor.limit),
        ("high_watermark_ceiling", "log_end_offset", judgement.ceiling.row),
        ("leader_log_end", "epoch_start_offset", judgement.log_end_max.row),
        ("old_leader_log_end", "log_end_offset", judgement.old_log_max.row or judgement.old_log_min.row),
    ]
    rows = [state_row(role, state) for role, state in states]
    rows += [observation_row(role, row, column) for role, column, row in bounds if row is not None]
    rows += [
        {**placed(r.row, "replica_last_seen"), "value": r.log_end_offset, "leader_epoch": r.last_written_leader_epoch}
        for _, r in sorted(seen.situation.seen.items())
    ]
    return rows


def reason(seen: JudgedWindow, would_be_leader: int | None) -> list[Row]:
    """Why the verdict is what it is: statements.STATEMENT dicts, in the order of an account."""
    election, after = seen.case.election, seen.after
    told = [
        statement(
            "elected",
            brokers=[election.leader],
            offset=after["offset"],
            leader_epoch=election.leader_epoch,
            text=f"{after['topic']}-{after['partition']}",
        ),
        statement("isr_before", brokers=seen.before["isr"]),
        statement("elr_before", brokers=seen.before["elr"]),
        *_membership(seen),
        *_bounds(seen),
        *_result(seen),
        *_unacked(seen),
        *_missing(seen),
    ]
    decided = seen.judgement.verdict in (PROVEN, EXCLUDED)
    if seen.clock.error_ms or decided:
        told.append(statement("clocks", value=seen.clock.error_ms))
    if seen.clock.measured_ms:
        told.append(statement("clocks_measured", value=seen.clock.measured_ms))
    if decided and seen.assumed_timeout_ms is not None:
        told.append(statement("session_timeout_assumed", value=seen.assumed_timeout_ms))
    if seen.before["min_isr_source"] == "assumed_default":
        told.append(statement("min_isr_assumed", value=seen.before["min_isr"]))
    if after["topic"] in MEANINGS and seen.judgement.verdict != EXCLUDED:
        told.append(statement(MEANINGS[after["topic"]]))
    if would_be_leader is not None:
        told.append(statement("would_elect", brokers=[would_be_leader]))
    return told


def _membership(seen: JudgedWindow) -> list[Row]:
    """Every premise of the protocol's promise that holds, where it was relied on; else those that fail."""
    membership, judgement = seen.case.election.membership, seen.judgement
    told = []
    if membership.taken_in:
        told.append(statement("taken_in"))
    elif membership.joined is None:
        told.append(statement("outsider"))
    if judgement.by_protocol:
        told += [_premise(p) for p in membership.premises]
        told.append(statement("held_by_protocol"))
    return told + [_premise(p) for p in judgement.against]


def _premise(premise: Premise) -> Row:
    return statement(premise.code, brokers=premise.brokers, offset=premise.offset)


def _bounds(seen: JudgedWindow) -> list[Row]:
    judgement = seen.judgement
    floor, ceiling = judgement.floor, judgement.ceiling
    least, most = judgement.log_end_min.value, judgement.log_end_max.value
    told = []
    if floor.value is not None and floor.row is not None:
        code = floor.inference or "high_watermark_at_least"
        told.append(statement(code, brokers=[floor.row["broker_id"]], value=floor.value))
    if ceiling.value is not None:
        told.append(statement("high_watermark_at_most", value=ceiling.value))
    if ceiling.row is not None and ceiling.inference is not None:
        told.append(statement(ceiling.inference, brokers=[ceiling.row["broker_id"]], value=ceiling.value))
    if most is not None:
        told.append(statement("log_end" if least == most else "log_end_at_most", value=most))
    if least is not None and least != most:
        told.append(statement("log_end_at_least", value=least))
    if floor.value is None and most is None and judgement.verdict != EXCLUDED:
        told.append(statement("nothing_bounds"))
    return told


def _result(seen: JudgedWindow) -> list[Row]:
    judgement = seen.judgement
    top = statement("lost_open")
    if judgement.loss_max is not None:
        top = statement("lost_at_most", value=judgement.loss_max)
    if judgement.verdict == PROVEN:
        told = [statement("lost_at_least", value=judgement.loss_min), top]
        first = judgement.first_lost_offset
        return told if first is None else [*told, statement("first_lost", value=first)]
    if judgement.verdict == EXCLUDED:
        return [statement("nothing_lost")] if judgement.ceiling.value is not None else []
    return [statement("nothing_proven"), top] if judgement.verdict == POSSIBLE else []


def _unacked(seen: JudgedWindow) -> list[Row]:
    judgement = seen.judgement
    told = []
    if judgement.unacked_min:
        told.append(statement("unacked_at_least", value=judgement.unacked_min))
    if judgement.unacked_max is not None:
        told.append(statement("unacked_at_most", value=judgement.unacked_max))
    return told


def _missing(seen: JudgedWindow) -> list[Row]:
    """The evidence that would have told more, where something is open."""
    judgement, election = seen.judgement, seen.case.election
    if judgement.verdict == EXCLUDED:
        return []
    told, term = [], election.term
    if judgement.log_end_max.value is None:
        told.append(statement("missing_log_end", brokers=[election.leader], leader_epoch=election.leader_epoch))
    elif judgement.log_end_min.value is None and term is not None:
        told.append(statement("missing_word_of_process", brokers=[term.leader]))
    if judgement.ceiling.value is None and term is not None:
        told.append(statement("missing_high_watermark_ceiling", brokers=[term.leader]))
    if judgement.floor.value is None:
        told.append(statement("missing_high_watermark"))
    return told
