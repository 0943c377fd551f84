"""Where real replicas' logs end, and what each kind of damage does to the answer."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.offsets.replica_log import Tail, read_tail
from evidence.wire import data_batches
from tests.support import writer
from tests.support.paths import ROOT
from tests.unit.evidence.accounting import FUZZ, edited

NODE = ROOT / "tests" / "samples" / "node"
REAL = {path.parent.name: path for path in sorted(NODE.glob("*/*.log"))}
PARTITION = REAL["orders-1"].read_bytes()
# Where the batches of PARTITION begin (kafka-dump-log 4.3.1), and the offset after each.
BATCHES = [0, 187, 399, 611, 823, 1035, 1190, 1268, 1799]
ENDS = [9, 11, 13, 15, 17, 19, 20, 30, 31]


def batch(
    base: int, *, epoch: int = 3, delta: int = 0, count: int | None = None, body: bytes = b"recordbytes", **head: Any
) -> bytes:
    """A record batch v2 with a good CRC, and bytes for its records that nobody reads. head: of writer.batch."""
    count = delta + 1 if count is None else count
    records = body * max(count, 0)
    return writer.batch(base_offset=base, epoch=epoch, records=records, count=count, last_offset_delta=delta, **head)


def tail(folder: Path, data: bytes, base_offset: int = 0) -> Tail:
    """read_tail of these bytes, its byte counts checked."""
    path = folder / f"{base_offset:020}.log"
    path.write_bytes(data)
    return checked(read_tail(path, base_offset), data)


def checked(found: Tail, data: bytes) -> Tail:
    unparsed = sum(d.length_bytes for d in found.damage) + found.trailing_bytes
    parsed, position = 0, 0
    while parsed < len(data) - unparsed:
        position, parsed = parsed, parsed + struct.unpack_from(">i", data, parsed + 8)[0] + 12
    assert parsed == len(data) - unparsed, "parsed + damage + trailing is the file's length"
    assert found.position == position
    assert len(found.damage) <= 1
    for damage in found.damage:
        assert (damage.position, damage.length_bytes) == (parsed, len(data) - parsed)
        assert damage.message
        assert damage.reason
        assert found.trailing_bytes == 0
    assert (found.log_end_offset is None) == bool(found.damage)
    assert (found.last_written_leader_epoch is None) == (parsed == 0)
    assert bool(found.note) == (found.trailing_bytes > 0 or not data)
    return found


def test_an_empty_segment_ends_where_it_begins(tmp_path: Path) -> None:
    assert tail(tmp_path, b"", 70) == Tail(70, None, 0, [], 0, "empty file: legal for an active segment")


@pytest.mark.parametrize("size", [1, 16, 17, 60, 61, 5000, (1 << 20) + 7])
def test_zeros_are_preallocated_space(tmp_path: Path, size: int) -> None:
    found = tail(tmp_path, bytes(size), 70)
    assert (found.log_end_offset, found.position, found.trailing_bytes) == (70, 0, size)
    assert found.note == f"{size} zero bytes and nothing else: preallocated"
    found = tail(tmp_path, PARTITION + bytes(size))
    assert (found.log_end_offset, found.position, found.trailing_bytes) == (31, 1799, size)
    assert found.note == f"{size} zero bytes after the last batch: preallocated"


def test_a_torn_last_batch_wherever_it_is_cut(tmp_path: Path) -> None:
    for cut in sorted({*range(1, 260), *range(260, len(PARTITION), 37), *(b + n for b in BATCHES for n in (-1, 0, 1))}):
        if cut < 1:
            continue
        whole = [i for i, end in enumerate([*BATCHES[1:], len(PARTITION)]) if end <= cut]
        found = tail(tmp_path, PARTITION[:cut])
        assert found.damage == []
        assert found.log_end_offset == (ENDS[whole[-1]] if whole else 0)
        at_end = cut in BATCHES
        assert found.trailing_bytes == (0 if at_end else cut - max(b for b in BATCHES if b <= cut))
        if not at_end and cut > 7:
            assert "torn batch" in (found.note or "") or "zero bytes" in (found.note or "")


@pytest.mark.parametrize("batch_number", range(len(BATCHES)))
def test_a_crc_error_stops_the_reader_with_and_without_later_batches(tmp_path: Path, batch_number: int) -> None:
    data = bytearray(PARTITION)
    data[BATCHES[batch_number] + 65] ^= 1
    found = tail(tmp_path, bytes(data))
    (damage,) = found.damage
    assert (damage.reason, damage.position) == ("crc_mismatch", BATCHES[batch_number])
    assert damage.offset == (ENDS[batch_number - 1] if batch_number else 0)
    assert found.log_end_offset is None
    assert found.position == (BATCHES[batch_number - 1] if batch_number else 0)
    assert found.last_written_leader_epoch == (0 if batch_number else None)


def test_a_length_beyond_the_file_is_damage_only_if_a_later_batch_contradicts_it(tmp_path: Path) -> None:
    first, bad = batch(10), bytearray(batch(11))
    struct.pack_into(">i", bad, 8, (1 << 31) - 1)
    found = tail(tmp_path, first + bad + batch(12), 10)
    assert [(d.reason, d.position, d.offset) for d in found.damage] == [("bad_length", len(first), 11)]
    assert "may hold a later batch" in found.damage[0].message
    found = tail(tmp_path, first + bad, 10)
    assert (found.log_end_offset, found.trailing_bytes) == (11, len(bad))


def test_a_search_for_later_batches_that_becomes_too_dear_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = batch(10, delta=1 << 20)[:61]
    torn = struct.pack(">qi", 10, 1 << 30) + head[12:]
    assert tail(tmp_path, torn + head * 20, 10).log_end_offset == 10
    monkeypatch.setattr(data_batches, "_TRIES", 10)
    assert tail(tmp_path, torn + head * 20, 10).log_end_offset is None
    monkeypatch.setattr(data_batches, "_TRIES", 1 << 20)
    monkeypatch.setattr(data_batches, "_BUDGET", 0)
    bad = bytearray(batch(10, body=bytes(1 << 12)))
    bad[-1] ^= 1
    assert tail(tmp_path, torn + bad * 2, 10).log_end_offset is None


def of_length(length: int) -> bytes:
    """A batch whose head gives another length."""
    return batch(12)[:8] + struct.pack(">i", length) + batch(12)[12:]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        *((batch(12, magic=magic), "bad_magic") for magic in (0, 1, 3, -1, 127)),
        *((of_length(length), "bad_length") for length in (-(1 << 31), -1, 0, 48)),
        (batch(9), "bad_offset"),
        (batch(11), "bad_offset"),
        (batch(-1), "bad_offset"),
        (batch(10 + (1 << 31)), "bad_offset"),
        (batch(12, delta=(1 << 31) - 1, count=1), "bad_offset"),
        (batch(12, delta=-1, count=0), "bad_offset"),
        (batch(12, epoch=-1), "bad_epoch"),
        (batch(12, epoch=2), "bad_epoch"),
        (batch(12, attributes=5), "bad_codec"),
        (batch(12, attributes=7), "bad_codec"),
        (batch(12, count=-1), "bad_count"),
        (batch(12, count=2), "bad_count"),
        (batch(12, delta=9, count=10, body=b"short"), "bad_count"),
    ],
)
@pytest.mark.parametrize("later", [b"", batch(40)])
def test_a_batch_that_no_log_can_hold(tmp_path: Path, bad: bytes, reason: str, later: bytes) -> None:
    first = batch(10, delta=1)
    found = tail(tmp_path, first + bad + later, 10)
    assert [(d.reason, d.position, d.offset) for d in found.damage] == [(reason, len(first), 12)]
    assert reason != "bad_magic" or f"magic {struct.unpack_from('>b', bad, 16)[0]}:" in found.damage[0].message
    assert (found.log_end_offset, found.last_written_leader_epoch, found.position) == (None, 3, 0)


def test_the_first_batch_may_not_be_before_the_segments_base_offset(tmp_path: Path) -> None:
    found = tail(tmp_path, batch(9), 10)
    assert [d.reason for d in found.damage] == ["bad_offset"]
    assert found.last_written_leader_epoch is None


@pytest.mark.parametrize(
    ("last", "end"),
    [
        (batch(500), 501),
        (batch(12, delta=9, count=3), 22),
        (batch(12, delta=9, count=0), 22),
        (batch(12, attributes=0x10, producer=(4000, 7, 3)), 13),
        (batch(12, attributes=0x30, producer=(4000, 7, -1)), 13),
        (batch(12, attributes=0x78, delta=4, count=1), 17),
        (batch(12, attributes=1, delta=99, count=100, body=b"z"), 112),
        (batch(12, attributes=4, delta=99, count=100, body=b"z"), 112),
        (batch(10 + (1 << 31) - 1), 10 + (1 << 31)),
        (batch(12, epoch=(1 << 31) - 1), 13),
    ],
)
def test_what_is_legal_in_a_topics_log(tmp_path: Path, last: bytes, end: int) -> None:
    first = batch(11, epoch=0)
    found = tail(tmp_path, first + last, 10)
    assert (found.damage, found.log_end_offset, found.position) == ([], end, len(first))
    assert found.last_written_leader_epoch in (3, (1 << 31) - 1)


def test_a_batch_larger_than_a_chunk_of_the_reader(tmp_path: Path) -> None:
    big = batch(10, attributes=3, body=bytes(range(256)) * 4200)
    assert tail(tmp_path, big + batch(11), 10).log_end_offset == 12
    bad = bytearray(big)
    bad[-1] ^= 1
    assert [d.reason for d in tail(tmp_path, bytes(bad), 10).damage] == ["crc_mismatch"]


def test_zeros_followed_by_other_bytes_are_damage(tmp_path: Path) -> None:
    found = tail(tmp_path, PARTITION + bytes(5000) + b"x")
    assert [(d.reason, d.position) for d in found.damage] == [("bad_magic", len(PARTITION))]


FILES = [path.read_bytes() for path in REAL.values()] + [
    PARTITION + bytes(100),
    batch(10) + batch(12, delta=5, count=0),
]


@FUZZ
@given(
    edited(st.sampled_from(FILES), most_bytes=80), st.integers(0, 3000), st.sampled_from([0, 5, 10, (1 << 63) - 1, -1])
)
def test_any_change_to_a_file_is_survived(data: bytes, cut: int, base_offset: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tail(Path(folder), data, base_offset)
        tail(Path(folder), data[: cut % (len(data) + 1)], base_offset)
