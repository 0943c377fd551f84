"""Framing: what is wrong with a file is found, placed and described, and everything else in it is kept."""

from __future__ import annotations

import random
import struct
from itertools import accumulate, pairwise

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.wire.batches import Batch, longest_rising, read_head
from tests.support import writer
from tests.unit.evidence.accounting import FUZZ, accounted

LOG = writer.log(batches=6, per_batch=2)
STARTS = [0, *accumulate(len(b) for b in LOG)]
WHOLE = b"".join(LOG)
OFFSETS = [0, 1, 3, 5, 7, 9]


def with_batch(index: int, replacement: bytes) -> bytes:
    return b"".join([*LOG[:index], replacement, *LOG[index + 1 :]])


def test_a_whole_log_is_parsed_to_the_last_byte() -> None:
    scan = accounted(WHOLE)
    assert [b.base_offset for b in scan.batches] == OFFSETS
    assert [b.last_offset for b in scan.batches] == [0, 2, 4, 6, 8, 10]
    assert [b.is_control for b in scan.batches] == [True, False, False, False, False, False]
    assert (scan.damage, scan.note, scan.parsed_bytes) == ([], None, len(WHOLE))


def test_a_head_is_read_field_by_field() -> None:
    data = writer.batch([writer.no_op()] * 3, 40, 7, timestamp_ms=1000, max_timestamp_ms=2000, attributes=0x08)
    head = read_head(b"junk" + data, 4)
    assert isinstance(head, Batch)
    assert (head.position, head.size_bytes) == (4, len(data))
    assert (head.base_offset, head.last_offset, head.record_count) == (40, 42, 3)
    assert (head.epoch, head.base_timestamp_ms, head.max_timestamp_ms) == (7, 1000, 2000)
    assert (head.codec, head.is_control, head.log_append_time) == ("none", False, True)
    assert head.key == (40, 7, writer.crc32c(data[21:]), len(data))


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (12, "12 bytes left, a batch head has 61"),
        (60, "60 bytes left, a batch head has 61"),
        (61, "are left"),
        (len(LOG[-1]) - 1, "the head gives a size of"),
    ],
)
def test_a_torn_last_batch_is_trailing_and_named(cut: int, message: str) -> None:
    scan = accounted(WHOLE[: STARTS[5] + cut])
    (damage,) = scan.damage
    assert [b.base_offset for b in scan.batches] == OFFSETS[:5]
    assert (damage.reason, damage.position, damage.length_bytes, damage.offset) == ("torn_batch", STARTS[5], cut, 9)
    assert message in damage.message
    assert (scan.trailing_bytes, scan.quarantined_bytes) == (cut, 0)
    assert scan.note == f"torn batch of {cut} bytes at the end"
    assert damage.describe("cap/0.log").startswith(f"cap/0.log: byte {STARTS[5]} (offset 9): ")


# No CRC covers the base offset (bytes 0 to 7) and the leader epoch (12 to 15).
@pytest.mark.parametrize("index", range(6))
@pytest.mark.parametrize(
    ("byte", "mask", "reason"),
    [
        (70, 0x01, "crc_mismatch"),
        *((byte, mask, "offset_flip") for byte, mask in ((7, 0x01), (7, 0x04), (7, 0x40), (4, 0x01), (1, 0x80))),
        (0, 0x80, "bad_offset"),
        *((byte, mask, "epoch_flip") for byte, mask in ((15, 0x01), (15, 0x10), (12, 0x40))),
        (12, 0x80, "bad_epoch"),
    ],
)
def test_a_flipped_bit_costs_only_its_own_batch(index: int, byte: int, mask: int, reason: str) -> None:
    scan = accounted(writer.flip(WHOLE, STARTS[index] + byte, mask))
    (damage,) = scan.damage
    assert [b.base_offset for b in scan.batches] == OFFSETS[:index] + OFFSETS[index + 1 :]
    assert (damage.reason, damage.position, damage.length_bytes) == (reason, STARTS[index], len(LOG[index]))
    assert damage.offset == (None if (index, reason) == (0, "bad_offset") else OFFSETS[index])
    assert ("CRC32C" in damage.message) == (reason == "crc_mismatch")


def test_an_epoch_that_rises_with_a_leader_change_is_no_damage() -> None:
    second = writer.log(batches=3, epoch=4, base_offset=11)
    third = writer.log(batches=1, epoch=5, base_offset=16)
    scan = accounted(b"".join([*LOG, *second, *third]))
    assert scan.damage == []
    assert [b.epoch for b in scan.batches] == [1] * 6 + [4] * 3 + [5]


def test_epochs_of_single_batches_are_trusted_if_nothing_contradicts_them() -> None:
    data = writer.batch([writer.no_op()], 0, 1) + writer.batch([writer.no_op()], 1, 2)
    assert [b.epoch for b in accounted(data).batches] == [1, 2]


def test_an_epoch_that_decreases_is_quarantined() -> None:
    back = writer.log(batches=3, epoch=0, base_offset=11)
    later = writer.batch([writer.no_op()], 16, 1)
    scan = accounted(b"".join([WHOLE, *back, later]))
    assert [(d.reason, d.offset) for d in scan.damage] == [("epoch_flip", 11)] * 3
    assert scan.damage[0].message == "epoch 0 is out of order: epochs never decrease in a log"
    assert scan.batches[-1].base_offset == 16


def test_a_hole_between_two_dense_stretches_is_not_taken_for_a_flip() -> None:
    later = [writer.batch([writer.no_op()], 100 + i) for i in range(3)]
    scan = accounted(b"".join([*LOG, *later]))
    assert scan.damage == []
    assert [b.base_offset for b in scan.batches][-3:] == [100, 101, 102]


def patched(at: int, form: str, value: int) -> bytes:
    """The third batch with another number at a place in its head."""
    return LOG[2][:at] + struct.pack(form, value) + LOG[2][at + struct.calcsize(form) :]


LENGTHS = (-1, -(1 << 31), 0, 13, 48, (64 << 20) - 11, (1 << 31) - 1)
# (record count, last offset delta)
COUNTS = ((-1, 1), (-(1 << 31), 1), (0, 1), (0, 0), (1, 1), (3, 1), (1000, 999), ((1 << 31) - 1, (1 << 31) - 2))
TWO = [writer.topic("a"), writer.topic("b")]


@pytest.mark.parametrize(
    ("wrong", "reason", "message"),
    [
        *((patched(8, ">i", length), "bad_length", f"batch length {length}") for length in LENGTHS),
        *((patched(16, ">b", magic), "bad_magic", f"magic {magic}") for magic in (0, 1, 3, -1)),
        *((writer.batch(TWO, 3, count=c, last_offset_delta=d), "bad_count", f"record count {c}") for c, d in COUNTS),
        (writer.batch(TWO, 3, attributes=5), "bad_codec", "codec 5"),
        # Offsets outside 64 bits.
        (writer.batch(TWO, -1), "bad_offset", "base offset -1"),
        (writer.batch(TWO, 3, last_offset_delta=-5), "bad_offset", "delta -5"),
        (writer.batch(TWO, (1 << 63) - 2), "bad_offset", "delta 1"),
    ],
)
def test_a_head_that_cannot_be_costs_only_its_own_batch(wrong: bytes, reason: str, message: str) -> None:
    scan = accounted(with_batch(2, wrong))
    (damage,) = scan.damage
    assert (damage.reason, damage.position, damage.length_bytes, damage.offset) == (reason, STARTS[2], len(wrong), 3)
    assert message in damage.message
    assert [b.base_offset for b in scan.batches] == [0, 1, 5, 7, 9]


def test_a_length_that_happens_to_end_at_a_later_batch_does_not_hide_the_batches_between() -> None:
    broken = LOG[1][:8] + struct.pack(">i", len(LOG[1]) + len(LOG[2]) - 12) + LOG[1][12:]
    scan = accounted(with_batch(1, broken))
    assert [(d.reason, d.position, d.length_bytes) for d in scan.damage] == [("crc_mismatch", STARTS[1], len(LOG[1]))]
    assert [b.base_offset for b in scan.batches] == [0, 3, 5, 7, 9]


def test_a_batch_beyond_the_size_limit_is_refused_without_reading_it() -> None:
    data = bytearray(70 << 20)
    data[: len(LOG[0])] = LOG[0][:8] + struct.pack(">i", 65 << 20) + LOG[0][12:]
    scan = accounted(bytes(data))
    assert [(d.reason, d.length_bytes) for d in scan.damage] == [("not_a_segment", len(data))]
    assert "above the limit" in scan.damage[0].message


def test_a_batch_of_more_than_8_mib_is_read() -> None:
    big = writer.batch([writer.topic("a" * 30_000)] * 300, crc=0)
    big = big[:17] + struct.pack(">I", google_crc32c.value(big[21:])) + big[21:]
    assert len(big) > 8 << 20
    scan = accounted(big)
    assert (scan.damage, [b.record_count for b in scan.batches]) == ([], [300])


@pytest.mark.parametrize(
    ("data", "batches", "trailing", "note"),
    [
        (b"", 0, 0, "empty file: legal for an active segment"),
        (WHOLE + bytes(4096), 6, 4096, "4096 zero bytes after the last batch: preallocated"),
        (bytes(1000), 0, 1000, "1000 zero bytes and nothing else: preallocated"),
    ],
)
def test_an_empty_file_and_zeros_are_no_damage(data: bytes, batches: int, trailing: int, note: str) -> None:
    scan = accounted(data)
    assert (len(scan.batches), scan.damage, scan.quarantined_bytes) == (batches, [], 0)
    assert (scan.trailing_bytes, scan.note) == (trailing, note)


@pytest.mark.parametrize("size", [1, 60, 61, 5000])
def test_garbage_is_no_segment(size: int) -> None:
    data = random.Random(size).randbytes(size)
    scan = accounted(data)
    (damage,) = scan.damage
    assert (damage.reason, damage.position, damage.length_bytes) == ("not_a_segment", 0, size)
    assert (list(scan.batches), scan.quarantined_bytes) == ([], size)


@pytest.mark.parametrize(("size", "at", "offset"), [(1, 3, 5), (100, 3, 5), (77, 0, None)])
def test_garbage_between_batches_is_cut_out_exactly(size: int, at: int, offset: int | None) -> None:
    junk = random.Random(7).randbytes(size)
    scan = accounted(b"".join([*LOG[:at], junk, *LOG[at:]]))
    (damage,) = scan.damage
    assert (damage.position, damage.length_bytes, damage.offset) == (STARTS[at], size, offset)
    assert [b.base_offset for b in scan.batches] == OFFSETS


@pytest.mark.parametrize(
    "pattern",
    [
        b"\x02",
        b"\x00\x02",
        b"\xff",
        # Heads that pass every cheap check and promise a batch of half the file, each with a wrong CRC.
        struct.pack(">qiibIhiqqqhii", 0, 2 << 20, 1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1),
        # A good batch between such heads: each damage begins the search anew.
        struct.pack(">qiibIhiqqqhii", 0, 2 << 20, 1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1) + LOG[1],
    ],
)
def test_a_hostile_file_of_4_mb_is_accounted_for_in_bounded_work(pattern: bytes) -> None:
    data = pattern * ((4 << 20) // len(pattern))
    scan = accounted(data)
    assert scan.quarantined_bytes > len(data) // 2


def test_a_stopped_search_is_reported_and_the_rest_quarantined() -> None:
    head = struct.pack(">qiibIhiqqqhii", 0, 2 << 20, 1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    scan = accounted(LOG[0] + head * ((4 << 20) // len(head)))
    assert "the search for later batches was stopped" in scan.damage[-1].message
    assert scan.trailing_bytes == 0


def test_a_search_that_found_nothing_is_not_repeated_and_not_called_given_up() -> None:
    bad = writer.flip(LOG[0], 70)
    scan = accounted(WHOLE + bad * 20_000)
    assert len(scan.damage) == 20_000
    assert {(d.reason, d.length_bytes) for d in scan.damage} == {("crc_mismatch", len(bad))}
    assert not any("given up" in d.message for d in scan.damage)


@FUZZ
@given(st.binary(max_size=400))
def test_any_bytes_are_accounted_for(data: bytes) -> None:
    accounted(data)


@FUZZ
@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(1, 255)), min_size=1, max_size=4),
    st.integers(0, len(WHOLE)),
    st.binary(max_size=80),
)
def test_any_mutation_of_a_log_is_accounted_for(flips: list[tuple[int, int]], at: int, junk: bytes) -> None:
    data = WHOLE
    for position, mask in flips:
        data = writer.flip(data, position, mask)
    for mutated in (data, data[:at], data[at:], data[:at] + junk + data[at:]):
        for batch in accounted(mutated).batches:
            assert read_head(mutated, batch.position) == batch


@FUZZ
@given(st.integers(0, 5), st.integers(0, 60), st.integers(1, 255))
def test_one_damaged_head_never_costs_another_batch(index: int, byte: int, mask: int) -> None:
    scan = accounted(writer.flip(WHOLE, STARTS[index] + byte, mask))
    kept = {b.base_offset for b in scan.batches if b.position != STARTS[index]}
    assert kept == {o for i, o in enumerate(OFFSETS) if i != index}


@FUZZ
@given(st.lists(st.integers(-5, 5), max_size=12), st.booleans())
def test_longest_rising_is_rising_and_as_long_as_any(values: list[int], strictly: bool) -> None:
    chosen = [values[i] for i in sorted(longest_rising(values, strictly))]
    assert all(a < b or (a == b and not strictly) for a, b in pairwise(chosen))
    best = [1] * len(values)
    for i, value in enumerate(values):
        fits = [best[j] for j in range(i) if values[j] < value or (values[j] == value and not strictly)]
        best[i] = 1 + max(fits, default=0)
    assert len(chosen) == max(best, default=0)
