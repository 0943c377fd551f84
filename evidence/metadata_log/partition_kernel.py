"""Compiled loops over uncompressed batches: over their heads, with the checks of evidence.wire.batches.read_head but
for the CRC, many times as fast for small batches; over their records, partition records straight into column buffers.

Of records they read only what is beyond doubt: PartitionRecord and PartitionChangeRecord, versions 0 to 2, with known
tagged fields in ascending order and nothing unusual, and NoOpRecord. Everything else is left to
evidence/wire/records.py, the reference. Sources: Kafka's DefaultRecordBatch, and as there; the field layout is that of
evidence/wire/schemas/metadata_records.json. Each read is checked against the end of its container.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
import pyarrow as pa

from evidence.limits import MAX_INT64, MAX_TIME_MS

Array = np.ndarray[Any, Any]

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

# Columns of a table of heads; times in ms, sizes in bytes.
POSITION, SIZE, BASE_OFFSET, EPOCH, CRC, BASE_TIMESTAMP, COUNT = range(7)
HEAD_FIELDS = 7

_HEAD_BYTES = 61
_MIN_LENGTH = 49
_LEAST_RECORD_BYTES = 7
# A sum of a base timestamp and a delta that are both below this is a time that is accepted.
SAFE_TIME = (MAX_TIME_MS + 1) // 2
# Compression (0-2), timestamp type (3) and control (5) bits of the attributes.
_UNUSUAL = 0x2F


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile the function on first use (about ten seconds) and cache it on disk if that is possible."""
    try:
        result: Callable[..., Any] = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        result = numba.njit(**_OPTIONS)(function)
    return result


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Inline the function into compiled functions of the same file. numba's cache is only invalidated when that file
    changes, not when a file that it imports from does."""
    return numba.njit(forceinline=True, **_OPTIONS)(function)


@inlined
def _big(data: Array, at: int, size: int) -> Any:
    """The signed big-endian integer of `size` bytes at `at`."""
    value = np.int64(data[at])
    value -= (value & 0x80) << 1
    for k in range(1, size):
        value = (value << 8) | np.int64(data[at + k])
    return value


@compiled
def find_heads(data: Array, position: int, end: int, max_records: int, max_bytes: int, out: Array) -> Any:
    """Read the heads of batches that begin in data[position:end) into `out`, until it is full or max_records or
    max_bytes are reached. Returns (number of heads, the position after the last batch). Stops before a batch that is
    unusual or has more than max_bytes, and before anything that evidence.wire.batches.read_head would reject, but for
    its CRC."""
    begin, records = position, 0
    for i in range(len(out)):
        left = len(data) - position
        if position >= end or records >= max_records or position - begin >= max_bytes or left < _HEAD_BYTES:
            return i, position
        base, length, epoch = _big(data, position, 8), _big(data, position + 8, 4), _big(data, position + 12, 4)
        crc, attributes = _big(data, position + 17, 4) & 0xFFFFFFFF, _big(data, position + 21, 2)
        delta, timestamp = _big(data, position + 23, 4), _big(data, position + 27, 8)
        count = _big(data, position + 57, 4)
        size = length + 12
        if data[position + 16] != 2 or length < _MIN_LENGTH or size > min(left, max_bytes):
            return i, position
        if base < 0 or delta < 0 or base >= MAX_INT64 - delta or epoch < 0 or count != delta + 1:
            return i, position
        if attributes & _UNUSUAL or count > (size - _HEAD_BYTES) // _LEAST_RECORD_BYTES:
            return i, position
        latest = _big(data, position + 35, 8)
        if latest > MAX_TIME_MS or latest < -MAX_TIME_MS or timestamp >= SAFE_TIME or timestamp <= -SAFE_TIME:
            return i, position
        out[i, POSITION], out[i, SIZE], out[i, BASE_OFFSET], out[i, EPOCH] = position, size, base, epoch
        out[i, CRC], out[i, BASE_TIMESTAMP], out[i, COUNT] = crc, timestamp, count
        position += size
        records += count
    return len(out), position


# The kind of a record.
NO_OP, CHANGE, FULL = 0, 1, 2
TYPES = pa.array(["NO_OP_RECORD", "PARTITION_CHANGE_RECORD", "PARTITION_RECORD"])
# The fields of a partition record that may be missing. All but the last four are lists: rows of Columns.ends and,
# except DIRECTORIES, of Columns.numbers.
REPLICAS, ISR, REMOVING, ADDING, ELR, LAST_KNOWN_ELR, DIRECTORIES, LEADER, LEADER_EPOCH, PARTITION_EPOCH, RECOVERY = (
    range(11)
)
LISTS, FIELDS = 7, 11
# Rows of Columns.ints, after one for each of the last four fields; of Columns.longs; of Columns.flags, after one for
# each field that is 1 if the field is not null.
PARTITION, BATCH_EPOCH, INTS = 4, 5, 6
OFFSET, TIMESTAMP, FIRST_OFFSET, BATCH_CRC, AT = range(5)
CHANGE_VALID, KIND, VERSION = range(FIELDS, FIELDS + 3)
FLAGS = FIELDS + 3
# Columns of Columns.left: the number of the head, the number of the record (-1: the whole batch), the positions of the
# record's length prefix, its body and the next record.
LEFT_FIELDS = 5
UUID_TEXT = 22

_BAD = -1
_NO_LEADER, _NO_RECOVERY = -2, -1
# The fields of one record before it is accepted: for a list the position of its elements, else the value; then for each
# field the number of elements or 0, _BAD if the field is missing; then the rest.
_COUNTS = FIELDS
_PARTITION, _TOPIC_AT, _KIND, _VERSION, _DELTA, _FOUND = range(2 * FIELDS, 2 * FIELDS + 6)


class Columns(NamedTuple):
    """Buffers of a table of records. The last index is the row, except for elements of lists: those of a row end at
    ends[list, row + 1] in numbers[list] or, for DIRECTORIES, in directories. UUIDs are UUID_TEXT bytes of text."""

    longs: Array
    ints: Array
    flags: Array
    ends: Array
    numbers: Array
    topics: Array
    directories: Array
    left: Array


def columns(rows: int, size: int) -> Columns:
    """Room for `rows` records of `size` bytes in all. Pages that are not written cost no memory."""
    return Columns(
        longs=np.empty((5, rows), dtype=np.int64),
        ints=np.empty((INTS, rows), dtype=np.int32),
        flags=np.empty((FLAGS, rows), dtype=np.uint8),
        ends=np.zeros((LISTS, rows + 1), dtype=np.int32),
        numbers=np.empty((DIRECTORIES, size // 4 + 1), dtype=np.int32),
        topics=np.empty(rows * _PAIRS, dtype=np.uint16),
        directories=np.empty(size // 4 * _PAIRS, dtype=np.uint16),
        left=np.empty((rows, LEFT_FIELDS), dtype=np.int64),
    )


# Two letters of URL-safe base64 for each 12 bits.
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_LETTERS = np.frombuffer(b"".join(bytes((a, b)) for a in _ALPHABET for b in _ALPHABET), dtype=np.uint16)
_PAIRS = UUID_TEXT // 2


@inlined
def _uvarint(data: Array, at: int, end: int, max_bytes: int) -> Any:
    """(value, position after it); position _BAD if it ends early or is too long."""
    value = np.int64(0)
    shift = 0
    for _ in range(max_bytes):
        if at >= end:
            return np.int64(0), _BAD
        byte = np.int64(data[np.uint64(at)])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return np.int64(0), _BAD


@inlined
def _varint(data: Array, at: int, end: int, max_bytes: int) -> Any:
    """As `_uvarint`, for a zigzag varint."""
    value, at = _uvarint(data, at, end, max_bytes)
    return (value >> 1) ^ -(value & 1), at


@inlined
def _int32(data: Array, at: int) -> Any:
    u = np.uint64(at)
    high = (np.uint32(data[u]) << np.uint32(24)) | (np.uint32(data[u + np.uint64(1)]) << np.uint32(16))
    low = (np.uint32(data[u + np.uint64(2)]) << np.uint32(8)) | np.uint32(data[u + np.uint64(3)])
    return np.int32(high | low)


@inlined
def _is_framed(data: Array, at: int, end: int, count: int) -> bool:
    """Whether data[at:end) is exactly `count` records, with length prefixes as Kafka's writer writes them."""
    for _ in range(count):
        length, body = _varint(data, at, end, 5)
        if body == _BAD or length < 1 or body + length > end or (body - at > 1 and data[body - 1] == 0):
            return False
        at = body + length
    return at == end


@compiled
def parse(data: Array, heads: Array, columns: Columns) -> Any:
    """Read the records of the batches `heads` (of find_heads) into the columns, which have room for
    them. Returns (rows written, records left)."""
    longs, ints, flags, ends, numbers, topics, directories, left = columns
    i, lefts = 0, 0
    found = np.zeros(_FOUND, dtype=np.int64)
    for h in range(len(heads)):
        at, end = heads[h, POSITION] + _HEAD_BYTES, heads[h, POSITION] + heads[h, SIZE]
        if not _is_framed(data, at, end, heads[h, COUNT]):
            left[lefts, 0], left[lefts, 1] = h, -1
            lefts += 1
            continue
        for number in range(heads[h, COUNT]):
            length, body = _varint(data, at, end, 5)
            stop = body + length
            if not _is_plain(data, body, stop, number, found):
                left[lefts, 0], left[lefts, 1], left[lefts, 2] = h, number, at
                left[lefts, 3], left[lefts, 4] = body, stop
                lefts += 1
            else:
                longs[OFFSET, i], longs[FIRST_OFFSET, i] = heads[h, BASE_OFFSET] + number, heads[h, BASE_OFFSET]
                longs[TIMESTAMP, i], longs[BATCH_CRC, i] = heads[h, BASE_TIMESTAMP] + found[_DELTA], heads[h, CRC]
                longs[AT, i] = at
                kind = found[_KIND]
                flags[KIND, i], flags[VERSION, i], flags[CHANGE_VALID, i] = kind, found[_VERSION], kind != NO_OP
                ints[BATCH_EPOCH, i], ints[PARTITION, i] = heads[h, EPOCH], found[_PARTITION]
                _uuid(data, found[_TOPIC_AT], topics, i)
                for field in range(FIELDS):
                    flags[field, i] = found[_COUNTS + field] >= 0 or kind == FULL
                for field in range(LEADER, FIELDS):
                    ints[field - LISTS, i] = found[field]
                for field in range(DIRECTORIES):
                    to = ends[field, i]
                    for k in range(found[_COUNTS + field]):
                        numbers[field, to] = _int32(data, found[field] + 4 * k)
                        to += 1
                    ends[field, i + 1] = to
                to = ends[DIRECTORIES, i]
                for k in range(found[_COUNTS + DIRECTORIES]):
                    _uuid(data, found[DIRECTORIES] + 16 * k, directories, to)
                    to += 1
                if kind == FULL and found[_COUNTS + DIRECTORIES] < 0:
                    # They mean MIGRATING, the zero UUID (see rows.partition_change).
                    for _ in range(found[_COUNTS + REPLICAS]):
                        _uuid(data, _BAD, directories, to)
                        to += 1
                ends[DIRECTORIES, i + 1] = to
                i += 1
            at = stop
    return i, lefts


@inlined
def _is_plain(data: Array, at: int, end: int, number: int, found: Array) -> bool:
    """Whether data[at:end), a record without its length prefix, is one that this module reads; its fields are put in
    `found`. number: its number in the batch."""
    found[_DELTA], at = _varint(data, at + 1, end, 9)
    if at == _BAD or found[_DELTA] >= SAFE_TIME or found[_DELTA] <= -SAFE_TIME:
        return False
    offset_delta, at = _varint(data, at, end, 5)
    if at == _BAD or offset_delta != number:
        return False
    key_length, at = _varint(data, at, end, 5)
    if at == _BAD or key_length >= 0:
        return False
    size, at = _varint(data, at, end, 5)
    if at == _BAD or size < 0 or at + size > end:
        return False
    headers, following = _varint(data, at + size, end, 5)
    if following != end or headers != 0:
        return False
    end = at + size
    frame, at = _uvarint(data, at, end, 5)
    if at == _BAD or frame != 1:
        return False
    key, at = _uvarint(data, at, end, 5)
    if at == _BAD:
        return False
    version, at = _uvarint(data, at, end, 5)
    if at == _BAD or version > 2:
        return False
    found[_VERSION] = version
    found[_COUNTS : _COUNTS + FIELDS] = _BAD
    if key == 20 and version == 0:
        found[_KIND], found[_PARTITION], found[_TOPIC_AT] = NO_OP, 0, _BAD
        tags, at = _uvarint(data, at, end, 5)
        return tags == 0 and at == end
    if (key != 3 and key != 5) or at + 20 > end:
        return False
    found[_KIND], found[_PARTITION], found[_TOPIC_AT] = FULL if key == 3 else CHANGE, _int32(data, at), at + 4
    at += 20
    if key == 3:
        found[RECOVERY], found[_COUNTS + RECOVERY] = 0, 0
        at = _plain_fields(data, at, end, version, found)
    if at != _BAD:
        at = _tagged(data, at, end, key == 3, version, found)
    if key == 3:
        # Columns show an empty list as one that is missing: such a record keeps its text (record_text.py).
        if found[_COUNTS + ELR] == 0 or found[_COUNTS + LAST_KNOWN_ELR] == 0:
            return False
        if found[_COUNTS + DIRECTORIES] == 0 and found[_COUNTS + REPLICAS] > 0:
            return False
    return at == end


@inlined
def _plain_fields(data: Array, at: int, end: int, version: int, found: Array) -> Any:
    """Read the fields of a PartitionRecord after its topic id. Returns the position after them, or _BAD."""
    for which in range(ADDING + 1):
        at = _list(data, at, end, which, found)
        if found[_COUNTS + which] < 0:
            return _BAD
    if at + 12 > end:
        return _BAD
    for field in range(LEADER, RECOVERY):
        found[field], found[_COUNTS + field] = _int32(data, at), 0
        at += 4
    if version >= 1:
        at = _list(data, at, end, DIRECTORIES, found)
        if found[_COUNTS + DIRECTORIES] < 0:
            return _BAD
    return at


@inlined
def _list(data: Array, at: int, end: int, which: int, found: Array) -> Any:
    """Read a nullable compact array. Returns the position after it, or _BAD."""
    size, at = _uvarint(data, at, end, 5)
    if at == _BAD or size == 0:
        return at
    taken = (size - 1) * (16 if which == DIRECTORIES else 4)
    if taken > end - at:
        return _BAD
    found[which], found[_COUNTS + which] = at, size - 1
    return at + taken


@inlined
def _tagged(data: Array, at: int, end: int, full: bool, version: int, found: Array) -> Any:
    """Read the tagged fields, which must be known to the version, unique and in ascending order. Returns the position
    after them, or _BAD."""
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
        field = _field(tag, full, version)
        if field < LISTS:
            if _list(data, at, stop, field, found) != stop:
                return _BAD
        elif field == RECOVERY and size == 1:
            found[RECOVERY] = np.int8(data[at])
            found[_COUNTS + RECOVERY] = 0 if full or found[RECOVERY] != _NO_RECOVERY else _BAD
        elif field == LEADER and size == 4:
            found[LEADER] = _int32(data, at)
            found[_COUNTS + LEADER] = 0 if found[LEADER] != _NO_LEADER else _BAD
        else:
            return _BAD
        at = stop
    return at


@inlined
def _field(tag: int, full: bool, version: int) -> int:
    """The field of a tag; FIELDS for an unknown tag."""
    if full:
        if tag == 0:
            return RECOVERY
        return ELR - 1 + tag if tag <= 2 and version == 2 else FIELDS
    if tag == 0:
        return ISR
    if tag == 1:
        return LEADER
    if tag <= 4:
        return REPLICAS if tag == 2 else REMOVING - 3 + tag
    if tag == 5:
        return RECOVERY
    if tag <= 7:
        return ELR - 6 + tag if version == 2 else FIELDS
    return DIRECTORIES if tag == 8 and version >= 1 else FIELDS


@inlined
def _uuid(data: Array, at: int, out: Array, to: int) -> None:
    """Write 16 bytes as URL-safe base64 without padding to element `to`; the zero UUID if `at` is _BAD."""
    v = np.uint64(to) * np.uint64(_PAIRS)
    if at == _BAD:
        for k in range(_PAIRS):
            out[v + np.uint64(k)] = _LETTERS[0]
        return
    high = (np.uint64(_int32(data, at)) << np.uint64(32)) | np.uint64(np.uint32(_int32(data, at + 4)))
    low = (np.uint64(_int32(data, at + 8)) << np.uint64(32)) | np.uint64(np.uint32(_int32(data, at + 12)))
    mask = np.uint64(4095)
    for k in range(5):
        out[v + np.uint64(k)] = _LETTERS[(high >> np.uint64(52 - 12 * k)) & mask]
        out[v + np.uint64(6 + k)] = _LETTERS[((low << np.uint64(4)) >> np.uint64(48 - 12 * k)) & mask]
    out[v + np.uint64(5)] = _LETTERS[((high & np.uint64(15)) << np.uint64(8)) | (low >> np.uint64(56))]
