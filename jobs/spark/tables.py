"""The lake's tables in Spark SQL."""

from __future__ import annotations

from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES


def table_query(lake: Lake, name: str) -> str:
    """A table as a query in SQL."""
    url = lake.storage.url(name).replace("`", "``")
    columns = ", ".join(f"`{column}`" for column in TABLES[name].schema.names)
    return f"select {columns} from delta.`{url}`"
