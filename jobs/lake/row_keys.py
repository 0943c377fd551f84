"""Which rows of a table are new: told by a key of several columns, nulls included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_MOST = 1 << 62  # numbers of keys stay below


def new_rows(rows: pa.Table, known: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows whose key is not in `known`, of several with one key the first. Null equals null, as of `<=>` in SQL.

    Columns of the key may be dictionary-encoded in `rows`, where a column of files' names has few values.
    """
    numbers = np.zeros(len(known) + len(rows), dtype=np.int64)
    count = 1
    for name in key:
        codes, values = _codes(known[name], rows[name])
        if count * values >= _MOST:
            numbers, count = np.unique(numbers, return_inverse=True)[1], len(numbers)
        numbers, count = numbers * values + codes, count * values
    first = np.zeros(len(numbers), dtype=bool)
    first[np.unique(numbers, return_index=True)[1]] = True
    return rows.filter(pa.array(first[len(known) :]))


def _codes(known: pa.ChunkedArray, rows: pa.ChunkedArray) -> tuple[NDArray[np.int64], int]:
    """A number for each value of the two below each other, equal for equal ones, and how many numbers there are."""
    chunks = [chunk for column in (known, rows) for chunk in _encoded(column).chunks]
    both = pa.chunked_array(chunks, _encoded(rows).type).unify_dictionaries().combine_chunks()
    if isinstance(both, pa.ChunkedArray):  # without a chunk there is nothing to combine
        return np.zeros(0, dtype=np.int64), 1
    null = len(both.dictionary)
    return both.indices.fill_null(null).to_numpy().astype(np.int64), null + 1


def _encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
