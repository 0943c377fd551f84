"""The lake's tables in Spark SQL."""

from __future__ import annotations

from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.spark.types import spark_schema


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
