"""Check the invariants of the metadata log itself: Raft's guarantees, as far as findings do not cover them.

Findings cover gaps (offset_gap), flipped offsets and epochs inside a file (offset_flip, epoch_flip), different bytes at
one offset of one epoch (log_conflict), diverging logs (controller_divergence) and rival snapshots (two_snapshots).

Sources: KIP-595 (Fetch, Vote, LeaderChangeMessage), KIP-630 (a snapshot holds only committed records).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from typing import Any

import pyarrow as pa

from replay.arrow.schemas import PROVENANCE_NAMES
from replay.cluster.state import LogShape
from replay.invariants.catalogue import INVARIANT_VIOLATIONS, INVARIANTS, MOST_EVIDENCE

Row = dict[str, Any]

_LEADER_CHANGE = "LEADER_CHANGE"
_SEGMENT = re.compile(r"[0-9]{20}\.log")


def quorum_violations(shape: LogShape, control: Sequence[Row]) -> pa.Table:
    """INVARIANT_VIOLATIONS of the log, by invariant.

    control: the captured control records, including those of replaced branches: rows with offset, epoch, type, data.
    shape.batches also need is_control, base_timestamp_ms and provenance.
    """
    truncated = set(shape.truncated)
    live = sorted((b for b in shape.batches if _place(b) not in truncated), key=lambda b: b["base_offset"])
    leaders = _leader_changes(shape.batches, control)
    rows = [*_overlaps(live), *_falling(shape.batches), *_unopened(live, control), *_rivals(leaders, live)]
    rows += [*_strangers(leaders, live), *_lost(shape, live, leaders)]
    return pa.Table.from_pylist(rows, schema=INVARIANT_VIOLATIONS)


def _place(batch: Row) -> tuple[int, int]:
    return batch["epoch"], batch["base_offset"]


def _violation(name: str, batches: Sequence[Row], end: int | None, brokers: Iterable[int], detail: str) -> Row:
    """A violation that begins at the first of `batches`; all of them are evidence."""
    first = batches[0]
    return {
        "invariant": name,
        "severity": INVARIANTS[name].severity,
        "start_offset": first["base_offset"],
        "start_timestamp_ms": first["base_timestamp_ms"],
        "end_offset": end,
        "rows": len(batches),
        "brokers": sorted(set(brokers)),
        "detail": detail,
        "evidence_offsets": sorted({b["base_offset"] for b in batches})[:MOST_EVIDENCE],
        **{name: first[name] for name in PROVENANCE_NAMES},
    }


def _leader_changes(batches: Sequence[Row], control: Iterable[Row]) -> list[tuple[Row, Row]]:
    """(batch, data) of every LeaderChangeMessage, by epoch and offset."""
    by_place = {_place(b): b for b in batches}
    found = {
        (r["epoch"], r["offset"]): r["data"]
        for r in control
        if r["type"] == _LEADER_CHANGE and (r["epoch"], r["offset"]) in by_place
    }
    return [(by_place[place], found[place]) for place in sorted(found)]


def _nodes(*batches: Row) -> set[int]:
    return {node for batch in batches for node in batch["nodes"]}


def _text(batch: Row) -> str:
    return f"{batch['base_offset']} to {batch['last_offset']} of epoch {batch['epoch']}"


def _overlaps(live: Sequence[Row]) -> list[Row]:
    found = []
    for reaching, batch in zip(accumulate(live, _reaching), live[1:], strict=False):
        if batch["base_offset"] <= reaching["last_offset"]:
            end = min(batch["last_offset"], reaching["last_offset"]) + 1
            detail, both = f"offsets {_text(reaching)} and {_text(batch)}", [batch, reaching]
            found.append(_violation("log_offsets_dense", both, end, _nodes(*both), detail))
    return found


def _reaching(a: Row, b: Row) -> Row:
    return b if b["last_offset"] > a["last_offset"] else a


def _newest(a: Row, b: Row) -> Row:
    return b if b["epoch"] >= a["epoch"] else a


def _falling(batches: Sequence[Row]) -> list[Row]:
    """Batches with a lower epoch than an earlier batch in the same folder of the same capture.

    Such a folder is the log of one node at one time, if it was copied at once.
    """
    folders: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for batch in batches:
        folder, _, name = batch["path"].rpartition("/")
        if _SEGMENT.fullmatch(name):
            folders[batch["capture"], folder].append(batch)
    found = []
    for _, log in sorted(folders.items()):
        log.sort(key=lambda b: (b["base_offset"], b["epoch"]))
        highest = list(accumulate(log, _newest))
        # True for a batch of a lower epoch after the last one of the highest.
        low = [b["epoch"] < top["epoch"] for b, top in zip(log, highest, strict=True)]
        for falls, numbers in groupby(range(len(log)), key=low.__getitem__):
            if falls:
                rows = list(numbers)
                run, top = [log[i] for i in rows], highest[rows[0]]
                detail = f"offsets {_text(run[0])} after {_text(top)}"
                nodes = set.intersection(*(set(b["nodes"]) for b in [*run, top]))
                end = run[-1]["last_offset"] + 1
                found.append(_violation("log_epochs_never_decrease", run, end, nodes, detail))
    return found


def _unopened(live: Sequence[Row], control: Iterable[Row]) -> list[Row]:
    types = {(r["epoch"], r["offset"]): r["type"] for r in control}
    found = []
    for before, batch in zip([None, *live], live, strict=False):
        follows = before["last_offset"] + 1 == batch["base_offset"] if before else batch["base_offset"] == 0
        if not follows or (before and before["epoch"] == batch["epoch"]):
            continue
        # A control batch whose record could not be read may be a LeaderChangeMessage.
        begins = types.get(_place(batch), _LEADER_CHANGE) if batch["is_control"] else "a metadata record"
        if begins != _LEADER_CHANGE:
            detail = f"epoch {batch['epoch']} begins with {begins}"
            end = _next_epoch(live, batch)
            found.append(_violation("epoch_begins_with_leader_change", [batch], end, batch["nodes"], detail))
    return found


def _next_epoch(live: Sequence[Row], batch: Row) -> int | None:
    """The offset at which the next epoch of the surviving log begins; None if there is none."""
    return next((b["base_offset"] for b in live if b["epoch"] > batch["epoch"]), None)


def _rivals(leaders: Sequence[tuple[Row, Row]], live: Sequence[Row]) -> list[Row]:
    epochs: dict[int, list[tuple[Row, Row]]] = defaultdict(list)
    for batch, data in leaders:
        epochs[batch["epoch"]].append((batch, data))
    found = []
    for epoch, named in epochs.items():
        ids = sorted({data["leaderId"] for _, data in named})
        if len(ids) > 1:
            batches = [batch for batch, _ in named]
            detail = f"epoch {epoch} has the leaders {', '.join(map(str, ids))}"
            end = _next_epoch(live, batches[0])
            found.append(_violation("one_leader_per_epoch", batches, end, ids, detail))
    return found


def _strangers(leaders: Sequence[tuple[Row, Row]], live: Sequence[Row]) -> list[Row]:
    found = []
    for batch, data in leaders:
        voters = sorted(v["voterId"] for v in data.get("voters") or [])
        if voters and data["leaderId"] not in voters:
            end = _next_epoch(live, batch)
            detail = f"leader {data['leaderId']}, voters {', '.join(map(str, voters))}"
            found.append(_violation("leader_is_voter", [batch], end, [data["leaderId"]], detail))
    return found


def _lost(shape: LogShape, live: Sequence[Row], leaders: Sequence[tuple[Row, Row]]) -> list[Row]:
    """Entries that were committed and then replaced.

    Committed are entries below a snapshot's end, and entries that a majority of the voters of their epoch held: every
    later leader needs the vote of a node that holds them.
    """
    voters = {b["epoch"]: {v["voterId"] for v in data.get("voters") or []} for b, data in leaders}
    begins: dict[int, Row] = {}
    for batch in live:
        begins.setdefault(batch["epoch"], batch)
    found = []
    for end, epoch in sorted(shape.snapshots):
        by = min((b for e, b in begins.items() if e > epoch), key=lambda b: int(b["base_offset"]), default=None)
        if by is not None and by["base_offset"] < end:
            detail = f"the snapshot at offset {end} of epoch {epoch}; offsets from {by['base_offset']} on were replaced"
            detail += f" in epoch {by['epoch']}"
            found.append(_violation("committed_entries_survive", [by], end, by["nodes"], detail))
    for branch in shape.branches:
        batches = [shape.batches[i] for i in branch.batches]
        quorum = [voters.get(b["epoch"], set()) for b in batches]
        held = [b for b, v in zip(batches, quorum, strict=True) if v and len(v & set(b["nodes"])) > len(v) // 2]
        if held:
            detail = (
                f"offsets {held[0]['base_offset']} to {held[-1]['last_offset']} were held by a majority of the voters"
            )
            end = held[-1]["last_offset"] + 1
            found.append(_violation("committed_entries_survive", held, end, _nodes(*held), detail))
    return found
