"""The lake's tables as DataFrames, for queries in Spark SQL."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.lake.lake import Lake
from jobs.lake.tables import CLUSTER_ID, TABLES
from jobs.spark.types import spark_schema


def table_frame(spark: SparkSession, lake: Lake, name: str, cluster_id: str | None = None) -> DataFrame:
    """A table, or one cluster's rows of it. A column missing from a table of an earlier release is null."""
    frame = spark.read.format("delta").load(lake.storage.url(name))
    missing = set(TABLES[name].schema.names) - set(frame.columns)
    if missing:
        types = spark_schema(TABLES[name].schema)
        frame = frame.withColumns({n: F.lit(None).cast(types[n].dataType) for n in sorted(missing)})
    frame = frame.select(*TABLES[name].schema.names)
    return frame if cluster_id is None else frame.where(F.col(CLUSTER_ID) == cluster_id)


def table_query(lake: Lake, name: str) -> str:
    """A table as a query in SQL. A column missing from a table of an earlier release is null."""
    url = lake.storage.url(name).replace("`", "``")
    known = {field.name for field in lake.delta(name).schema().fields}
    types = spark_schema(TABLES[name].schema)
    columns = (
        f"`{n}`" if n in known else f"cast(null as {types[n].dataType.simpleString()}) as `{n}`"
        for n in TABLES[name].schema.names
    )
    return f"select {', '.join(columns)} from delta.`{url}`"
