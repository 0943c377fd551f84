"""Decode framed batches into metadata_records and snapshot_records, in Spark tasks over byte ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evidence import kinds
from evidence.metadata_log.columns import DECODED, decode_arrow
from evidence.metadata_log.rows import LOG, PAYLOADS, SNAPSHOT, ByteRange, read_byte_range, work_of
from evidence.metadata_log.scan import Scanned
from evidence.wire.batches import Batch
from jobs.lake.lake import Lake
from jobs.spark.types import spark_schema

# Records that name the quorum's voters.
VOTER_TYPES = ("KRAFT_VOTERS", "LEADER_CHANGE")

# Fewer bytes are not worth a task.
_BYTES_A_TASK = 1 << 20

_WORK = pa.schema(
    [
        pa.field("local", pa.string()),
        pa.field("path", pa.string()),
        pa.field("sha256", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("holds", pa.string()),
        pa.field("snapshot_end_offset", pa.int64()),
        pa.field("snapshot_epoch", pa.int32()),
    ]
)


def decode(
    lake: Lake, capture: str, work: Sequence[ByteRange], keep: Callable[[pa.RecordBatch], pa.Array] | None = None
) -> DataFrame:
    """A row for every record (columns of snapshot_records; `holds`: see ByteRange) and for every piece of damage
    (column `damage`, else null). keep: mask of the rows of an Arrow batch to return; None: all.

    The result is not cached: decoding again is cheaper than storing the rows.
    """
    table = pa.Table.from_pylist([asdict(w) for w in work], schema=_WORK)
    tasks = min(len(table), 4 * lake.spark.sparkContext.defaultParallelism, 1 + _size(work) // _BYTES_A_TASK)
    frame = lake.spark.createDataFrame(table, schema=spark_schema(_WORK)).repartition(max(1, tasks))

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in (row for batch in batches for row in batch.to_pylist()):
            work = ByteRange(**row)
            for decoded in decode_arrow(_bytes_of(work), work, capture):
                yield decoded.filter(keep(decoded)) if keep else decoded

    return frame.mapInArrow(task, spark_schema(DECODED))


def read_aside(lake: Lake, capture: str, work: Sequence[ByteRange]) -> pa.Table:
    """DECODED rows that are needed before anything is written: all damage, and the log's voter sets."""
    return decode(lake, capture, work, _is_aside).toArrow().cast(DECODED) if work else DECODED.empty_table()


def _size(work: Sequence[ByteRange]) -> int:
    return sum(w.end - w.start for w in work)


def _is_aside(decoded: pa.RecordBatch) -> pa.Array:
    voters = pc.is_in(decoded["type"], value_set=pa.array(VOTER_TYPES))
    return pc.or_kleene(pc.is_valid(decoded["damage"]), pc.and_kleene(voters, pc.equal(decoded["holds"], LOG)))


def _bytes_of(work: ByteRange) -> Any:
    """The bytes of the file. If only the range is needed, the bytes before it are zeros that take no memory, and the
    data ends with the range."""
    if work.kind == kinds.DUMP_LOG or work.holds == PAYLOADS:
        return Path(work.local).read_bytes()
    return read_byte_range(Path(work.local), work.start, work.end)


def quarantined(aside: pa.Table) -> list[dict[str, Any]]:
    """The damage in `read_aside`, as evidence.tables.QUARANTINE rows."""
    bad = aside.filter(aside["damage"].is_valid()).select(["capture", "path", "sha256", "damage"]).to_pylist()
    return [{**row, **row.pop("damage")} for row in bad]


def write_snapshots(lake: Lake, cluster: str, capture: str, scanned: Scanned, broken: set[str]) -> int:
    """Append snapshot_records. broken: SHA-256 of damaged files: a snapshot with a record that cannot be decoded is not
    a complete state and is skipped."""
    work = [w for w in work_of(scanned) if w.holds == SNAPSHOT and w.sha256 not in broken]
    if not work:
        return 0
    rows = decode(lake, capture, work).where("damage is null").withColumn("cluster_id", F.lit(cluster))
    held = {s.file.sha256: s.batches for s in scanned.snapshots}
    distinct = all(_distinct_offsets(w) for w in work) and not any(
        overlap((0, 0, b) for b in held[w.sha256]) for w in work
    )
    return lake.append_new("snapshot_records", rows, distinct=distinct)


def write_records(lake: Lake, cluster: str, capture: str, scanned: Scanned, states: DataFrame) -> int:
    """Append metadata_records. states: commit states by (epoch, batch_base_offset, batch_crc). Records without an
    offset in the log are identified by their position in the file."""
    work, keys = work_of(scanned), ["epoch", "batch_base_offset", "batch_crc"]
    placed, unplaced = ([w for w in work if w.holds == kind] for kind in (LOG, PAYLOADS))
    count = 0
    if placed:
        rows = decode(lake, capture, placed).where("damage is null").withColumn("cluster_id", F.lit(cluster))
        rows = rows.join(F.broadcast(states), keys, "left")
        held = (d.batch for d in scanned.batches)
        distinct = all(_distinct_offsets(w) for w in placed) and not overlap((b.epoch, b.crc, b) for b in held)
        count += lake.append_new("metadata_records", rows, distinct=distinct)
    if unplaced:
        rows = decode(lake, capture, unplaced).where("damage is null").withColumn("cluster_id", F.lit(cluster))
        rows = rows.withColumn("commit_state", F.lit("unknown"))
        count += lake.append_new("metadata_records", rows, key=("sha256", "position"))
    return count


def _distinct_offsets(work: ByteRange) -> bool:
    """Whether the records of a batch surely have distinct offsets. The reader ensures it for bytes, not for text."""
    return work.kind != kinds.DUMP_LOG


def overlap(batches: Iterable[tuple[int, int, Batch]]) -> bool:
    """Whether two batches with the same epoch and CRC (which does not cover the offset) have an offset in common."""
    ordered = sorted((epoch, crc, b.base_offset, b.last_offset) for epoch, crc, b in batches)
    return any(a[:2] == b[:2] and b[2] <= a[3] for a, b in pairwise(ordered))
