"""The compiled decoder against the reader that is the reference: the same rows and the same damage, on any bytes."""

from __future__ import annotations

import lzma
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.batches import Batch, read_head
from evidence.capture import open_capture
from evidence.columnar import DECODED, PlainRecords, decode_arrow
from evidence.decode import ByteRange, work_of
from evidence.segments import scan_files
from tests.support import writer
from tests.support.paths import ORACLE, ROOT, capture
from tests.support.writer import batch, flip, int32s, record, tagged, uvarint

Row = dict[str, Any]
NEVER = 1 << 60
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
UUIDS = st.binary(min_size=16, max_size=16)


def whole(data: bytes) -> ByteRange:
    return ByteRange("log", "log", "00", "metadata_segment", 0, len(data))


def rows(data: bytes, work: ByteRange, compiled_from: int) -> list[Row]:
    found = pa.Table.from_batches(decode_arrow(data, work, "c", compiled_from), schema=DECODED).to_pylist()
    return sorted(found, key=lambda r: (r["position"] is None, r["position"] or 0, r["offset"] or 0, str(r["damage"])))


def compiled(data: bytes) -> int:
    """How many records the compiled loops took."""
    batches, position = [], 0
    while position < len(data):
        head = read_head(data, position)
        assert isinstance(head, Batch)
        batches.append(head)
        position = head.end
    plain = [b for b in batches if not b.is_control and b.codec == "none"]
    return int((PlainRecords(data, plain).kind > 0).sum()) if plain else 0


def same_both_ways(data: bytes) -> list[Row]:
    found = rows(data, whole(data), 0)
    assert found == rows(data, whole(data), NEVER)
    return found


def array(values: list[int] | None) -> bytes:
    return b"\x00" if values is None else int32s(values)


def uuids(values: list[bytes] | None) -> bytes:
    return b"\x00" if values is None else uvarint(len(values) + 1) + b"".join(values)


lists = st.lists(INT32, max_size=5)
maybe = st.none() | lists


@st.composite
def partition_records(draw: st.DrawFn) -> bytes:
    """A PartitionRecord of any version, its tagged fields given or left out, defaults too."""
    version = draw(st.integers(0, 2))
    body = struct.pack(">i", draw(INT32)) + draw(UUIDS) + b"".join(array(draw(lists)) for _ in range(4))
    body += struct.pack(">iii", draw(INT32), draw(INT32), draw(INT32))
    body += uuids(draw(st.lists(UUIDS, max_size=4))) if version else b""
    tags = {0: struct.pack(">b", draw(st.integers(-128, 127)))}
    tags |= {1: array(draw(maybe)), 2: array(draw(maybe))} if version == 2 else {}
    kept = draw(st.sets(st.sampled_from(sorted(tags))))
    return writer.frame(3, version, body + tagged({t: tags[t] for t in kept}))


@st.composite
def change_records(draw: st.DrawFn) -> bytes:
    version = draw(st.integers(0, 2))
    tags = {t: array(draw(maybe)) for t in (0, 2, 3, 4)}
    tags |= {1: struct.pack(">i", draw(st.just(-2) | INT32)), 5: struct.pack(">b", draw(st.integers(-2, 2)))}
    tags |= {6: array(draw(maybe)), 7: array(draw(maybe))} if version == 2 else {}
    tags |= {8: uuids(draw(st.none() | st.lists(UUIDS, max_size=4)))} if version else {}
    kept = draw(st.sets(st.sampled_from(sorted(tags))))
    body = struct.pack(">i", draw(INT32)) + draw(UUIDS) + tagged({t: tags[t] for t in kept})
    return writer.frame(5, version, body)


plain = partition_records() | change_records()
others = st.sampled_from([writer.no_op(), writer.topic("orders"), writer.config("min.insync.replicas", "2")])


@settings(max_examples=150, deadline=None)
@given(st.lists(plain | others, min_size=1, max_size=12), st.integers(-5, 5), st.integers(0, 1 << 40))
def test_any_records_are_read_the_same_both_ways(values: list[bytes], step: int, base: int) -> None:
    records = b"".join(record(v, i, timestamp_delta=step * i) for i, v in enumerate(values))
    data = batch(values, base) + batch(values, base + len(values), records=records, count=len(values))
    found = same_both_ways(data)
    assert len(found) == 2 * len(values)
    assert not any(r["damage"] for r in found)
    assert compiled(data) == sum(r["partition_change"] is not None for r in found)


@settings(max_examples=400, deadline=None)
@given(st.lists(plain, min_size=1, max_size=4), st.data())
def test_damaged_records_are_damaged_the_same_both_ways(values: list[bytes], data: st.DataObject) -> None:
    """Bytes of records are altered, cut out or put in, and the CRC made right: the record parser itself sees them."""
    records = b"".join(record(v, i) for i, v in enumerate(values))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(records) - 1))
        kind = data.draw(st.sampled_from(["flip", "set", "cut", "insert"]))
        if kind == "flip":
            records = flip(records, at, 1 << data.draw(st.integers(0, 7)))
        elif kind == "cut" and len(records) > 9:
            records = records[:at] + records[at + 1 :]
        else:
            odd = data.draw(st.sampled_from([b"\x00", b"\x01", b"\x80", b"\xff", b"\xff\xff\xff\xff\x7f"]))
            records = records[:at] + odd + records[at + (kind == "set") :]
    same_both_ways(batch(records=records, count=len(values)) + batch(values, len(values)))


@settings(max_examples=60, deadline=None)
@given(plain, st.integers(1, 1000), st.sampled_from([0, 1, 2]))
def test_a_wrong_record_count_is_no_reason_to_read_elsewhere(value: bytes, count: int, more: int) -> None:
    records = record(value, 0) + b"\x00" * more
    data = batch(records=records, count=count)
    if isinstance(read_head(data, 0), Batch):  # else the head is damage already
        same_both_ways(data)


@pytest.mark.parametrize(
    ("what", "odd"),
    [
        ("a key", record(writer.partition_change(), key=b"k")),
        ("headers", record(writer.partition_change(), headers=1, tail=b"\x02a\x02b")),
        ("another offset delta", record(writer.partition_change(), 7)),
        ("an unknown tag", record(writer.partition_change(fields={40: b"x"}))),
        ("a tag of a later version", record(writer.partition_change(fields={8: b"\x01"}))),
        ("an unknown version", record(writer.frame(5, 3, struct.pack(">i", 1) + writer.TOPIC_ID + tagged()))),
        ("a byte behind the fields", record(writer.partition_change() + b"\x00")),
        ("a length of too many bytes", b"\xbe\x00" + record(writer.partition_change())[1:]),
        ("a huge list", record(writer.partition_change(fields={0: b"\xff\xff\xff\xff\x0f"}))),
        ("a time beyond 64 bits", record(writer.partition_change(), timestamp_delta=(1 << 62) + 5)),
        ("no value", record(None)),
    ],
)
def test_what_is_unusual_is_left_to_the_reader(what: str, odd: bytes) -> None:
    data = batch(records=odd, count=1)
    same_both_ways(data)
    assert compiled(data) == 0, what


def test_batches_of_other_kinds_stand_between() -> None:
    change = writer.partition_change()
    parts = [
        writer.control_batch(writer.LEADER_CHANGE, writer.leader_change()),
        batch([change, change], 1),
        batch([change], 3, codec="gzip"),
        batch([change], 4, attributes=0x08, max_timestamp_ms=writer.TIMESTAMP_MS + 9),
        batch([change], 5, timestamp_ms=(1 << 63) - 1),
        batch([change], 6),
    ]
    found = same_both_ways(b"".join(parts))
    assert [r["offset"] for r in found if r["offset"] is not None and not r["damage"]][:3] == [0, 1, 2]


@pytest.mark.parametrize("name", ["every-record.log", "every-record-seed-7.log.xz"])
def test_every_record_type_of_kafkas_own_log(name: str) -> None:
    raw = (ORACLE / name).read_bytes()
    data = lzma.decompress(raw) if name.endswith(".xz") else raw
    found = same_both_ways(data)
    partitions = [r for r in found if r["type"] in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD")]
    assert len(partitions) >= 100
    assert compiled(data) > 0


@pytest.mark.parametrize("name", ["unclean", "elr", "churn", "diverge"])
def test_real_segments_and_snapshots(name: str) -> None:
    taken = 0
    with open_capture(capture(name)) as opened:
        for work in work_of(scan_files(opened.files)):
            data = Path(work.local).read_bytes()
            assert rows(data, work, 0) == rows(data, work, NEVER)
            taken += compiled(data[work.start : work.end])
    assert taken > 20


def test_small_files_do_not_wait_for_the_compiler() -> None:
    """A process that decodes little never loads it."""
    program = (
        "import sys; from evidence.columnar import decode_arrow; from evidence.decode import ByteRange;"
        f"data = open({str(ORACLE / 'every-record.log')!r}, 'rb').read();"
        "n = sum(map(len, decode_arrow(data, ByteRange('l', 'l', '0', 'metadata_segment', 0, len(data)), 'c')));"
        "print(n, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["740", "False"]
