"""Generate docs/tables.md from the table definitions: `python -m jobs.spark.tables_page > docs/tables.md`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from jobs.lake.tables import TABLES, Table
from jobs.spark.types import spark_schema


def document() -> str:
    """The Markdown page: a section per table, a row per column."""
    head = (
        "# Tables\n\nGenerated from the definitions in `evidence/tables.py`, `replay/arrow/schemas.py` and "
        "`jobs/lake/tables.py` by `python -m jobs.spark.tables_page`.\n"
        "Every table is a Delta table in the lake's folder. Null means that the evidence does not show the value.\n"
        "[views.md](views.md) has views on them, and which columns trap.\n"
    )
    return head + "".join(line for table in TABLES.values() for line in _section(table))


def _section(table: Table) -> Iterator[str]:
    key = ", ".join(f"`{k}`" for k in ("cluster_id", *table.key))
    yield f"\n## `{table.name}`\n\n{table.comment}. Key: {key}.\n\n| column | type | meaning |\n|---|---|---|\n"
    types = spark_schema(table.schema)
    for field in table.schema:
        yield f"| `{field.name}` | {_type(types[field.name].dataType.simpleString())} | {_comment(field)} |\n"


def _type(text: str) -> str:
    return "array of struct" if text.startswith("array<struct") else "struct" if text.startswith("struct") else text


def _comment(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"comment", b"").decode()).replace("|", "\\|")


if __name__ == "__main__":
    print(document(), end="")
