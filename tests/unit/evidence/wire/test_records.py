"""Records inside a batch: each is decoded, or named as damage in its place, and the batch's body is covered by both.

tests/unit/golden/records.jsonl has a batch a line (tests/support/log_text.py), what it shows, and what is read of it:
of records what differs from DEFAULTS, of damage all.
"""

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.errors import Damage
from evidence.wire.batches import Batch, read_head
from evidence.wire.records import Record, read_records
from tests.support import writer
from tests.support.golden import filled
from tests.support.log_text import log_of
from tests.support.writer import record
from tests.unit.evidence.accounting import FUZZ

GOOD = writer.topic("orders")
DEFAULTS = {"timestamp_ms": writer.TIMESTAMP_MS, "epoch": 1, "version": 0, "is_control": False, "is_known": True}


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


def shown(item: Record | Damage) -> dict[str, Any]:
    if isinstance(item, Damage):
        return asdict(item)
    row = {name: value for name, value in asdict(item).items() if value != DEFAULTS.get(name)}
    name = item.data.get("name", "")
    return {**row, "data": {**item.data, "name": f"{len(name)} characters"} if len(name) > 99 else item.data}


@filled("records")
def test_what_is_read_of_a_batch(case: dict[str, str]) -> dict[str, Any]:
    items = [shown(item) for item in read(log_of(case["log"]))]
    if "between good ones" in case["what"]:
        assert [(item["offset"], item["data"]["name"]) for item in items[::2]] == [(0, "orders"), (2, "orders")]
    return {"what": case["what"], "log": case["log"], "items": items}


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


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_cannot_be_decompressed_is_damage_as_a_whole(codec: str) -> None:
    data = writer.batch([GOOD] * 3, 9, attributes=writer.CODECS.index(codec))
    item = read(data)[-1]
    assert isinstance(item, Damage)
    assert (item.position, item.length_bytes, item.offset) == (0, len(data), 9)
    assert item.reason in ("bad_compression", "decompression_bomb")


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
