"""Compare the rows of two tables by a key of several columns, nulls included."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from replay.arrow.ragged import Array

_MOST = 1 << 62  # key numbers stay below this


def new_rows(rows: pa.Table, known: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows whose key is not in `known`; of rows with the same key, the first. Null equals null, like `<=>` in SQL.

    Key columns of `rows` may be dictionary-encoded, such as file names, which have few distinct values.
    """
    numbers = _numbers(rows, known, key)
    first = np.zeros(len(numbers), dtype=bool)
    first[np.unique(numbers, return_index=True)[1]] = True
    return rows.filter(pa.array(first[len(known) :]))


def matches(rows: pa.Table, known: pa.Table, key: Sequence[str]) -> Array:
    """int64: for each row the number of a row of `known` with the same key, -1 if there is none."""
    numbers = _numbers(rows, known, key)
    own, others = pa.array(numbers[len(known) :]), pa.array(numbers[: len(known)])
    return pc.index_in(own, others).fill_null(-1).to_numpy().astype(np.int64)


def _numbers(rows: pa.Table, known: pa.Table, key: Sequence[str]) -> Array:
    """A number for each row of `known`, then of `rows`: equal keys have equal numbers."""
    numbers = np.zeros(len(known) + len(rows), dtype=np.int64)
    count = 1
    for name in key:
        codes, values = _codes(known[name], rows[name])
        if count * values >= _MOST:
            numbers, count = np.unique(numbers, return_inverse=True)[1], len(numbers)
        numbers, count = numbers * values + codes, count * values
    return numbers


def _codes(known: pa.ChunkedArray, rows: pa.ChunkedArray) -> tuple[NDArray[np.int64], int]:
    """A code for each value of `known`, then `rows` (equal values have equal codes), and the number of codes."""
    columns = [_encoded(column) for column in (known, rows)]
    chunks = [chunk for column in columns for chunk in column.chunks]
    both = pa.chunked_array(chunks, columns[1].type).unify_dictionaries().combine_chunks()
    null = len(both.dictionary)
    return both.indices.fill_null(null).to_numpy().astype(np.int64), null + 1


def _encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with dictionaries. One that had none gets a single chunk: to unify the dictionaries of many chunks,
    Arrow goes through all values of each."""
    if pa.types.is_dictionary(column.type):
        return column
    return pa.chunked_array([column.dictionary_encode().combine_chunks()])
