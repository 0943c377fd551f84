"""Branches of the metadata log: which batches a later epoch replaced, where logs part, and what was committed.

Sources: KIP-595 (truncation to the diverging epoch; an entry is committed once a majority holds it and the leader has
replicated an entry of its own epoch), KIP-630 (a snapshot holds only committed records).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from replay.arrow.ragged import INT64_MAX, Array

COMMITTED, UNCOMMITTED, UNKNOWN = "committed", "uncommitted", "unknown"


def surviving(epoch: Array, base_offset: Array) -> Array:
    """True for the batches that no later epoch cut away.

    The leader of an epoch holds everything committed before it and begins to write at its own log's end; a batch of a
    lower epoch at or behind that offset was never committed and is cut off when its holder fetches (KIP-595).
    """
    epochs, which = np.unique(epoch, return_inverse=True)
    start = np.full(len(epochs), INT64_MAX, dtype=np.int64)
    np.minimum.at(start, which, base_offset)
    cut = np.append(np.minimum.accumulate(start[::-1])[::-1][1:], INT64_MAX)
    kept: Array = base_offset < cut[which]
    return kept


@dataclass(frozen=True, slots=True)
class Point:
    """A place up to which the log of `epoch` is committed: a snapshot's end, or a high watermark. end_offset is
    exclusive. nodes: whose log is known to lead to it, besides those that hold a batch which says so."""

    end_offset: int
    epoch: int
    nodes: frozenset[int] = field(default_factory=frozenset)


def commit_states(
    epoch: Array,
    base_offset: Array,
    last_offset: Array,
    holders: Sequence[Sequence[int]],
    voters: frozenset[int],
    points: Iterable[Point] = (),
) -> list[str]:
    """committed / uncommitted / unknown for every batch.

    holders: the nodes holding each batch. voters: the quorum; empty when the log does not say. A batch is committed
    when one node's unbroken log leads from it to a point that is (Raft's log matching): a batch that a majority holds,
    or one of `points`. Where the log between is missing, another branch may hold the place: unknown.
    """
    kept = surviving(epoch, base_offset)
    committed = np.zeros(len(epoch), dtype=bool)
    proven = [*points, *_majority_points(epoch, last_offset, kept, holders, voters)]
    for node, rows in _logs(base_offset, kept, holders).items():
        # The node's log in unbroken stretches; inside one, an epoch at or behind a point's means the point's log.
        breaks = np.flatnonzero(base_offset[rows[1:]] != last_offset[rows[:-1]] + 1) + 1
        for stretch in np.split(rows, breaks):
            end, top = int(last_offset[stretch[-1]]) + 1, int(epoch[stretch].max())
            behind = [p.end_offset for p in proven if _leads_to(p, node, end, top)]
            committed[stretch] |= last_offset[stretch] < max(behind, default=0)
    return [
        UNCOMMITTED if not keep else COMMITTED if safe else UNKNOWN
        for keep, safe in zip(kept.tolist(), committed.tolist(), strict=True)
    ]


def _leads_to(point: Point, node: int, end: int, top_epoch: int) -> bool:
    return end >= point.end_offset and (top_epoch >= point.epoch or node in point.nodes)


def _logs(base_offset: Array, kept: Array, holders: Sequence[Sequence[int]]) -> dict[int, Array]:
    """The surviving batches of each node, by offset."""
    rows: dict[int, list[int]] = defaultdict(list)
    for index in np.flatnonzero(kept)[np.argsort(base_offset[kept], kind="stable")].tolist():
        for node in holders[index]:
            rows[node].append(index)
    return {node: np.array(indexes) for node, indexes in rows.items()}


def _majority_points(
    epoch: Array, last_offset: Array, kept: Array, holders: Sequence[Sequence[int]], voters: frozenset[int]
) -> list[Point]:
    """The highest place that a majority of the voters holds, if that makes it committed."""
    latest = int(epoch[kept].max()) if kept.any() else -1
    majority = len(voters) // 2 + 1
    # An entry of an earlier epoch on a majority is safe only if no voter has a log that could still replace it: with
    # every voter's log at hand such a log would have cut the entry away; otherwise only the latest epoch's own count.
    everyone = bool(voters) and voters <= frozenset(node for nodes in holders for node in nodes)
    best: Point | None = None
    for index in np.flatnonzero(kept).tolist() if voters else []:
        counts = everyone or int(epoch[index]) == latest
        if counts and len(voters & frozenset(holders[index])) >= majority:
            end = int(last_offset[index]) + 1
            if best is None or end > best.end_offset:
                best = Point(end, int(epoch[index]), frozenset(holders[index]))
    return [best] if best else []


@dataclass(frozen=True, slots=True)
class Branch:
    """A suffix that a later epoch replaced. (epoch, offset): the point where it parts from the log that went on: the
    largest epoch that both have, and where that epoch ends in what they share (KIP-595's diverging epoch); epoch is -1
    if nothing before the suffix was captured.

    nodes: who holds the suffix. batches: its rows, by offset. replaced_by: the row of the batch that took its place,
    None if the capture does not hold it.
    """

    epoch: int
    offset: int
    nodes: tuple[int, ...]
    batches: tuple[int, ...]
    replaced_by: int | None


def branches(epoch: Array, base_offset: Array, last_offset: Array, holders: Sequence[Sequence[int]]) -> list[Branch]:
    """Every suffix that was cut away, by offset."""
    kept = surviving(epoch, base_offset)
    live = np.flatnonzero(kept)[np.argsort(base_offset[kept], kind="stable")]
    starts = base_offset[live]
    suffixes: list[list[int]] = []
    for index in np.flatnonzero(~kept)[np.lexsort((base_offset[~kept], epoch[~kept]))].tolist():
        last = suffixes[-1][-1] if suffixes else None
        joins = (
            last is not None
            and base_offset[index] == last_offset[last] + 1
            and set(holders[index]) & set(holders[last])
        )
        if joins:
            suffixes[-1].append(index)
        else:
            suffixes.append([index])
    found = []
    for rows in suffixes:
        offset = int(base_offset[rows[0]])
        place = int(np.searchsorted(starts, offset, side="left"))
        shared = place > 0 and last_offset[live[place - 1]] + 1 == offset
        follows = int(live[place]) if place < len(live) and starts[place] == offset else None
        nodes = sorted({node for row in rows for node in holders[row]})
        found.append(Branch(int(epoch[live[place - 1]]) if shared else -1, offset, tuple(nodes), tuple(rows), follows))
    return sorted(found, key=lambda b: (b.offset, b.nodes))
