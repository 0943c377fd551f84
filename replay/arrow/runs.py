"""Rows by key; sorted rows: where a key changes, the nearest row with a mark, many ranges of row numbers at once, and a
group's last event at or before an offset."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from replay.arrow.ragged import PAD, Array

T = TypeVar("T")


def groups(rows: Iterable[T], key: Callable[[T], Any]) -> dict[Any, list[T]]:
    """The rows by key, in order."""
    found: dict[Any, list[T]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def run_starts(*keys: Array) -> Array:
    """True for the first row, and for each row in which a key differs from the row before."""
    found = np.ones(len(keys[0]), dtype=bool)
    if len(found):
        found[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return found


def last_true(mask: Array) -> Array:
    """int64: for each row the last row up to it in which the mask is true; -1 if there is none."""
    return np.append(-1, np.flatnonzero(mask)).take(np.cumsum(mask))


def last_true_before(mask: Array) -> Array:
    """As `last_true`, without the row itself."""
    return np.append(-1, last_true(mask))[: len(mask)]


def next_true(mask: Array) -> Array:
    """int64: for each row the first row from it on in which the mask is true; the number of rows if there is none."""
    return np.append(np.flatnonzero(mask), len(mask)).take(np.cumsum(mask) - mask)


def ranges(first: Array, count: Array) -> tuple[Array, Array]:
    """(i, row) for each row of each range first[i], ..., first[i] + count[i] - 1, as two arrays."""
    which = np.repeat(np.arange(len(count)), count)
    return which, first[which] + np.arange(len(which)) - (np.cumsum(count) - count)[which]


def highest_so_far(group: Array, value: Array) -> Array:
    """For each row the highest value of its group up to it; int64. group: ascending; value: int64, of any size."""
    # Ranks instead of values, so that a group's number and any 64-bit value fit one sortable number.
    distinct, rank = np.unique(value, return_inverse=True)
    base = np.cumsum(run_starts(group)) * len(distinct)
    return distinct[np.maximum.accumulate(base + rank) - base]


def highest_before(known: tuple[Array, Array, Array], group: Array, at: Array) -> Array:
    """For each place the highest value of its group that is known from before it; PAD if there is none.

    known: (group, at, value), int64 and in any order. group, at: of the places.
    """
    count = len(known[0])
    groups, times = np.concatenate([known[0], group]), np.concatenate([known[1], at])
    # What is known from the very same time is not from before, so places come first.
    order = np.lexsort((np.arange(len(groups)) < count, times, groups))
    values = np.concatenate([known[2], np.full(len(group), PAD)])[order]
    highest = np.empty(len(order), dtype=np.int64)
    highest[order] = highest_so_far(groups[order], values)
    return highest[count:]


def place_in_run(*keys: Array) -> Array:
    """int64: how many rows of its run come before each row."""
    return np.arange(len(keys[0])) - last_true(run_starts(*keys))


def places(among: Array, values: Array) -> Array:
    """How many of some ascending integers are below each value. Looked up in a table if that has fewer numbers than
    there are values: searching takes ten times as long."""
    if not len(among) or among[0] < 0 or among[-1] >= values.size:
        return np.searchsorted(among, values)
    below = np.append(0, np.cumsum(np.bincount(among)))
    return below[np.clip(values, 0, len(below) - 1)]


class Events:
    """Events of groups, sorted by (group, offset); group and offset are int64 arrays of one length.

    Offsets are replaced by their rank, so that a group and any 64-bit offset fit one sortable number.
    """

    def __init__(self, group: Array, offset: Array) -> None:
        order = np.lexsort((offset, group))
        self.order = order
        self.group, self.offset = group[order], offset[order]
        self._ranks = np.unique(offset)
        self._width = len(self._ranks) + 1
        self._keys = self.group * self._width + np.searchsorted(self._ranks, self.offset)

    def up_to(self, group: Array, offset: Array, inclusive: bool = True) -> Array:
        """How many events come before (group, offset) in the whole order; inclusive also counts that place itself."""
        rank = np.searchsorted(self._ranks, offset, side="right" if inclusive else "left")
        return places(self._keys, group * self._width + rank)

    def last(self, group: Array, offset: Array) -> Array:
        """The input index of the group's last event at or before each offset; -1 if there is none.

        group, offset: of any shapes that NumPy broadcasts to one, e.g. a matrix of groups and a column of offsets.
        """
        if not len(self.order):
            return np.full(np.broadcast_shapes(group.shape, offset.shape), -1)
        at = self.up_to(group, offset) - 1
        found = (at >= 0) & (self.group[np.maximum(at, 0)] == group)
        return np.where(found, self.order[np.maximum(at, 0)], -1)

    def between(self, group: Array, after: Array, before: Array) -> tuple[Array, Array]:
        """(i, input index) of every event of group[i] with after[i] < offset < before[i], as two arrays."""
        low = self.up_to(group, after)
        count = np.maximum(self.up_to(group, before, inclusive=False) - low, 0)
        which, at = ranges(low, count)
        return which, self.order[at]
