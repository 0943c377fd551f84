"""A compiled loop that writes Kafka's JSON form of the rows that `partition_kernel.parse` found.

The text equals that of `to_json` in evidence/metadata_log/rows.py for the same record, byte for byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evidence.metadata_log.batch_kernel import Array, compiled, inlined
from evidence.metadata_log.partition_kernel import (
    ADDING,
    CHANGE,
    DIRECTORIES,
    ELR,
    FILLED,
    FULL,
    ISR,
    KIND,
    LAST_KNOWN_ELR,
    LEADER,
    LEADER_EPOCH,
    LISTS,
    PARTITION,
    PARTITION_EPOCH,
    RECOVERY,
    REMOVING,
    REPLICAS,
    SLACK,
    UUID_TEXT,
    Columns,
)

# JSON names with the characters around them: first the fields, by number, then the two that begin each record.
JSON_NAMES = (
    b',"replicas":[',
    b',"isr":[',
    b',"removingReplicas":[',
    b',"addingReplicas":[',
    b',"eligibleLeaderReplicas":[',
    b',"lastKnownElr":[',
    b',"directories":[',
    b',"leader":',
    b',"leaderEpoch":',
    b',"partitionEpoch":',
    b',"leaderRecoveryState":',
    b'{"partitionId":',
    b',"topicId":"',
)
_PARTITION_NAME, _TOPIC_NAME = 11, 12
_NAMES = np.frombuffer(b"".join(name.ljust(SLACK) for name in JSON_NAMES), dtype=np.uint8)
_NAME_LENGTHS = np.array([len(name) for name in JSON_NAMES], dtype=np.int64)
# The order of the fields for each kind of record.
_ORDER = np.zeros((3, 11), dtype=np.int64)
_SCALARS = (LEADER, LEADER_EPOCH, PARTITION_EPOCH)
_ORDER[FULL] = (REPLICAS, ISR, REMOVING, ADDING, *_SCALARS, DIRECTORIES, RECOVERY, ELR, LAST_KNOWN_ELR)
_ORDER[CHANGE] = (ISR, LEADER, REPLICAS, REMOVING, ADDING, RECOVERY, ELR, LAST_KNOWN_ELR, DIRECTORIES, *_SCALARS[1:])
# Bytes of JSON for each byte of a record, at most: an empty list in a tagged field takes 3 bytes and gives 28.
_GROWTH = 10


def json_room(size: int) -> int:
    """The most bytes that the JSON of records of `size` bytes can take."""
    return size * _GROWTH + len(_NAMES)


@compiled
def write_json(rows: int, columns: Columns, text: Array, text_ends: Array) -> None:
    """Write the JSON of the first `rows` rows to `text`, without separators. text_ends: a 0, then the end of each row's
    text."""
    _, ints, flags, given, ends, numbers, topics, directories, _ = columns
    topics, directories = topics.view(np.uint8), directories.view(np.uint8)
    to = 0
    text_ends[0] = 0
    for i in range(rows):
        kind, bits = flags[KIND, i], np.int64(given[i])
        if kind == 0:
            text[to] = 123
        else:
            to = _number(ints[PARTITION, i], text, _name(_PARTITION_NAME, text, to))
            to = _name(_TOPIC_NAME, text, to)
            _copy(topics, i * UUID_TEXT, text, to)
            to += UUID_TEXT
            text[to] = 34
        to += 1
        for place in range(_ORDER.shape[1] if bits else 0):
            field = _ORDER[kind, place]
            if not (bits >> field) & 1:
                continue
            to = _name(field, text, to)
            if field >= LISTS:
                to = _number(ints[field - LISTS, i], text, to)
                continue
            first = np.int64(ends[field, i])
            end = np.int64(ends[field, i + 1])
            if field < DIRECTORIES:
                for k in range(first, end):
                    to = _number(numbers[field, k], text, to)
                    text[to] = 44
                    to += 1
            else:
                end = first if bits & FILLED else end
                for k in range(first, end):
                    text[to] = 34
                    _copy(directories, k * UUID_TEXT, text, to + 1)
                    text[to + 1 + UUID_TEXT], text[to + 2 + UUID_TEXT] = 34, 44
                    to += 3 + UUID_TEXT
            to -= end > first
            text[to] = 93
            to += 1
        text[to] = 125
        to += 1
        text_ends[i + 1] = to


@inlined
def _copy(source: Array, at: int, out: Array, to: int) -> None:
    """Copy SLACK bytes; the caller advances by as many as it needs."""
    u, v = np.uint64(at), np.uint64(to)
    for k in range(SLACK):
        out[v + np.uint64(k)] = source[u + np.uint64(k)]


@inlined
def _name(which: int, out: Array, to: int) -> Any:
    _copy(_NAMES, which * SLACK, out, to)
    return to + _NAME_LENGTHS[which]


@inlined
def _number(number: int, out: Array, to: int) -> Any:
    value = np.int64(number)
    if value < 0:
        out[to] = 45
        to += 1
        value = -value
    rest = np.uint64(value)
    digits, limit = 1, np.uint64(10)
    while rest >= limit:
        digits += 1
        limit *= np.uint64(10)
    for k in range(to + digits - 1, to, -1):
        tenth = rest // np.uint64(10)
        out[np.uint64(k)] = np.uint64(48) + rest - tenth * np.uint64(10)
        rest = tenth
    out[np.uint64(to)] = np.uint64(48) + rest
    return to + digits
