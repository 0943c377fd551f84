"""Drops: where a replica showed less of its log than before. A vectorised search for suspected partitions, then the
drops of one replica.

Sources: Kafka's UnifiedLog and LeaderEpochFileCache (the meaning of a log end and of an epoch's start offset), KIP-113
(log directory moves: a replica and its successor side by side).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import accumulate
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import INT64_MAX, PAD, Array, bools
from replay.arrow.runs import groups, highest_so_far, run_starts
from replay.cluster.facts import Clock
from replay.offsets.evidence import METRICS, Evidence, Row, read_by
from replay.offsets.partition_rows import keys_of
from replay.partitions.elections import States, leader_changes

CHECKPOINT = "replication_offset"


@dataclass(frozen=True, slots=True)
class Span:
    """The time between two readings, in ms, in which a replica's log went down. end_ms None: unknown."""

    broker: int
    begin_ms: int
    end_ms: int | None


@dataclass(frozen=True, slots=True)
class Drop:
    """A replica that had less than it had shown before.

    before: the row that shows `high`. after: a later row that shows less, or None. line: a line of its
    leader-epoch-checkpoint that begins below `high` although its epoch began later, or None. low: the lowest value that
    they show. end_ms: when it had gone down at the latest; None: unknown.
    """

    broker: int
    high: int
    low: int
    before: Row
    after: Row | None
    line: Row | None
    end_ms: int | None

    def overlaps(self, other: "Drop") -> bool:
        """Whether the two may be the same event of a replica."""
        ends = (self.end_ms, other.end_ms)
        begins = (other.before["captured_at_ms"], self.before["captured_at_ms"])
        return all(end is None or begin <= end for begin, end in zip(begins, ends, strict=True))

    def with_line(self, line: Row) -> "Drop":
        """The same event, with a line that shows it too."""
        return replace(self, low=min(self.low, line["epoch_start_offset"]), line=line)


def suspected(history: pa.Table, states: States, offsets: pa.Table) -> Array:
    """Keys (`States.key`) of the partitions in which a replica may have shown less than before; a superset."""
    rows = offsets.filter(offsets["broker_id"].is_valid())
    if not len(rows):
        return np.empty(0, dtype=np.int64)
    keys = keys_of(rows, history, states)
    rows, keys = rows.filter(pa.array(keys >= 0)), keys[keys >= 0]
    unloaded = pc.and_(pc.is_in(rows["source"], value_set=pa.array(METRICS)), pc.equal(rows["log_end_offset"], 0))
    ends = _timed(rows, keys, "log_end_offset", ~bools(unloaded))
    high_watermarks = _timed(rows, keys, "high_watermark", bools(pc.equal(rows["source"], CHECKPOINT)))
    lines = _epoch_starts(rows, keys, history, states)
    return np.unique(np.append(_below_earlier(ends, lines), _below_earlier(high_watermarks, lines[:, :0])))


def _timed(rows: pa.Table, keys: Array, column: str, where: Array) -> Array:
    """Values of a column, of the rows where `where` is true that have a value and a capture time: the rows of the
    matrix (int64) are key of the partition, broker, time in ms, value."""
    mask = where & bools(pc.and_(rows[column].is_valid(), rows["captured_at_ms"].is_valid()))
    chosen = rows.select(["broker_id", "captured_at_ms", column]).filter(pa.array(mask))
    return np.stack([keys[mask], *(chosen[name].to_numpy().astype(np.int64) for name in chosen.column_names)])


def _epoch_starts(rows: pa.Table, keys: Array, history: pa.Table, states: States) -> Array:
    """Start offsets in leader-epoch-checkpoints, each at the time when its epoch was opened; the lowest of each epoch
    on each broker. As from `_timed`."""
    line = rows["epoch_start_offset"].is_valid()
    lines = rows.select(["broker_id", "leader_epoch", "epoch_start_offset"]).append_column("key", pa.array(keys))
    names = ["key", "broker_id", "leader_epoch"]
    lowest = lines.filter(line).group_by(names).aggregate([("epoch_start_offset", "min")])
    opened = np.flatnonzero(opens(states))
    columns = {"key": states.key[opened], "leader_epoch": states.leader_epoch[opened].astype(np.int32)}
    columns["at"] = history["timestamp_ms"].to_numpy()[opened]
    joined = lowest.join(pa.table(columns), ["key", "leader_epoch"], join_type="inner")
    return np.stack(
        [joined[n].to_numpy().astype(np.int64) for n in ("key", "broker_id", "at", "epoch_start_offset_min")]
    )


def opens(states: States) -> Array:
    """Mask of the rows that opened their leader epoch: leader changes and the partition's creation."""
    result = np.zeros(len(states.key), dtype=bool)
    result[leader_changes(states)] = True
    return (result | run_starts(states.key)) & ~states.removed


def _below_earlier(readings: Array, others: Array) -> Array:
    """Keys of the partitions in which a replica shows a value, in either argument, below an earlier one in
    `readings`. Both as from `_timed`."""
    key, broker, at, value = np.hstack([readings, others])
    order = np.lexsort((at, broker, key))
    key, value = key[order], value[order]
    earlier = np.where(order < readings.shape[1], value, PAD)
    return key[value < highest_so_far(np.cumsum(run_starts(key, broker[order])), earlier)]


def drops(rows: Sequence[Row], column: str, clock: Clock) -> list[Drop]:
    """Each time a replica showed less than it had before, in order; after each drop the search starts over.

    rows: of one replica, in order of capture, all with capture times and a value in the column.
    """
    result: list[Drop] = []
    best: Row | None = None
    waiting: list[tuple[int, int, Row]] = []
    for number, row in enumerate(_rounds(rows, column)):
        # Both were read on one node, but perhaps timed by the clocks of two nodes.
        while waiting and clock.surely_after(row, waiting[0][0] + clock.error_ms):
            earlier = heappop(waiting)[2]
            best = earlier if best is None or earlier[column] >= best[column] else best
        if best is not None and best[column] > row[column]:
            end = read_by(row) + clock.error_ms
            result.append(Drop(row["broker_id"], best[column], row[column], best, row, None, end))
            best, waiting = None, []
        heappush(waiting, (read_by(row), number, row))
    return result


def _rounds(rows: Sequence[Row], column: str) -> list[Row]:
    """The row with the highest value of each source and round of capturing: while a replica moves between log
    directories, its successor may be listed too."""
    return [max(own, key=itemgetter(column)) for own in groups(rows, itemgetter("source", "captured_at_ms")).values()]


def line_drops(
    rows: Sequence[Row], lines: Sequence[Row], opened: Mapping[int, int], known: Sequence[Drop], clock: Clock
) -> list[Drop]:
    """Drops shown by lines of a replica's leader-epoch-checkpoint that begin below a log end read before
    their epoch began: what the replica had from there on was replaced (KIP-101). One for each event, the first epoch
    that shows it.

    rows: its log ends, in order of capture. lines: its lines. opened: leader epoch -> ms at which it began. known: the
    drops of its log ends; after one, what was read before it no longer counts.
    """
    shorter = {id(drop.after) for drop in known}
    result: list[Drop] = []
    # By leader epoch, the line with the lowest start offset; of equal ones, the first that was read.
    by_epoch = sorted(groups(lines, itemgetter("leader_epoch")).items())
    lowest = [(epoch, min(own, key=_rank)) for epoch, own in by_epoch if epoch in opened]
    # If clocks went back between two epochs, the earlier epoch began no later than the later one.
    begun = list(accumulate((opened[epoch] for epoch, _ in reversed(lowest)), min))[::-1]
    best: Row | None = None
    waiting, position = sorted(rows, key=read_by), 0
    for (_, line), at in zip(lowest, begun, strict=True):
        while position < len(waiting) and clock.surely_before(waiting[position], at):
            row, position = waiting[position], position + 1
            # A row read before the last drop's line may show what was dropped.
            if not result or clock.surely_after(row, INT64_MAX if result[-1].end_ms is None else result[-1].end_ms):
                lower = best is not None and row["log_end_offset"] < best["log_end_offset"]
                best = best if lower and id(row) not in shorter else row
        if best is not None and best["log_end_offset"] > line["epoch_start_offset"]:
            end = None if line["captured_at_ms"] is None else read_by(line) + clock.error_ms
            high, low = best["log_end_offset"], line["epoch_start_offset"]
            result.append(Drop(line["broker_id"], high, low, best, None, line, end))
            best = None
    return result


def _rank(line: Row) -> tuple[int, bool, int]:
    return line["epoch_start_offset"], line["captured_at_ms"] is None, line["captured_at_ms"] or 0


def log_ends(evidence: Evidence, broker: int) -> list[Row]:
    """The log ends of a replica, in order of capture, without a metric's 0."""
    rows = evidence.log_ends.get(broker, [])
    return [r for r in rows if r["log_end_offset"] > 0 or r["source"] not in METRICS]
