"""Find the changes that all rules treat alike, so that one prediction serves them all.

Rules compare broker ids, and put the members of an ELR in the order of Java's hash set; nothing else about an id
counts. So two changes are of one kind if they are equal once the brokers of each are numbered by their places in its
own replica lists, and the ids hash in the same order. The same holds for directories.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from replay.arrow.ragged import PAD, Array
from replay.arrow.runs import run_starts
from replay.arrow.sets import resize, same, size
from replay.cluster.broker_events import Nearest
from replay.controller.partition_change_builder import MOST_IN_LEAST_BUCKETS, UNASSIGNED, hash_buckets
from replay.controller.transitions import Bucket

# Places of a broker or a directory: in no list of them; an empty field; none (leader -1, UNASSIGNED); the first place.
_STRANGER, _EMPTY, _NONE, _FIRST = range(4)
_LISTS = ("isr", "elr", "last_known_elr", "removing_replicas", "adding_replicas")
_NO_BROKER = -1
_MOST_CODES = 1 << 62


@dataclass(frozen=True, slots=True)
class Alike:
    """Changes by kind. kind: the number of each change's kind. first: the first change of each kind, ascending.
    brokers: each change's replicas before and after it (a matrix)."""

    kind: Array
    first: Array
    brokers: Array

    def renamed(self, ids: Array, changes: Array) -> Array:
        """Broker ids, as the first change of a kind has them, in terms of other changes of that kind.

        ids: one row (an id or a list) per element of `changes`, which are numbers of changes.
        """
        result = ids.copy()
        models = self.first[self.kind[changes]]
        for model, own in zip(self.brokers[models].T, self.brokers[changes].T, strict=True):
            shape = (-1, *[1] * (ids.ndim - 1))
            hit = (ids == model.reshape(shape)) & (ids != PAD)
            np.copyto(result, own.reshape(shape), where=hit)
        return result


def alike(bucket: Bucket, rows: Array, events: tuple[Nearest, Nearest]) -> Alike:
    """The kinds of some changes.

    rows: from Bucket.changed_rows. events: the nearest broker records after and before each change.
    """
    lists, offset = bucket.states.lists, bucket.offset[rows]
    before, after = lists.at("replicas", rows - 1), lists.at("replicas", rows)
    moved = ~same(before, after)
    brokers = np.concatenate([before.T, after.T]).T if moved.any() else before
    (state, is_strange), codes = _states(bucket), _Codes(len(rows))
    codes.add(state[rows - 1])
    codes.add(state[rows])
    if moved.any():
        codes.add_matrix(_places(after, before, _NO_BROKER))
    for event in events:
        codes.add_values(event.kind_number)
        codes.add_matrix(_places(event.broker[:, None], brokers, _NO_BROKER))
    for value in _environment(bucket, rows):
        codes.add_values(value)
    known = bucket.availability.states(before, offset)
    held = resize(bucket.directory_codes_at(rows - 1), before.shape[1])
    codes.add_matrix(bucket.availability.acceptable(before, held, known))
    codes.add(((known < 0) & (before != PAD)).any(axis=1))
    for directories in _directories(bucket, rows, np.flatnonzero(moved)):
        codes.add_matrix(directories)
    codes.add_matrix(_hash_ranks(brokers))
    strangers = is_strange[rows - 1] | is_strange[rows] | bucket.again(rows)
    # A change that names a broker from outside its replica lists is of a kind of its own; so is the second of a batch.
    codes.add(np.where(strangers, np.cumsum(strangers), 0))
    return Alike(*codes.kinds(), brokers)


def _states(bucket: Bucket) -> tuple[Array, Array]:
    """(a number for each state of the bucket, equal where leader and lists have the same places among the state's own
    replicas; whether they name a broker that is none of these, or more than the least hash set holds)."""
    states, lists = bucket.states, bucket.states.lists
    codes, strangers = _Codes(len(states.key)), states.isr_size + size(lists["elr"]) > MOST_IN_LEAST_BUCKETS
    codes.add(states.recovering)
    for ids in (states.replicas, states.leader[:, None], *(lists[name] for name in _LISTS)):
        if (ids != PAD).any():
            places = _places(ids, states.replicas, _NO_BROKER)
            codes.add_matrix(places)
            strangers |= (places == _STRANGER).any(axis=1)
    return _numbered(codes.numbers)[0], strangers


class _Codes:
    """One number for each row: equal where all columns added so far are equal."""

    def __init__(self, count: int) -> None:
        self.numbers, self.most = np.zeros(count, dtype=np.int64), 1

    def add(self, column: Array) -> None:
        """column: bool, or integers from 0 on."""
        count = int(column.max(initial=0)) + 1
        if count == 1:
            return
        if self.most * count > _MOST_CODES:
            self.numbers, self.most = _numbered(self.numbers)
        self.numbers *= count
        self.numbers += column
        self.most *= count

    def add_matrix(self, matrix: Array) -> None:
        for column in matrix.T:
            self.add(column)

    def add_values(self, values: Array) -> None:
        """values: bool or integers."""
        self.add(values if values.dtype == bool else _numbered(values)[0])

    def kinds(self) -> tuple[Array, Array]:
        """(the kind of each row, numbered in the order of their first rows; these first rows)."""
        kind, _ = _numbered(self.numbers)
        return kind, np.flatnonzero(run_starts(np.maximum.accumulate(kind)))


def _numbered(values: Array) -> tuple[Array, int]:
    """(for each value the number of distinct values that come before its first occurrence, how many are distinct)."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def _places(ids: Array, among: Array, none: int) -> Array:
    """The first place of each id among those of its row. ids, among: matrices; none: the id that stands for none."""
    result = np.full(ids.shape[::-1], _STRANGER, dtype=np.int16).T
    for j in reversed(range(among.shape[1])):
        np.copyto(result, _FIRST + j, where=ids == among[:, j, None])
    np.copyto(result, _NONE, where=ids == none)
    np.copyto(result, _EMPTY, where=ids == PAD)
    return result


def _environment(bucket: Bucket, rows: Array) -> list[Array]:
    """What the rules read besides brokers and directories, bool or integers: one array per input."""
    states, configs, offset = bucket.states, bucket.configs(rows), bucket.offset[rows]
    return [
        states.leader_epoch[rows] - states.leader_epoch[rows - 1],
        *(configs.min_isr, configs.min_isr_known, configs.unclean, configs.unclean_known),
        *bucket.features(offset).values(),
        *(bucket.profiles.may_be(name, offset) for name in bucket.profiles.names),
    ]


def _directories(bucket: Bucket, rows: Array, moved: Array) -> list[Array]:
    """Places of the directories before and after each change, and of those that its new replicas would get.

    moved: the changes with other replicas than before.
    """
    lists, before, after = bucket.states.lists, bucket.directory_codes_at(rows - 1), bucket.directory_codes_at(rows)
    if not len(moved) and same(before, after).all():
        return [_places(before, before, UNASSIGNED)]
    replicas, own = lists.at("replicas", rows[moved]), (lists.at("replicas", rows[moved] - 1), before[moved])
    placed = np.full(lists["replicas"].shape[::-1], PAD)[:, : len(rows)].T
    placed[moved] = bucket.availability.placed(replicas, own, bucket.offset[rows[moved]])
    among = np.concatenate([before.T, after.T, placed.T]).T
    return [_places(ids, among, UNASSIGNED) for ids in (before, after, placed)]


def _hash_ranks(brokers: Array) -> Array:
    """How many of its row's brokers come before each one in a Java hash set with few members."""
    buckets = hash_buckets(brokers)
    result = np.zeros(brokers.shape[::-1], dtype=np.int16).T
    for column in buckets.T:
        result += column[:, None] < buckets
    return result
