"""Lists as ordered sets, many at once: int64 matrices with a row a list, filled up with PAD (`lists.to_matrix`)."""

from __future__ import annotations

import numpy as np

from replay.lists import PAD, Array


def size(lists: Array) -> Array:
    """How many members each list has."""
    count: Array = (lists != PAD).sum(axis=1)
    return count


def empty(lists: Array) -> Array:
    """As many lists without members."""
    return np.full_like(lists, PAD)


def column(values: Array) -> Array:
    """Lists of one member each."""
    return values[:, None]


def is_in(members: Array, lists: Array) -> Array:
    """For each member of each list whether the other list has it; false where there is no member."""
    found: Array = (members[:, :, None] == lists[:, None, :]).any(axis=2) & (members != PAD)
    return found


def has(lists: Array, member: Array) -> Array:
    """Whether each list has the member beside it."""
    found: Array = (lists == member[:, None]).any(axis=1) & (member != PAD)
    return found


def keep(lists: Array, mask: Array) -> Array:
    """The members that the mask has, in order."""
    mask = mask & (lists != PAD)
    order = np.argsort(~mask, axis=1, kind="stable")
    kept: Array = np.take_along_axis(np.where(mask, lists, PAD), order, axis=1)
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
    found: Array = np.take_along_axis(lists, np.argmax(mask, axis=1)[:, None], axis=1)[:, 0]
    return found


def fit(lists: Array, width: int) -> Array:
    """The lists in a matrix of that many columns, or of as many as they have."""
    return np.pad(lists, ((0, 0), (0, max(0, width - lists.shape[1]))), constant_values=PAD)


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
