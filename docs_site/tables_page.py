"""Generate docs/tables.md from the table definitions: `python -m docs_site.tables_page > docs/tables.md`."""

from __future__ import annotations

import pyarrow as pa

from docs_site.views_page import names, sections
from jobs.lake.tables import CLUSTER_ID, TABLES, Table
from jobs.spark.types import spark_schema

_HEAD = """# Tables

Generated from the definitions in `evidence/tables.py`, `replay/arrow/schemas.py` and `jobs/lake/tables.py` by
`python -m docs_site.tables_page`. Every table is a Delta table in the lake's folder. Null means that the evidence does
not show the value. Times (`..._ms`) are milliseconds since the Unix epoch, UTC. [views.md](views.md) has views on the
tables, and which columns trap.

Where no type is given, a column whose name ends in `_ms`, `_bytes`, `offset` or `position` is a `bigint`, any other a
`string`. Every table, and every key, also has `cluster_id`: Kafka's cluster id, or unknown-<capture> where no file
names it. "Place" stands for the four columns `capture`, `path`, `sha256` and `position`: where the row, or the record
that made it, was read first.

## Columns of several tables

"""
_BIGINT = ("_ms", "_bytes", "offset", "position")
_PLACE = ("capture", "path", "sha256", "position")


def document() -> str:
    """The Markdown page: columns of several tables, then a section per table with a line per column."""
    heads = {table.name: f"{table.comment}. Key: {names(table.key)}." for table in TABLES.values()}
    columns = {table.name: _lines(table) for table in TABLES.values()}
    return _HEAD + sections(heads, columns, [CLUSTER_ID], _PLACE, {"kept_findings": "findings"})


def _lines(table: Table) -> dict[str, str]:
    types = spark_schema(table.schema)
    names_of_types = {name: types[name].dataType.simpleString() for name in table.schema.names}
    return {
        field.name: f"- `{field.name}`{_type(field.name, names_of_types[field.name])}: {_comment(field)}\n"
        for field in table.schema
    }


def _type(name: str, text: str) -> str:
    """A column's type in brackets; none where the page's head says it."""
    if text == ("bigint" if name.endswith(_BIGINT) else "string"):
        return ""
    short = "array of struct" if text.startswith("array<struct") else "struct" if text.startswith("struct") else text
    return f" (`{short}`)"


def _comment(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"comment", b"").decode())


if __name__ == "__main__":
    print(document(), end="")
