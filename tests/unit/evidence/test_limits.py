"""Captures beyond the limits: refused or quarantined, with the file, the figure and the setting's name."""

import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from evidence.capture.accounts import MAX_RAW_BYTES, quarantine_rows
from evidence.capture.files import open_capture
from evidence.errors import CaptureError
from evidence.limits import Limits
from evidence.offsets.read import OffsetTables, read_offsets
from tests.support.metric_names import NAMES
from tests.support.small_captures import write_files
from tests.unit.evidence.capture.test_files import info, tar_of

SMALL = Limits(capture_files=6, capture_bytes=1 << 20, text_file_bytes=4000, text_file_lines=50, partition_lines=20)
EPOCHS = "snapshots/1795000000000/broker-1/orders-0/leader-epoch-checkpoint"
MARKS = "snapshots/1795000000000/broker-1/replication-offset-checkpoint"


def epochs(count: int) -> str:
    return f"0\n{count}\n" + "".join(f"{n} {n * 3}\n" for n in range(count))


def read(root: Path, limits: Limits) -> OffsetTables:
    with open_capture(root, limits) as capture:
        return read_offsets(capture.name, capture.files, NAMES, 5000, capture.limits)


def refusal(found: OffsetTables, path: str) -> str:
    account = found.accounts[path]
    (damage,) = account.damage
    assert (damage.reason, damage.position, damage.length_bytes) == ("too_large", 0, account.quarantined_bytes)
    assert account.parsed_bytes == account.trailing_bytes == 0
    return damage.message


@pytest.mark.parametrize("count", [18, 19])
def test_lines_of_one_partition(tmp_path: Path, count: int) -> None:
    found = read(write_files(tmp_path, {EPOCHS: epochs(count), MARKS: "0\n1\norders 0 9\n"}), SMALL)
    if count == 18:
        assert not found.accounts[EPOCHS].damage
        assert len(found.log_end_offsets) == 19
    else:
        assert refusal(found, EPOCHS) == "21 lines, limits.partition_lines = 20 allows fewer"
        # The files beside it are read.
        assert len(found.log_end_offsets) == 1


def test_lines_and_bytes_of_a_text(tmp_path: Path) -> None:
    marks = "0\n49\n" + "".join(f"orders {n} 9\n" for n in range(49))
    assert refusal(read(write_files(tmp_path / "a", {MARKS: marks}), SMALL), MARKS) == (
        "51 lines, limits.text_file_lines = 50 allows fewer"
    )
    long = f"0\n1\n{'t' * 4000} 0 9\n"
    assert refusal(read(write_files(tmp_path / "b", {MARKS: long}), SMALL), MARKS) == (
        f"{len(long)} bytes, limits.text_file_bytes = 4000 allows fewer"
    )


def test_very_much_damage_is_one_range(tmp_path: Path) -> None:
    marks = "0\n30\n" + "x\n" * 30
    limits = replace(SMALL, damaged_lines=30)
    assert len(read(write_files(tmp_path, {MARKS: marks}), limits).accounts[MARKS].damage) == 30
    text = refusal(read(tmp_path, replace(limits, damaged_lines=29)), MARKS)
    assert text == "30 damaged lines, limits.damaged_lines = 29 allows fewer"


@pytest.mark.parametrize("name", ["meta.properties", "server.properties"])
def test_properties_are_never_read_beyond_the_limit(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {f"n/{name}": "node.id=1\n" + "#" * 4000})
    with pytest.raises(CaptureError, match=rf"{name}: 4010 bytes, limits\.text_file_bytes = 4000 allows fewer"):
        read(tmp_path, SMALL)


def test_files(tmp_path: Path) -> None:
    names = {f"a/{n}": "" for n in range(7)}
    message = r"limits\.capture_files = 6"
    with pytest.raises(CaptureError, match=message):
        read(write_files(tmp_path / "folder", names), SMALL)
    archive = tar_of(tmp_path / "many.tar.gz", *((info(name), b"") for name in names))
    with pytest.raises(CaptureError, match=re.escape(str(archive)) + f".*{message}"):
        read(archive, SMALL)
    assert read(archive, replace(SMALL, capture_files=7))


def test_bytes_and_ratio_of_an_archive(tmp_path: Path) -> None:
    archive = tar_of(tmp_path / "zeros.tar.gz", (info("a"), bytes(2 << 20)))
    with pytest.raises(CaptureError, match=r"more than 1048576 bytes, which limits\.capture_bytes = 1048576 allows"):
        read(archive, SMALL)
    with pytest.raises(CaptureError, match=r"more than 2097152 bytes, which limits\.compression_ratio = 2 allows"):
        read(archive, Limits(compression_ratio=2))
    assert read(archive, Limits())


def test_memory_for_a_file_with_very_many_lines_is_bounded(tmp_path: Path) -> None:
    """What is not held for the lines of a file that is beyond the limit: here 100 times as many."""
    write_files(tmp_path, {MARKS: "0\n1\norders 0 9\n", EPOCHS: ""})
    with (tmp_path / EPOCHS).open("wb") as file:
        file.write(b"0\n10000000\n")
        for _ in range(100):
            file.write(b"1 2\n" * 100_000)
    tracemalloc.start()
    try:
        with open_capture(tmp_path, Limits()) as capture:
            found = read_offsets(capture.name, capture.files, NAMES, 5000, capture.limits)
            (file,) = (file for file in capture.files if file.path == EPOCHS)
            (row,) = quarantine_rows(capture.name, file, found.accounts[EPOCHS].damage)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert "10000002 lines, limits.partition_lines = 100000" in refusal(found, EPOCHS)
    raw = row["raw"]
    assert isinstance(raw, bytes)
    assert raw == (tmp_path / EPOCHS).read_bytes()[:MAX_RAW_BYTES]


@pytest.mark.parametrize(("before", "is_kept"), [(100, False), (MAX_RAW_BYTES + 100, False), (2 * MAX_RAW_BYTES, True)])
def test_what_is_kept_of_a_long_range_holds_no_secret(tmp_path: Path, before: int, is_kept: bool) -> None:
    """The words around a secret may come after it; a secret far beyond what is kept does not matter."""
    lines = b"1 2\n" * (before // 4)
    write_files(tmp_path, {EPOCHS: lines + b"password=hunter2\n"})
    limits = replace(SMALL, capture_bytes=1 << 30)
    with open_capture(tmp_path, limits) as capture:
        found = read_offsets(capture.name, capture.files, NAMES, 5000, limits)
        (row,) = quarantine_rows(capture.name, capture.files[0], found.accounts[EPOCHS].damage)
    assert row["raw"] == (lines[:MAX_RAW_BYTES] if is_kept else None)
