"""Ragged integer lists (replicas, ISR, ELR) in NumPy: padded matrices."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

INT64_MAX = int(np.iinfo(np.int64).max)
PAD = np.iinfo(np.int64).min

Array = np.ndarray[Any, Any]
Row = dict[str, Any]


def to_matrix(column: pa.Array) -> Array:
    """int64 matrix (rows x longest list), padded with PAD; a null list becomes an empty one.

    Column-major, as code that loops over columns wants it.
    """
    column = whole(column)
    lengths = to_lengths(column)
    begins = np.cumsum(lengths) - lengths
    columns = np.full((max(int(lengths.max(initial=0)), 1), len(column)), PAD, dtype=np.int64)
    values = pc.list_flatten(column).to_numpy(zero_copy_only=False)
    for j in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > j)
        columns[j, rows] = values[begins[rows] + j]
    return columns.T


def as_lists(matrix: Array) -> pa.Array:
    """Convert a matrix from `to_matrix` back to a list<int32> array."""
    mask = matrix != PAD
    return ragged(mask, pa.array(matrix[mask], type=pa.int32()))


def ragged(mask: Array, values: pa.Array) -> pa.Array:
    """One list per row of the mask (bool); each takes as many of the values, in order, as its row has true cells."""
    offsets = np.append(0, np.cumsum(mask.sum(axis=1))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def grouped(number: Array, values: pa.Array, count: int) -> pa.Array:
    """`count` lists of the values. number: the list that each value belongs to; the order within a list is kept."""
    order = np.argsort(number, kind="stable")
    begins = np.searchsorted(number[order], np.arange(count + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(begins), values.take(pa.array(order)))


def members_of(row: Array) -> list[int]:
    """The members of one row of a matrix."""
    return [int(member) for member in row if member != PAD]


def to_lengths(column: pa.Array) -> Array:
    """int64 length of every list; 0 for null."""
    lengths: Array = pc.fill_null(pc.list_value_length(whole(column)), 0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def bools(column: pa.Array | pa.ChunkedArray) -> Array:
    """The booleans of a column; null is false."""
    values: Array = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return values.astype(bool)


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array with all of the column's values."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    # combine_chunks copies, even a single chunk.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def sort_order(*keys: Array) -> Array:
    """The stable order by several integer keys, the first one first. As np.lexsort, but keys that are in order, or fit
    16 bits, take little time."""
    order = np.arange(len(keys[0]))
    for number, key in enumerate(reversed(keys)):
        values = key.take(order) if number else key
        if (values[1:] >= values[:-1]).all():
            continue
        lowest = values.min()
        if values.max() - lowest < 1 << 16:
            values = (values - lowest).astype(np.uint16)
        order = order.take(np.argsort(values, kind="stable"))
    return order
