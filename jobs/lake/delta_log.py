"""Read the log of a Delta table, and create empty tables, as plain files. No Spark job is needed to get a table's
version or a commit's metadata, or to create a table without rows.

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
    """The newest version; 0 for a new table. Errors: IndexError if there is no table."""
    return int(_files(table)[0].stem)


def commits(table: Path) -> Iterator[dict[str, Any]]:
    """The commitInfo of every commit, newest first; empty for a commit without one."""
    for file in _files(table):
        with file.open(encoding="utf-8") as lines:
            yield next((json.loads(line)["commitInfo"] for line in lines if line.startswith('{"commitInfo"')), {})


def _files(table: Path) -> list[Path]:
    files = (f for f in (table / FOLDER).glob("*.json") if f.stem.isdigit())
    return sorted(files, reverse=True)


def make_table(table: Path, comment: str, schema_json: str, configuration: Mapping[str, str]) -> None:
    """Create a table without rows (version 0), unless it exists. schema_json: as from Spark's StructType.json()."""
    # Check constraints need writer version 3; everything else here needs version 2.
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
    # If two processes create the table, the first one wins.
    with suppress(FileExistsError), (folder / _FIRST).open("x", encoding="utf-8") as file:
        file.write("".join(json.dumps(action) + "\n" for action in actions))
