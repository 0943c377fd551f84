"""Generate docs/tables.md from the table definitions: `python -m jobs.spark.tables_page > docs/tables.md`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa

from jobs.lake.tables import TABLES, Table
from jobs.spark.types import spark_schema

_MANY = 3  # tables with the same column and meaning: it is explained once


def document() -> str:
    """The Markdown page: columns of many tables, then a section per table with a line per column."""
    head = (
        "# Tables\n\nGenerated from the definitions in `evidence/tables.py`, `replay/arrow/schemas.py` and "
        "`jobs/lake/tables.py` by `python -m jobs.spark.tables_page`.\n"
        "Every table is a Delta table in the lake's folder. Null means that the evidence does not show the value.\n"
        "[views.md](views.md) has views on them, and which columns trap.\n\n## Columns of many tables\n\n"
    )
    lines = Counter(line for table in TABLES.values() for line in _lines(table).values())
    shared = {line for line, count in lines.items() if count >= _MANY}
    sections = (part for table in TABLES.values() for part in _section(table, shared))
    return head + "".join(line for line in lines if line in shared) + "".join(sections)


def _section(table: Table, shared: set[str]) -> Iterator[str]:
    columns = _lines(table)
    yield f"\n## `{table.name}`\n\n{table.comment}. Key: {_names(('cluster_id', *table.key))}.\n\n"
    yield from (line for line in columns.values() if line not in shared)
    yield f"- As above: {_names(name for name, line in columns.items() if line in shared)}\n"


def _lines(table: Table) -> dict[str, str]:
    types = spark_schema(table.schema)
    return {
        field.name: f"- `{field.name}` (`{_type(types[field.name].dataType.simpleString())}`): {_comment(field)}\n"
        for field in table.schema
    }


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _type(text: str) -> str:
    return "array of struct" if text.startswith("array<struct") else "struct" if text.startswith("struct") else text


def _comment(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"comment", b"").decode())


if __name__ == "__main__":
    print(document(), end="")
