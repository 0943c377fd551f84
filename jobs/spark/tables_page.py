"""Generate docs/tables.md from the table definitions: `python -m jobs.spark.tables_page > docs/tables.md`."""

from __future__ import annotations

import pyarrow as pa

from jobs.lake.columns_page import names, sections
from jobs.lake.tables import CLUSTER_ID, TABLES, Table
from jobs.spark.types import spark_schema

_HEAD = """# Tables

Generated from the definitions in `evidence/tables.py`, `replay/arrow/schemas.py` and `jobs/lake/tables.py` by
`python -m jobs.spark.tables_page`. Every table is a Delta table in the lake's folder. Null means that the evidence does
not show the value. Times (`..._ms`) are milliseconds since the Unix epoch, UTC. [views.md](views.md) has views on the
tables, and which columns trap.

Every table, and every key, also has `cluster_id` (`string`): Kafka's cluster id, or unknown-<capture> where no file
names it.

## Columns of several tables

"""


def document() -> str:
    """The Markdown page: columns of several tables, then a section per table with a line per column."""
    heads = {table.name: f"{table.comment}. Key: {names(table.key)}." for table in TABLES.values()}
    return _HEAD + sections(heads, {table.name: _lines(table) for table in TABLES.values()}, left_out=[CLUSTER_ID])


def _lines(table: Table) -> dict[str, str]:
    types = spark_schema(table.schema)
    return {
        field.name: f"- `{field.name}` (`{_type(types[field.name].dataType.simpleString())}`): {_comment(field)}\n"
        for field in table.schema
    }


def _type(text: str) -> str:
    return "array of struct" if text.startswith("array<struct") else "struct" if text.startswith("struct") else text


def _comment(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"comment", b"").decode())


if __name__ == "__main__":
    print(document(), end="")
