"""As-of joins on NumPy arrays: the last event of a group at or before an offset."""

from __future__ import annotations

import numpy as np

from replay.arrow.ragged import Array
from replay.arrow.runs import ranges


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
        count: Array = np.searchsorted(self._keys, group * self._width + rank, side="left")
        return count

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
