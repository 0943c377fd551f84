"""Passes over a cluster's partitions. Each task gets a bucket of whole topics as an Arrow table.

Topics are whole because every partition of a topic reads its partition 0. A hash assigns rows to buckets. Rows are not
sorted: a pass that needs an order sorts them itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs.config.settings import Settings

# Fewer rows are not worth a task.
_ROWS_A_CORE = 50_000
_LEFT, _RIGHT, _TOPIC = "left", "right", "topic_id"


def bucket_count(frame: DataFrame, settings: Settings) -> int:
    """Number of buckets that keeps the average bucket within `partitions_per_bucket` and `rows_per_bucket`; more if
    cores would otherwise be idle."""
    partitions = F.approx_count_distinct(F.struct(_TOPIC, "partition"))
    counted = frame.select(partitions.alias("partitions"), F.count("*").alias("rows")).collect()[0]
    limits, cores = settings.replay, frame.sparkSession.sparkContext.defaultParallelism
    wanted = (counted["partitions"] / limits.partitions_per_bucket, counted["rows"] / limits.rows_per_bucket)
    least = max(1, math.ceil(max(wanted)))
    if least > cores:
        return cores * math.ceil(least / cores)
    return max(least, min(cores, counted["rows"] // _ROWS_A_CORE))


def map_buckets(
    frame: DataFrame, schema: pa.Schema, buckets: int, make: Callable[[pa.Table], pa.Table], result: StructType
) -> DataFrame:
    """Apply `make` to every bucket that has rows. schema: the columns that `make` gets, and their types; result: the
    schema of the returned frame."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(batches)
        if found:
            yield from make(pa.Table.from_batches(found).cast(schema)).to_batches()

    return frame.select(*schema.names).repartition(buckets, _TOPIC).mapInArrow(task, result)


def map_both(
    left: tuple[DataFrame, pa.Schema],
    right: tuple[DataFrame, pa.Schema],
    buckets: int,
    make: Callable[[pa.Table, pa.Table], pa.Table],
    result: StructType,
) -> DataFrame:
    """Like `map_buckets`, for two frames: `make` gets the rows that both have for the same topics."""
    schemas = {_LEFT: left[1], _RIGHT: right[1]}

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(batches)
        if found:
            yield from make(*(_rows((b.column(n) for b in found), s) for n, s in schemas.items())).to_batches()

    sides = [
        frame.select(_TOPIC, F.struct(*schema.names).alias(name))
        for name, (frame, schema) in ((_LEFT, left), (_RIGHT, right))
    ]
    both = sides[0].unionByName(sides[1], allowMissingColumns=True).repartition(buckets, _TOPIC)
    return both.select(_LEFT, _RIGHT).mapInArrow(task, result)


def _rows(structs: Iterable[pa.StructArray], schema: pa.Schema) -> pa.Table:
    """The non-null structs as rows."""
    batches = [pa.RecordBatch.from_struct_array(s.drop_null() if s.null_count else s) for s in structs]
    return pa.Table.from_batches(batches).cast(schema)
