"""Branches of the metadata log: which batches a later epoch replaced, where logs diverge, and what was committed.

Sources: KIP-595 (truncation to the diverging epoch; an entry is committed once a majority holds it and the leader has
replicated an entry of its own epoch), KIP-630 (a snapshot holds only committed records).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import INT64_MAX, Array

_AT_ONCE = 1 << 16
COMMIT_STATES = (COMMITTED, UNCOMMITTED, UNKNOWN) = ("committed", "uncommitted", "unknown")


def surviving(epoch: Array, base_offset: Array, last_offset: Array) -> Array:
    """True for the batches that no later epoch truncated.

    An epoch's leader holds everything that was committed before, and starts to write at the end of its own log. A batch
    of a lower epoch at or after that offset was never committed; its holder truncates it when it fetches (KIP-595). So
    was one that reaches to a batch of a later epoch, if what was there before that batch was not captured.
    """
    epochs, which = np.unique(epoch, return_inverse=True)
    start = np.full(len(epochs), INT64_MAX, dtype=np.int64)
    np.minimum.at(start, which, base_offset)
    later_start = np.append(np.minimum.accumulate(start[::-1])[::-1][1:], INT64_MAX)
    return last_offset < later_start[which]


@dataclass(frozen=True, slots=True)
class Holders:
    """The nodes that hold each batch. sets: distinct sets of nodes. of: int32, for each batch the place of its set."""

    sets: Sequence[tuple[int, ...]]
    of: Array

    @classmethod
    def of_column(cls, nodes: pa.ChunkedArray) -> "Holders":
        """From a column of lists: as text, of which few distinct ones become Python's."""
        sets: dict[tuple[int, ...], int] = {}
        found = [np.zeros(0, dtype=np.int32)]
        for part in (nodes.slice(at, _AT_ONCE).combine_chunks() for at in range(0, len(nodes), _AT_ONCE)):
            texts = pc.binary_join(part.cast(pa.list_(pa.string())), ",").dictionary_encode()
            distinct = (tuple(map(int, text.split(","))) if text else () for text in texts.dictionary.to_pylist())
            places = np.array([sets.setdefault(each, len(sets)) for each in distinct], dtype=np.int32)
            found.append(places[texts.indices.to_numpy()])
        return cls(list(sets), np.concatenate(found))

    def nodes(self, row: int) -> tuple[int, ...]:
        return self.sets[int(self.of[row])]

    def where(self, chosen: Iterable[bool]) -> Array:
        """Mask of the batches whose set is chosen. chosen: for each set."""
        return np.array([*chosen, False], dtype=bool)[self.of]

    @property
    def all_nodes(self) -> set[int]:
        return {node for place in np.unique(self.of).tolist() for node in self.sets[place]}


@dataclass(frozen=True, slots=True)
class Point:
    """An offset up to which the log of `epoch` is committed: a snapshot's end, or a high watermark.

    end_offset is exclusive. nodes: the nodes whose log is known to reach it, in addition to those that hold a batch of
    that epoch or a later one.
    """

    end_offset: int
    epoch: int
    nodes: frozenset[int] = field(default_factory=frozenset)


def commit_states(
    epoch: Array,
    base_offset: Array,
    last_offset: Array,
    holders: Holders,
    voters: frozenset[int],
    points: Iterable[Point] = (),
) -> pa.DictionaryArray:
    """COMMITTED, UNCOMMITTED or UNKNOWN for each batch; the codes are places in COMMIT_STATES, as int8.

    voters: the quorum; empty if the log does not name it. A batch is committed if one node's log leads from it without
    a gap to a committed point (Raft's log matching): a batch that a majority holds, or one of `points`. If the log in
    between is missing, another branch may have been committed there: UNKNOWN.
    """
    kept = surviving(epoch, base_offset, last_offset)
    committed = np.zeros(len(epoch), dtype=bool)
    proven = [*points, *_majority_points(epoch, last_offset, kept, holders, voters)]
    for node, rows in _logs(base_offset, kept, holders):
        # The node's log in parts without a gap. Inside one, an epoch at or after a point's belongs to the point's log.
        breaks = np.flatnonzero(base_offset[rows[1:]] != last_offset[rows[:-1]] + 1) + 1
        for unbroken in np.split(rows, breaks):
            end, top = int(last_offset[unbroken[-1]]) + 1, int(epoch[unbroken].max())
            reached = [p.end_offset for p in proven if end >= p.end_offset and (top >= p.epoch or node in p.nodes)]
            committed[unbroken] |= last_offset[unbroken] < max(reached, default=0)
    code = {state: np.int8(number) for number, state in enumerate(COMMIT_STATES)}
    codes = np.where(kept, np.where(committed, code[COMMITTED], code[UNKNOWN]), code[UNCOMMITTED])
    return pa.DictionaryArray.from_arrays(codes, pa.array(COMMIT_STATES))


def _logs(base_offset: Array, kept: Array, holders: Holders) -> Iterator[tuple[int, Array]]:
    """Each node that holds surviving batches, and these by offset."""
    rows = np.flatnonzero(kept)[np.argsort(base_offset[kept], kind="stable")]
    for node in sorted(holders.all_nodes):
        log = rows[holders.where(node in nodes for nodes in holders.sets)[rows]]
        if len(log):
            yield node, log


def _majority_points(
    epoch: Array, last_offset: Array, kept: Array, holders: Holders, voters: frozenset[int]
) -> list[Point]:
    """The highest point that a majority of the voters holds and that is thereby committed; at most one."""
    if not voters:
        return []
    majority = len(voters) // 2 + 1
    counts = kept & holders.where(len(voters & frozenset(nodes)) >= majority for nodes in holders.sets)
    # A majority makes an entry of an earlier epoch safe only if no voter's log could still replace it. If every voter's
    # log was captured, such a log would have truncated the entry; otherwise only entries of the latest epoch count.
    if kept.any() and not voters <= holders.all_nodes:
        counts &= epoch == epoch[kept].max()
    rows = np.flatnonzero(counts)
    if not len(rows):
        return []
    best = int(rows[np.argmax(last_offset[rows])])
    return [Point(int(last_offset[best]) + 1, int(epoch[best]), frozenset(holders.nodes(best)))]


@dataclass(frozen=True, slots=True)
class Branch:
    """A suffix that a later epoch replaced.

    (epoch, offset): where it diverges from the surviving log: the largest epoch that both have, and where that epoch
    ends in their common part (KIP-595's diverging epoch). epoch is -1 if nothing before the suffix was captured. nodes:
    the holders of the suffix. batches: its row numbers, by offset. replaced_by: the row number of the batch that
    replaced it; None if that was not captured.
    """

    epoch: int
    offset: int
    nodes: tuple[int, ...]
    batches: tuple[int, ...]
    replaced_by: int | None


def branches(epoch: Array, base_offset: Array, last_offset: Array, holders: Holders) -> list[Branch]:
    """Find every truncated suffix, by offset."""
    kept = surviving(epoch, base_offset, last_offset)
    live = np.flatnonzero(kept)[np.argsort(base_offset[kept], kind="stable")]
    starts = base_offset[live]
    suffixes: list[list[int]] = []
    for index in np.flatnonzero(~kept)[np.lexsort((base_offset[~kept], epoch[~kept]))].tolist():
        last = suffixes[-1][-1] if suffixes else None
        joins = (
            last is not None
            and base_offset[index] == last_offset[last] + 1
            and set(holders.nodes(index)) & set(holders.nodes(last))
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
        nodes = sorted({node for row in rows for node in holders.nodes(row)})
        found.append(Branch(int(epoch[live[place - 1]]) if shared else -1, offset, tuple(nodes), tuple(rows), follows))
    return sorted(found, key=lambda b: (b.offset, b.nodes))
