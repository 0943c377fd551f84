"""A real segment, damaged in each of the ways that can happen to segment and batch bytes: every damage gets its result.

The segment is controller 3000's of the bundled capture: 322 records. Each fault is named as docs/evidence.md names it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evidence import kinds
from evidence.capture.accounts import Account
from evidence.capture.files import EvidenceFile, open_capture
from evidence.errors import Damage
from evidence.metadata_log.rows import decode_range, work_of
from evidence.metadata_log.scan import file_row, scan_files
from evidence.wire.batches import HEAD_BYTES, Batch, scan_batches
from tests.support import writer
from tests.support.paths import captured_file

NAME = f"controllers/3000/{kinds.METADATA_LOG_DIR}/{0:020d}.log"
CHECKPOINT = f"controllers/3000/{kinds.METADATA_LOG_DIR}/00000000000000000248-0000000001.checkpoint"
RECORDS = 322


def real(name: str) -> bytes:
    return captured_file("unclean", name)


@cache
def batches() -> list[Batch]:
    return scan_batches(real(NAME)).batches


@dataclass(frozen=True)
class Read:
    """What came of a segment."""

    account: Account
    row: dict[str, Any]
    rows: list[dict[str, Any]]
    damage: list[Damage]

    @property
    def offsets(self) -> set[int]:
        return {r["offset"] for r in self.rows}

    @property
    def reasons(self) -> set[str]:
        return {d.reason for d in (*self.account.damage, *self.damage)}


def read(folder: Path, data: bytes, name: str = NAME) -> Read:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    with open_capture(folder) as opened:
        file = next(f for f in opened.files if f.path == name)
        return _read(file, data)


def _read(file: EvidenceFile, data: bytes) -> Read:
    scanned = scan_files([file])
    account = scanned.accounts[file.path]
    items = [item for work in work_of(scanned) for item in decode_range(data, work, "c")]
    row = file_row("c", file, account, scanned.logs)
    # No byte is lost or counted twice, whatever the damage is.
    assert row["parsed_bytes"] + row["quarantined_bytes"] + row["trailing_bytes"] == len(data)
    assert sum(d.length_bytes for d in account.damage) <= row["quarantined_bytes"] + row["trailing_bytes"]
    rows = [i for i in items if not isinstance(i, Damage)]
    return Read(account, row, rows, [i for i in items if isinstance(i, Damage)])


def middle() -> Batch:
    """A data batch of several records in the middle of the segment."""
    return next(b for b in batches()[len(batches()) // 2 :] if b.record_count > 1 and not b.is_control)


def patched(batch: Batch, at: int, fmt: str, value: int, mend_crc: bool = False) -> bytes:
    """The segment with a field of one batch's head replaced; mend_crc: as somebody who knows what he does."""
    data = bytearray(real(NAME))
    struct.pack_into(fmt, data, batch.position + at, value)
    if mend_crc:
        crc = writer.crc32c(bytes(data[batch.position + 21 : batch.position + batch.size_bytes]))
        struct.pack_into(">I", data, batch.position + 17, crc)
    return bytes(data)


def replaced(batch: Batch, by: bytes) -> bytes:
    data = real(NAME)
    return data[: batch.position] + by + data[batch.position + batch.size_bytes :]


def other_batch(batch: Batch, **given: Any) -> bytes:
    """A batch with the offsets and epoch of `batch` and contents of the test's making."""
    values = [writer.no_op()] * batch.record_count
    return writer.batch(values, batch.base_offset, batch.epoch, timestamp_ms=batch.base_timestamp_ms, **given)


def offsets_of(batch: Batch) -> set[int]:
    return set(range(batch.base_offset, batch.last_offset + 1))


def test_the_whole_segment_is_ok(tmp_path: Path) -> None:
    found = read(tmp_path, real(NAME))
    assert (found.row["status"], found.offsets, found.reasons) == ("ok", set(range(RECORDS)), set())


@pytest.mark.parametrize("cut", [1, 20, HEAD_BYTES + 5])
def test_01_torn_last_batch_is_noted(tmp_path: Path, cut: int) -> None:
    last = batches()[-1]
    found = read(tmp_path, real(NAME)[: last.position + last.size_bytes - min(cut, last.size_bytes - 1)])
    assert (found.row["status"], found.offsets) == ("note", set(range(last.base_offset)))
    assert found.row["trailing_bytes"] == last.size_bytes - min(cut, last.size_bytes - 1)


def test_02_a_flipped_bit_costs_its_batch_and_no_other(tmp_path: Path) -> None:
    batch = middle()
    found = read(tmp_path, writer.flip(real(NAME), batch.position + HEAD_BYTES + 3))
    assert (found.row["status"], found.reasons) == ("quarantined", {"crc_mismatch"})
    assert found.offsets == set(range(RECORDS)) - offsets_of(batch)
    (damage,) = found.account.damage
    assert (damage.position, damage.length_bytes, damage.offset) == (
        batch.position,
        batch.size_bytes,
        batch.base_offset,
    )


@pytest.mark.parametrize(("at", "reason"), [(7, "offset_flip"), (15, "epoch_flip")])
def test_03_a_flip_that_no_crc_covers_is_found(tmp_path: Path, at: int, reason: str) -> None:
    batch = middle()
    found = read(tmp_path, writer.flip(real(NAME), batch.position + at, 0x40))
    assert found.reasons == {reason}
    assert found.offsets == set(range(RECORDS)) - offsets_of(batch)


@pytest.mark.parametrize("length", [-1, -(1 << 31), 0, 13, 48, (1 << 31) - 1])
def test_04_05_an_impossible_length_is_not_believed(tmp_path: Path, length: int) -> None:
    batch = middle()
    found = read(tmp_path, patched(batch, 8, ">i", length))
    assert found.reasons == {"bad_length"}
    assert found.offsets == set(range(RECORDS)) - offsets_of(batch)


def test_06_a_batch_above_8_mib_is_read_and_one_above_64_is_not(tmp_path: Path) -> None:
    big = writer.batch([writer.topic("a" * 30_000)] * 300, 0)
    assert len(big) > 8 << 20
    found = read(tmp_path, big)
    assert (found.row["status"], len(found.rows)) == ("ok", 300)
    batch = middle()
    assert read(tmp_path, patched(batch, 8, ">i", (64 << 20) + 1)).reasons == {"bad_length"}


@pytest.mark.parametrize("magic", [0, 1, 3, 127])
def test_07_only_magic_2_is_read(tmp_path: Path, magic: int) -> None:
    batch = middle()
    found = read(tmp_path, patched(batch, 16, ">b", magic))
    assert found.reasons == {"bad_magic"}
    assert found.offsets == set(range(RECORDS)) - offsets_of(batch)


@pytest.mark.parametrize("count", [-1, 1 << 30])
def test_08_a_record_count_that_cannot_be_is_refused(tmp_path: Path, count: int) -> None:
    batch = middle()
    found = read(tmp_path, patched(batch, 57, ">i", count, mend_crc=True))
    assert found.reasons == {"bad_count"}
    assert found.offsets == set(range(RECORDS)) - offsets_of(batch)


def test_09_a_frame_is_bounded_by_its_decompressed_batch(tmp_path: Path) -> None:
    batch = middle()
    values = [writer.topic("a" * 3000)] * batch.record_count
    found = read(tmp_path, replaced(batch, writer.batch(values, batch.base_offset, batch.epoch, codec="gzip")))
    assert found.offsets == set(range(RECORDS))
    assert found.reasons == {"unexpected_codec", "larger_than_batch"}
    short = writer.varint(9000) + bytes(7 * batch.record_count)
    found = read(tmp_path, replaced(batch, other_batch(batch, records=short, count=batch.record_count)))
    assert found.reasons == {"bad_frame"}


def test_10_a_varint_that_is_too_long_costs_its_record(tmp_path: Path) -> None:
    batch = middle()
    good = [writer.record(writer.no_op(), i) for i in range(batch.record_count)]
    broken = b"\x00" + b"\xff" * 11
    bad = writer.varint(len(broken)) + broken
    found = read(tmp_path, replaced(batch, other_batch(batch, records=b"".join([bad, *good[1:]]))))
    assert found.reasons == {"bad_varint"}
    assert found.offsets == set(range(RECORDS)) - {batch.base_offset}


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"headers": 1}, "not_kraft"),
        ({"key": b"k"}, "not_kraft"),
        ({"value": None}, "bad_value"),
        ({"value": b""}, "short_record"),
    ],
)
def test_11_what_no_controller_writes_is_quarantined(tmp_path: Path, odd: dict[str, Any], reason: str) -> None:
    batch = middle()
    records = [writer.record(value=writer.no_op(), offset_delta=i) for i in range(batch.record_count)]
    records[0] = writer.record(**{"value": writer.no_op(), **odd})
    found = read(tmp_path, replaced(batch, other_batch(batch, records=b"".join(records))))
    assert found.reasons == {reason}
    assert found.offsets == set(range(RECORDS)) - {batch.base_offset}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (writer.frame(2, 0, writer.uvarint(1 << 20) + b"abc"), "bad_length"),
        (writer.frame(2, 0, b"\x00" + bytes(16) + b"\x00"), "bad_null"),
        (writer.frame(2, 0, writer.string("a" * 0x8000) + bytes(16) + b"\x00"), "bad_length"),
        (writer.topic("a") + b"garbage", "trailing_bytes"),
        (writer.frame(2, 0, b"", frame_version=2), "frame_version"),
    ],
)
def test_12_13_a_body_that_contradicts_itself_costs_its_record(tmp_path: Path, value: bytes, reason: str) -> None:
    batch = middle()
    values = [value, *[writer.no_op()] * (batch.record_count - 1)]
    found = read(tmp_path, replaced(batch, writer.batch(values, batch.base_offset, batch.epoch)))
    assert found.reasons == {reason}
    assert found.offsets == set(range(RECORDS)) - {batch.base_offset}


@pytest.mark.parametrize("version", [0, 2])
def test_14_a_log_of_another_frame_version_is_refused_as_a_whole(tmp_path: Path, version: int) -> None:
    preview = writer.log(1)[0] + writer.batch([writer.frame(2, 0, writer.string("a"), frame_version=version)] * 3, 1)
    found = read(tmp_path, preview)
    assert (found.rows, found.reasons, found.row["quarantined_bytes"]) == ([], {"frame_version"}, len(preview))
    assert "frame version" in str(found.row["note"])


@pytest.mark.parametrize(("key", "version", "name"), [(99, 0, "UNKNOWN_99"), (5, 40, "PARTITION_CHANGE_RECORD")])
def test_15_what_this_release_does_not_know_is_kept_raw(tmp_path: Path, key: int, version: int, name: str) -> None:
    batch = middle()
    values = [writer.frame(key, version, b"body"), *[writer.no_op()] * (batch.record_count - 1)]
    found = read(tmp_path, replaced(batch, writer.batch(values, batch.base_offset, batch.epoch)))
    assert (found.offsets, found.reasons) == (set(range(RECORDS)), set())
    row = next(r for r in found.rows if r["offset"] == batch.base_offset)
    assert (row["type"], row["version"], row["partition_change"]) == (name, version, None)
    assert row["payload"] == '{"raw":"' + values[0].hex() + '"}'


@pytest.mark.parametrize(("kind", "name"), [(0, "ABORT"), (1, "COMMIT"), (9, "UNKNOWN_CONTROL_9")])
def test_16_a_control_record_of_another_kind_consumes_its_offset(tmp_path: Path, kind: int, name: str) -> None:
    log = [writer.log(1)[0], writer.control_batch(kind, b"\x00\x00", 1), writer.batch([writer.no_op()], 2)]
    found = read(tmp_path, b"".join(log))
    assert [(r["offset"], r["type"]) for r in found.rows] == [(0, "LEADER_CHANGE"), (1, name), (2, "NO_OP_RECORD")]
    assert found.row["status"] == "ok"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_17_a_bomb_is_not_unpacked(tmp_path: Path, codec: str) -> None:
    batch = middle()
    bomb = writer.batch(
        [], batch.base_offset, batch.epoch, records=bytes(80 << 20), count=batch.record_count, codec=codec
    )
    found = read(tmp_path, replaced(batch, bomb))
    assert found.reasons == {"decompression_bomb"}
    assert found.offsets == set(range(RECORDS)) - offsets_of(batch)


@pytest.mark.parametrize("data", [b"", bytes(4096)])
def test_18_an_empty_file_and_one_of_zeros_are_legal(tmp_path: Path, data: bytes) -> None:
    found = read(tmp_path, data)
    assert (found.row["status"], found.row["trailing_bytes"], found.reasons) == ("note", len(data), set())


def test_18_a_preallocated_tail_is_noted(tmp_path: Path) -> None:
    found = read(tmp_path, real(NAME) + bytes(10_000))
    assert (found.row["status"], found.row["trailing_bytes"], found.offsets) == ("note", 10_000, set(range(RECORDS)))


def test_19_a_name_that_is_not_the_first_offset_is_reported(tmp_path: Path) -> None:
    found = read(tmp_path, real(NAME), NAME.replace(f"{0:020d}", f"{77:020d}"))
    assert (found.offsets, found.reasons, found.row["status"]) == (set(range(RECORDS)), {"name_mismatch"}, "note")


@pytest.mark.parametrize(
    "name",
    [
        f"{0:020d}.index",
        f"{0:020d}.timeindex",
        f"{9:020d}.snapshot",
        f"{0:020d}.log.deleted",
        f"{0:020d}.log.swap",
        f"{0:020d}.log.cleaned",
        "00000000000000000248-0000000001.checkpoint.part",
        "00000000000000000248-0000000001.checkpoint.deleted",
    ],
)
def test_20_unfinished_and_index_files_are_registered_only(tmp_path: Path, name: str) -> None:
    place = tmp_path / f"controllers/3000/{kinds.METADATA_LOG_DIR}" / name
    place.parent.mkdir(parents=True)
    place.write_bytes(real(CHECKPOINT))
    with open_capture(tmp_path) as opened:
        scanned = scan_files(opened.files)
        assert (scanned.logs, scanned.snapshots, scanned.accounts) == ([], [], {})
        row = file_row("c", opened.files[0], None, [])
    assert (row["status"], row["size_bytes"], len(str(row["sha256"]))) == ("registered", len(real(CHECKPOINT)), 64)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda d: d[:-1], "are left"),
        (lambda d: d[: scan_batches(d).batches[-1].position], "does not end with a snapshot footer"),
        (lambda d: d[scan_batches(d).batches[1].position :], "does not begin with a snapshot header"),
        (
            lambda d: d + writer.batch([writer.no_op()], scan_batches(d).batches[-1].last_offset + 1),
            "does not end with a snapshot footer",
        ),
        (lambda d: writer.flip(d, len(d) // 2), "CRC32C"),
    ],
)
def test_28_an_incomplete_snapshot_is_no_state(tmp_path: Path, damage: Callable[[bytes], bytes], problem: str) -> None:
    assert len(read(tmp_path, real(CHECKPOINT), CHECKPOINT).rows) > 10
    found = read(tmp_path, damage(real(CHECKPOINT)), CHECKPOINT)
    assert (found.rows, found.reasons, found.row["parsed_bytes"]) == ([], {"bad_snapshot"}, 0)
    assert problem in found.account.damage[0].message


def test_29_a_snapshot_whose_name_has_another_epoch_is_reported(tmp_path: Path) -> None:
    found = read(tmp_path, real(CHECKPOINT), CHECKPOINT.replace("-0000000001.", "-0000000009."))
    assert found.reasons == {"snapshot_name_mismatch"}
    assert {(r["snapshot_end_offset"], r["snapshot_epoch"]) for r in found.rows} == {(248, 9)}
