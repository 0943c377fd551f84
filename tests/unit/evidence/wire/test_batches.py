"""Framing: what is wrong with a file is found, placed and described, and everything else in it is kept.

tests/unit/golden/framed.jsonl has a log a line (tests/support/log_text.py), what it shows, and what is found: batches
(first and last offset @ epoch, c for control), damage, note.
"""

import struct
from dataclasses import asdict
from itertools import accumulate, pairwise
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.wire.batches import Batch, longest_rising, read_head
from tests.support import writer
from tests.support.golden import filled
from tests.support.log_text import log_of
from tests.unit.evidence.accounting import FUZZ, accounted

LOG = writer.log(batches=6, per_batch=2)
STARTS = [0, *accumulate(len(b) for b in LOG)]
WHOLE = b"".join(LOG)
OFFSETS = [0, 1, 3, 5, 7, 9]


@filled("framed")
def test_what_is_found_in_a_log(case: dict[str, Any]) -> dict[str, Any]:
    scan = accounted(log_of(case["log"]))
    batches = (f"{b.base_offset}-{b.last_offset}@{b.epoch}{'c' * b.is_control}" for b in scan.batches)
    account = {"note": scan.note, "trailing_bytes": scan.trailing_bytes, "damage": [asdict(d) for d in scan.damage]}
    return {**{name: case[name] for name in ("what", "log")}, "batches": " ".join(batches), **account}


def test_a_head_is_read_field_by_field() -> None:
    data = writer.batch([writer.no_op()] * 3, 40, 7, timestamp_ms=1000, max_timestamp_ms=2000, attributes=0x08)
    head = read_head(b"junk" + data, 4)
    assert isinstance(head, Batch)
    assert (head.position, head.size_bytes) == (4, len(data))
    assert (head.base_offset, head.last_offset, head.record_count) == (40, 42, 3)
    assert (head.epoch, head.base_timestamp_ms, head.max_timestamp_ms) == (7, 1000, 2000)
    assert (head.codec, head.is_control, head.log_append_time) == ("none", False, True)
    assert head.key == (40, 7, writer.crc32c(data[21:]), len(data))


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
