"""Decode the records of a topic's data: a batch's bytes -> offset, timestamp, key, value, headers; the end that a
control batch gives to a transaction.

Sources: Kafka's DefaultRecord (record framing, header keys are UTF-8), DefaultRecordBatch.incrementSequence (sequences
wrap at 2^31), EndTransactionMarker and ControlRecordType (control batches), LegacyRecord and
AbstractLegacyRecordBatch.DeepRecordsIterator (formats 0 and 1: a compressed message holds others; in format 1 their
offsets are relative to the last one's), Lz4BlockInputStream (LZ4 of format 0 has a wrong checksum: it is not read).
"""

import struct
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from evidence.errors import Damage, DecodeError
from evidence.limits import MAX_INT32
from evidence.wire.batches import CODECS, HEAD_BYTES
from evidence.wire.compression import decompress
from evidence.wire.data_batches import LEGACY, LEGACY_TIME, DataBatch, SegmentBytes
from evidence.wire.schema import read_varint

# As much as one batch's records may take; brokers hold a decompressed batch in memory, too.
_MOST_BYTES = 256 << 20
_INT32 = struct.Struct(">i")
_CONTROL_KEY = struct.Struct(">hh")
ABORT, COMMIT = 0, 1
NO_SEQUENCE = -1

Headers = tuple[tuple[str, bytes | None], ...]


class DataRecord(NamedTuple):
    """timestamp_ms: as a consumer gets it; -1 in format 0. sequence: of its producer; -1 without one. key, value: None
    where the producer sent null."""

    offset: int
    timestamp_ms: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def read_data(data: SegmentBytes, batch: DataBatch) -> Iterator[DataRecord | Damage]:
    """Each record of `batch`, whose head is in `data` at batch.position.

    A Damage covers the batch if it cannot be decompressed, or what is left of it from the first record that cannot be
    read. Never raises for damaged bytes.
    """
    try:
        yield from _records(data, batch) if batch.magic == 2 else _legacy(data, batch)
    except (DecodeError, struct.error, UnicodeDecodeError) as error:
        reason = error.reason if isinstance(error, DecodeError) else "bad_record"
        message = f"records of a batch of format {batch.magic} ({batch.codec}) cannot be read: {error}"
        yield Damage(batch.position, batch.size_bytes, batch.base_offset, reason, message)


def end_of_transaction(data: SegmentBytes, batch: DataBatch) -> int | None:
    """ABORT or COMMIT, if `batch` is the control batch that ends a transaction of its producer; else None."""
    found = next(read_data(data, batch), None) if batch.is_control else None
    if not isinstance(found, DataRecord) or found.key is None or len(found.key) < _CONTROL_KEY.size:
        return None
    kind: int = _CONTROL_KEY.unpack_from(found.key)[1]
    return kind if kind in (ABORT, COMMIT) else None


def _records(data: SegmentBytes, batch: DataBatch) -> Iterator[DataRecord]:
    body = decompress(batch.codec, data[batch.position + HEAD_BYTES : batch.end], _MOST_BYTES)
    position = 0
    for _ in range(batch.record_count):
        length, at = read_varint(body, position)
        end = at + length
        if length < 0 or end > len(body):
            raise DecodeError("bad_frame", f"record length {length}, {len(body) - at} bytes are left", position)
        time_delta, at = read_varint(body, at + 1, 10)  # after the attributes
        delta, at = read_varint(body, at)
        key, at = _bytes(body, at, end)
        value, at = _bytes(body, at, end)
        count, at = read_varint(body, at)
        headers: list[tuple[str, bytes | None]] = []
        for _ in range(count):
            name, at = _bytes(body, at, end)
            content, at = _bytes(body, at, end)
            headers.append(((name or b"").decode(), content))
        if at != end or not 0 <= delta <= batch.last_offset - batch.base_offset:
            raise DecodeError("bad_record", f"a record with offset delta {delta} ends at {at}, not at {end}", position)
        time_ms = batch.max_timestamp_ms if batch.log_append_time else batch.base_timestamp_ms + time_delta
        yield DataRecord(batch.base_offset + delta, time_ms, _sequence(batch, delta), key, value, tuple(headers))
        position = end
    if position != len(body):
        raise DecodeError("trailing_bytes", f"{len(body) - position} bytes after the last record", position)


def _bytes(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(body, at)
    if length < 0:
        return None, at
    if at + length > end:
        raise DecodeError("bad_record", f"{length} bytes in a record that has {end - at} left", at)
    return body[at : at + length], at + length


def _sequence(batch: DataBatch, delta: int) -> int:
    if batch.base_sequence < 0:
        return -1
    sequence = batch.base_sequence + delta
    return sequence if sequence <= MAX_INT32 else sequence - MAX_INT32 - 1


def _legacy(data: SegmentBytes, batch: DataBatch) -> Iterator[DataRecord]:
    outer = _message(data[batch.position : batch.end], 0)
    if not batch.attributes & 0x03:
        yield outer
        return
    codec = CODECS[batch.attributes & 0x03]
    inner = decompress(codec, outer.value or b"", _MOST_BYTES)
    last = deque(_messages(inner), 1)  # not all of them: a kilobyte may hold 10,000
    shift = batch.last_offset - last[0].offset if batch.magic and last else 0
    for message in _messages(inner):
        time_ms = batch.max_timestamp_ms if batch.magic and batch.log_append_time else message.timestamp_ms
        yield message._replace(offset=message.offset + shift, timestamp_ms=time_ms)


def _messages(data: bytes) -> Iterator[DataRecord]:
    position = 0
    while position < len(data):
        yield _message(data, position)
        position += _INT32.unpack_from(data, position + 8)[0] + 12


def _message(data: bytes, position: int) -> DataRecord:
    """A message of format 0 or 1 at `position`."""
    offset, size, _, magic, _ = LEGACY.unpack_from(data, position)
    at, time_ms = position + LEGACY.size, -1
    if magic not in (0, 1) or size < 0 or position + 12 + size > len(data):
        raise DecodeError("bad_record", f"no message of format 0 or 1 of {size} bytes", position)
    if magic:
        time_ms = LEGACY_TIME.unpack_from(data, at)[0]
        at += LEGACY_TIME.size
    parts: list[bytes | None] = []
    for _ in range(2):
        length: int = _INT32.unpack_from(data, at)[0]
        at += _INT32.size
        parts.append(None if length < 0 else data[at : at + length])
        at += max(length, 0)
    if at != position + 12 + size:
        raise DecodeError("bad_record", "a key or value that does not fit its message", position)
    return DataRecord(offset, time_ms, -1, parts[0], parts[1], ())
