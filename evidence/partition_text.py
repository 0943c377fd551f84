"""Compiled loops that write what `partition_kernel.parse` found: columns of lists, and Kafka's JSON form as text.

The text is what `evidence/decode.py` `to_json` gives for the same record, byte by byte.
"""

from __future__ import annotations

import numpy as np

from evidence.partition_kernel import (
    ADDING,
    AT,
    COUNT,
    DIRECTORIES,
    ELR,
    FULL,
    ISR,
    LAST_KNOWN_ELR,
    LEADER,
    LEADER_EPOCH,
    NO_LEADER,
    NO_RECOVERY,
    PARTITION,
    PARTITION_EPOCH,
    RECOVERY,
    REMOVING,
    REPLICAS,
    TOPIC_AT,
    Array,
    compiled,
    int32_at,
)


@compiled
def gather_int32(data: Array, at: Array, offsets: Array, out: Array) -> None:
    """The elements of one int32 list column. offsets: where each row's begin in `out`."""
    for i in range(len(at)):
        for k in range(offsets[i + 1] - offsets[i]):
            out[offsets[i] + k] = int32_at(data, at[i] + 4 * k)


@compiled
def gather_uuid(data: Array, at: Array, offsets: Array, letters: Array, out: Array) -> None:
    """UUIDs as text, 22 bytes each. at -1: the zero UUID."""
    for i in range(len(at)):
        for k in range(offsets[i + 1] - offsets[i]):
            _uuid(data, at[i] if at[i] < 0 else at[i] + 16 * k, letters, out, 22 * (offsets[i] + k))


@compiled
def _uuid(data: Array, at: int, letters: Array, out: Array, to: int) -> int:
    """URL-safe base64 of 16 bytes without padding; returns the position behind it."""
    if at < 0:
        out[to : to + 22] = letters[0]
        return to + 22
    for _ in range(5):
        a, b, c = np.int64(data[at]), np.int64(data[at + 1]), np.int64(data[at + 2])
        out[to] = letters[a >> 2]
        out[to + 1] = letters[((a & 3) << 4) | (b >> 4)]
        out[to + 2] = letters[((b & 15) << 2) | (c >> 6)]
        out[to + 3] = letters[c & 63]
        at += 3
        to += 4
    a = np.int64(data[at])
    out[to] = letters[a >> 2]
    out[to + 1] = letters[(a & 3) << 4]
    return to + 2


@compiled
def write_json(
    data: Array,
    kind: Array,
    fields: Array,
    lists: Array,
    letters: Array,
    names: Array,
    name_at: Array,
    out: Array,
    ends: Array,
) -> None:
    """Kafka's JSON form of every record, one behind the other. names: the field names with what stands before their
    values, name_at: where each begins (JSON_NAMES); ends: where each record's text ends in `out`."""
    to = 0
    for i in range(len(kind)):
        to = _name(names, name_at, 0, out, to)
        to = _number(fields[i, PARTITION], out, to)
        to = _name(names, name_at, 1, out, to)
        to = _uuid(data, fields[i, TOPIC_AT], letters, out, to)
        out[to] = 34
        to += 1
        if kind[i] == FULL:
            for which in (REPLICAS, ISR, REMOVING, ADDING):
                to = _numbers(data, which, i, lists, names, name_at, out, to)
            for field in (LEADER, LEADER_EPOCH, PARTITION_EPOCH):
                to = _name(names, name_at, 9 + field - LEADER, out, to)
                to = _number(fields[i, field], out, to)
            to = _uuids(data, i, lists, letters, names, name_at, out, to)
            if fields[i, RECOVERY] != 0:
                to = _name(names, name_at, 12, out, to)
                to = _number(fields[i, RECOVERY], out, to)
            for which in (ELR, LAST_KNOWN_ELR):
                to = _numbers(data, which, i, lists, names, name_at, out, to)
        else:
            to = _numbers(data, ISR, i, lists, names, name_at, out, to)
            if fields[i, LEADER] != NO_LEADER:
                to = _name(names, name_at, 9, out, to)
                to = _number(fields[i, LEADER], out, to)
            for which in (REPLICAS, REMOVING, ADDING):
                to = _numbers(data, which, i, lists, names, name_at, out, to)
            if fields[i, RECOVERY] != NO_RECOVERY:
                to = _name(names, name_at, 12, out, to)
                to = _number(fields[i, RECOVERY], out, to)
            for which in (ELR, LAST_KNOWN_ELR):
                to = _numbers(data, which, i, lists, names, name_at, out, to)
            to = _uuids(data, i, lists, letters, names, name_at, out, to)
        out[to] = 125
        to += 1
        ends[i] = to


# Field names of the JSON form: two for what every record has, then one for each list, then the scalars.
JSON_NAMES = (
    '{"partitionId":',
    ',"topicId":"',
    ',"replicas":[',
    ',"isr":[',
    ',"removingReplicas":[',
    ',"addingReplicas":[',
    ',"eligibleLeaderReplicas":[',
    ',"lastKnownElr":[',
    ',"directories":[',
    ',"leader":',
    ',"leaderEpoch":',
    ',"partitionEpoch":',
    ',"leaderRecoveryState":',
)
# No record's JSON form is longer than this and five bytes for each byte of the record: 4 bytes give at most 12
# characters of a number with its comma, 16 bytes give 25 of a UUID.
JSON_FIXED_BYTES = sum(map(len, JSON_NAMES)) + 120


@compiled
def _name(names: Array, name_at: Array, which: int, out: Array, to: int) -> int:
    for k in range(name_at[which], name_at[which + 1]):
        out[to] = names[k]
        to += 1
    return to


@compiled
def _number(value: int, out: Array, to: int) -> int:
    if value < 0:
        out[to] = 45
        to += 1
        value = -value
    digits = 1
    rest = value // 10
    while rest:
        digits += 1
        rest //= 10
    for k in range(digits - 1, -1, -1):
        out[to + k] = 48 + value % 10
        value //= 10
    return to + digits


@compiled
def _numbers(
    data: Array,
    which: int,
    i: int,
    lists: Array,
    names: Array,
    name_at: Array,
    out: Array,
    to: int,
) -> int:
    count = lists[i, which, COUNT]
    if count < 0:
        return to
    to = _name(names, name_at, 2 + which, out, to)
    for k in range(count):
        if k:
            out[to] = 44
            to += 1
        to = _number(int32_at(data, lists[i, which, AT] + 4 * k), out, to)
    out[to] = 93
    return to + 1


@compiled
def _uuids(
    data: Array,
    i: int,
    lists: Array,
    letters: Array,
    names: Array,
    name_at: Array,
    out: Array,
    to: int,
) -> int:
    count = lists[i, DIRECTORIES, COUNT]
    if count < 0:
        return to
    to = _name(names, name_at, 2 + DIRECTORIES, out, to)
    for k in range(count):
        if k:
            out[to] = 44
            to += 1
        out[to] = 34
        to = _uuid(data, lists[i, DIRECTORIES, AT] + 16 * k, letters, out, to + 1)
        out[to] = 34
        to += 1
    out[to] = 93
    return to + 1
