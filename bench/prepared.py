"""Prepare the data of the stages, outside the timed code.

A separate process (`python -m bench.prepared LOG FOLDER`) writes a log's partition changes as Parquet, in the same
buckets as the job, so that no stage's memory includes this work.
"""

from __future__ import annotations

import json
import math
import mmap
import pickle
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.inputs import files_of
from evidence.capture.archive import is_archive
from evidence.capture.files import open_capture
from evidence.errors import CaptureError
from evidence.metadata_log.columns import decode_arrow
from evidence.metadata_log.rows import LOG, ByteRange, work_of
from evidence.metadata_log.scan import Scanned, batch_table, scan_files
from jobs.config.settings import load_settings
from replay.arrow.schemas import CHANGES
from replay.cluster.log import LogBatches, clip_validity
from replay.cluster.state import CLUSTER_TYPES, ClusterState, changes_that_count, log_shape, resolve_cluster
from replay.partitions.reducer import build_history

CAPTURE = "bench"
_STATE = "cluster-state.pickle"


@dataclass(frozen=True, slots=True)
class Prepared:
    """An input (a file or a folder of a capture) and a folder for the files made from it."""

    source: Path
    folder: Path

    @property
    def files(self) -> list[Path]:
        return files_of(self.source)

    def scanned(self) -> Scanned:
        with open_capture(self.source) as capture:
            return scan_files(capture.files)

    def ranges(self) -> Iterator[tuple[Any, ByteRange]]:
        """Each range to decode, and its file mapped into memory."""
        yield from _ranges(self.scanned())

    @property
    def has_changes(self) -> bool:
        """Whether `prepare` was run for this folder."""
        return (self.folder / _STATE).exists()

    def state(self) -> ClusterState:
        """The cluster state from the log's records."""
        state: ClusterState = pickle.loads((self.folder / _STATE).read_bytes())
        return state

    def changes(self) -> Iterator[pa.Table]:
        """The CHANGES rows that count, bucket by bucket."""
        for file in sorted(self.folder.glob("changes-*.parquet")):
            yield pq.read_table(file, schema=CHANGES)

    def histories(self) -> Iterator[pa.Table]:
        """Each bucket's PARTITION_HISTORY, as the replay stage writes it."""
        state = self.state()
        for changes in self.changes():
            history = build_history(changes, state.topic_events, state.configs).table
            yield clip_validity(history, state.shape.runs, state.shape.log_end)

    def parquet(self) -> Path:
        """The folder with the history as Parquet files."""
        folder = self.folder / "history"
        if not folder.exists():
            folder.mkdir()
            for number, history in enumerate(self.histories()):
                pq.write_table(history, folder / f"{number:04d}.parquet")
        return folder


def is_log(source: Path) -> bool:
    """Whether the file holds a segment of the log, not a snapshot. Errors: CaptureError when it holds neither."""
    if is_archive(source):
        raise CaptureError(f"{source}: an archive. Give one segment (.log) or snapshot (.checkpoint) of it.")
    with open_capture(source) as capture:
        scanned = scan_files(capture.files)
    if not scanned.snapshots and not scanned.batches:
        raise CaptureError(f"{source}: holds no record of the metadata log. Give a segment (.log) or a snapshot.")
    return bool(scanned.batches)


def prepare(source: Path, folder: Path) -> None:
    """Decode a log; write its changes, in buckets of whole topics, and the cluster's state. Memory holds one range at a
    time, and the records that do not belong to a partition."""
    with open_capture(source) as capture:
        scanned = scan_files(capture.files)
    folder.mkdir(parents=True, exist_ok=True)
    writer = _Buckets(folder, math.ceil(scanned.batches.record_count / load_settings().replay.rows_per_bucket))
    cluster_records: list[dict[str, Any]] = []
    with ExitStack() as stack:
        stack.callback(writer.close)
        for data, work in _ranges(scanned):
            for batch in decode_arrow(data, work, CAPTURE):
                rows = pa.Table.from_batches([batch])
                is_change = rows["partition_change"].is_valid()
                writer.add(_changes(rows.filter(is_change)))
                of_cluster = pc.is_in(rows["type"], value_set=pa.array(sorted(CLUSTER_TYPES)))
                cluster_records += rows.filter(pc.and_(of_cluster, pc.invert(is_change))).to_pylist()
    state = _resolved(scanned, cluster_records)
    for file in writer.files:
        pq.write_table(changes_that_count(pq.read_table(file, schema=CHANGES), state), file)
    (folder / _STATE).write_bytes(pickle.dumps(state))


def _ranges(scanned: Scanned) -> Iterator[tuple[Any, ByteRange]]:
    for work in work_of(scanned):
        if not isinstance(work.source, Path):
            raise TypeError(f"{work.source}: the benchmarks' captures are on this machine")
        with work.source.open("rb") as file:
            yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), work


def _resolved(scanned: Scanned, records: list[dict[str, Any]]) -> ClusterState:
    batches = LogBatches(batch_table(CAPTURE, scanned.batches))
    logged = [{**row, "data": json.loads(row["payload"])} for row in records if row["holds"] == LOG]
    return resolve_cluster(log_shape(batches, []), logged, [], {})


def _changes(records: pa.Table) -> pa.Table:
    """The partition records as CHANGES rows."""
    change = records["partition_change"].combine_chunks()
    columns = dict(zip([field.name for field in change.type], change.flatten(), strict=True))
    columns |= {"controller_epoch": records["epoch"], "full": pc.equal(records["type"], "PARTITION_RECORD")}
    columns["origin"] = pa.repeat(pa.scalar("log"), len(records))
    columns |= {name: records[name] for name in CHANGES.names if name not in columns}
    return pa.table({field.name: columns[field.name].cast(field.type) for field in CHANGES}, schema=CHANGES)


class _Buckets:
    """Writes CHANGES rows to one Parquet file per bucket; all rows of a topic are in one bucket."""

    def __init__(self, folder: Path, count: int) -> None:
        self.files = [folder / f"changes-{number:04d}.parquet" for number in range(max(1, count))]
        self.writers = [pq.ParquetWriter(file, CHANGES) for file in self.files]

    def add(self, rows: pa.Table) -> None:
        if not len(rows):
            return
        topics = rows["topic_id"].combine_chunks().dictionary_encode()
        numbers = np.array([zlib.crc32(t.encode()) % len(self.files) for t in topics.dictionary.to_pylist()])
        bucket = numbers[topics.indices.to_numpy()]
        for number in np.unique(bucket):
            self.writers[number].write_table(rows.filter(pa.array(bucket == number)))

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


if __name__ == "__main__":
    prepare(*map(Path, sys.argv[1:]))
