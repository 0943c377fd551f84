"""From the batches that several nodes hold to the one log that counts: branches, commitment, transactions, anchors.

Sources: KIP-595 (truncation to the diverging epoch; an entry is committed once a majority holds it and the leader has
replicated an entry of its own epoch), KIP-868 (metadata transactions), KIP-630 (a snapshot's end offset is exclusive).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from replay.lists import Array

COMMITTED, UNCOMMITTED, UNKNOWN = "committed", "uncommitted", "unknown"
_NEVER = np.iinfo(np.int64).max


def surviving(epoch: Array, base_offset: Array) -> Array:
    """True for the batches that no later epoch cut away.

    The leader of an epoch holds everything committed before it and begins to write at its own log's end; a batch of a
    lower epoch at or behind that offset was never committed and is cut off when its holder fetches (KIP-595).
    """
    epochs, which = np.unique(epoch, return_inverse=True)
    start = np.full(len(epochs), _NEVER, dtype=np.int64)
    np.minimum.at(start, which, base_offset)
    cut = np.append(np.minimum.accumulate(start[::-1])[::-1][1:], _NEVER)
    kept: Array = base_offset < cut[which]
    return kept


def commit_states(
    epoch: Array,
    base_offset: Array,
    last_offset: Array,
    holders: Sequence[Sequence[int]],
    voters: frozenset[int],
    proven: int,
) -> list[str]:
    """committed / uncommitted / unknown for every batch.

    holders: the nodes holding each batch. voters: the quorum; empty when the log does not say. proven: an offset below
    which everything is known to be committed (a snapshot's end offset; 0 if there is none).
    """
    kept = surviving(epoch, base_offset)
    latest = int(epoch[kept].max()) if kept.any() else -1
    majority = len(voters) // 2 + 1
    # An entry of an earlier epoch on a majority is safe only if no voter has a log that could still replace it: with
    # every voter's log at hand such a log would have cut the entry away; otherwise only the latest epoch's own count.
    everyone = bool(voters) and voters <= frozenset(node for nodes in holders for node in nodes)
    safe = proven
    for index in np.flatnonzero(kept).tolist() if voters else []:
        counts = everyone or int(epoch[index]) == latest
        if counts and len(voters & frozenset(holders[index])) >= majority:
            safe = max(safe, int(last_offset[index]) + 1)
    return [
        UNCOMMITTED if not keep else COMMITTED if last < safe else UNKNOWN
        for keep, last in zip(kept.tolist(), last_offset.tolist(), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the log that Kafka would not have written; offset is where."""

    kind: str
    offset: int
    message: str


@dataclass(frozen=True, slots=True)
class Transactions:
    """Offset ranges [start, end] whose records do not count: aborted or never ended transactions."""

    dropped: list[tuple[int, int]]
    problems: list[Problem]

    def visible(self, offset: Array) -> Array:
        """True for the offsets whose records count."""
        result = np.ones(len(offset), dtype=bool)
        for start, end in self.dropped:
            result &= ~((offset >= start) & (offset <= end))
        return result


def transactions(markers: Sequence[tuple[int, str]], log_end: int) -> Transactions:
    """Resolve metadata transactions. markers: (offset, record type) in offset order; log_end is exclusive.

    A Begin inside an open transaction drops the open one; End or Abort without a Begin is reported and ignored
    (Kafka's MetadataBatchLoader throws in these cases).
    """
    dropped: list[tuple[int, int]] = []
    problems: list[Problem] = []
    begin: int | None = None
    for offset, kind in markers:
        if kind == "BEGIN_TRANSACTION_RECORD":
            if begin is not None:
                problems.append(Problem("nested_transaction", offset, f"a transaction is open since offset {begin}"))
                dropped.append((begin, offset - 1))
            begin = offset
        elif begin is None:
            problems.append(Problem("stray_transaction_end", offset, f"{kind} without a transaction"))
        else:
            if kind == "ABORT_TRANSACTION_RECORD":
                dropped.append((begin, offset))
            begin = None
    if begin is not None:
        problems.append(
            Problem("open_transaction", begin, "the log ends inside a transaction; its records are not applied")
        )
        dropped.append((begin, log_end))
    return Transactions(dropped, problems)


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of log that can be replayed: records with start <= offset < end, from the snapshot at `start`.

    snapshot: (end offset, epoch) of the base state; None when the stretch begins at offset 0 without one.
    """

    start: int
    end: int
    snapshot: tuple[int, int] | None


def replayable_runs(
    base_offset: Array, last_offset: Array, snapshots: Sequence[tuple[int, int]]
) -> tuple[list[Run], list[Problem]]:
    """Which stretches of the surviving log have a known start state.

    base_offset, last_offset: of the surviving batches, ascending. A log that begins at 0 needs no snapshot (but uses
    the one at 0, if it is there); behind a gap, and where the log begins later, state is unknown up to the next
    snapshot.
    """
    runs: list[Run] = []
    problems: list[Problem] = []
    known = sorted(snapshots)
    breaks = np.flatnonzero(base_offset[1:] > last_offset[:-1] + 1) + 1
    for first, behind in zip([0, *breaks.tolist()], [*breaks.tolist(), len(base_offset)], strict=True):
        if first == behind:
            continue
        start, end = int(base_offset[first]), int(last_offset[behind - 1]) + 1
        anchor = next((s for s in known if start <= s[0] <= end), None)
        if start == 0:
            runs.append(Run(0, end, anchor if anchor and anchor[0] == 0 else None))
            continue
        before = int(last_offset[first - 1]) + 1 if first else 0
        if first:
            problems.append(Problem("offset_gap", before, f"offsets {before} to {start - 1} are in no captured file"))
        if anchor is None:
            problems.append(
                Problem(
                    "no_snapshot", start, f"offsets {start} to {end - 1} follow no captured snapshot: state unknown"
                )
            )
            continue
        if anchor[0] > before:
            message = f"state is unknown from offset {before} up to the snapshot at {anchor[0]}"
            problems.append(Problem("unknown_prefix", before, message))
        runs.append(Run(anchor[0], end, anchor))
    log_end = int(last_offset.max()) + 1 if len(last_offset) else 0
    tail = known[-1] if known else None
    if tail and tail[0] > log_end:
        problems.append(Problem("unobserved", log_end, f"the snapshot at {tail[0]} is newer than the log's end"))
        runs.append(Run(tail[0], tail[0], tail))
    return runs, problems


def in_runs(offset: Array, runs: Sequence[Run]) -> Array:
    """True for the offsets that lie in a replayable run."""
    result = np.zeros(len(offset), dtype=bool)
    for run in runs:
        result |= (offset >= run.start) & (offset < run.end)
    return result


def json_int(data: dict[str, Any], key: str, default: int = 0) -> int:
    """An integer field of a record's JSON form."""
    return int(data.get(key, default))
