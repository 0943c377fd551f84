"""The log of a Delta table, read and begun as files: no Spark job is needed to know a table's version, what a commit
says of itself, or to make a table that has no rows yet.

Source of the format: Delta's protocol (PROTOCOL.md, "Actions").
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

FOLDER = "_delta_log"
_FIRST = f"{0:020d}.json"


def is_table(table: Path) -> bool:
    """Whether a folder is a Delta table."""
    return (table / FOLDER).is_dir()


def version(table: Path) -> int:
    """The newest version; 0 right after the table was made. Errors: IndexError where there is no table."""
    return int(_files(table)[0].stem)


def commits(table: Path) -> Iterator[dict[str, Any]]:
    """The commitInfo of every commit, newest first; empty where a commit has none."""
    for file in _files(table):
        with file.open(encoding="utf-8") as lines:
            yield next((json.loads(line)["commitInfo"] for line in lines if line.startswith('{"commitInfo"')), {})


def _files(table: Path) -> list[Path]:
    files = (f for f in (table / FOLDER).glob("*.json") if f.stem.isdigit())
    return sorted(files, reverse=True)


def make_table(table: Path, comment: str, schema_json: str, configuration: Mapping[str, str]) -> None:
    """Version 0 of a table without rows, unless there is a table. schema_json: as Spark's StructType.json()."""
    # Check constraints are of writer version 3 on; what else is used here is of version 2.
    writer = 3 if any(name.startswith("delta.constraints.") for name in configuration) else 2
    now_ms = time.time_ns() // 1_000_000
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": now_ms, "operation": "CREATE TABLE", "operationParameters": {}}},
        {
            "metaData": {
                "id": str(uuid4()),
                "description": comment,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema_json,
                "partitionColumns": [],
                "configuration": dict(configuration),
                "createdTime": now_ms,
            }
        },
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": writer}},
    ]
    folder = table / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    # The first of two that make a table wins.
    with suppress(FileExistsError), (folder / _FIRST).open("x", encoding="utf-8") as file:
        file.write("".join(json.dumps(action) + "\n" for action in actions))
