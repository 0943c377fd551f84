"""Runs of rows: where a sorted key changes, the nearest row with a mark, and many ranges of row numbers at once."""

from __future__ import annotations

import numpy as np

from replay.arrow.ragged import PAD, Array


def run_starts(*keys: Array) -> Array:
    """True for the first row, and for each row in which a key differs from the row before."""
    found = np.ones(len(keys[0]), dtype=bool)
    if len(found):
        found[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return found


def last_true(mask: Array) -> Array:
    """int64: for each row the last row up to it in which the mask is true; -1 if there is none."""
    found: Array = np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))
    return found


def last_true_before(mask: Array) -> Array:
    """As `last_true`, without the row itself."""
    return np.append(-1, last_true(mask))[: len(mask)]


def next_true(mask: Array) -> Array:
    """int64: for each row the first row from it on in which the mask is true; the number of rows if there is none."""
    found: Array = np.minimum.accumulate(np.where(mask, np.arange(len(mask)), len(mask))[::-1])[::-1]
    return found


def ranges(first: Array, count: Array) -> tuple[Array, Array]:
    """(i, row) for each row of each range first[i], ..., first[i] + count[i] - 1, as two arrays."""
    which = np.repeat(np.arange(len(count)), count)
    return which, first[which] + np.arange(len(which)) - (np.cumsum(count) - count)[which]


def highest_so_far(group: Array, value: Array) -> Array:
    """For each row the highest value of its group up to it; int64. group: ascending; value: int64, of any size."""
    # Ranks instead of values, so that a group's number and any 64-bit value fit one sortable number.
    distinct, rank = np.unique(value, return_inverse=True)
    base = np.cumsum(run_starts(group)) * len(distinct)
    found: Array = distinct[np.maximum.accumulate(base + rank) - base]
    return found


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
