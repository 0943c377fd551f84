"""The batches of a cluster's log as columns. Which ranges of the log can be replayed, and which of their records count:
snapshots, holes, transactions.

Sources: KIP-868 (metadata transactions), KIP-630 (a snapshot's end offset is exclusive).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.once import once_each
from replay.arrow.ragged import INT64_MAX, Array, Row
from replay.cluster.branches import Holders


class LogBatches:
    """Rows of log_batches. A row is made when it is asked for. table: with epoch, base_offset, last_offset, crc, nodes
    and what else is asked for."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()

    @classmethod
    def of(cls, rows: "Sequence[Row] | LogBatches") -> "LogBatches":
        return rows if isinstance(rows, LogBatches) else cls(pa.Table.from_pylist(list(rows)))

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, row: int) -> Row:
        rows: list[Row] = self.table.slice(row, 1).to_pylist()
        return rows[0]

    @once_each
    def column(self, name: str) -> Array:
        """A column of whole numbers as int64; of booleans, of which null is False, as such."""
        values = self.table[name] if len(self) else pa.chunked_array([], pa.int64())
        values = values.fill_null(False) if pa.types.is_boolean(values.type) else values.cast(pa.int64())
        return values.to_numpy()

    @cached_property
    def holders(self) -> Holders:
        return Holders.of_column(self.table["nodes"])


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the log that Kafka would not have written, at a metadata offset."""

    kind: str
    offset: int
    message: str


@dataclass(frozen=True, slots=True)
class Transactions:
    """dropped: offset ranges [start, end] whose records do not count: aborted or unfinished transactions."""

    dropped: list[tuple[int, int]]
    problems: list[Problem]

    def visible(self, offset: Array) -> Array:
        """True for the offsets whose records count."""
        result = np.ones(len(offset), dtype=bool)
        for start, end in self.dropped:
            result &= ~((offset >= start) & (offset <= end))
        return result


@dataclass(frozen=True, slots=True)
class LogRange:
    """A range of the log that can be replayed: records with start <= offset < end, from the snapshot at `start`.

    snapshot: (end offset, epoch) of the base state; None if the run begins at offset 0 without one.
    """

    start: int
    end: int
    snapshot: tuple[int, int] | None


def transactions(markers: Sequence[tuple[int, str]], runs: Sequence[LogRange]) -> Transactions:
    """Resolve metadata transactions. markers: (offset, record type) in offset order.

    A Begin inside an open transaction drops the open one. An End or Abort without a Begin is reported and ignored.
    Kafka's MetadataBatchLoader throws in both cases. A transaction that is open where its run ends, at a gap or at the
    log's end, was not applied there; what follows a gap is of another state, in no transaction (KIP-868).
    """
    dropped: list[tuple[int, int]] = []
    problems: list[Problem] = []
    for run in runs:
        begin: int | None = None
        for offset, kind in (marker for marker in markers if run.start <= marker[0] < run.end):
            if kind == "BEGIN_TRANSACTION_RECORD":
                if begin is not None:
                    problems.append(
                        Problem("nested_transaction", offset, f"a transaction is open since offset {begin}")
                    )
                    dropped.append((begin, offset - 1))
                begin = offset
            elif begin is None:
                problems.append(Problem("stray_transaction_end", offset, f"{kind} without a transaction"))
            else:
                if kind == "ABORT_TRANSACTION_RECORD":
                    dropped.append((begin, offset))
                begin = None
        if begin is not None:
            message = f"the log, or what is known of it, ends at offset {run.end} inside a transaction: not applied"
            problems.append(Problem("open_transaction", begin, message))
            dropped.append((begin, run.end - 1))
    return Transactions(dropped, problems)


def is_complete(runs: Sequence[LogRange]) -> bool:
    """Whether the log is known from its first record on without a gap: then every topic that ever was is known."""
    return len(runs) == 1 and runs[0].start == 0


@dataclass(frozen=True, slots=True)
class Hole:
    """A record that cannot be applied although its batch was captured; epoch: of its batch."""

    offset: int
    epoch: int
    reason: str


def replayable_runs(
    base_offset: Array, last_offset: Array, snapshots: Sequence[tuple[int, int]], holes: Sequence[Hole] = ()
) -> tuple[list[LogRange], list[Problem]]:
    """The runs of the surviving log, which have a known start state, and the problems between them.

    base_offset, last_offset: of the surviving batches, ascending. A log that begins at 0 needs no snapshot. After a gap
    or a hole, and in a log that begins later, the state is unknown up to the next snapshot.
    """
    runs: list[LogRange] = []
    known = sorted(snapshots)
    unreadable = {h.offset for h in holes}
    problems = [Problem("unreadable_record", h.offset, h.reason) for h in holes]
    before = 0
    for number, (start, end) in enumerate(_unbroken_ranges(base_offset, last_offset, sorted(unreadable))):
        if number and not (start == before + 1 and before in unreadable):
            problems.append(Problem("offset_gap", before, f"offsets {before} to {start - 1} are in no captured file"))
        anchor = next((s for s in known if start <= s[0] <= end), None)
        if start == 0:
            runs.append(LogRange(0, end, None))
        elif anchor is not None:
            if anchor[0] > before:
                message = f"the state is unknown from offset {before} up to the snapshot at {anchor[0]}"
                problems.append(Problem("unknown_prefix", before, message))
            runs.append(LogRange(anchor[0], end, anchor))
        elif start < end:
            message = f"offsets {start} to {end - 1} follow no captured snapshot: their state is unknown"
            problems.append(Problem("no_snapshot", start, message))
        before = end
    log_end = int(last_offset.max()) + 1 if len(last_offset) else 0
    tail = known[-1] if known else None
    if tail and tail[0] > log_end:
        problems.append(Problem("unobserved", log_end, f"the snapshot at {tail[0]} is newer than the log's end"))
        runs.append(LogRange(tail[0], tail[0], tail))
    return runs, problems


def newest_run(runs: Sequence[LogRange], snapshots: Sequence[tuple[int, int]]) -> list[LogRange]:
    """The run from the newest snapshot that a run contains or starts from; all runs if there is none."""
    inside = [(s, run.end) for run in runs for s in snapshots if run.start <= s[0] <= run.end]
    if not inside:
        return list(runs)
    snapshot, end = max(inside)
    return [LogRange(snapshot[0], end, snapshot)]


def _unbroken_ranges(base_offset: Array, last_offset: Array, holes: Sequence[int]) -> list[tuple[int, int]]:
    """The offset ranges [start, end) without a gap or a hole; a range after a hole may be empty."""
    breaks = np.flatnonzero(base_offset[1:] > last_offset[:-1] + 1) + 1
    result = []
    for rows in np.split(np.arange(len(base_offset)), breaks):
        if not len(rows):
            continue
        start, end = int(base_offset[rows[0]]), int(last_offset[rows[-1]]) + 1
        for hole in holes[bisect_left(holes, start) : bisect_left(holes, end)]:
            result.append((start, hole))
            start = hole + 1
        result.append((start, end))
    return result


def in_runs(offset: Array, runs: Sequence[LogRange]) -> Array:
    """True for the offsets that lie in a replayable run."""
    result = np.zeros(len(offset), dtype=bool)
    for run in runs:
        result |= (offset >= run.start) & (offset < run.end)
    return result


def json_int(data: dict[str, Any], key: str, default: int = 0) -> int:
    """An integer field of a record's JSON form."""
    return int(data.get(key, default))


def clip_validity(history: pa.Table, runs: Sequence[LogRange], log_end: int) -> pa.Table:
    """End the validity of states where their run ends, unless that is the end of the log.

    history: schemas.PARTITION_HISTORY rows. From the run's end to the next run's snapshot the state is unknown:
    end_offset becomes the run's end, end_timestamp_ms null.
    """
    if not runs or not len(history):
        return history
    # A run's base state has the offset before the run's start.
    first = np.array([run.start - 1 for run in runs], dtype=np.int64)
    end = np.array([INT64_MAX if run.end >= log_end else run.end for run in runs], dtype=np.int64)
    which = np.searchsorted(first, history["offset"].to_numpy(), side="right") - 1
    run_end = end[np.maximum(which, 0)]
    state_end = pc.fill_null(history["end_offset"], INT64_MAX).to_numpy()
    clipped = run_end < state_end
    if not clipped.any():
        return history
    mask = pa.array(clipped)
    columns = {
        "end_offset": pc.if_else(mask, pa.array(run_end), history["end_offset"].combine_chunks()),
        "end_timestamp_ms": pc.if_else(mask, None, history["end_timestamp_ms"].combine_chunks()),
    }
    for name, values in columns.items():
        history = history.set_column(history.schema.get_field_index(name), history.schema.field(name), values)
    return history
