"""Compiled loops that write Kafka's JSON form of the rows that `partition_kernel.parse` found, and lines of `inspect`.

The text equals that of `to_json` in evidence/metadata_log/rows.py for the same record or row, byte for byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evidence.metadata_log.batch_kernel import Array, compiled, inlined
from evidence.metadata_log.partition_kernel import (
    ADDING,
    AT,
    BATCH_EPOCH,
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
    OFFSET,
    PARTITION,
    PARTITION_EPOCH,
    RECOVERY,
    REMOVING,
    REPLICAS,
    SLACK,
    TIMESTAMP,
    UUID_TEXT,
    VERSION,
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
# What stands between the values of a line of `inspect`; the type and version by kind of record.
LINE_PARTS = (
    b'{"offset":',
    b',"timestamp":',
    b',"leaderEpoch":',
    b',"data":',
    b"}\n",
    b',"type":"NO_OP_RECORD","version":',
    b',"type":"PARTITION_CHANGE_RECORD","version":',
    b',"type":"PARTITION_RECORD","version":',
)
_OFFSET_PART, _TIMESTAMP_PART, _EPOCH_PART, _DATA_PART, _LAST_PART, _TYPE_PART = range(6)
_PART_BYTES = 2 * SLACK
_PARTS = np.frombuffer(b"".join(part.ljust(_PART_BYTES) for part in LINE_PARTS), dtype=np.uint8)
_PART_LENGTHS = np.array([len(part) for part in LINE_PARTS], dtype=np.int64)
# At most: all parts but two of the types, and five numbers.
_LINE_BYTES = len(LINE_PARTS) * _PART_BYTES
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


def line_room(rows: int, text_bytes: int, end_bytes: int) -> int:
    """The most bytes that `rows` lines can take. text_bytes: of all their JSON; end_bytes: of `end` in write_lines."""
    return text_bytes + rows * (_LINE_BYTES + end_bytes) + SLACK


@compiled
def write_lines(
    rows: int,
    columns: Columns,
    text: Array,
    text_ends: Array,
    end: Array,
    end_bytes: int,
    lines: Array,
    line_ends: Array,
) -> None:
    """Write a line of `inspect` for each of the first `rows` rows to `lines`.

    text, text_ends: from write_json. end: what each line has between `data` and the position, `end_bytes` long and
    followed by SLACK bytes. line_ends: a 0, then the end of each line.
    """
    longs, ints, flags = columns.longs, columns.ints, columns.flags
    to = 0
    line_ends[0] = 0
    for i in range(rows):
        to = _number(longs[OFFSET, i], lines, _part(_OFFSET_PART, lines, to))
        to = _number(longs[TIMESTAMP, i], lines, _part(_TIMESTAMP_PART, lines, to))
        to = _number(ints[BATCH_EPOCH, i], lines, _part(_EPOCH_PART, lines, to))
        to = _number(flags[VERSION, i], lines, _part(_TYPE_PART + flags[KIND, i], lines, to))
        to = _part(_DATA_PART, lines, to)
        to = _copy_all(text, np.int64(text_ends[i]), np.int64(text_ends[i + 1]), lines, to)
        to = _copy_all(end, 0, end_bytes, lines, to)
        to = _part(_LAST_PART, lines, _number(longs[AT, i], lines, to))
        line_ends[i + 1] = to


@inlined
def _part(which: int, out: Array, to: int) -> Any:
    begin = which * _PART_BYTES
    return _copy_all(_PARTS, begin, begin + _PART_LENGTHS[which], out, to)


@inlined
def _copy_all(source: Array, begin: int, end: int, out: Array, to: int) -> Any:
    """Copy source[begin:end), in steps of SLACK bytes. Returns the position after it in `out`."""
    following = to + end - begin
    while begin < end:
        _copy(source, begin, out, to)
        begin += SLACK
        to += SLACK
    return following


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
