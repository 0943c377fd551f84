"""Digests of rows that do not depend on their order or on the files that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.lake.storage import Storage
from replay.arrow.ragged import Array

Row = dict[str, Any]
_STEP_ROWS = 10_000
_MODULO = 1 << 256


class RowSet:
    """Some rows of a table, as digests: 8 bytes for each row. total: sum of the SHA-256 of all rows modulo 2^256."""

    def __init__(self, batches: Iterable[list[Row]]) -> None:
        parts, self.total = [np.zeros(0, dtype=np.uint64)], 0
        for rows in batches:
            digests = [digest_of(row) for row in rows]
            self.total = (self.total + sum(int.from_bytes(d) for d in digests)) % _MODULO
            parts.append(np.array([int.from_bytes(d[:8]) for d in digests], dtype=np.uint64))
        self._ids, self._counts = np.unique(np.concatenate(parts), return_counts=True)
        self.count = int(self._counts.sum())

    @property
    def digest(self) -> str:
        """The rows' digest, hex."""
        return f"{self.total:064x}"

    def same_as(self, other: RowSet) -> bool:
        return (self.total, self.count) == (other.total, other.count)

    def without(self, other: RowSet) -> Array:
        """The first 8 bytes of the digests of rows that this set has more often than the other."""
        at = np.minimum(np.searchsorted(other._ids, self._ids), max(len(other._ids) - 1, 0))
        known = np.zeros(len(self._ids), dtype=np.int64)
        if len(other._ids):
            known = np.where(other._ids[at] == self._ids, other._counts[at], 0)
        missing: Array = self._ids[self._counts > known]
        return missing


def digest_of(row: Row) -> bytes:
    """SHA-256 of a row's values, in the order of its columns."""
    return sha256(repr(list(row.values())).encode("utf-8", "backslashreplace")).digest()


def rows_with(batches: Iterable[list[Row]], ids: Array, most: int) -> list[Row]:
    """The first `most` rows whose digest begins with one of `ids`."""
    wanted, found = set(ids.tolist()), []
    for rows in batches if wanted else ():
        found += [row for row in rows if int.from_bytes(digest_of(row)[:8]) in wanted]
        if len(found) >= most:
            break
    return found[:most]


def file_rows(storage: Storage, names: Iterable[str], columns: Sequence[str]) -> Iterator[list[Row]]:
    """Rows of Parquet files in small batches, with these columns; a column that a file lacks is null."""
    for name in names:
        with storage.open(name) as source:
            file = pq.ParquetFile(source)
            present = [column for column in columns if column in file.schema_arrow.names]
            for batch in file.iter_batches(_STEP_ROWS, columns=present, use_threads=False):
                rows = batch.to_pylist()
                yield rows if present == list(columns) else [{c: row.get(c) for c in columns} for row in rows]


def table_rows(parts: Iterable[pa.Table]) -> Iterator[list[Row]]:
    """Rows of tables in small batches."""
    for part in parts:
        for batch in part.to_batches(_STEP_ROWS):
            yield batch.to_pylist()
