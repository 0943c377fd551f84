"""The batches of a cluster's log as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import pyarrow as pa

from replay.arrow.ragged import Array
from replay.cluster.branches import Holders

Row = dict[str, Any]
_AT_ONCE = 4096


class LogBatches(Sequence[Row]):
    """Rows of log_batches. A row is made when it is asked for. table: with epoch, base_offset, last_offset, crc, nodes
    and what else is asked for."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self._columns: dict[str, Array] = {}

    @classmethod
    def of(cls, rows: Sequence[Row]) -> LogBatches:
        return rows if isinstance(rows, LogBatches) else cls(pa.Table.from_pylist(list(rows)))

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, where: int, /) -> Row: ...

    @overload
    def __getitem__(self, where: slice, /) -> list[Row]: ...

    def __getitem__(self, where: int | slice, /) -> Row | list[Row]:
        if isinstance(where, slice):
            return [self[row] for row in range(*where.indices(len(self)))]
        rows: list[Row] = self.table.slice(range(len(self))[where], 1).to_pylist()
        return rows[0]

    def __iter__(self) -> Iterator[Row]:
        for first in range(0, len(self), _AT_ONCE):
            yield from self.table.slice(first, _AT_ONCE).to_pylist()

    def column(self, name: str) -> Array:
        """A column of whole numbers as int64; of booleans, of which null is False, as such."""
        if name not in self._columns:
            values = self.table[name] if len(self) else pa.chunked_array([], pa.int64())
            values = values.fill_null(False) if pa.types.is_boolean(values.type) else values.cast(pa.int64())
            self._columns[name] = values.to_numpy()
        return self._columns[name]

    @cached_property
    def holders(self) -> Holders:
        return Holders.of_column(self.table["nodes"])
