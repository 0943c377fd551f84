"""Metadata files of a capture: scanned, noted, snapshots trusted only as a whole, batches counted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence import tables
from evidence.capture import EvidenceFile, open_capture
from evidence.decode import byte_ranges, read_range, record_row, snapshot_table
from evidence.errors import CaptureError
from evidence.records import Record
from evidence.segments import (
    batch_table,
    distinct_batches,
    file_row,
    quarantine_rows,
    scan_segment,
    scan_snapshot,
)
from tests.support import writer

LOG = writer.log(batches=4)
CHECKPOINT = "00000000000000000009-0000000001.checkpoint"


def captured(root: Path, files: dict[str, bytes]) -> list[EvidenceFile]:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    with open_capture(root) as capture:
        return capture.files


def node(number: int, base: int = 0) -> str:
    return f"controllers/{number}/__cluster_metadata-0/{base:020d}.log"


def test_a_batch_held_by_several_nodes_is_one_row_with_all_its_holders(tmp_path: Path) -> None:
    whole = b"".join(LOG)
    files = captured(tmp_path, {node(3): whole, node(1): whole, node(2): b"".join(LOG[:2])})
    batches = distinct_batches(scan_segment(f) for f in files)
    rows = batch_table("c", batches).to_pylist()
    assert [(r["base_offset"], r["nodes"]) for r in rows] == [
        (0, [1, 2, 3]),
        (1, [1, 2, 3]),
        (3, [1, 3]),
        (5, [1, 3]),
    ]
    assert {r["path"] for r in rows} == {node(1)}
    assert [whole[r["position"] :][: r["size_bytes"]] for r in rows] == LOG


def test_batches_of_another_epoch_or_with_other_bytes_stay_apart(tmp_path: Path) -> None:
    other = writer.log(batches=2, epoch=2)
    rival = [LOG[0], writer.batch([writer.topic("else"), writer.topic("where")], 1)]
    files = captured(tmp_path, {node(1): b"".join(LOG), node(2): b"".join(other), node(3): b"".join(rival)})
    batches = distinct_batches(scan_segment(f) for f in files)
    assert [(d.batch.epoch, d.batch.base_offset, d.nodes) for d in batches if d.batch.base_offset <= 1] == [
        (1, 0, {1, 3}),
        (1, 1, {1}) if batches[1].nodes == {1} else (1, 1, {3}),
        (1, 1, {3}) if batches[1].nodes == {1} else (1, 1, {1}),
        (2, 0, {2}),
        (2, 1, {2}),
    ]


def test_a_segment_whose_name_is_not_its_first_offset_is_noted_and_its_bytes_trusted(tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {node(1, base=77): b"".join(LOG)})
    segment = scan_segment(file)
    row = file_row("c", file, segment.scan, segment.scan.damage)
    assert (segment.base_offset, segment.end_offset) == (0, 7)
    assert (row["base_offset"], row["end_offset"], row["status"]) == (0, 7, "note")
    assert row["note"] == "the name says base offset 77, the first batch has 0; the bytes are trusted"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"".join(LOG), "ok"),
        (b"", "note"),
        (b"".join(LOG) + bytes(100), "note"),
        (b"".join(LOG)[:-3], "note"),
        (writer.flip(b"".join(LOG), 300), "quarantined"),
        (b"garbage" * 20, "quarantined"),
    ],
)
def test_a_files_row_says_how_much_of_it_was_used(data: bytes, status: str, tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {node(1): data})
    scan = scan_segment(file).scan
    row = file_row("c", file, scan, scan.damage)
    assert row["status"] == status
    assert (row["note"] is None) == (status == "ok")
    used = [row["parsed_bytes"], row["quarantined_bytes"], row["trailing_bytes"]]
    assert sum(n for n in used if isinstance(n, int)) == row["size_bytes"] == len(data)
    for held in quarantine_rows("c", file, scan.damage):
        assert held["raw"] == data[held["position"] :][: held["length_bytes"]]
        assert str(held["message"]).startswith(f"{file.path}: byte {held['position']}")


@pytest.mark.parametrize("name", ["notes.txt", "bootstrap.checkpoint", "quorum-state", f"orders-0/{0:020d}.log"])
def test_a_file_that_is_not_read_is_registered(name: str, tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {name: b"hello"})
    row = file_row("c", file, None, [])
    assert (row["status"], row["parsed_bytes"], row["size_bytes"]) == ("registered", 0, 5)


def test_a_whole_snapshot_is_read_with_offsets_from_0(tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {CHECKPOINT: writer.snapshot([writer.topic("a"), writer.topic("b")])})
    segment = scan_snapshot(file)
    assert segment.scan.damage == []
    data = file.read()
    items = [item for _, item in read_range(data, 0, len(data))]
    assert [i.type for i in items if isinstance(i, Record)] == [
        "SNAPSHOT_HEADER",
        "TOPIC_RECORD",
        "TOPIC_RECORD",
        "SNAPSHOT_FOOTER",
    ]
    assert [i.offset for i in items] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it holds no batch"),
        (bytes(200), "it holds no batch"),
        (writer.snapshot([writer.topic("a")], header=False), "it does not begin with a snapshot header"),
        (writer.snapshot([writer.topic("a")], footer=False), "it does not end with a snapshot footer"),
        (
            writer.snapshot([writer.topic("a")]) + writer.batch([writer.no_op()], 3),
            "does not end with a snapshot footer",
        ),
        (writer.snapshot([writer.topic("a")])[:-1], "the head promises"),
        (writer.flip(writer.snapshot([writer.topic("a")]), 160), "CRC32C"),
        (b"x" * 200, "no good record batch"),
        (b"".join(LOG), "it does not begin with a snapshot header"),
    ],
)
def test_a_snapshot_that_is_not_whole_is_no_state(data: bytes, problem: str, tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {CHECKPOINT: data})
    scan = scan_snapshot(file).scan
    assert scan.batches == []
    assert (scan.parsed_bytes, scan.quarantined_bytes, scan.trailing_bytes) == (0, len(data), 0)
    (damage,) = scan.damage
    assert (damage.reason, damage.length_bytes) == ("bad_snapshot", len(data))
    assert problem in damage.message


def test_a_file_that_changes_after_it_was_hashed_is_refused(tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {node(1): b"".join(LOG)})
    with file.local.open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(CaptureError, match="the file changed while it was read") as caught:
        scan_segment(file)
    assert str(file.local) in str(caught.value)


def test_ranges_of_work_cover_every_batch_once(tmp_path: Path) -> None:
    whole = b"".join(LOG)
    hole = LOG[0] + LOG[1] + b"junk" + LOG[2] + LOG[3]
    files = captured(tmp_path, {node(1): whole, node(2, base=100): b"".join(writer.log(3, base_offset=100))})
    batches = distinct_batches(scan_segment(f) for f in files)
    for split in (1, 200, 1 << 20):
        ranges = byte_ranges(batches, split)
        reached = {(r.path, b.base_offset) for r in ranges for b, _ in read_range(_bytes(r.local), r.start, r.end)}
        assert reached == {(d.file.path, d.batch.base_offset) for d in batches}
        assert sum(r.end - r.start for r in ranges) == sum(d.batch.size_bytes for d in batches)
    (file,) = captured(tmp_path / "second", {node(1): hole})
    assert [(r.start, r.end) for r in byte_ranges(distinct_batches([scan_segment(file)]))] == [
        (0, len(LOG[0] + LOG[1])),
        (len(LOG[0] + LOG[1]) + 4, len(hole)),
    ]


def _bytes(local: str) -> bytes:
    return Path(local).read_bytes()


def test_a_range_that_no_longer_holds_its_batches_is_an_error() -> None:
    whole = b"".join(LOG)
    with pytest.raises(ValueError, match="the file changed while it was read"):
        list(read_range(writer.flip(whole, len(LOG[0]) + 70), 0, len(whole)))


def test_partition_records_have_typed_fields_and_unchanged_ones_are_null() -> None:
    change = writer.partition_change(3, {0: writer.int32s([2, 1]), 1: b"\x00\x00\x00\x02"})
    data = writer.batch([writer.topic("orders"), change], 4)
    rows = [
        record_row("c", "p", "s", batch, item)
        for batch, item in read_range(data, 0, len(data))
        if isinstance(item, Record)
    ]
    table = snapshot_table(rows, 80, 3)
    assert table.schema == tables.SNAPSHOT_RECORDS
    first, second = table.to_pylist()
    assert first["partition_change"] is None
    typed = second["partition_change"]
    assert {k: v for k, v in typed.items() if v is not None} == {
        "topic_id": writer.TOPIC_ID_TEXT,
        "partition": 3,
        "isr": [2, 1],
        "leader": 2,
    }
    assert (second["offset"], second["snapshot_end_offset"], second["snapshot_epoch"]) == (5, 80, 3)
    assert data[second["position"] :].startswith(writer.record(change, 1))
