"""Tables that another program has rewritten with the same rows, as OPTIMIZE does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from evidence.capture.remote import Remote
from jobs.lake import chain
from jobs.lake.chain import Head
from jobs.lake.data_files import DataFile, listed
from jobs.lake.lake import Lake
from jobs.lake.tables import CLUSTER_ID, TABLES
from jobs.provenance.row_digests import file_rows

Row = dict[str, Any]
MOST_HASHED_BYTES = 16 << 20  # of a table, by commands that answer at once


@dataclass(frozen=True, slots=True)
class Replaced:
    """What differs between the files of a cluster by its commits and by the table's log. gone: names of files that the
    table has no more; new: those that it has instead. lost: of `gone`, those whose bytes are no longer there."""

    lake: Lake
    table: str
    gone: list[str]
    new: list[DataFile]
    lost: list[str]

    def old_rows(self) -> Iterator[list[Row]]:
        return self._rows(self.gone)

    def new_rows(self) -> Iterator[list[Row]]:
        return self._rows(file.path for file in self.new)

    def written_rows(self) -> int | None:
        """How many rows the files that are gone had, by the table's log before they were replaced; None if it has no
        version with all of them."""
        for commit in self.lake.commits(self.table):
            if not chain.metadata_of(commit):
                continue
            table = self.lake.delta(self.table)
            try:
                table.load_as_version(commit["version"])
            except DeltaError:
                return None
            rows = {row["path"]: row["num_records"] for row in listed(table)}
            known = [rows.get(name) for name in self.gone]
            return None if None in known else sum(filter(None, known))
        return None

    def _rows(self, files: Iterable[str]) -> Iterator[list[Row]]:
        columns = TABLES[self.table].file_schema.names
        return file_rows(self.lake.storage, (f"{self.table}/{file}" for file in files), columns)


def expected_files(made: Iterable[Row]) -> dict[str, str]:
    """SHA-256 by name of the files that a cluster has by its commits, oldest first."""
    files: dict[str, str] = {}
    for mark in (metadata["mark"] for metadata in made):
        for name in mark["removed"] if mark["kept"] else list(files):
            files.pop(name, None)
        files |= mark["added"]
    return files


def replaced(lake: Lake, table: str, cluster: str) -> Replaced:
    """Compare the files of a cluster with those that its commits name."""
    made = (metadata for c in lake.commits(table) if (metadata := chain.metadata_of(c)).get(CLUSTER_ID) == cluster)
    expected = expected_files(list(made)[::-1])
    files = {file.name: file for file in lake.files(table, cluster)}
    gone = [name for name in expected if name not in files]
    new = [file for name, file in files.items() if name not in expected]
    lost = [name for name in gone if not has_bytes(lake, f"{table}/{name}", expected[name])]
    return Replaced(lake, table, gone, new, lost)


def has_bytes(lake: Lake, name: str, sha256: str) -> bool:
    """Whether a file of the lake is there and has this SHA-256."""
    return file_sha256(lake, name) == sha256


def file_sha256(lake: Lake, name: str) -> str | None:
    """SHA-256 of a file of the lake; None if it is missing."""
    try:
        return lake.storage.sha256(name)
    except FileNotFoundError:
        return None


def changed_file(lake: Lake, table: str, cluster: str) -> str | None:
    """A file of the cluster with other bytes than were written; None: there is none, or it is not looked for, as in a
    table in an object store or one of more than MOST_HASHED_BYTES."""
    if isinstance(lake.root, Remote):
        return None
    files = {file.name: file for file in lake.files(table, cluster)}
    if sum(file.size_bytes for file in files.values()) > MOST_HASHED_BYTES:
        return None
    for commit in lake.commits(table):
        made = chain.metadata_of(commit)
        for name, sha256 in made["mark"]["added"].items() if made.get(CLUSTER_ID) == cluster else ():
            file = files.pop(name, None)
            if file is not None and not has_bytes(lake, f"{table}/{file.path}", sha256):
                return file.path
        if not files:
            return None
    return None


def same_rows(head: Head) -> Row:
    """What a commit says that leaves the rows of the newest one in other files: all that this one says, and its id."""
    about = {name: value for name, value in head.made.items() if name not in (CLUSTER_ID, "mark", "link")}
    return {**about, "rows_of": head.id}


def rows_of(lake: Lake, table: str, files: Iterable[DataFile]) -> pa.Table:
    """The rows of some files, without cluster_id. A column that a file of another program lacks is null."""
    schema, found = TABLES[table].file_schema, [TABLES[table].file_schema.empty_table()]
    for file in files:
        with lake.storage.open(f"{table}/{file.path}") as source:
            found.append(pq.read_table(source, use_threads=False))
    return pa.concat_tables(found, promote_options="default").select(schema.names).cast(schema)
