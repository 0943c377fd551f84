"""Lists as ordered sets, many at once: int64 matrices with a row a list, filled up with PAD (`lists.to_matrix`).

Column by column, since lists are short and there are many. What is returned may be an argument itself: do not write
into it.
"""

from __future__ import annotations

import numpy as np

from replay.arrow.ragged import PAD, Array


def size(lists: Array) -> Array:
    """How many members each list has."""
    count: Array = (lists != PAD).sum(axis=1)
    return count


def is_empty(lists: Array) -> Array:
    """Whether each list has no member."""
    found: Array = lists[:, 0] == PAD
    return found


def empty(lists: Array) -> Array:
    """As many lists without members."""
    return np.full_like(lists, PAD)


def column(values: Array) -> Array:
    """Lists of one member each."""
    return values[:, None]


def is_in(members: Array, lists: Array) -> Array:
    """For each member of each list whether the other list has it; false where there is no member."""
    found = np.zeros_like(members, dtype=bool)
    for j in range(lists.shape[1]):
        found |= members == lists[:, j, None]
    found &= members != PAD
    return found


def within(members: Array, lists: Array) -> Array:
    """As `is_in`, but true where there is no member."""
    found: Array = is_in(members, lists) | (members == PAD)
    return found


def has(lists: Array, member: Array) -> Array:
    """Whether each list has the member beside it."""
    found: Array = (lists == member[:, None]).any(axis=1) & (member != PAD)
    return found


def keep(lists: Array, mask: Array) -> Array:
    """The members that the mask has, in order."""
    mask = mask & (lists != PAD)
    kept = np.full_like(lists, PAD)
    place = np.zeros(len(lists), dtype=np.int64)
    for j in range(lists.shape[1]):
        for k in range(j + 1):
            np.copyto(kept[:, k], lists[:, j], where=mask[:, j] & (place == k))
        place += mask[:, j]
    return kept


def without(lists: Array, others: Array) -> Array:
    """The members that the other list does not have."""
    return keep(lists, ~is_in(lists, others))


def join(lists: Array, others: Array) -> Array:
    """Each list with the members of the other one that it lacks behind its own."""
    both = np.concatenate([lists, without(others, lists)], axis=1)
    return keep(both, both != PAD)


def first(lists: Array, mask: Array) -> Array:
    """The first member that the mask has of each list; anything where it has none."""
    found: Array = lists[:, -1]
    for j in reversed(range(lists.shape[1] - 1)):
        found = np.where(mask[:, j], lists[:, j], found)
    return found


def trim(lists: Array) -> Array:
    """Without the columns that no list needs."""
    return lists[:, : max(int((lists != PAD).any(axis=0).sum()), 1)]


def fit(lists: Array, width: int) -> Array:
    """The lists in a matrix of that many columns, or of as many as they have."""
    if lists.shape[1] >= width:
        return lists
    wide = np.full((len(lists), width), PAD, dtype=lists.dtype, order="F")
    wide[:, : lists.shape[1]] = lists
    return wide


def resize(lists: Array, width: int) -> Array:
    """The lists in a matrix of exactly that many columns; what stands behind them is left out."""
    return fit(lists, width)[:, :width]


def where(condition: Array, lists: Array, others: Array) -> Array:
    """Each list from the one or the other matrix."""
    width = max(lists.shape[1], others.shape[1])
    return np.where(condition[:, None], fit(lists, width), fit(others, width))


def same(lists: Array, others: Array) -> Array:
    """Whether each list has the same members in the same order as the one beside it."""
    width = max(lists.shape[1], others.shape[1])
    equal: Array = (fit(lists, width) == fit(others, width)).all(axis=1)
    return equal


def same_set(lists: Array, others: Array) -> Array:
    """Whether each list has the same members as the one beside it."""
    return same(np.sort(lists, axis=1)[:, ::-1], np.sort(others, axis=1)[:, ::-1])
