"""Decode what was framed into metadata_records and snapshot_records: Spark tasks over byte ranges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evidence import kinds
from evidence.columnar import DECODED, decode_arrow
from evidence.decode import LOG, PAYLOADS, SNAPSHOT, ByteRange, work_of
from evidence.segments import Scanned
from jobs.lake import Lake, spark_schema

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


def decode(lake: Lake, capture: str, scanned: Scanned) -> DataFrame:
    """A row for every record (columns of snapshot_records; `holds`: see ByteRange) and for every damage (column
    `damage`, else null)."""
    work = pa.Table.from_pylist([asdict(w) for w in work_of(scanned)], schema=_WORK)
    spread = lake.spark.sparkContext.defaultParallelism
    frame = lake.spark.createDataFrame(work, schema=spark_schema(_WORK))
    frame = frame.repartition(max(1, min(len(work), 4 * spread)))

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in (row for batch in batches for row in batch.to_pylist()):
            work = ByteRange(**row)
            yield from decode_arrow(_bytes_of(work), work, capture)

    return frame.mapInArrow(task, spark_schema(DECODED))


def _bytes_of(work: ByteRange) -> Any:
    """The file, of which only the range is read where nothing else is looked at: in front of it are zeros that take no
    memory, and the file ends with it."""
    if work.kind == kinds.DUMP_LOG or work.holds == PAYLOADS:
        return Path(work.local).read_bytes()
    return file_part(Path(work.local), work.start, work.end)


def file_part(path: Path, start: int, end: int) -> Any:
    """A file's bytes [start, end) at their places in something that is sliced as `bytes` is; zeros in front of them,
    and in place of what the file does not have any more."""
    part = mmap(-1, end, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    with path.open("rb") as file, memoryview(part) as places:
        file.seek(start)
        file.readinto(places[start:end])
    return part


def quarantined(decoded: DataFrame) -> list[dict[str, Any]]:
    """The damage among decoded rows, as tables.QUARANTINE rows."""
    bad = decoded.where("damage is not null").select("capture", "path", "sha256", "damage.*")
    rows: list[dict[str, Any]] = bad.toArrow().to_pylist()
    return rows


def write_snapshots(lake: Lake, cluster: str, decoded: DataFrame, broken: set[str]) -> int:
    """Append snapshot_records. broken: SHA-256 of files with damage: a snapshot with a record that cannot be decoded
    is no whole state."""
    good = decoded.where(F.col("holds") == SNAPSHOT)
    good = good.where(~F.col("sha256").isin(sorted(broken)))
    return lake.append_new("snapshot_records", good.withColumn("cluster_id", F.lit(cluster)))


def write_records(lake: Lake, cluster: str, decoded: DataFrame, states: DataFrame) -> int:
    """Append metadata_records. states: commit states by (epoch, batch_base_offset, batch_crc). Records without a place
    in the log are told apart by their place in the file."""
    keys = ["epoch", "batch_base_offset", "batch_crc"]
    decoded = decoded.withColumn("cluster_id", F.lit(cluster))
    placed = decoded.where(F.col("holds") == LOG).join(F.broadcast(states), keys, "left")
    unplaced = decoded.where(F.col("holds") == PAYLOADS).withColumn("commit_state", F.lit("unknown"))
    count = lake.append_new("metadata_records", placed)
    return count + lake.append_new("metadata_records", unplaced, key=("sha256", "position"))
