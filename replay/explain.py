"""A judged window for people: the evidence rows that its verdict stands on, and the reason as statements.

Facts (what the log records), bounds (what evidence proves), assumptions and predictions are never mixed: each statement
is of one nature (replay/sentences.py).
"""

from __future__ import annotations

from typing import Any

from replay.judged import Seen
from replay.offsets import Row
from replay.statements import statement
from replay.verdicts import EXCLUDED, POSSIBLE, PROVEN

# What a loss in one of Kafka's own topics means for those who use them.
MEANINGS = {"__consumer_offsets": "consumer_offsets", "__transaction_state": "transaction_state"}
_PROVENANCE = ("capture", "path", "sha256", "position")


def evidence_rows(seen: Seen) -> list[dict[str, Any]]:
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
    rows += [sight_row(role, row, column) for role, column, row in bounds if row is not None]
    rows += [
        {**_place(r.row, "replica_last_seen"), "value": r.log_end_offset, "leader_epoch": r.last_written_leader_epoch}
        for _, r in sorted(seen.situation.seen.items())
    ]
    return rows


def state_row(role: str, state: Row) -> dict[str, Any]:
    """A recorded state as a tables.EVIDENCE_ROW. state: of tables.PARTITION_HISTORY."""
    return {
        "role": role,
        "source": "partition_history",
        "broker_id": state["leader"],
        "value": None,
        "leader_epoch": state["leader_epoch"],
        "offset": state["offset"],
        "captured_at_ms": state["timestamp_ms"],
        **{k: state[k] for k in _PROVENANCE},
    }


def _place(row: Row, role: str) -> dict[str, Any]:
    return {
        "role": role,
        "source": row["source"],
        "broker_id": row["broker_id"],
        "offset": None,
        "captured_at_ms": row["captured_at_ms"],
        **{k: row[k] for k in _PROVENANCE},
    }


def sight_row(role: str, row: Row, column: str = "log_end_offset") -> dict[str, Any]:
    """What was seen of a replica (a LOG_END_OFFSETS row) as a tables.EVIDENCE_ROW. column: the one that was used, if
    the row has it: a leader's log end may come from a sample of its log end, too."""
    names = (column, "log_end_offset", "high_watermark", "epoch_start_offset")
    value = next(row[name] for name in names if row[name] is not None)
    return {**_place(row, role), "value": value, "leader_epoch": row["leader_epoch"]}


def reason(seen: Seen, would_be_leader: int | None) -> list[Row]:
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
    if seen.clock.error_ms or seen.judgement.verdict == PROVEN:
        told.append(statement("clocks", value=seen.clock.error_ms))
    if seen.before["min_isr_source"] == "assumed_default":
        told.append(statement("min_isr_assumed", value=seen.before["min_isr"]))
    if after["topic"] in MEANINGS and seen.judgement.verdict != EXCLUDED:
        told.append(statement(MEANINGS[after["topic"]]))
    if would_be_leader is not None:
        told.append(statement("would_elect", brokers=[would_be_leader]))
    return told


def _membership(seen: Seen) -> list[Row]:
    election, verdict = seen.case.election, seen.judgement.verdict
    if not election.held:
        return [statement("taken_in" if election.taken_in else "outsider")]
    if verdict == EXCLUDED and not election.restarted:
        return [statement("member", offset=election.joined_offset), statement("held_by_protocol")]
    return [statement("restarted" if election.restarted else "contradicted")]


def _bounds(seen: Seen) -> list[Row]:
    judgement = seen.judgement
    floor, ceiling = judgement.floor, judgement.ceiling
    least, most = judgement.log_end_min.value, judgement.log_end_max.value
    told = []
    if floor.value is not None and floor.row is not None:
        told.append(statement("high_watermark_at_least", brokers=[floor.row["broker_id"]], value=floor.value))
    if ceiling.value is not None:
        told.append(statement("high_watermark_at_most", value=ceiling.value))
    if most is not None:
        told.append(statement("log_end" if least == most else "log_end_at_most", value=most))
    if least is not None and least != most:
        told.append(statement("log_end_at_least", value=least))
    if floor.value is None and most is None and judgement.verdict != EXCLUDED:
        told.append(statement("nothing_bounds"))
    return told


def _result(seen: Seen) -> list[Row]:
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


def _unacked(seen: Seen) -> list[Row]:
    judgement = seen.judgement
    told = []
    if judgement.unacked_min:
        told.append(statement("unacked_at_least", value=judgement.unacked_min))
    if judgement.unacked_max is not None:
        told.append(statement("unacked_at_most", value=judgement.unacked_max))
    return told


def _missing(seen: Seen) -> list[Row]:
    """The evidence that would have told more, where something is open."""
    judgement, election = seen.judgement, seen.case.election
    if judgement.verdict == EXCLUDED:
        return []
    told = []
    if judgement.log_end_min.value is None:
        told.append(statement("missing_log_end", brokers=[election.leader], leader_epoch=election.leader_epoch))
    if judgement.floor.value is None:
        told.append(statement("missing_high_watermark"))
    return told
