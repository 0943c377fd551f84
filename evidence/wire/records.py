"""Decode the records of a batch: bytes -> Record with Kafka's JSON form, or damage.

Sources: Kafka's DefaultRecord (record framing), AbstractApiMessageSerde / MetadataRecordSerde (value frame: frame
version 1, api key, version, body, nothing after it), RecordsIterator (what a KRaft controller never writes),
ControlRecordType.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evidence.errors import Damage, DecodeError
from evidence.limits import MAX_TIME_MS
from evidence.redaction import redact
from evidence.wire.batches import HEAD_BYTES, Batch, Bytes
from evidence.wire.compression import decompress
from evidence.wire.schema import read_uvarint, read_varint, record_types

FRAME_VERSION = "frame_version"  # the reason of a damage that refuses the capture if a log begins with it
_MAX_INT16 = (1 << 15) - 1
_CONTROL_MARKERS = {0: "ABORT", 1: "COMMIT"}


def type_names() -> set[str]:
    """The names of all record types that are known. Others are UNKNOWN_..., see `Record`."""
    schemas = (known for kind in ("metadata", "control") for known in record_types(kind).values())
    return {*_CONTROL_MARKERS.values(), *(known.name for known in schemas)}


@dataclass(frozen=True, slots=True)
class Record:
    """One decoded record.

    position: byte position of the record in the file; of its batch if the batch is compressed. type: Kafka's name;
    UNKNOWN_<key> or UNKNOWN_CONTROL_<type> if this release does not have it. data: Kafka's JSON form; for an unknown
    type or version {"raw": <hex of the value>}.
    """

    offset: int
    timestamp_ms: int
    epoch: int
    type: str
    version: int
    data: dict[str, Any]
    position: int
    is_control: bool
    is_known: bool


def read_records(data: Bytes, batch: Batch, show_secrets: bool = False) -> Iterator[Record | Damage]:
    """Each record of `batch`, whose head is in `data` at batch.position.

    Yields a Damage for a bad record and continues with the next; if the framing is lost, one Damage covers the rest of
    the batch. A Damage of no bytes is a remark on a record that is used. Never raises for damaged bytes. Of the damage
    of a compressed batch, all at its position, only the first for each reason is given, and at the end how many more
    there are: a kilobyte may hold 100,000 bad records.
    """
    if batch.codec == "none":
        yield from _items(data, batch, show_secrets)
        return
    times = Counter[str]()
    for item in _items(data, batch, show_secrets):
        if isinstance(item, Damage):
            times[item.reason] += 1
            if times[item.reason] > 1:
                continue
        yield item
    for reason, count in times.items():
        if count > 1:
            message = f"{count - 1} more times in this compressed batch"
            yield Damage(batch.position, 0, batch.last_offset, reason, message)


def _items(data: Bytes, batch: Batch, show_secrets: bool) -> Iterator[Record | Damage]:
    body = data[batch.position + HEAD_BYTES : batch.position + batch.size_bytes]
    try:
        body = decompress(batch.codec, body)
    except DecodeError as error:
        yield Damage(batch.position, batch.size_bytes, batch.base_offset, error.reason, str(error))
        return
    if batch.codec != "none":
        message = f"compressed with {batch.codec}, which no KRaft controller writes"
        yield Damage(batch.position, 0, batch.base_offset, "unexpected_codec", message)
    # Positions inside a compressed batch do not exist in the file; its records get the position of the batch.
    start = batch.position + HEAD_BYTES if batch.codec == "none" else None
    position = 0
    for index in range(batch.record_count):
        offset = batch.base_offset + index
        at = batch.position if start is None else start + position
        try:
            length, value_at = read_varint(body, position)
            if length < 0 or value_at + length > len(body):
                raise DecodeError(
                    "bad_frame", f"record length {length}, {len(body) - value_at} bytes are left", position
                )
        except DecodeError as error:
            rest = batch.size_bytes if start is None else len(body) - position
            yield Damage(at, rest, offset, error.reason, f"{error}; the rest of the batch is unreadable")
            return
        end = value_at + length
        size = batch.size_bytes if start is None else end - position
        if length > batch.size_bytes:
            message = (
                f"record length {length} in a batch of {batch.size_bytes} compressed bytes: Kafka's reader rejects it"
            )
            yield Damage(at, 0, offset, "larger_than_batch", message)
        if value_at - position > 1 and body[value_at - 1] == 0:  # Kafka's writer never does so
            yield Damage(at, 0, offset, "overlong_varint", "its length is written with more bytes than it needs")
        yield read_record(body[value_at:end], batch, index, at, size, show_secrets)
        position = end
    if position != len(body):
        at = batch.position if start is None else start + position
        left = len(body) - position
        message = f"{left} bytes after the last of {batch.record_count} records"
        yield Damage(at, batch.size_bytes if start is None else left, batch.last_offset, "trailing_bytes", message)


def read_record(body: bytes, batch: Batch, index: int, position: int, size: int, show_secrets: bool) -> Record | Damage:
    """One record, without its length prefix. index: its number in the batch; size: with the prefix, for damage."""
    try:
        return _read_record(body, batch, index, position, show_secrets)
    except DecodeError as error:
        return Damage(position, size, batch.base_offset + index, error.reason, str(error))


def _read_record(body: bytes, batch: Batch, index: int, position: int, show_secrets: bool) -> Record:
    timestamp_delta, at = read_varint(body, 1, 10)
    offset_delta, at = read_varint(body, at)
    key_length, at = read_varint(body, at)
    key = body[at : at + max(key_length, 0)]
    at += len(key)
    value_length, at = read_varint(body, at)
    if at + value_length > len(body):
        raise DecodeError("bad_value", f"value length {value_length} in a record of {len(body)} bytes", at)
    value = body[at : at + max(value_length, 0)]
    headers, end = read_varint(body, at + len(value))
    if offset_delta != index:
        raise DecodeError("bad_offset", f"offset delta {offset_delta} in record number {index}", 0)
    unusual = _not_kraft(batch, key_length, value_length, headers, len(body) - end)
    if unusual:
        raise DecodeError("not_kraft", f"the record has {unusual}, which no KRaft controller writes", 0)
    offset = batch.base_offset + offset_delta
    timestamp = batch.max_timestamp_ms if batch.log_append_time else batch.base_timestamp_ms + timestamp_delta
    if abs(timestamp) > MAX_TIME_MS:
        raise DecodeError("bad_timestamp", f"timestamp {timestamp} ms: after the year 9999", 0)
    type_name, version, data, known = decode_control(key, value) if batch.is_control else decode_value(value)
    if not show_secrets:
        data = redact(type_name, data)
    return Record(offset, timestamp, batch.epoch, type_name, version, data, position, batch.is_control, known)


def _not_kraft(batch: Batch, key_length: int, value_length: int, headers: int, left: int) -> str | None:
    """What Kafka's RecordsIterator rejects in the record, or None. A timestamp delta, which it also
    rejects, is read: Kafka's MemoryRecords writes one for a record with a time of its own."""
    if (key_length >= 0) != batch.is_control:
        return "no key in a control batch" if batch.is_control else "a key"
    if value_length <= 0:
        return "an empty value" if value_length == 0 else "no value"
    if headers:
        return "headers"
    return f"{left} bytes after its headers" if left else None


def decode_value(value: bytes) -> tuple[str, int, dict[str, Any], bool]:
    """A metadata record's value -> (type, version, data, known). Errors: DecodeError if it is malformed."""
    frame_version, at = read_uvarint(value, 0)
    if frame_version != 1:
        message = f"frame version {frame_version}, only 1 is supported (0 was Kafka 2.8's preview)"
        raise DecodeError(FRAME_VERSION, message, 0)
    key, at = read_uvarint(value, at)
    version, at = read_uvarint(value, at)
    if key > _MAX_INT16 or version > _MAX_INT16:
        raise DecodeError("bad_frame", f"record type {key}, version {version}: Kafka's maximum is {_MAX_INT16}", 0)
    known = record_types("metadata").get(key)
    if known is None or version not in known.readers:
        return known.name if known else f"UNKNOWN_{key}", version, {"raw": value.hex()}, False
    data, end = known.readers[version](value, at)
    if end != len(value):
        raise DecodeError("trailing_bytes", f"found {len(value) - end} byte(s) of garbage after {known.name}", end)
    return known.name, version, data, True


def decode_control(key: bytes, value: bytes) -> tuple[str, int, dict[str, Any], bool]:
    """A control record's key and value -> (type, version, data, known)."""
    if len(key) < 4:
        raise DecodeError("bad_control_key", f"a control record's key has {len(key)} bytes, 4 are needed", 0)
    kind = int.from_bytes(key[2:4], "big", signed=True)
    version = int.from_bytes(value[:2], "big", signed=True)
    known = record_types("control").get(kind)
    if known is None or version not in known.readers:
        name = known.name if known else _CONTROL_MARKERS.get(kind, f"UNKNOWN_CONTROL_{kind}")
        return name, version, {"raw": value.hex()}, kind in _CONTROL_MARKERS
    data, end = known.readers[version](value, 0)
    if end != len(value):
        raise DecodeError("trailing_bytes", f"found {len(value) - end} byte(s) of garbage after {known.name}", end)
    return known.name, version, data, True
