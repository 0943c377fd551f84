"""Compiled loops over the bytes of uncompressed batches: where every record lies, and what partition records say.

Only what is beyond doubt is read here: PartitionRecord and PartitionChangeRecord, versions 0 to 2, with known tagged
fields in ascending order and nothing unusual about them. Everything else is left to evidence/records.py, which is the
reference. Sources: as there; the field layout is that of evidence/schemas/metadata_records.json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

Array = np.ndarray[Any, Any]

# What a record turned out to be.
LEFT, FULL, CHANGE = 0, 1, 2

# Lists of a partition record: the second index of `lists`; the third is where in the bytes a list's elements begin (AT)
# and how many they are (COUNT, -1 for null).
REPLICAS, ISR, REMOVING, ADDING, ELR, LAST_KNOWN_ELR, DIRECTORIES = range(7)
LISTS = 7
AT, COUNT = 0, 1
# Columns of `fields`.
VERSION, TIMESTAMP_DELTA, PARTITION, TOPIC_AT, LEADER, LEADER_EPOCH, PARTITION_EPOCH, RECOVERY = range(8)
FIELDS = 8
NO_LEADER, NO_RECOVERY = -2, -1

_BAD = -1


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled on first use, and kept on disk where there is a place for it."""
    try:
        result: Callable[..., Any] = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:
        result = numba.njit(nogil=True)(function)
    return result


@compiled
def _uvarint(data: Array, at: int, end: int, max_bytes: int) -> Any:
    """(value, position behind it); position _BAD when it ends early or is too long."""
    value = np.int64(0)
    shift = 0
    for _ in range(max_bytes):
        if at >= end:
            return 0, _BAD
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, _BAD


@compiled
def _varint(data: Array, at: int, end: int, max_bytes: int) -> Any:
    """As `_uvarint`, of a zigzag varint."""
    value, at = _uvarint(data, at, end, max_bytes)
    return (value >> 1) ^ -(value & 1), at


@compiled
def int32_at(data: Array, at: int) -> Any:
    value = (
        (np.int64(data[at]) << 24)
        | (np.int64(data[at + 1]) << 16)
        | (np.int64(data[at + 2]) << 8)
        | np.int64(data[at + 3])
    )
    return value - ((value & 0x80000000) << 1)


@compiled
def walk(
    data: Array, start: Array, end: Array, count: Array, first: Array, value_at: Array, value_end: Array, at: Array
) -> None:
    """Find every record of whole batches. start, end: bytes of each batch's records; count: how many; first: number of
    its first record in the outputs: at (its length prefix), value_at and value_end (what the prefix promises).

    A batch whose framing is not plain gets -1 in `first`.
    """
    for b in range(len(start)):
        position, index = start[b], first[b]
        for _ in range(count[b]):
            length, body = _varint(data, position, end[b], 5)
            plain = body != _BAD and length >= 1 and body + length <= end[b]
            # Kafka's writer needs no byte that says nothing.
            if not plain or (body - position > 1 and data[body - 1] == 0):
                first[b] = -1
                break
            at[index], value_at[index], value_end[index] = position, body, body + length
            position = body + length
            index += 1
        if position != end[b]:
            first[b] = -1


@compiled
def parse(data: Array, begin: Array, stop: Array, number: Array, kind: Array, fields: Array, lists: Array) -> None:
    """Read the records data[begin:stop). number: of each in its batch. Outputs, a row a record: kind (LEFT, FULL or
    CHANGE), fields (int64), list_at and list_count (bytes where a list's elements begin, and how many they are)."""
    for i in range(len(begin)):
        kind[i] = LEFT
        end = stop[i]
        delta, at = _varint(data, begin[i] + 1, end, 9)
        if at == _BAD:
            continue
        offset_delta, at = _varint(data, at, end, 5)
        if at == _BAD or offset_delta != number[i]:
            continue
        key, at = _varint(data, at, end, 5)
        if at == _BAD or key >= 0:
            continue
        size, at = _varint(data, at, end, 5)
        if at == _BAD or size < 0 or at + size > end:
            continue
        headers, behind = _varint(data, at + size, end, 5)
        if behind != end or headers != 0:
            continue
        end = at + size
        frame, at = _uvarint(data, at, end, 5)
        if at == _BAD or frame != 1:
            continue
        api_key, at = _uvarint(data, at, end, 5)
        if at == _BAD or (api_key != 3 and api_key != 5):
            continue
        version, at = _uvarint(data, at, end, 5)
        if at == _BAD or version > 2 or at + 20 > end:
            continue
        fields[i, VERSION] = version
        fields[i, TIMESTAMP_DELTA] = delta
        fields[i, PARTITION] = int32_at(data, at)
        fields[i, TOPIC_AT] = at + 4
        fields[i, LEADER] = NO_LEADER
        fields[i, RECOVERY] = NO_RECOVERY
        lists[i, :, COUNT] = -1
        at += 20
        if api_key == 3:
            at = _plain_fields(data, at, end, version, i, fields, lists)
        if at != _BAD:
            at = _tagged(data, at, end, api_key == 3, version, i, fields, lists)
        if at == end:
            kind[i] = FULL if api_key == 3 else CHANGE


@compiled
def _list(data: Array, at: int, end: int, width: int, i: int, which: int, lists: Array) -> int:
    """Note where a compact array of `width`-byte elements lies; returns the position behind it."""
    size, at = _uvarint(data, at, end, 5)
    if at == _BAD:
        return _BAD
    lists[i, which, AT], lists[i, which, COUNT] = at, size - 1
    if size <= 1:
        return at
    at += (size - 1) * width
    return at if at <= end else _BAD


@compiled
def _plain_fields(data: Array, at: int, end: int, version: int, i: int, fields: Array, lists: Array) -> int:
    """The fields of a PartitionRecord behind its topic id."""
    for which in (REPLICAS, ISR, REMOVING, ADDING):
        at = _list(data, at, end, 4, i, which, lists)
        if at == _BAD or lists[i, which, COUNT] < 0:
            return _BAD
    if at + 12 > end:
        return _BAD
    fields[i, LEADER] = int32_at(data, at)
    fields[i, LEADER_EPOCH] = int32_at(data, at + 4)
    fields[i, PARTITION_EPOCH] = int32_at(data, at + 8)
    fields[i, RECOVERY] = 0
    at += 12
    if version >= 1:
        at = _list(data, at, end, 16, i, DIRECTORIES, lists)
        if at == _BAD or lists[i, DIRECTORIES, COUNT] < 0:
            return _BAD
    return at


@compiled
def _tagged(data: Array, at: int, end: int, full: bool, version: int, i: int, fields: Array, lists: Array) -> int:
    """The tagged fields: all of them known to the version, each once, in ascending order."""
    count, at = _uvarint(data, at, end, 5)
    last = np.int64(-1)
    for _ in range(count):
        if at == _BAD:
            return _BAD
        tag, at = _uvarint(data, at, end, 5)
        if at == _BAD or tag <= last:
            return _BAD
        last = tag
        size, at = _uvarint(data, at, end, 5)
        if at == _BAD or at + size > end:
            return _BAD
        stop = at + size
        which = _which(tag, full, version)
        if which == RECOVERY_TAG:
            if size != 1:
                return _BAD
            value = np.int64(data[at])
            fields[i, RECOVERY] = value - ((value & 0x80) << 1)
        elif which == LEADER_TAG:
            if size != 4:
                return _BAD
            fields[i, LEADER] = int32_at(data, at)
        elif which == UNKNOWN_TAG or _list(data, at, stop, 16 if which == DIRECTORIES else 4, i, which, lists) != stop:
            return _BAD
        at = stop
    return at


RECOVERY_TAG, LEADER_TAG, UNKNOWN_TAG = 100, 101, 102


@compiled
def _which(tag: int, full: bool, version: int) -> int:
    """What a tag means: a list's column, or one of the three above."""
    if full:
        if tag == 0:
            return RECOVERY_TAG
        if version == 2 and tag == 1:
            return ELR
        return LAST_KNOWN_ELR if version == 2 and tag == 2 else UNKNOWN_TAG
    if tag == 0:
        return ISR
    if tag == 1:
        return LEADER_TAG
    if tag == 2:
        return REPLICAS
    if tag == 3:
        return REMOVING
    if tag == 4:
        return ADDING
    if tag == 5:
        return RECOVERY_TAG
    if version == 2 and tag == 6:
        return ELR
    if version == 2 and tag == 7:
        return LAST_KNOWN_ELR
    return DIRECTORIES if version >= 1 and tag == 8 else UNKNOWN_TAG
