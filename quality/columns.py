"""Columns of Arrow tables as NumPy arrays, and keys of several columns as numbers that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = np.ndarray[Any, Any]
NULL = np.iinfo(np.int64).min
_MOST = 1 << 62  # key numbers stay below this
_NEAR = 1 << 31  # so far apart integers may be to be numbered by their distance


class Lists:
    """A column of lists of integers. members: a row for each list, padded with NULL; size: of each, 0 for null."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        lists = column.combine_chunks()
        self.size: Array = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        self.members: Array = np.full((len(lists), max(self.size, default=0)), NULL, dtype=np.int64)
        self.members[np.arange(self.members.shape[1]) < self.size[:, None]] = pc.list_flatten(lists).to_numpy()

    def has(self, values: Array) -> Array:
        """For each list, whether it has the value of its row."""
        found: Array = (self.members == values[:, None]).any(axis=1)
        return found

    def within(self, lists: Lists) -> Array:
        """For each list, whether the other list of its row has all its members."""
        return self._all(lambda members: (members == NULL) | lists.has(members))

    def apart_from(self, lists: Lists) -> Array:
        """For each list, whether the other list of its row has none of its members."""
        return self._all(lambda members: (members == NULL) | ~lists.has(members))

    def distinct(self) -> Array:
        """For each list, whether no member occurs twice."""
        return self._all(lambda members: (members == NULL) | ((self.members == members[:, None]).sum(axis=1) == 1))

    def _all(self, holds: Callable[[Array], Array]) -> Array:
        found = np.ones(len(self.size), dtype=bool)
        for members in self.members.T:
            found &= holds(members)
        return found


class Rows:
    """Rows of one table. Arrays have one element for each row."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._only: dict[tuple[str, ...], Rows] = {}

    def only(self, columns: Iterable[str]) -> Rows:
        """The rows with these columns of the table; the same object each time."""
        names = tuple(name for name in dict.fromkeys(columns) if name in self.table.column_names)
        if names not in self._only:
            self._only[names] = Rows(self.table.select(names))
        return self._only[names]

    def __len__(self) -> int:
        return len(self.table)

    def ints(self, name: str, null: int = NULL) -> Array:
        """int64 values of a column of integers or booleans; `null` where it is null."""
        column = self.table[name]
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        found: Array = pc.fill_null(column.cast(pa.int64()), null).to_numpy()
        return found

    def valid(self, name: str) -> Array:
        """Where the column is not null."""
        found: Array = pc.is_valid(self.table[name]).to_numpy()
        return found

    def true(self, name: str) -> Array:
        """Where a boolean column is true."""
        return self.ints(name, 0) == 1

    def in_set(self, name: str, values: Collection[str]) -> Array:
        """Where a column of strings has one of the values; false for null."""
        column = encoded(self.table[name])
        parts = [
            np.append(np.array([value in values for value in chunk.dictionary.to_pylist()], dtype=bool), False)[
                pc.fill_null(chunk.indices, len(chunk.dictionary)).to_numpy()
            ]
            for chunk in column.chunks
        ]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)

    def lists(self, name: str) -> Lists:
        return Lists(self.table[name])

    def columns(self, *names: str) -> list[pa.ChunkedArray]:
        """Columns, or fields of structs as dotted paths."""
        found = []
        for name in names:
            column, _, field = name.partition(".")
            found.append(pc.struct_field(self.table[column], field) if field else self.table[column])
        return found

    def where(self, mask: Array) -> Rows:
        return self if mask.all() else Rows(self.table.filter(pa.array(mask)))

    def sorted_by(self, numbers: Array, offset: Array) -> Rows:
        """The rows in the order of two arrays."""
        if _is_sorted(numbers, offset):
            return self
        order = np.lexsort((offset, numbers))
        return Rows(self.table.take(pa.array(order)))

    def exploded(self, name: str, keep: Sequence[str]) -> Rows:
        """A row for each element of a column of lists of structs: the struct's fields, and the columns `keep`."""
        lists = self.table[name].combine_chunks()
        parents, values = pc.list_parent_indices(lists), pc.list_flatten(lists)
        columns = {field.name: pc.struct_field(values, field.name) for field in lists.type.value_type}
        columns |= {f"of_{k}": pc.take(self.table[k].combine_chunks(), parents) for k in keep}
        return Rows(pa.table(columns))


Tables = Mapping[str, Rows]


def _is_sorted(first: Array, second: Array) -> bool:
    rises = first[1:] > first[:-1]
    return bool((rises | ((first[1:] == first[:-1]) & (second[1:] >= second[:-1]))).all())


def encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def numbers(*sides: Sequence[pa.ChunkedArray]) -> list[Array]:
    """For each side, a number for each of its rows: rows with equal values in all columns have equal numbers, whichever
    side they are on. Null equals null. All sides have the same number of columns."""
    lengths = [len(side[0]) for side in sides]
    result, count = np.zeros(sum(lengths), dtype=np.int64), 1
    for columns in zip(*sides, strict=True):
        codes, values = _codes(columns)
        if count * values >= _MOST:
            result, count = np.unique(result, return_inverse=True)[1], len(result)
        result, count = result * values + codes, count * values
    return np.split(result, np.cumsum(lengths)[:-1])


def places(rows: Rows, key: Sequence[str], others: Rows) -> Array:
    """For each row the number of the first of the other rows that has equal values in the key's columns; -1 if there is
    none."""
    own, found = numbers(rows.columns(*key), others.columns(*key))
    if not len(found):
        return np.full(len(own), -1, dtype=np.int64)
    order = np.argsort(found, kind="stable")
    at = order[np.minimum(np.searchsorted(found[order], own), len(order) - 1)]
    result: Array = np.where(found[at] == own, at, -1)
    return result


def _codes(columns: Sequence[pa.ChunkedArray]) -> tuple[Array, int]:
    """For the rows of several columns, one after the other, a number below the second result. Null has its own."""
    if pa.types.is_integer(columns[0].type):
        return _int_codes(
            pa.chunked_array([c for column in columns for c in column.cast(pa.int64()).chunks], pa.int64())
        )
    found = [encoded(column) for column in columns]
    chunks = [chunk for column in found for chunk in column.chunks]
    both = pa.chunked_array(chunks, found[0].type).unify_dictionaries().combine_chunks()
    null = len(both.dictionary)
    return pc.fill_null(both.indices, null).to_numpy().astype(np.int64), null + 1


def _int_codes(column: pa.ChunkedArray) -> tuple[Array, int]:
    """As `_codes`: the distance from the lowest number, unless the numbers are too far apart."""
    lowest, highest = (pc.min_max(column)[name].as_py() or 0 for name in ("min", "max"))
    values = pc.fill_null(column, lowest).to_numpy()
    if highest - lowest < _NEAR:
        codes, count = values - lowest, highest - lowest + 2
    else:
        distinct, codes = np.unique(values, return_inverse=True)
        count = len(distinct) + 1
    return (np.where(pc.is_valid(column).to_numpy(), codes, count - 1) if column.null_count else codes), count


def repeated(rows: Rows, key: Sequence[str]) -> Array:
    """Where an earlier row has the same key."""
    (number,) = numbers(rows.columns(*key))
    found = np.ones(len(rows), dtype=bool)
    found[np.unique(number, return_index=True)[1]] = False
    return found


def unknown(rows: Rows, key: Sequence[str], *known: tuple[Rows, Sequence[str]]) -> Array:
    """Where no row of the known tables has the same key."""
    own, *others = numbers(rows.columns(*key), *(table.columns(*names) for table, names in known))
    found: Array = pc.is_in(pa.array(own), pa.array(np.concatenate(others))).to_numpy(zero_copy_only=False)
    return ~found
