"""The list columns of a history as matrices, shared by everything that looks at its states."""

from __future__ import annotations

import pyarrow as pa

from replay.arrow.ragged import Array, to_matrix


class Lists:
    """The lists of broker ids of a schemas.PARTITION_HISTORY, by column name: int64 matrices with one row per state
    (`ragged.to_matrix`), each made when first asked for. Never write to one."""

    def __init__(self, history: pa.Table) -> None:
        self._history = history
        self._made: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._made:
            self._made[name] = to_matrix(self._history[name])
        return self._made[name]

    def at(self, name: str, rows: Array) -> Array:
        """The lists of some states."""
        taken: Array = self[name].T.take(rows, axis=1).T
        return taken
