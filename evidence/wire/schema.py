"""Compile record decoders from evidence/wire/schemas: (type, version) -> body bytes -> Kafka's JSON form.

Wire types follow Kafka's generated message classes. All versions are flexible (compact strings and arrays, tagged
fields, KIP-482). A tagged field with its default value is left out of the JSON, as in Kafka's JsonConverter. An unknown
tagged field is kept as base64 in `_unknownTaggedFields`.
"""

import base64
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from evidence.errors import DecodeError

Reader = Callable[[bytes, int], tuple[Any, int]]

# Defaults of tagged fields that differ from 0 / empty / null (message definitions of Kafka 4.4.0).
_TAG_DEFAULTS = {("PartitionChangeRecord", "leader"): -2, ("PartitionChangeRecord", "leader_recovery_state"): -1}
_NULLABLE = ("COMPACT_NULLABLE", "NULLABLE")


def camel(name: str) -> str:
    """Kafka's JSON name of a field: broker_id -> brokerId."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def upper_snake(name: str) -> str:
    """Kafka's name of a record type: PartitionChangeRecord -> PARTITION_CHANGE_RECORD, KRaftVoters -> KRAFT_VOTERS."""
    text = name.replace("KRaft", "Kraft")
    return "".join(f"_{c}" if c.isupper() and i else c for i, c in enumerate(text)).upper()


def uuid_text(raw: bytes) -> str:
    """Kafka's text form of a UUID: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _need(data: bytes, position: int, count: int) -> int:
    end = position + count
    if end > len(data):
        raise DecodeError("short_record", f"{count} bytes needed, {len(data) - position} are left", position)
    return end


def _fixed(fmt: str) -> Reader:
    codec = struct.Struct(">" + fmt)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        end = _need(data, position, codec.size)
        return codec.unpack_from(data, position)[0], end

    return read


def read_uvarint(data: bytes, position: int, max_bytes: int = 5) -> tuple[int, int]:
    """An unsigned varint. Errors: DecodeError when it ends early or is longer than `max_bytes` (Kafka's ByteUtils)."""
    value = shift = 0
    for index in range(max_bytes):
        if position + index >= len(data):
            raise DecodeError("short_record", "a varint runs past the end", position)
        byte = data[position + index]
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position + index + 1
        shift += 7
    raise DecodeError("bad_varint", f"a varint is longer than {max_bytes} bytes", position)


def read_varint(data: bytes, position: int, max_bytes: int = 5) -> tuple[int, int]:
    """A zigzag varint (max_bytes 5) or varlong (10), as record fields use it."""
    value, end = read_uvarint(data, position, max_bytes)
    return (value >> 1) ^ -(value & 1), end


def _uuid(data: bytes, position: int) -> tuple[str, int]:
    end = _need(data, position, 16)
    return uuid_text(data[position:end]), end


def _float64(data: bytes, position: int) -> tuple[float | str, int]:
    value, end = _fixed("d")(data, position)
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)], end
    return float(value), end


def _length(data: bytes, position: int, nullable: bool, what: str) -> tuple[int | None, int]:
    size, at = read_uvarint(data, position)
    if size == 0:
        if not nullable:
            raise DecodeError("bad_null", f"a {what} that cannot be null is null", position)
        return None, at
    if size - 1 > len(data) - at:
        raise DecodeError(
            "bad_length", f"a {what} of {size - 1} does not fit in the {len(data) - at} bytes left", position
        )
    return size - 1, at


def _string(nullable: bool) -> Reader:
    def read(data: bytes, position: int) -> tuple[str | None, int]:
        size, at = _length(data, position, nullable, "string")
        if size is None:
            return None, at
        if size > 0x7FFF:
            raise DecodeError("bad_length", f"a string of {size} bytes, Kafka allows 32767", position)
        return data[at : at + size].decode("utf-8", "replace"), at + size

    return read


def _bytes(nullable: bool) -> Reader:
    def read(data: bytes, position: int) -> tuple[str | None, int]:
        size, at = _length(data, position, nullable, "byte string")
        return (None, at) if size is None else (base64.b64encode(data[at : at + size]).decode(), at + size)

    return read


def _array(element: Reader, nullable: bool) -> Reader:
    def read(data: bytes, position: int) -> tuple[list[Any] | None, int]:
        count, at = _length(data, position, nullable, "array")
        if count is None:
            return None, at
        values = []
        for _ in range(count):
            value, at = element(data, at)
            values.append(value)
        return values, at

    return read


_PRIMITIVES: dict[str, Reader] = {
    "BOOLEAN": _fixed("?"),
    "INT8": _fixed("b"),
    "INT16": _fixed("h"),
    "UINT16": _fixed("H"),
    "INT32": _fixed("i"),
    "INT64": _fixed("q"),
    "FLOAT64": _float64,
    "UUID": _uuid,
    "COMPACT_STRING": _string(False),
    "COMPACT_NULLABLE_STRING": _string(True),
    "COMPACT_BYTES": _bytes(False),
    "COMPACT_NULLABLE_BYTES": _bytes(True),
}


def _compile_type(record: str, field: dict[str, Any]) -> Reader:
    kind = field["type"]
    if kind == "STRUCT":
        return _compile_struct(record, field["fields"])
    if "ARRAY(" in kind:
        inner = kind.split("ARRAY(", 1)[1]
        element = _compile_struct(record, field["fields"]) if "fields" in field else _PRIMITIVES[inner.rstrip(")")]
        return _array(element, kind.startswith(_NULLABLE))
    return _PRIMITIVES[kind]


def _compile_struct(record: str, fields: list[dict[str, Any]]) -> Reader:
    plain = [(camel(f["name"]), _compile_type(record, f)) for f in fields if f["type"] != "tagged_fields"]
    tagged: dict[str, Any] = next((f["tags"] for f in fields if f["type"] == "tagged_fields"), {})
    tags = {int(tag): (camel(f["name"]), _compile_type(record, f), default_of(record, f)) for tag, f in tagged.items()}

    def read(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        for name, reader in plain:
            values[name], position = reader(data, position)
        count, position = read_uvarint(data, position)
        for _ in range(count):
            tag, position = read_uvarint(data, position)
            size, position = read_uvarint(data, position)
            end = _need(data, position, size)
            known = tags.get(tag)
            if known is None:
                unknown = values.setdefault("_unknownTaggedFields", {})
                unknown[str(tag)] = base64.b64encode(data[position:end]).decode()
            else:
                name, reader, default = known
                value, stop = reader(data, position)
                if stop != end:
                    raise DecodeError(
                        "bad_tag", f"tagged field {name} has {size} bytes, {stop - position} were read", position
                    )
                values.pop(name, None)  # of a tag that is there twice Kafka's readers keep the last value
                if value != default:
                    values[name] = value
            position = end
        return values, position

    return read


def default_of(record: str, field: dict[str, Any]) -> Any:
    """The value of a missing tagged field."""
    if (record, field["name"]) in _TAG_DEFAULTS:
        return _TAG_DEFAULTS[record, field["name"]]
    if field["type"].startswith(_NULLABLE):
        return None
    return [] if "ARRAY(" in field["type"] else 0


@dataclass(frozen=True, slots=True)
class RecordType:
    """A record type: Kafka's upper-case name and one reader for each version."""

    name: str
    readers: dict[int, Reader]


@cache
def record_types(kind: str) -> dict[int, RecordType]:
    """api key (or control type) -> RecordType; `kind` is 'metadata' or 'control'."""
    schemas = json.loads(files("evidence.wire.schemas").joinpath(f"{kind}_records.json").read_text())
    return {
        s["api_key"]: RecordType(
            upper_snake(s["name"]), {int(v): _compile_struct(s["name"], fields) for v, fields in s["versions"].items()}
        )
        for s in schemas
    }
