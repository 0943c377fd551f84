"""The Parquet files of a table: as its Delta log names them, and how they are written."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from jobs.lake.row_groups import MOST_ROWS, WITHOUT_TOPIC, SlicedFile, Slices, TopicBucket, read_bucket, slice_count
from jobs.lake.row_keys import registered
from jobs.lake.storage import LakeError, Storage
from jobs.lake.tables import TABLES

Row = dict[str, Any]
_STEP_ROWS = 1_000_000  # rows to convert at once
_GATHERED_ROWS = 200_000  # rows to divide among slices at once: each time adds a row group to each


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


def statistics(column: str, file: DataFile) -> str:
    """Delta's statistics of a file, as JSON."""
    found: Row = {"numRecords": file.rows}
    if file.lowest is not None:
        found |= {"minValues": {column: file.lowest}, "maxValues": {column: file.highest}}
    return json.dumps(found)


def write_file(storage: Storage, table: str, rows: pa.Table, slices: int | None = None) -> DataFile:
    """Write rows of a table to a new file, which no commit names yet.

    rows: the table's columns, without cluster_id; strings may be dictionary-encoded. slices: number of slices
    (jobs/lake/row_groups.py) for a table whose topics tasks read; None: by the number of rows. Errors: LakeError for
    rows that a constraint of the table forbids.
    """
    of, name = TABLES[table], f"{uuid4().hex}.parquet"
    for constraint, condition in of.constraints.items():
        with registered(rows=rows) as connection:
            if connection.execute(f"from rows where ({condition}) is not true").fetchone():
                raise LakeError(f"{table}: rows that break the constraint {constraint} ({condition})")
    file = SlicedFile(storage, f"{table}/{name}", of.file_schema, slices or slice_count(len(rows)), of.topics)
    step = _STEP_ROWS if of.topics else MOST_ROWS
    for at in range(0, len(rows), step):
        file.write(rows.slice(at, step).select(of.file_schema.names))
    size = file.close()
    known = pc.min_max(rows[of.bounds]) if len(rows) else {"min": pa.scalar(None), "max": pa.scalar(None)}
    return DataFile(name, size, len(rows), known["min"].as_py(), known["max"].as_py(), file.sha256)


def merge_files(storage: Storage, table: str, slices: int, files: Sequence[DataFile]) -> DataFile:
    """Write the rows of files that no commit names yet, and that have the same number of slices, to one file with
    `slices` slices. Holds some _GATHERED_ROWS rows at a time. Errors: as reading and writing files."""
    of, name = TABLES[table], f"{uuid4().hex}.parquet"
    old = Slices(storage, [f"{table}/{file.path}" for file in files])
    merged = SlicedFile(storage, f"{table}/{name}", of.file_schema, slices, of.topics)
    for bucket in (*(TopicBucket(number, old.count) for number in range(old.count)), WITHOUT_TOPIC):
        found = read_bucket(storage, old.parts(bucket), of.file_schema.names, bucket, of.topics)
        for rows in gathered(found):
            merged.write(rows.cast(of.file_schema))
    size = merged.close()
    bounds = [value for file in files for value in (file.lowest, file.highest) if value is not None]
    rows = sum(file.rows for file in files)
    return DataFile(name, size, rows, min(bounds, default=None), max(bounds, default=None), merged.sha256)


def gathered(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The parts, joined to tables of some rows (_GATHERED_ROWS) or more; the last may have fewer."""
    held: list[pa.Table] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= _GATHERED_ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)
