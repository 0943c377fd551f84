"""Rows of tables.LOG_END_OFFSETS as Arrow, put together file by file: a value costs some 70 bytes, whatever its file's
path, digest and name of the capture are, and no Python object outlives its file."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from evidence import tables

Row = dict[str, Any]

TEXT = pa.dictionary(pa.int32(), pa.string())
# tables.LOG_END_OFFSETS with every text dictionary-encoded: `cast(tables.LOG_END_OFFSETS)` gives the plain table.
ENCODED = pa.schema([f.with_type(TEXT) if f.type == pa.string() else f for f in tables.LOG_END_OFFSETS])
_CHUNK_ROWS = 100_000


class OffsetColumns:
    """Takes rows in their order and lays them down in chunks of about chunk_rows."""

    def __init__(self, chunk_rows: int = _CHUNK_ROWS) -> None:
        self.chunk_rows = chunk_rows
        self._rows: list[Row] = []
        self._pieces: list[tuple[Row, pa.RecordBatch]] = []
        self._pending = 0  # their rows
        self._chunks: list[pa.RecordBatch] = []

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Rows with any of the columns; what a row lacks is null."""
        for row in rows:
            self._rows.append(row)
            if len(self._rows) >= self.chunk_rows:
                self._end_rows()

    def add_columns(self, same: Row, said: pa.RecordBatch) -> None:
        """Rows that differ in the columns of `said` (types of ENCODED) and are the same in those of `same`."""
        self._end_rows()
        if len(said):
            self._add(same, said)

    def table(self) -> pa.Table:
        """All rows, as ENCODED."""
        self._end_rows()
        self._end_chunk()
        return pa.Table.from_batches(self._chunks, schema=ENCODED)

    def _end_rows(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._add({}, pa.RecordBatch.from_pylist(rows, schema=ENCODED))

    def _add(self, same: Row, said: pa.RecordBatch) -> None:
        self._pieces.append((same, said))
        self._pending += len(said)
        if self._pending >= self.chunk_rows:
            self._end_chunk()

    def _end_chunk(self) -> None:
        pieces, self._pieces, self._pending = self._pieces, [], 0
        if pieces:
            self._chunks.append(_laid_down(pieces))


def _laid_down(pieces: list[tuple[Row, pa.RecordBatch]]) -> pa.RecordBatch:
    """The pieces below each other, as ENCODED."""
    heads = pa.RecordBatch.from_pylist([same for same, _ in pieces], schema=ENCODED)
    counts = [len(said) for _, said in pieces]
    same = heads.take(pa.array(np.repeat(np.arange(len(pieces)), counts)))
    spans = list(zip(accumulate(counts, initial=0), counts, strict=False))
    said = [dict(zip(piece.schema.names, piece.columns, strict=True)) for _, piece in pieces]
    columns = []
    nothing = pa.nulls(len(same), pa.int64()).buffers()
    for field in ENCODED:
        column = same[field.name]
        if any(field.name in piece for piece in said):
            parts = zip(said, spans, strict=True)
            column = pa.concat_arrays([p[field.name] if field.name in p else column.slice(*s) for p, s in parts])
        columns.append(column if column.null_count < len(column) else _nulls(field.type, len(column), nothing))
    return pa.RecordBatch.from_arrays(columns, schema=ENCODED)


def _nulls(dtype: pa.DataType, count: int, buffers: list[pa.Buffer]) -> pa.Array:
    """Nulls of a type of at most 8 bytes. buffers: of `count` int64 nulls; many columns may share them."""
    if dtype == TEXT:
        return pa.DictionaryArray.from_arrays(_nulls(pa.int32(), count, buffers), pa.array([], type=pa.string()))
    return pa.Array.from_buffers(dtype, count, buffers, null_count=count)
