"""Operations on many ordered sets at once: int64 matrices with one list per row, padded with PAD (`ragged.to_matrix`).

They loop over columns, since lists are short and there are many. A result may be one of the arguments: never write to
it.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import TypeVar

import numpy as np

from replay.arrow.ragged import PAD, Array

Some = TypeVar("Some")


def size(lists: Array) -> Array:
    """The number of members of each list."""
    return (lists != PAD).sum(axis=1)


def is_empty(lists: Array) -> Array:
    """True for each list without members."""
    return lists[:, 0] == PAD


def empty(lists: Array) -> Array:
    """Empty lists in a matrix of the same shape."""
    return np.full_like(lists, PAD)


def is_in(members: Array, lists: Array) -> Array:
    """True for each member that the other list of its row contains; false for PAD."""
    found = np.zeros_like(members, dtype=bool)
    for j in range(lists.shape[1]):
        found |= members == lists[:, j, None]
    found &= members != PAD
    return found


def all_within(members: Array, lists: Array) -> Array:
    """True where the other list of a row contains all members."""
    return np.asarray((is_in(members, lists) | (members == PAD)).all(axis=1))


def has(lists: Array, member: Array) -> Array:
    """True for each list that contains its row's member; false for a PAD member."""
    return (lists == member[:, None]).any(axis=1) & (member != PAD)


def keep(lists: Array, mask: Array) -> Array:
    """The members where the mask is true, in order."""
    mask = mask & (lists != PAD)
    kept = np.full_like(lists, PAD)
    place = np.zeros(len(lists), dtype=np.int64)
    for before, j in enumerate(np.flatnonzero(mask.any(axis=0)).tolist()):
        for k in range(before + 1):
            np.copyto(kept[:, k], lists[:, j], where=mask[:, j] & (place == k))
        place += mask[:, j]
    return kept


def without(lists: Array, others: Array) -> Array:
    """The members that the other list does not contain."""
    return keep(lists, ~is_in(lists, others))


def join(lists: Array, others: Array) -> Array:
    """Each list followed by the members of the other one that it lacks."""
    both = np.concatenate([lists, without(others, lists)], axis=1)
    return keep(both, both != PAD)


def first(lists: Array, mask: Array) -> Array:
    """Each list's first member where the mask is true; an arbitrary value if it is true nowhere."""
    found: Array = lists[:, -1]
    for j in reversed(range(lists.shape[1] - 1)):
        found = np.where(mask[:, j], lists[:, j], found)
    return found


def trim(lists: Array) -> Array:
    """Drop the columns that no list needs."""
    return lists[:, : max(int((lists != PAD).any(axis=0).sum()), 1)]


def fit(lists: Array, width: int) -> Array:
    """The lists in a matrix of at least that many columns."""
    if lists.shape[1] >= width:
        return lists
    wide = np.full((len(lists), width), PAD, dtype=lists.dtype, order="F")
    wide[:, : lists.shape[1]] = lists
    return wide


def resize(lists: Array, width: int) -> Array:
    """The lists in a matrix of exactly that many columns; further members are dropped."""
    return fit(lists, width)[:, :width]


def where(condition: Array, lists: Array, others: Array) -> Array:
    """Each list, or value, from `lists` where the condition is true, else from `others`."""
    if lists.ndim == 1:
        return np.where(condition, lists, others)
    width = max(lists.shape[1], others.shape[1])
    return np.where(condition[:, None], fit(lists, width), fit(others, width))


def same(lists: Array, others: Array) -> Array:
    """True where both lists of a row have the same members in the same order."""
    width = max(lists.shape[1], others.shape[1])
    return (fit(lists, width) == fit(others, width)).all(axis=1)


def same_set(lists: Array, others: Array) -> Array:
    """True where both lists of a row have the same members in any order."""
    return same(np.sort(lists, axis=1)[:, ::-1], np.sort(others, axis=1)[:, ::-1])


def take(values: Some, rows: Array) -> Some:
    """Take elements by number from an array, or from a dataclass of arrays, whose other fields stay as they are."""
    if isinstance(values, np.ndarray):
        return values[rows]  # type: ignore[return-value]
    columns = {f.name: getattr(values, f.name) for f in fields(values)}  # type: ignore[arg-type]
    return type(values)(**{n: v[rows] if isinstance(v, np.ndarray) else v for n, v in columns.items()})


def joined(pieces: Sequence[Some]) -> Some:
    """Join arrays (matrices become as wide as the widest), or dataclasses and dictionaries of arrays; at least one."""
    one = pieces[0]
    if len(pieces) == 1:
        return one
    if isinstance(one, np.ndarray):
        width = max(piece.shape[-1] for piece in pieces)  # type: ignore[attr-defined]
        return np.concatenate([fit(p, width) if one.ndim > 1 else p for p in pieces])  # type: ignore
    if isinstance(one, dict):
        return {name: joined([piece[name] for piece in pieces]) for name in one}  # type: ignore
    return type(one)(**{f.name: joined([getattr(piece, f.name) for piece in pieces]) for f in fields(one)})  # type: ignore
