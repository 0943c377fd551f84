"""Findings for people: the evidence rows that a verdict stands on, and the verdict in prose.

Facts (what the log records), bounds (what evidence proves) and predictions are said in different words, never mixed.
"""

from __future__ import annotations

from typing import Any

from replay.offsets import Replica, Row
from replay.verdicts import EXCLUDED, POSSIBLE, PROVEN, Election, Judgement


def evidence_rows(
    before: Row, after: Row, start: Row, judgement: Judgement, seen: dict[int, Replica]
) -> list[dict[str, Any]]:
    """tables.EVIDENCE_ROW dicts: the states around the election, the bounds, the last sight of every replica."""
    rows = [_state("window_start", start), _state("state_before", before), _state("election", after)]
    bounds = [
        ("high_watermark_floor", "high_watermark", judgement.floor.row),
        ("high_watermark_limit", "epoch_start_offset", judgement.floor.limit),
        ("high_watermark_ceiling", "log_end_offset", judgement.ceiling.row),
        ("leader_log_end", "epoch_start_offset", judgement.log_end_max.row),
    ]
    rows += [_bound(role, column, row) for role, column, row in bounds if row is not None]
    rows += [
        {**_place(r.row, "replica_last_seen"), "value": r.log_end_offset, "leader_epoch": r.last_written_leader_epoch}
        for _, r in sorted(seen.items())
    ]
    return rows


def _state(role: str, state: Row) -> dict[str, Any]:
    return {
        "role": role,
        "source": "partition_history",
        "broker_id": state["leader"],
        "value": None,
        "leader_epoch": state["leader_epoch"],
        "offset": state["offset"],
        "captured_at_ms": state["timestamp_ms"],
        **{k: state[k] for k in ("capture", "path", "sha256", "position")},
    }


def _place(row: Row, role: str) -> dict[str, Any]:
    return {
        "role": role,
        "source": row["source"],
        "broker_id": row["broker_id"],
        "offset": None,
        "captured_at_ms": row["captured_at_ms"],
        **{k: row[k] for k in ("capture", "path", "sha256", "position")},
    }


def _bound(role: str, column: str, row: Row) -> dict[str, Any]:
    """column: the one that was used; a leader's log end may come from a sample of its log end, too."""
    value = row["log_end_offset"] if row[column] is None else row[column]
    return {**_place(row, role), "value": value, "leader_epoch": row["leader_epoch"]}


def prose(finding: Row, election: Election, judgement: Judgement, before: Row, after: Row) -> str:
    """The finding in a few sentences."""
    name = f"{after['topic']}-{after['partition']}"
    parts = [
        f"At metadata offset {after['offset']} broker {election.leader} became leader of {name} with leader epoch "
        f"{election.leader_epoch}; before that the ISR was {before['isr']}, the ELR {before['elr']}.",
        _why(election, judgement),
        _numbers(judgement),
    ]
    if finding["would_be_leader"] is not None:
        parts.append(
            f"Prediction: unclean recovery as KIP-966 describes it, had every replica answered with its log as last "
            f"seen, would have picked broker {finding['would_be_leader']}."
        )
    return " ".join(p for p in parts if p)


def _why(election: Election, judgement: Judgement) -> str:
    if judgement.verdict == EXCLUDED and election.held:
        return "As a member of the ISR or ELR it held every record below the high watermark; no evidence contradicts."
    if election.held and election.restarted:
        return "It was in the ISR, but restarted since it joined, and nothing vouches for its log."
    if election.held:
        return "It was a member of the ISR or ELR; the evidence contradicts that it held everything."
    return "It was in neither the ISR nor the ELR, so nothing promises that it held every acknowledged record."


def _numbers(judgement: Judgement) -> str:
    floor, end = judgement.floor.value, judgement.log_end_max.value
    said = "" if floor is None else f"The high watermark had reached at least {floor}"
    ended = (
        ""
        if end is None
        else f"the new leader's log ended at {'' if judgement.log_end_min.value == end else 'most '}{end}"
    )
    known = ", and ".join(p for p in (said, ended) if p)
    known = (
        (known[0].upper() + known[1:] + ".") if known else "No report of a high watermark or log end bounds the loss."
    )
    if judgement.verdict == PROVEN:
        top = "no upper bound is known" if judgement.loss_max is None else f"at most {judgement.loss_max}"
        return f"{known} Proven: at least {judgement.loss_min} acknowledged offsets are gone; {top}."
    if judgement.verdict == EXCLUDED:
        known = known if floor is not None or end is not None else ""
        ceiling = judgement.ceiling.value
        return (
            known if ceiling is None else f"{known} The high watermark was at most {ceiling}: nothing below it is gone."
        )
    if judgement.verdict == POSSIBLE:
        top = (
            "without a known upper bound" if judgement.loss_max is None else f"of at most {judgement.loss_max} offsets"
        )
        return f"{known} A loss {top} is possible, none is proven."
    return known
