"""The Parquet files of a table, as its Delta log names them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from jobs.lake.tables import CLUSTER_ID, TABLES

if TYPE_CHECKING:
    from deltalake import DeltaTable

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table. name: as in the table's log. lowest, highest: values of the table's column
    `bounds`, by which readers skip files; None if all are null. sha256: of a file that this process or its tasks wrote,
    hex; else empty."""

    name: str
    size_bytes: int
    rows: int
    lowest: Any = None
    highest: Any = None
    sha256: str = ""

    @property
    def text(self) -> str:
        """What a commit says about the file, as one line."""
        return json.dumps([self.name, self.size_bytes, self.rows, self.lowest, self.highest], default=str)

    @property
    def path(self) -> str:
        """Where the file is, below the table's folder. Names in the log are percent-encoded (Delta's protocol)."""
        return unquote(self.name)


def listed(table: DeltaTable) -> list[Row]:
    """The table's files, as its log names them."""
    rows: list[Row] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return rows


def data_files(table: DeltaTable, name: str, cluster_id: str) -> list[DataFile]:
    """The files that a table has for a cluster."""
    key = TABLES[name].bounds
    return [
        DataFile(a["path"], a["size_bytes"], a["num_records"] or 0, a.get(f"min.{key}"), a.get(f"max.{key}"))
        for a in listed(table)
        if a.get(f"partition.{CLUSTER_ID}") == cluster_id
    ]


def statistics(column: str, file: DataFile) -> str:
    """Delta's statistics of a file, as JSON."""
    found: Row = {"numRecords": file.rows}
    if file.lowest is not None:
        found |= {"minValues": {column: file.lowest}, "maxValues": {column: file.highest}}
    return json.dumps(found)
