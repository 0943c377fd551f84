"""Records inside a batch: each is decoded, or named as damage in its place, and the batch's body is covered by both."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.errors import Damage
from evidence.limits import MAX_TIME_MS
from evidence.wire.batches import Batch, read_head
from evidence.wire.records import Record, read_records
from tests.support import writer
from tests.support.golden import cases
from tests.support.writer import record, tagged, varint
from tests.unit.evidence.accounting import FUZZ

GOOD = writer.topic("orders")


def read(data: bytes, position: int = 0, show_secrets: bool = False) -> list[Record | Damage]:
    """The records of the batch at `position`, its body checked for gaps and overlaps."""
    batch = read_head(data, position)
    assert isinstance(batch, Batch)
    items = list(read_records(data, batch, show_secrets))
    covers_body(data, batch, items)
    return items


def covers_body(data: bytes, batch: Batch, items: list[Record | Damage]) -> None:
    if batch.codec != "none":
        whole = (batch.position, batch.size_bytes)
        assert all(i.position == batch.position for i in items)
        assert all((i.position, i.length_bytes) == whole for i in items if isinstance(i, Damage) and i.length_bytes)
        return
    reached, end = batch.position + 61, batch.position + batch.size_bytes
    for item in items:
        assert item.position == reached
        reached += item.length_bytes if isinstance(item, Damage) else record_size(data, item.position)
    assert reached == end


def record_size(data: bytes, position: int) -> int:
    value = shift = size = 0
    while True:
        byte = data[position + size]
        value |= (byte & 0x7F) << shift
        shift, size = shift + 7, size + 1
        if byte < 0x80:
            return size + ((value >> 1) ^ -(value & 1))


def between_good_ones(odd: bytes) -> Record | Damage:
    """What becomes of one record section between two good ones, which must both survive."""
    records = record(GOOD, 0) + odd + record(GOOD, 2)
    first, item, last = read(writer.batch(base_offset=10, records=records, count=3))
    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert (first.offset, last.offset) == (10, 12)
    assert isinstance(item, Record) or item.offset == 11
    return item


def decoded(odd: bytes) -> Record:
    item = between_good_ones(odd)
    assert isinstance(item, Record)
    return item


def damaged(odd: bytes) -> tuple[str, str]:
    item = between_good_ones(odd)
    assert isinstance(item, Damage)
    return item.reason, item.message


def test_records_carry_offset_time_epoch_and_the_position_of_their_first_byte() -> None:
    data = b"x" * 5 + writer.batch([GOOD, writer.config("a", "b"), writer.no_op()], 100, 7)
    items = read(data, 5)
    assert [(i.offset, i.timestamp_ms, i.epoch) for i in items if isinstance(i, Record)] == [
        (100 + n, writer.TIMESTAMP_MS, 7) for n in range(3)
    ]
    assert [i.type for i in items if isinstance(i, Record)] == ["TOPIC_RECORD", "CONFIG_RECORD", "NO_OP_RECORD"]
    assert items[0].position == 5 + 61
    assert items[1].position == 5 + 61 + len(record(GOOD))


def test_a_records_time_is_base_plus_delta_or_the_append_time() -> None:
    records = record(GOOD, 0) + record(GOOD, 1, timestamp_delta=-5)
    created, appended = (
        read(writer.batch(records=records, count=2, timestamp_ms=1000, max_timestamp_ms=9000, attributes=bits))
        for bits in (0, 0x08)
    )
    assert [i.timestamp_ms for i in created if isinstance(i, Record)] == [1000, 995]
    assert [i.timestamp_ms for i in appended if isinstance(i, Record)] == [9000, 9000]


@pytest.mark.parametrize("time", [MAX_TIME_MS, -MAX_TIME_MS])
@pytest.mark.parametrize("delta", [1, 1 << 40, (1 << 63) - 1])
def test_a_time_after_the_year_9999_is_damage(time: int, delta: int) -> None:
    records = record(GOOD, 0) + record(GOOD, 1, timestamp_delta=delta if time > 0 else -delta)
    good, bad = read(writer.batch(records=records, count=2, timestamp_ms=time))
    assert isinstance(good, Record)
    assert isinstance(bad, Damage)
    assert bad.reason == "bad_timestamp"


NOT_KRAFT = "the record has {}, which no KRaft controller writes"


def framed(body: bytes) -> bytes:
    return varint(len(body)) + body


@pytest.mark.parametrize(
    ("odd", "reason", "message"),
    [
        *(
            (record(GOOD + bytes(n), 1), "trailing_bytes", f"found {n} byte(s) of garbage after TOPIC_RECORD")
            for n in (1, 8)
        ),
        (record(writer.frame(2, 0, b"", frame_version=0), 1), "frame_version", "frame version 0, only 1 is supported"),
        (record(writer.frame(2, 0, b"", frame_version=300), 1), "frame_version", "frame version 300, only 1 is"),
        *((record(GOOD, 1, key=key), "not_kraft", NOT_KRAFT.format("a key")) for key in (b"k", b"")),
        *((record(GOOD, 1, headers=n), "not_kraft", NOT_KRAFT.format("headers")) for n in (1, -1)),
        (record(GOOD, 1, tail=b"\x07\x07"), "not_kraft", NOT_KRAFT.format("2 bytes after its headers")),
        # An offset delta that is not the record's number.
        *((record(GOOD, delta), "bad_offset", "") for delta in (-1, 0, 2, 3, (1 << 31) - 1, -(1 << 31))),
        # Lengths inside the record.
        (framed(b""), "short_record", ""),
        (framed(b"\x00"), "short_record", ""),
        (framed(b"\x00" + b"\x80" * 10), "bad_varint", ""),
        (framed(b"\x00\x00" + b"\x80" * 5), "bad_varint", ""),
        (framed(b"\x00\x00\x02\x80"), "short_record", ""),
        (framed(b"\x00\x00\x02" + varint(-1) + varint(-1) + b"\x00"), "bad_value", ""),
        (framed(b"\x00\x00\x02" + varint(-1) + varint(-9) + b"\x00"), "bad_value", ""),
        (framed(b"\x00\x00\x02" + varint(-1) + varint(1000) + GOOD), "bad_value", ""),
        (framed(b"\x00\x00\x02" + varint(1000) + varint(0)), "short_record", ""),
        (framed(b"\x00\x00\x02" + varint(-1) + varint(0) + b"\x00"), "short_record", ""),
        (framed(b"\x00\x00\x02" + varint(-1) + varint(1) + b"\x01\x00"), "short_record", ""),
        # A type or version beyond 16 bits, as it is to Kafka.
        *((record(writer.frame(key, version, b""), 1), "bad_frame", "") for key, version in ((40000, 0), (5, 32768))),
    ],
)
def test_a_malformed_record_is_damage_and_its_neighbours_are_kept(odd: bytes, reason: str, message: str) -> None:
    found = damaged(odd)
    assert (found[0], found[1][: len(message)]) == (reason, message)


@pytest.mark.parametrize(
    ("key", "version", "name"), [(6, 0, "UNKNOWN_6"), (99, 0, "UNKNOWN_99"), (5, 9, "PARTITION_CHANGE_RECORD")]
)
def test_an_unknown_type_or_version_is_kept_as_raw_bytes(key: int, version: int, name: str) -> None:
    value = writer.frame(key, version, b"\x01\x02\x03")
    item = decoded(record(value, 1))
    assert (item.type, item.version, item.data) == (name, version, {"raw": value.hex()})
    assert not item.is_known


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        # A null where Kafka allows none: topic name, then the replicas of a partition.
        (writer.frame(2, 0, b"\x00" + bytes(16) + tagged()), "bad_null"),
        (writer.frame(3, 0, bytes(20) + b"\x00"), "bad_null"),
        # Lengths beyond what is left, or beyond what Kafka allows for a string.
        (writer.frame(2, 0, writer.uvarint(200) + b"abc"), "bad_length"),
        (writer.frame(3, 0, bytes(20) + writer.uvarint(1 << 31)), "bad_length"),
        (writer.frame(2, 0, writer.string("x" * 32768) + bytes(16) + tagged()), "bad_length"),
        (writer.frame(5, 0, bytes(20) + tagged({0: b"\x7f"})), "bad_length"),
        # An array whose elements run past the end of the record.
        (writer.frame(3, 0, bytes(20) + writer.uvarint(3) + bytes(4)), "short_record"),
        (writer.frame(3, 0, bytes(20) + writer.uvarint(5) + bytes(7)), "short_record"),
        # A tagged field whose size differs from that of its content; one that ends after the record.
        (writer.frame(5, 0, bytes(20) + b"\x01\x01\x05" + bytes(5)), "bad_tag"),
        (writer.frame(5, 0, bytes(20) + b"\x01\x01\x09" + bytes(4)), "short_record"),
        (writer.frame(2, 0, writer.string("a") + bytes(16) + b"\x05"), "short_record"),
        (writer.frame(2, 0, writer.string("a") + bytes(3)), "short_record"),
        (writer.frame(2, 0, b"\x80\x80\x80\x80\x80\x01"), "bad_varint"),
    ],
)
def test_a_body_that_contradicts_itself_is_damage(body: bytes, reason: str) -> None:
    assert damaged(record(body, 1))[0] == reason


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (writer.string("x" * 32767) + bytes(16) + tagged(), {"name": "x" * 32767}),
        (b"\x04a\xff\x00" + bytes(16) + tagged(), {"name": "a\N{REPLACEMENT CHARACTER}\x00"}),
        (
            writer.string("a") + bytes(16) + tagged({9: b"\x01\x02"}),
            {"name": "a", "_unknownTaggedFields": {"9": "AQI="}},
        ),
    ],
)
def test_what_is_unusual_in_a_body_is_read(body: bytes, data: dict[str, object]) -> None:
    item = decoded(record(writer.frame(2, 0, body), 1))
    assert item.is_known
    assert item.data == {"topicId": "AAAAAAAAAAAAAAAAAAAAAA", **data}


@pytest.mark.parametrize(
    ("rest", "count", "reason", "message"),
    [
        *(
            (varint(length) + bytes(20), 3, "bad_frame", "the rest of the batch is unreadable")
            for length in (-1, 10_000, -(1 << 31))
        ),
        (b"\xff" * 20, 3, "bad_varint", "the rest of the batch is unreadable"),
        (record(GOOD, 1), 1, "trailing_bytes", f"{len(record(GOOD, 1))} bytes after the last of 1 records"),
        # Fewer records than the head promises.
        (b"", 2, "short_record", ""),
    ],
)
def test_a_lost_record_frame_takes_the_rest_of_the_batch_and_no_more(
    rest: bytes, count: int, reason: str, message: str
) -> None:
    first, damage = read(writer.batch(base_offset=10, records=record(GOOD, 0) + rest, count=count))
    assert isinstance(first, Record)
    assert isinstance(damage, Damage)
    assert (damage.reason, damage.position, damage.length_bytes) == (reason, 61 + len(record(GOOD)), len(rest))
    assert damage.offset == (10 if reason == "trailing_bytes" else 11)
    assert damage.message.endswith(message)


@pytest.mark.parametrize("case", cases("control_records"), ids=lambda case: case["type"])
def test_each_kind_of_control_record_is_decoded(case: dict[str, Any]) -> None:
    (item,) = read(writer.control_batch(case["kind"], bytes.fromhex(case["value"]), base_offset=5))
    assert isinstance(item, Record)
    assert (item.type, item.data) == (case["type"], case["data"])
    assert (item.offset, item.is_control, item.is_known) == (5, True, True)


@pytest.mark.parametrize(
    ("kind", "name", "known"),
    [(0, "ABORT", True), (1, "COMMIT", True), (7, "UNKNOWN_CONTROL_7", False), (-1, "UNKNOWN_CONTROL_-1", False)],
)
def test_a_control_record_that_kraft_gives_no_meaning_consumes_its_offset(kind: int, name: str, known: bool) -> None:
    (item,) = read(writer.control_batch(kind, b"\x00\x00\x00\x00\x00\x07"))
    assert isinstance(item, Record)
    assert (item.type, item.is_known, item.is_control) == (name, known, True)
    assert item.data == {"raw": "000000000007"}


def test_a_control_record_of_an_unknown_version_is_kept_as_raw_bytes() -> None:
    (item,) = read(writer.control_batch(writer.LEADER_CHANGE, struct.pack(">h", 9) + b"\x01"))
    assert isinstance(item, Record)
    assert (item.type, item.version, item.is_known, item.data) == ("LEADER_CHANGE", 9, False, {"raw": "000901"})


@pytest.mark.parametrize(
    ("data", "reason", "message"),
    [
        (writer.control_batch(2, writer.leader_change(), key=b"\x00\x00"), "bad_control_key", ""),
        (writer.control_batch(2, b""), "short_record", ""),
        (writer.control_batch(2, writer.leader_change() + b"\x00"), "trailing_bytes", ""),
        (
            writer.batch([writer.leader_change()], control=True),
            "not_kraft",
            NOT_KRAFT.format("no key in a control batch"),
        ),
    ],
)
def test_a_malformed_control_record_is_damage(data: bytes, reason: str, message: str) -> None:
    (item,) = read(data)
    assert isinstance(item, Damage)
    assert (item.reason, item.message[: len(message)]) == (reason, message)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_the_same_records(codec: str) -> None:
    values = [writer.topic(f"topic-{i}") for i in range(50)]
    plain = read(writer.batch(values, 9))
    packed = read(writer.batch(values, 9, codec=codec))
    assert [(i.offset, i.data) for i in packed if isinstance(i, Record)] == [
        (i.offset, i.data) for i in plain if isinstance(i, Record)
    ]
    remarks = [i for i in packed if isinstance(i, Damage)]
    assert len(packed) - len(remarks) == 50
    # 50 topics take more bytes than they take compressed, but no record is larger than the batch.
    assert [(r.reason, r.length_bytes, r.offset) for r in remarks] == [("unexpected_codec", 0, 9)]


def test_a_record_larger_than_its_compressed_batch_is_read_and_remarked_on() -> None:
    """Kafka's own reader compares the record with the compressed size and refuses it."""
    _, remark, item = read(writer.batch([writer.topic("a" * 2000)], 9, codec="gzip"))
    assert isinstance(item, Record)
    assert isinstance(remark, Damage)
    assert (remark.reason, remark.length_bytes, remark.offset) == ("larger_than_batch", 0, 9)


def test_a_length_with_more_bytes_than_it_needs_is_read_and_remarked_on() -> None:
    body = record(GOOD, 0)[1:]
    length = writer.varint(len(body))
    overlong = length[:-1] + bytes([length[-1] | 0x80, 0])
    remark, item = read(writer.batch(base_offset=3, records=overlong + body, count=1))
    assert isinstance(item, Record)
    assert isinstance(remark, Damage)
    assert (remark.reason, remark.length_bytes, remark.offset) == ("overlong_varint", 0, 3)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_cannot_be_decompressed_is_damage_as_a_whole(codec: str) -> None:
    data = writer.batch([GOOD] * 3, 9, attributes=writer.CODECS.index(codec))
    item = read(data)[-1]
    assert isinstance(item, Damage)
    assert (item.position, item.length_bytes, item.offset) == (0, len(data), 9)
    assert item.reason in ("bad_compression", "decompression_bomb")


def test_a_damaged_record_in_a_compressed_batch_is_found_by_its_batch() -> None:
    records = record(GOOD, 0) + record(GOOD, 1, headers=1) + record(GOOD, 2)
    items = read(writer.batch(base_offset=4, records=records, count=3, codec="zstd"))[1:]
    assert [isinstance(i, Record) for i in items] == [True, False, True]
    assert items[1].offset == 5


def test_of_many_damaged_records_in_a_compressed_batch_one_is_named() -> None:
    """A kilobyte holds 100,000 of them: each was a line on the terminal and a row with the batch's bytes."""
    records = b"".join(record(GOOD, i, headers=i % 3) for i in range(99))
    items = read(writer.batch(base_offset=4, records=records, count=99, codec="gzip"))[1:]
    assert sum(isinstance(i, Record) for i in items) == 33
    first, more = [i for i in items if isinstance(i, Damage)]
    assert (first.offset, first.reason, more.reason, more.length_bytes) == (5, "not_kraft", "not_kraft", 0)
    assert more.message == "65 more times in this compressed batch"


@FUZZ
@given(st.binary(max_size=120), st.integers(1, 8), st.booleans(), st.sampled_from(writer.CODECS))
def test_any_records_section_is_covered_by_records_and_damage(
    section: bytes, count: int, control: bool, codec: str
) -> None:
    data = writer.batch(records=section + bytes(7 * count), count=count, control=control, codec=codec)
    batch = read_head(data, 0)
    assert isinstance(batch, Batch)
    items = list(read_records(data, batch))
    covers_body(data, batch, [i for i in items if not (isinstance(i, Damage) and i.length_bytes == 0)])
    assert all(batch.base_offset <= i.offset <= batch.last_offset for i in items if isinstance(i, Record))


@FUZZ
@given(st.data())
def test_any_mutation_of_good_records_is_covered_by_records_and_damage(draws: st.DataObject) -> None:
    values = [GOOD, writer.partition_change(1, {0: writer.int32s([1, 2]), 1: b"\x00\x00\x00\x01"}), writer.no_op()]
    section = b"".join(record(v, i) for i, v in enumerate(values))
    for _ in range(draws.draw(st.integers(1, 3))):
        section = writer.flip(section, draws.draw(st.integers(0, len(section) - 1)), draws.draw(st.integers(1, 255)))
    data = writer.batch(records=section, count=3)
    batch = read_head(data, 0)
    assert isinstance(batch, Batch)
    items = [i for i in read_records(data, batch) if not (isinstance(i, Damage) and i.length_bytes == 0)]
    covers_body(data, batch, items)


@FUZZ
@given(st.binary(max_size=60), st.integers(0, 30), st.integers(0, 3))
def test_any_body_of_any_type_is_a_record_or_damage(body: bytes, api_key: int, version: int) -> None:
    (item,) = read(writer.batch([writer.frame(api_key, version, body)]))
    assert isinstance(item, Record) or item.reason
