"""Where real replicas' logs end, and what each kind of damage does to the answer.

tests/unit/golden/tails.jsonl has a log a line (tests/support/log_text.py), its base offset, what it shows, and what is
read of it.
"""

import struct
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.offsets.replica_log import Tail, read_tail
from evidence.wire import data_batches
from tests.support.golden import filled
from tests.support.log_text import log_of
from tests.support.paths import ROOT
from tests.unit.evidence.accounting import FUZZ, edited

REAL = sorted((ROOT / "tests" / "samples" / "node").glob("*/*.log"))
PARTITION = log_of("sample orders-1")
# Where the batches of PARTITION begin (kafka-dump-log 4.3.1), and the offset after each.
BATCHES = [0, 187, 399, 611, 823, 1035, 1190, 1268, 1799]
ENDS = [9, 11, 13, 15, 17, 19, 20, 30, 31]


def tail(folder: Path, data: bytes, base_offset: int = 0, epochs: Sequence[tuple[int, int]] = ()) -> Tail:
    """read_tail of these bytes, its byte counts checked."""
    path = folder / f"{base_offset:020}.log"
    path.write_bytes(data)
    return checked(read_tail(path, base_offset, epochs), data)


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


@filled("tails")
def test_where_a_log_ends(case: dict[str, Any]) -> dict[str, Any]:
    data, base, epochs = log_of(case["log"]), case["base_offset"], [(e, start) for e, start in case.get("epochs", ())]
    with tempfile.TemporaryDirectory() as folder:
        read = tail(Path(folder), data, base, epochs)
        later = tail(Path(folder), data + log_of("data base_offset=40"), base)
    # A damaged batch is no torn one, whatever follows.
    assert later.damage or not read.damage or epochs
    return {**case, "tail": asdict(read)}


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


def test_a_search_for_later_batches_that_becomes_too_dear_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = "set 0:8 >i 11534396; set 0:57 >i 1048577"  # its length, and how many records
    head = log_of(f"data base_offset=10 last_offset_delta=1048576 count=0; {numbers}")
    torn = struct.pack(">qi", 10, 1 << 30) + head[12:]
    assert tail(tmp_path, torn + head * 20, 10).log_end_offset == 10
    monkeypatch.setattr(data_batches, "_TRIES", 10)
    assert tail(tmp_path, torn + head * 20, 10).log_end_offset is None
    monkeypatch.setattr(data_batches, "_TRIES", 1 << 20)
    monkeypatch.setattr(data_batches, "_BUDGET", 0)
    bad = log_of(f"data base_offset=10 text={'x' * 4096}; flip 0:-1")
    assert tail(tmp_path, torn + bad * 2, 10).log_end_offset is None


def test_a_batch_larger_than_a_chunk_of_the_reader(tmp_path: Path) -> None:
    big = f"data base_offset=10 attributes=3 text={'x' * 1_100_000}"
    assert tail(tmp_path, log_of(f"{big}; data base_offset=11"), 10).log_end_offset == 12
    assert [d.reason for d in tail(tmp_path, log_of(f"{big}; flip 0:-1"), 10).damage] == ["crc_mismatch"]


FILES = [
    *(path.read_bytes() for path in REAL),
    log_of("sample orders-1; zeros 100"),
    log_of("data base_offset=10; data base_offset=12 last_offset_delta=5 count=0"),
]


@FUZZ
@given(
    edited(st.sampled_from(FILES), most_bytes=80), st.integers(0, 3000), st.sampled_from([0, 5, 10, (1 << 63) - 1, -1])
)
def test_any_change_to_a_file_is_survived(data: bytes, cut: int, base_offset: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tail(Path(folder), data, base_offset)
        tail(Path(folder), data[: cut % (len(data) + 1)], base_offset)
