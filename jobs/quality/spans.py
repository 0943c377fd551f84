"""Spans of a column's values with about as many rows each, by what commits say of the files' values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from jobs.lake.data_files import DataFile
from quality.columns import NULL, Array


@dataclass(frozen=True, slots=True)
class Span:
    """The values from `low` up to, but without, `high`; None: no bound. Null counts as the least value."""

    low: int | None = None
    high: int | None = None

    @property
    def is_all(self) -> bool:
        return self.low is None and self.high is None

    def has(self, values: Array) -> Array:
        """Which values are in the span. values: int64; null is quality.columns.NULL."""
        found: Array = values >= (NULL if self.low is None else self.low)
        return found if self.high is None else found & (values < self.high)

    def may_be_in(self, file: DataFile) -> bool:
        """Whether a file may have such values. Any file may have nulls."""
        if self.low is None or file.lowest is None:
            return True
        return bool(file.highest >= self.low and (self.high is None or file.lowest < self.high))


def spans(files: Sequence[DataFile], count: int) -> list[Span]:
    """At most `count` spans, which have all values together, with equally many rows if each file's values are evenly
    spread. One span if the values are no integers."""
    known = [file for file in files if isinstance(file.lowest, int)]
    if count < 2 or not known:
        return [Span()]
    low, high, rows = (
        np.array([getattr(file, name) for file in known], dtype=np.int64) for name in ("lowest", "highest", "rows")
    )
    points = np.unique(np.append(low, high + 1))
    before = (rows * np.clip((points[:, None] - low) / (high + 1 - low), 0, 1)).sum(axis=1)
    cuts = np.interp(before[-1] * np.arange(1, count) / count, before, points)
    edges = [None, *np.unique(np.ceil(cuts).astype(np.int64)).tolist(), None]
    return [Span(a, b) for a, b in pairwise(edges)]
