"""The targets of `make fuzz-coverage`, without Atheris: their first inputs are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.wire.batches import scan_batches
from tests.fuzz import guided
from tests.fuzz.mutate import ends, with_good_crcs
from tests.fuzz.reading import read
from tests.support.writer import flip, log


@pytest.mark.parametrize("target", guided.TARGETS)
def test_the_first_inputs_of_each_target_are_read(target: str, tmp_path: Path) -> None:
    inputs = guided.inputs(target)
    assert all(len(data) <= guided.MAX_BYTES + 1 for data in inputs)
    assert {guided.file_of(target, data).name for data in inputs} <= set(guided.names(target))
    for data in (b"", *inputs[:4]):
        read(guided.file_of(target, data), tmp_path / "capture")


def test_in_a_log_with_right_crcs_only_the_records_are_damaged() -> None:
    batches = log()
    whole = b"".join(batches)
    damaged = flip(whole, len(batches[0]) + len(batches[1]) - 1)
    assert [damage.reason for damage in scan_batches(damaged).damage] == ["crc_mismatch"]
    assert list(ends(whole)) == [sum(map(len, batches[: n + 1])) for n in range(len(batches))]
    mended = with_good_crcs(damaged)
    assert scan_batches(mended).damage == []
    assert (mended != damaged, len(mended)) == (True, len(whole))
    assert with_good_crcs(whole) == whole


@pytest.mark.parametrize("data", [b"", b"0\n1\norders 0 5\n", b"\x00" * 100, b"\xff" * 100])
def test_any_other_file_stays_as_it_is(data: bytes) -> None:
    assert with_good_crcs(data) == data
