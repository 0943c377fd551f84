"""cluster_metrics: add up, in offset order, the moves from all buckets of partitions (replay/partitions/metrics.py)."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from jobs.lake.lake import Lake
from jobs.spark.types import spark_schema
from replay.arrow import schemas
from replay.cluster.state import ClusterState
from replay.partitions.metrics import MOVES, anchors, course_of

_PLACE = ("timestamp_ms", "controller_epoch", "origin", "batch_base_offset", "capture", "path", "sha256", "position")


def cluster_metrics(
    lake: Lake, cluster: str, of_partitions: DataFrame, moves: DataFrame, state: ClusterState
) -> DataFrame:
    """cluster_metrics of one cluster, from the summaries of its buckets. of_partitions: CLUSTER_METRICS rows of
    partitions (electable_replicas_count); moves: MOVES rows of the metrics of the whole cluster."""
    section_bounds = lake.spark.createDataFrame(anchors(course_of(state)), schema=spark_schema(MOVES))
    return of_partitions.unionByName(_running(moves.unionByName(section_bounds))).withColumn(
        "cluster_id", F.lit(cluster)
    )


def _running(found: DataFrame) -> DataFrame:
    """Turn moves into values: the running sum within each section, with a row only where the value changes."""
    record = (F.max(name).alias(name) for name in _PLACE)
    unknown = F.bool_or(F.col("delta").isNull()).alias("unknown")
    at = found.groupBy("metric", "section", "offset").agg(F.sum("delta").alias("delta"), unknown, *record)
    order = Window.partitionBy("metric").orderBy("offset", "section")
    within = Window.partitionBy("metric", "section").orderBy("offset")
    total = F.sum("delta").over(within.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    at = at.withColumn("value", F.when(~F.col("unknown"), total))
    before = F.lag("value").over(order)
    first = F.row_number().over(order) == 1
    at = at.withColumn("new", first | ~F.col("value").eqNullSafe(before)).where("new")
    ends = {f"end_{name}": F.lead(name).over(order) for name in ("offset", "timestamp_ms")}
    empty = {name: F.lit(None) for name in ("topic_id", "topic", "partition")}
    columns = at.withColumns({**ends, **empty})
    schema = spark_schema(schemas.CLUSTER_METRICS)
    return columns.select(*(F.col(f.name).cast(f.dataType).alias(f.name) for f in schema.fields))
