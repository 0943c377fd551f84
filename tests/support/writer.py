"""Writes Kafka's record batch format v2 for tests, good or deliberately wrong. Shares no code with the decoder."""

import gzip
import struct
from collections.abc import Iterable, Sequence

import pyarrow as pa

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_MS = 1_795_000_000_000
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = 2, 3, 4, 5, 6
TOPIC_ID = bytes(range(16))
TOPIC_ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), bit by bit from its polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def varint(value: int) -> bytes:
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def string(text: str | None) -> bytes:
    """A compact string (or nullable string)."""
    return b"\x00" if text is None else uvarint(len(text.encode()) + 1) + text.encode()


def int32s(values: Iterable[int]) -> bytes:
    """A compact array of int32."""
    values = list(values)
    return uvarint(len(values) + 1) + b"".join(struct.pack(">i", v) for v in values)


def tagged(fields: dict[int, bytes] | None = None) -> bytes:
    """A tagged-field section, tag -> bytes."""
    fields = fields or {}
    return uvarint(len(fields)) + b"".join(uvarint(t) + uvarint(len(b)) + b for t, b in sorted(fields.items()))


def frame(api_key: int, version: int, body: bytes, frame_version: int = 1) -> bytes:
    """A metadata record's value."""
    return uvarint(frame_version) + uvarint(api_key) + uvarint(version) + body


def no_op() -> bytes:
    return frame(20, 0, tagged())


def topic(name: str, topic_id: bytes = TOPIC_ID) -> bytes:
    return frame(2, 0, string(name) + topic_id + tagged())


def config(name: str, value: str | None, resource: str = "orders", resource_type: int = 2) -> bytes:
    return frame(4, 0, struct.pack(">b", resource_type) + string(resource) + string(name) + string(value) + tagged())


def partition_change(partition: int = 0, fields: dict[int, bytes] | None = None, topic_id: bytes = TOPIC_ID) -> bytes:
    return frame(5, 0, struct.pack(">i", partition) + topic_id + tagged(fields))


def record(
    value: bytes | None,
    offset_delta: int = 0,
    key: bytes | None = None,
    timestamp_delta: int = 0,
    headers: int = 0,
    tail: bytes = b"",
) -> bytes:
    """A record as it stands in a batch, its length in front."""
    body = b"\x00" + varint(timestamp_delta) + varint(offset_delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(-1) if value is None else varint(len(value)) + value
    body += varint(headers) + tail
    return varint(len(body)) + body


def batch(
    values: Sequence[bytes] = (),
    base_offset: int = 0,
    epoch: int = 1,
    *,
    codec: str = "none",
    xerial: bool = False,
    control: bool = False,
    attributes: int = 0,
    timestamp_ms: int = TIMESTAMP_MS,
    max_timestamp_ms: int | None = None,
    magic: int = 2,
    producer: tuple[int, int, int] = (-1, -1, -1),
    records: bytes | None = None,
    count: int | None = None,
    last_offset_delta: int | None = None,
    length: int | None = None,
    crc: int | None = None,
) -> bytes:
    """A record batch. `values` become records without keys; `records` gives the (uncompressed) records section itself.
    producer: its id, epoch and first sequence number.

    Everything else that is given replaces what belongs there, and the CRC is computed over the result.
    """
    if records is None:
        records = b"".join(record(v, i) for i, v in enumerate(values))
    count = len(values) if count is None else count
    bits = attributes | CODECS.index(codec) | (0x20 if control else 0)
    covered = struct.pack(
        ">hiqqqhii",
        bits,
        count - 1 if last_offset_delta is None else last_offset_delta,
        timestamp_ms,
        timestamp_ms if max_timestamp_ms is None else max_timestamp_ms,
        *producer,
        count,
    ) + compress(codec, records, xerial)
    length = len(covered) + 9 if length is None else length
    crc = crc32c(covered) if crc is None else crc
    return struct.pack(">qiibI", base_offset, length, epoch, magic, crc) + covered


def control_batch(kind: int, value: bytes, base_offset: int = 0, epoch: int = 1, key: bytes | None = None) -> bytes:
    """A batch of one control record of type `kind`."""
    key = struct.pack(">hh", 0, kind) if key is None else key
    return batch(base_offset=base_offset, epoch=epoch, control=True, count=1, records=record(value, key=key))


def leader_change(leader: int = 3000, version: int = 0) -> bytes:
    """A LeaderChangeMessage: version, leader, voters, granting voters."""
    voter = struct.pack(">i", leader) + (bytes(16) if version else b"") + tagged()
    voters = uvarint(2) + voter
    return struct.pack(">hi", version, leader) + voters + voters + tagged()


def snapshot(
    values: Sequence[bytes], epoch: int = 1, header: bool = True, footer: bool = True, time_ms: int = TIMESTAMP_MS
) -> bytes:
    """A checkpoint file: header, one batch of records, footer, with offsets from 0."""
    parts: list[bytes] = []
    offset = 0
    if header:
        parts.append(control_batch(SNAPSHOT_HEADER, struct.pack(">hq", 0, time_ms) + tagged(), offset, epoch))
        offset += 1
    parts.append(batch(values, offset, epoch, timestamp_ms=time_ms))
    if footer:
        parts.append(control_batch(SNAPSHOT_FOOTER, struct.pack(">h", 0) + tagged(), offset + len(values), epoch))
    return b"".join(parts)


def log(batches: int = 5, per_batch: int = 2, epoch: int = 1, base_offset: int = 0) -> list[bytes]:
    """Batches of a log: the LeaderChange that begins the epoch, then topics topic-<offset>."""
    out = [control_batch(LEADER_CHANGE, leader_change(), base_offset, epoch)]
    for index in range(batches - 1):
        first = base_offset + 1 + index * per_batch
        out.append(batch([topic(f"topic-{first + i}") for i in range(per_batch)], first, epoch))
    return out


def compress(codec: str, data: bytes, xerial: bool = False) -> bytes:
    if codec == "none":
        return data
    if codec == "gzip":
        return gzip.compress(data, mtime=0)
    if codec == "snappy" and xerial:
        blocks = [data[i : i + 32768] for i in range(0, len(data), 32768)]
        packed = [bytes(pa.compress(block, codec="snappy", asbytes=True)) for block in blocks]
        return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(p)) + p for p in packed)
    return bytes(pa.compress(data, codec=codec, asbytes=True))


def flip(data: bytes, position: int, mask: int = 0x01) -> bytes:
    """`data` with the bits of `mask` inverted in the byte at `position`."""
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]
