"""Parse the lines of `kafka-dump-log --cluster-metadata-decoder`: their kind and their fields.

Sources: Kafka's DumpLogSegments (4.3.1, as run, and its source of October 2024); JSON from the generated JsonConverter
classes: a tagged field with its default is left out, bytes are base64, NaN and the infinities are strings. Each
function takes one line without its end, accepts any bytes, and raises only DecodeError.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

from pydantic_core import SchemaValidator, ValidationError
from pydantic_core import core_schema as shapes

from evidence.errors import DecodeError, spelled_out
from evidence.kinds import checkpoint_name, partition_of
from evidence.limits import MAX_INT32, MAX_INT64, MAX_TIME_MS
from evidence.redaction import excerpt
from evidence.strict_json import read_object
from evidence.wire.batches import CODECS, HEAD_BYTES, MAX_BATCH_BYTES, Batch
from evidence.wire.schema import camel, default_of, upper_snake

MAX_LINE_BYTES = 16 << 20

RECORD, BATCH, HEADER, START, BARE, BLANK, KNOWN, UNKNOWN = (
    "record", "batch", "header", "start", "bare", "blank", "known", "unknown",
)  # fmt: skip
BATCH_MARK = b"baseOffset: "
BOOTSTRAP = "bootstrap.checkpoint"
_STARTS = (b"Log starting offset: ", b"Snapshot end offset: ", b"KRaft bootstrap snapshot")
_START = re.compile(rb"Log starting offset: (\d{1,19})|Snapshot end offset: (\d{1,19}), epoch: (\d{1,10})")
# Words that a batch line still has when its beginning is damaged.
_BATCH_WORDS = (b" partitionLeaderEpoch: ", b" isvalid: ", b" lastOffset: ")
# Other lines that the tool, its index dumps and the JVM print to stdout and stderr.
_KNOWN = re.compile(
    rb"Found \d+ invalid bytes at the end of |Non-consecutive offsets in |  \d+ is followed by \d+$|"
    rb"Ignoring unknown file |Mismatches in :|  Index offset: \d+, log offset: \d+$|Found timestamp mismatch in :|"
    rb"  Index timestamp: -?\d+, |Found out of order timestamp in :|Indexed offset: \d+, found log offset: |"
    rb"The following indexed offsets are not found in the log\.|offset: \d+ position: \d+$|"
    rb"timestamp: -?\d+ offset: \d+$|producerId: \d+ producerEpoch: |version: \d+ producerId: |"
    rb"\S{1,4096} (is empty|passed sanity check)\.$|SLF4J|Exception in thread |Caused by: |\tat |\t\.\.\. \d+ more|"
    rb"Picked up \w+: |(OpenJDK|Java HotSpot).{1,40} warning: |\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] [A-Z]+ "
)
_OF_PRODUCER = re.compile(rb"^baseOffset: [^\n]* producerId: \d", re.MULTILINE)
_METADATA_RECORD = re.compile(rb'payload: \{"type":"[A-Z_]+_RECORD","version":\d+,"data":')
_MAX_HEAD_BYTES = 4096
_INT = re.compile(rb"-?[0-9]{1,19}")
_CONTROL_TYPE_ONLY = b" controlType: LEADER_CHANGE(2)"
_RECORD_NAMES = (b"offset:", b"keySize:", b"valueSize:", b"sequence:")
_UUID = "[A-Za-z0-9_-]{21}[AQgw]"
_INT_BITS = {"INT8": 7, "INT16": 15, "UINT16": 16, "INT32": 31, "INT64": 63}
_SPECIAL_FLOATS = ("NaN", "Infinity", "-Infinity")
_MAX_STRING_BYTES = 0x7FFF

# What is wrong with a field, by pydantic's types of errors.
_PROBLEMS = {
    "missing": "is missing",
    "extra_forbidden": "has a field that this record version lacks",
    "dict_type": "is not an object",
    "list_type": "is not an array",
}
Shape = shapes.CoreSchema


def spans(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(start, end without the line end, start of the next line) of each line in data[start:end)."""
    while start < end:
        newline = data.find(b"\n", start, end)
        following = end if newline < 0 else newline + 1
        stop = end if newline < 0 else newline
        yield start, stop - 1 if stop > start and data[stop - 1] == 13 else stop, following
        start = following


def kind_of(data: bytes, start: int, stop: int) -> str:
    """The kind of the line data[start:stop), from its beginning; UNKNOWN if the tool does not print such a line."""
    if stop - start > MAX_LINE_BYTES:
        return UNKNOWN
    if data.startswith(b"|", start, stop):
        return RECORD
    if data.startswith(BATCH_MARK, start, stop):
        return BATCH
    if data.startswith(b"{", start, stop):
        return BARE
    line = data[start:stop]
    if not line.strip():
        return BLANK
    if line.startswith(b"Dumping "):
        return HEADER
    if line.startswith(_STARTS):
        return START
    if any(word in line for word in _BATCH_WORDS):
        return BATCH
    return KNOWN if _KNOWN.match(line) else UNKNOWN


def dumped_name(line: bytes) -> tuple[str, tuple[int, int] | None]:
    """A line 'Dumping <path>' -> (the file's base name, (end offset, epoch) if it is a snapshot's name)."""
    base = line.removeprefix(b"Dumping ").replace(b"\\", b"/").rsplit(b"/", 1)[-1]
    name = spelled_out(base.decode("utf-8", "surrogateescape"))
    return name, checkpoint_name(name)


def is_of_a_topic(data: bytes, start: int, end: int) -> bool:
    """Whether the dump data[start:end) is of another log than the metadata log: none of its records is a metadata
    record, and its folder is that of a topic's partition, or a producer has written it."""
    header = data[start : data.find(b"\n", start, end) + 1 or end]
    path = header.removeprefix(b"Dumping ").replace(b"\\", b"/").decode("utf-8", "replace").strip()
    is_foreign = header.startswith(b"Dumping ") and partition_of(PurePosixPath(path)) is not None
    is_foreign = is_foreign or _OF_PRODUCER.search(data, start, end) is not None
    return is_foreign and _METADATA_RECORD.search(data, start, end) is None


def parse_start(line: bytes) -> tuple[str, tuple[int, int] | None] | None:
    """The line after 'Dumping ...' -> (Kafka's name for such a file, (end offset, epoch) of a snapshot); None for any
    other line."""
    if line == b"KRaft bootstrap snapshot":
        return BOOTSTRAP, None
    found = _START.fullmatch(line)
    if found is None:
        return None
    if found[1]:
        return f"{int(found[1]):020d}.log", None
    end, epoch = int(found[2]), int(found[3])
    return (f"{end:020d}-{epoch:010d}.checkpoint", (end, epoch)) if end <= MAX_INT64 and epoch <= MAX_INT32 else None


def _number(word: bytes, name: bytes, low: int, high: int) -> int:
    if _INT.fullmatch(word) is None or not low <= int(word) <= high:
        raise DecodeError("bad_batch_line", f"{name.decode()} is not a number from {low} to {high}", 0)
    return int(word)


def parse_batch(line: bytes, position: int) -> tuple[Batch, bool]:
    """A batch line -> (the batch, without its extent in the text; whether the tool found its CRC valid).

    The tool does not print the base timestamp. The largest timestamp replaces it: a KRaft controller gives all records
    of a batch the same one. Errors: DecodeError.
    """
    words = line[:_MAX_HEAD_BYTES].split(b" ")
    fields = dict(zip(words[::2], words[1::2], strict=False))
    if len(words) != 2 * len(fields) or len(line) > _MAX_HEAD_BYTES:
        raise DecodeError("bad_batch_line", "a batch line that is not made of name-value pairs", 0)
    clock = b"LogAppendTime:" if b"LogAppendTime:" in fields else b"CreateTime:"
    wanted = {b"isTransactional:": {b"true": 0x10, b"false": 0}, b"isControl:": {b"true": 0x20, b"false": 0}}
    try:
        base = _number(fields[b"baseOffset:"], b"baseOffset:", 0, MAX_INT64 - 1)
        last = _number(fields[b"lastOffset:"], b"lastOffset:", base, MAX_INT64 - 1)
        count = _number(fields[b"count:"], b"count:", 0, MAX_INT32)
        epoch = _number(fields[b"partitionLeaderEpoch:"], b"partitionLeaderEpoch:", 0, MAX_INT32)
        timestamp = _number(fields[clock], clock, -MAX_TIME_MS, MAX_TIME_MS)
        size = _number(fields[b"size:"], b"size:", HEAD_BYTES, MAX_BATCH_BYTES)
        crc = _number(fields[b"crc:"], b"crc:", 0, 0xFFFFFFFF)
        _number(fields[b"magic:"], b"magic:", 2, 2)
        codec = CODECS.index(fields[b"compresscodec:"].decode("ascii", "replace").lower())
        flags = sum(values[fields[name]] for name, values in wanted.items())
        is_valid = {b"true": True, b"false": False}[fields[b"isvalid:"]]
    except KeyError as error:
        raise DecodeError("bad_batch_line", f"a batch line without a valid {str(error)[:60]}", 0) from None
    except ValueError:
        raise DecodeError("bad_batch_line", "a compression codec that does not exist", 0) from None
    if count != last - base + 1 or (codec == 0 and count > (size - HEAD_BYTES) // 7):
        message = f"record count {count} does not fit {size} bytes and offsets {base} to {last}"
        raise DecodeError("bad_count", message, 0)
    horizon = fields.get(b"deleteHorizonMs:", b"").startswith(b"OptionalLong[")
    attributes = codec | flags | (0x08 if clock == b"LogAppendTime:" else 0) | (0x40 if horizon else 0)
    return Batch(position, size, base, last, epoch, crc, attributes, timestamp, timestamp, count), is_valid


def is_control_without_record(line: bytes) -> bool:
    """Whether a control record's line lacks the record: it is empty (--skip-record-metadata), or has only the type (a
    LeaderChange, releases before 4.x)."""
    return not line or line.endswith(_CONTROL_TYPE_ONLY)


def claimed_offset(line: bytes) -> int | None:
    """The offset in a record line, or None."""
    word = line[10 : line.find(b" ", 10)] if line.startswith(b"| offset: ") else b""
    return int(word) if word.isdigit() and len(word) <= 19 else None


def parse_record(line: bytes, batch: Batch) -> tuple[int, str, int, dict[str, Any]]:
    """A record line of `batch` -> (timestamp in ms, type, version, data). Its offset is not read. Errors:
    DecodeError."""
    timestamp, body = batch.max_timestamp_ms, line[2:]
    if not line.startswith(b"| payload: "):
        timestamp, body = _record_head(line, batch)
    if batch.is_control:
        label, _, text = body.partition(b" ")
        name = label.rstrip(b":").decode("ascii", "replace")
        if name in ("controlType", "endTxnMarker"):
            raise DecodeError("unknown_record", f"a control record whose content is not in the text: {_short(text)}", 0)
        return (timestamp, *_control(upper_snake(name), text))
    if not body.startswith(b"payload: "):
        raise DecodeError("bad_record_line", f"no payload in a record line: {_short(body)}", 0)
    return (timestamp, *parse_payload(body[9:]))


def _record_head(line: bytes, batch: Batch) -> tuple[int, bytes]:
    head, found, body = line.partition(b" headerKeys: [] ")
    if not found and line.endswith(b" headerKeys: []"):
        raise DecodeError("no_payload", "the record is not in the text (the tool was run without a decoder)", 0)
    if not found and b" headerKeys: [" in line and b" headerKeys: []" not in line:
        raise DecodeError("not_kraft", "the record has headers, which no KRaft controller writes", 0)
    words = head[:_MAX_HEAD_BYTES].split(b" ")
    clock = b"LogAppendTime:" if batch.log_append_time else b"CreateTime:"
    if len(words) != 11 or (words[1], *words[5::2]) != _RECORD_NAMES or words[3] != clock:
        raise DecodeError("bad_record_line", f"not a record line: {_short(head)}", 0)
    timestamp, key_size, value_size = words[4], words[6], words[8]
    if not all(_INT.fullmatch(word) for word in words[2::2]) or abs(int(timestamp)) > MAX_TIME_MS:
        raise DecodeError("bad_record_line", f"a record line with an invalid number: {_short(head)}", 0)
    if (int(key_size) >= 0) != batch.is_control:
        key = "no key in a control batch" if batch.is_control else "a key"
        raise DecodeError("not_kraft", f"the record has {key}, which no KRaft controller writes", 0)
    if int(value_size) <= 0:
        value = "an empty value" if int(value_size) == 0 else "no value"
        raise DecodeError("not_kraft", f"the record has {value}, which no KRaft controller writes", 0)
    return int(timestamp), body


def _short(text: bytes) -> str:
    return excerpt(text, 160)


def payload_of(line: bytes) -> bytes:
    """The JSON of a line that belongs to no batch: the line itself, or the text after 'payload: '."""
    return line.partition(b" payload: ")[2] if line.startswith(b"|") else line


def parse_payload(text: bytes) -> tuple[str, int, dict[str, Any]]:
    """A payload {"type": ..., "version": ..., "data": {...}} -> (type, version, data in the byte decoder's order).
    Errors: DecodeError."""
    if text.startswith(b"Error at "):
        reason = "unknown_record" if b"Unknown metadata id" in text else "undecoded"
        raise DecodeError(reason, f"kafka-dump-log could not decode the record: {_short(text)}", 0)
    value = read_object(text)
    if value.keys() != {"type", "version", "data"}:
        raise DecodeError("bad_payload", "a payload must have exactly type, version and data", 0)
    return _shaped("metadata", value["type"], value["version"], value["data"])


def _control(name: str, text: bytes) -> tuple[str, int, dict[str, Any]]:
    if name not in _shapes("control"):
        raise DecodeError("bad_record_line", f"not a control record: {name[:40]!a}", 0)
    value = read_object(text)
    return _shaped("control", name, value.get("version"), value)


def _shaped(kind: str, name: Any, version: Any, data: Any) -> tuple[str, int, dict[str, Any]]:
    versions = _shapes(kind).get(name) if type(name) is str else None
    shape = versions.get(version) if versions is not None and type(version) is int else None
    if shape is None:
        what = f"record type {str(name)[:60]!a}, version {str(version)[:20]!a}"
        raise DecodeError("unknown_record", f"{what} is unknown, and its bytes are not in the text", 0)
    try:
        return name, version, shape.validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # Never the value, nor an unknown name: they may be secrets.
        known = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
        field = next((part for part in reversed(known) if isinstance(part, str)), name)
        what = _PROBLEMS.get(first["type"], first["msg"])
        raise DecodeError("bad_payload", f"field {field} {what}", 0) from None


@cache
def _shapes(kind: str) -> dict[str, dict[int, SchemaValidator]]:
    """Kafka's record name -> version -> the shape of its JSON; `kind` is 'metadata' or 'control'."""
    schemas = json.loads(files("evidence.wire.schemas").joinpath(f"{kind}_records.json").read_text())
    return {
        upper_snake(s["name"]): {
            int(v): SchemaValidator(_struct(s["name"], fields)) for v, fields in s["versions"].items()
        }
        for s in schemas
    }


def _struct(record: str, fields: list[dict[str, Any]]) -> Shape:
    """An object with all plain fields. A tagged field may be missing, and is left out if it has its default."""
    plain = [field for field in fields if field["type"] != "tagged_fields"]
    tags: dict[str, Any] = next((f["tags"] for f in fields if f["type"] == "tagged_fields"), {})
    tagged = [tags[tag] for tag in sorted(tags, key=int)]
    members = {
        camel(f["name"]): shapes.typed_dict_field(_field(record, f), required=f in plain) for f in plain + tagged
    }
    defaults = {camel(f["name"]): default_of(record, f) for f in tagged}
    whole = shapes.typed_dict_schema(members, extra_behavior="forbid", strict=True)

    def without_defaults(found: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in found.items() if name not in defaults or value != defaults[name]}

    return shapes.no_info_after_validator_function(without_defaults, whole) if defaults else whole


def _field(record: str, field: dict[str, Any]) -> Shape:
    kind = field["type"]
    inner = kind.rsplit("ARRAY(", 1)[-1].rstrip(")")
    value = _struct(record, field["fields"]) if "fields" in field else _primitive(inner)
    value = shapes.list_schema(value, strict=True) if "ARRAY(" in kind else value
    return shapes.nullable_schema(value) if "NULLABLE" in kind.split("(", 1)[0] else value


def _primitive(kind: str) -> Shape:
    if kind in _INT_BITS:
        low, high = (0, 0xFFFF) if kind == "UINT16" else (-1 << _INT_BITS[kind], (1 << _INT_BITS[kind]) - 1)
        value: Shape = shapes.int_schema(ge=low, le=high, strict=True)
    else:
        value = _OF_KIND[kind.rsplit("_", 1)[-1]]
    message = f"is not a valid {kind}"
    return shapes.custom_error_schema(value, custom_error_type="bad_value", custom_error_message=message)


def _checked(holds: Callable[[Any], bool]) -> Shape:
    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError
        return value

    return shapes.no_info_plain_validator_function(check)


def _is_base64(value: Any) -> bool:
    try:
        return type(value) is str and base64.b64encode(base64.b64decode(value, validate=True)).decode() == value
    except ValueError:
        return False


_OF_KIND: dict[str, Shape] = {
    "BOOLEAN": shapes.bool_schema(strict=True),
    "FLOAT64": _checked(lambda v: (type(v) is float and v - v == 0) or v in _SPECIAL_FLOATS),
    "UUID": shapes.str_schema(pattern=f"^{_UUID}$", strict=True),
    "STRING": _checked(lambda v: type(v) is str and len(v.encode()) <= _MAX_STRING_BYTES),
    "BYTES": _checked(_is_base64),
}
