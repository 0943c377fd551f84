"""Collect rows of tables.LOG_END_OFFSETS as Arrow, file by file.

A value takes about 70 bytes, whatever the length of its file's path, digest and capture name, and no Python object
outlives its file.
"""

from collections.abc import Iterable
from itertools import accumulate

import numpy as np
import pyarrow as pa

from evidence import tables
from evidence.tables import Row

TEXT = pa.dictionary(pa.int32(), pa.string())
# tables.LOG_END_OFFSETS with each string dictionary-encoded: `cast(tables.LOG_END_OFFSETS)` gives the plain table.
ENCODED = pa.schema([f.with_type(TEXT) if f.type == pa.string() else f for f in tables.LOG_END_OFFSETS])
_CHUNK_ROWS = 100_000


class OffsetColumns:
    """Takes rows in order and converts them to chunks of about chunk_rows rows."""

    def __init__(self, chunk_rows: int = _CHUNK_ROWS) -> None:
        self.chunk_rows = chunk_rows
        self._rows: list[Row] = []
        self._pieces: list[tuple[Row, pa.RecordBatch]] = []
        self._pending = 0  # rows in _pieces
        self._chunks: list[pa.RecordBatch] = []

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Add rows with any of the columns; missing columns are null."""
        for row in rows:
            self._rows.append(row)
            if len(self._rows) >= self.chunk_rows:
                self._end_rows()

    def add_columns(self, constants: Row, values: pa.RecordBatch) -> None:
        """Add rows that have the columns of `values` (types of ENCODED) and, in each row, the same `constants`."""
        self._end_rows()
        if len(values):
            self._add(constants, values)

    def table(self) -> pa.Table:
        """All rows, as ENCODED."""
        self._end_rows()
        self._end_chunk()
        return pa.Table.from_batches(self._chunks, schema=ENCODED)

    def _end_rows(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._add({}, pa.RecordBatch.from_pylist(rows, schema=ENCODED))

    def _add(self, constants: Row, values: pa.RecordBatch) -> None:
        self._pieces.append((constants, values))
        self._pending += len(values)
        if self._pending >= self.chunk_rows:
            self._end_chunk()

    def _end_chunk(self) -> None:
        pieces, self._pieces, self._pending = self._pieces, [], 0
        if pieces:
            self._chunks.append(_concatenated(pieces))


def _concatenated(pieces: list[tuple[Row, pa.RecordBatch]]) -> pa.RecordBatch:
    """The pieces, one after the other, as ENCODED."""
    heads = pa.RecordBatch.from_pylist([constants for constants, _ in pieces], schema=ENCODED)
    counts = [len(values) for _, values in pieces]
    repeated = heads.take(pa.array(np.repeat(np.arange(len(pieces)), counts)))
    spans = list(zip(accumulate(counts, initial=0), counts, strict=False))
    given = [dict(zip(values.schema.names, values.columns, strict=True)) for _, values in pieces]
    columns = []
    nothing = pa.nulls(len(repeated), pa.int64()).buffers()
    for field in ENCODED:
        column = repeated[field.name]
        if any(field.name in piece for piece in given):
            by_piece = zip(given, spans, strict=True)
            column = pa.concat_arrays([p[field.name] if field.name in p else column.slice(*s) for p, s in by_piece])
        columns.append(column if column.null_count < len(column) else _nulls(field.type, len(column), nothing))
    return pa.RecordBatch.from_arrays(columns, schema=ENCODED)


def _nulls(dtype: pa.DataType, count: int, buffers: list[pa.Buffer]) -> pa.Array:
    """Nulls of a type. buffers: those of `count` int64 nulls, which columns of at most 8 bytes may share."""
    if dtype == TEXT:
        return pa.DictionaryArray.from_arrays(_nulls(pa.int32(), count, buffers), pa.array([], type=pa.string()))
    if pa.types.is_list(dtype):
        return pa.nulls(count, dtype)
    return pa.Array.from_buffers(dtype, count, buffers, null_count=count)
