"""Metadata files of a capture: scanned, noted, snapshots trusted only as a whole, batches counted once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from evidence import kinds, tables
from evidence.capture.accounts import Account, quarantine_rows
from evidence.capture.files import EvidenceFile, open_capture
from evidence.errors import CaptureError
from evidence.metadata_log.rows import SNAPSHOT, ByteRange, byte_ranges, decode_range, read_range, work_of
from evidence.metadata_log.scan import Scanned, batch_table, file_row, scan_files
from evidence.wire.batches import scan_batches
from tests.support import writer
from tests.support.paths import captured_file
from tests.support.small_captures import write_files

LOG = writer.log(batches=4)
CHECKPOINT = "00000000000000000009-0000000001.checkpoint"


def captured(root: Path, files: dict[str, bytes]) -> list[EvidenceFile]:
    with open_capture(write_files(root, files)) as capture:
        return capture.files


def scanned(file: EvidenceFile) -> tuple[Scanned, Account, dict[str, object]]:
    """What one file holds, its account and its row in evidence_files."""
    result = scan_files([file])
    account = result.accounts[file.path]
    return result, account, file_row("c", file, account, result.logs)


def node(number: int, base: int = 0) -> str:
    return f"controllers/{number}/__cluster_metadata-0/{base:020d}.log"


def test_a_batch_held_by_several_nodes_is_one_row_with_all_its_holders(tmp_path: Path) -> None:
    whole = b"".join(LOG)
    files = captured(tmp_path, {node(3): whole, node(1): whole, node(2): b"".join(LOG[:2])})
    batches = scan_files(files).batches
    rows = batch_table("c", batches).to_pylist()
    assert [(r["base_offset"], r["nodes"]) for r in rows] == [(0, [1, 2, 3]), (1, [1, 2, 3]), (3, [1, 3]), (5, [1, 3])]
    assert {r["path"] for r in rows} == {node(1)}
    assert [whole[r["position"] :][: r["size_bytes"]] for r in rows] == LOG


def test_batches_of_another_epoch_or_with_other_bytes_stay_apart(tmp_path: Path) -> None:
    other = writer.log(batches=2, epoch=2)
    rival = [LOG[0], writer.batch([writer.topic("else"), writer.topic("where")], 1)]
    files = captured(tmp_path, {node(1): b"".join(LOG), node(2): b"".join(other), node(3): b"".join(rival)})
    rows = batch_table("c", scan_files(files).batches).to_pylist()
    found = [(r["epoch"], r["base_offset"], r["nodes"]) for r in rows if r["base_offset"] <= 1]
    assert [found[0], *found[3:]] == [(1, 0, [1, 3]), (2, 0, [2]), (2, 1, [2])]
    assert sorted(found[1:3]) == [(1, 1, [1]), (1, 1, [3])]


def test_a_segment_whose_name_is_not_its_first_offset_is_reported_and_its_bytes_trusted(tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {node(1, base=77): b"".join(LOG)})
    _, account, row = scanned(file)
    assert (row["base_offset"], row["end_offset"], row["status"]) == (0, 7, "note")
    assert row["note"] == "the name gives base offset 77, the first batch has 0; the bytes are trusted"
    assert [(d.reason, d.length_bytes, d.offset) for d in account.damage] == [("name_mismatch", 0, 0)]


def test_the_name_of_a_segment_that_begins_with_damage_is_not_doubted(tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {node(1): bytes(len(LOG[0])) + b"".join(LOG[1:])})
    _, account, row = scanned(file)
    assert row["base_offset"] == 1
    assert [(d.reason, d.length_bytes) for d in account.damage] == [("bad_magic", len(LOG[0]))]


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
def test_a_files_row_counts_its_used_bytes(data: bytes, status: str, tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {node(1): data})
    _, account, row = scanned(file)
    assert row["status"] == status
    assert (row["note"] is None) == (status == "ok")
    used = [row["parsed_bytes"], row["quarantined_bytes"], row["trailing_bytes"]]
    assert sum(n for n in used if isinstance(n, int)) == row["size_bytes"] == len(data)
    for held in quarantine_rows("c", file, account.damage):
        assert held["raw"] == data[held["position"] :][: held["length_bytes"]]
        assert str(held["message"]).startswith(f"{file.path}: byte {held['position']}")


def test_only_the_newest_segment_may_have_a_torn_end(tmp_path: Path) -> None:
    torn, later = b"".join(LOG)[:-3], b"".join(writer.log(2, base_offset=7))
    files = captured(tmp_path, {node(1): torn, node(1, base=7): later[:-3]})
    accounts = scan_files(files).accounts
    first, last = accounts[node(1)], accounts[node(1, base=7)]
    assert (first.quarantined_bytes, first.trailing_bytes) == (len(LOG[-1]) - 3, 0)
    assert "although later segments follow" in str(first.note)
    assert (last.quarantined_bytes, last.trailing_bytes > 0) == (0, True)


def test_bytes_that_may_hold_a_secret_are_not_kept(tmp_path: Path) -> None:
    secret = writer.batch([writer.topic("a"), b"\x01\x0b\x00" + b"hunter2"], 0)
    (file,) = captured(tmp_path, {node(1): writer.flip(secret, len(secret) - 2)})
    _, account, _ = scanned(file)
    (row,) = quarantine_rows("c", file, account.damage)
    assert (row["reason"], row["raw"], row["length_bytes"]) == ("not_a_segment", None, len(secret))


@pytest.mark.parametrize("version", [0, 2])
def test_a_log_of_another_frame_version_is_refused_as_a_whole(version: int, tmp_path: Path) -> None:
    preview = LOG[0] + writer.batch([writer.frame(2, 0, writer.string("a"), frame_version=version)] * 3, 1)
    (file,) = captured(tmp_path, {node(1): preview})
    result, account, row = scanned(file)
    assert [item for work in work_of(result) for item in decode_range(preview, work, "c")] == []
    assert ({d.reason for d in account.damage}, row["quarantined_bytes"]) == ({"frame_version"}, len(preview))
    assert "frame version" in str(row["note"])


@pytest.mark.parametrize("folder", ["backup", "controller-3", "snapshots/orders-0.old"])
def test_a_topics_log_outside_its_folder_is_not_taken_for_the_metadata_log(folder: str, tmp_path: Path) -> None:
    """Its leader epochs and offsets would seem to replace the metadata log's."""
    records = b"".join(writer.record(b"total=5", i, key=b"order-%d" % i) for i in range(3))
    data = writer.batch(epoch=50, producer=(7, 0, 0), records=records, count=3)
    result = scan_files(captured(tmp_path, {node(1): b"".join(LOG), f"{folder}/{0:020d}.log": data}))
    account = result.accounts[f"{folder}/{0:020d}.log"]
    assert (len(result.batches), account.quarantined_bytes) == (len(LOG), len(data))
    assert [d.reason for d in account.damage] == ["not_metadata_log"]


@pytest.mark.parametrize(("key", "version", "name"), [(99, 0, "UNKNOWN_99"), (5, 40, "PARTITION_CHANGE_RECORD")])
def test_the_row_of_a_record_that_this_release_does_not_know_has_its_bytes(
    key: int, version: int, name: str, tmp_path: Path
) -> None:
    value = writer.frame(key, version, b"body")
    data = LOG[0] + writer.batch([value, writer.no_op()], 1)
    (file,) = captured(tmp_path, {node(1): data})
    result, account, _ = scanned(file)
    rows = [row for work in work_of(result) for row in decode_range(data, work, "c") if isinstance(row, dict)]
    assert (account.damage, [row["offset"] for row in rows]) == ([], [0, 1, 2])
    assert (rows[1]["type"], rows[1]["version"], rows[1]["partition_change"]) == (name, version, None)
    assert rows[1]["payload"] == '{"raw":"' + value.hex() + '"}'


NOT_READ = [f"{0:020d}.{end}" for end in ("index", "timeindex", "snapshot", "log.deleted", "log.swap", "log.cleaned")]
NOT_READ += ["notes.txt", f"{CHECKPOINT}.part", f"{CHECKPOINT}.deleted"]


@pytest.mark.parametrize("name", NOT_READ)
def test_a_file_that_is_not_read_is_registered(name: str, tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {name: b"hello"})
    row = file_row("c", file, scan_files([file]).accounts.get(file.path), [])
    assert (row["status"], row["parsed_bytes"], row["trailing_bytes"], row["size_bytes"]) == ("registered", 0, 5, 5)


def test_a_whole_snapshot_is_read_with_offsets_from_0(tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {CHECKPOINT: writer.snapshot([writer.topic("a"), writer.topic("b")])})
    result, account, _ = scanned(file)
    assert account.damage == []
    rows = [row for work in work_of(result) for row in decode_range(file.read(), work, "c") if isinstance(row, dict)]
    assert [r["type"] for r in rows] == ["SNAPSHOT_HEADER", "TOPIC_RECORD", "TOPIC_RECORD", "SNAPSHOT_FOOTER"]
    assert [r["offset"] for r in rows] == [0, 1, 2, 3]
    assert {(r["snapshot_end_offset"], r["snapshot_epoch"]) for r in rows} == {(9, 1)}


def test_the_bootstrap_file_is_a_snapshot_of_no_place_in_the_log(tmp_path: Path) -> None:
    data = writer.snapshot([writer.topic("a")])
    (file,) = captured(tmp_path, {"bootstrap.checkpoint": data})
    result, account, row = scanned(file)
    assert (account.parsed_bytes, row["status"], result.logs) == (len(data), "ok", [])
    rows = [row for work in work_of(result) for row in decode_range(data, work, "c") if isinstance(row, dict)]
    assert [r["type"] for r in rows] == ["SNAPSHOT_HEADER", "TOPIC_RECORD", "SNAPSHOT_FOOTER"]
    assert {(r["snapshot_end_offset"], r["snapshot_epoch"]) for r in rows} == {(None, None)}


def test_a_snapshot_of_another_epoch_than_its_name_is_reported(tmp_path: Path) -> None:
    (file,) = captured(
        tmp_path, {CHECKPOINT.replace("-0000000001", "-0000000007"): writer.snapshot([writer.topic("a")])}
    )
    result, account, _ = scanned(file)
    assert [d.reason for d in account.damage] == ["snapshot_name_mismatch"]
    assert (result.snapshots[0].end_offset, result.snapshots[0].epoch) == (9, 7)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it has no batch"),
        (bytes(200), "it has no batch"),
        (writer.snapshot([writer.topic("a")], header=False), "it does not begin with a snapshot header"),
        (writer.snapshot([writer.topic("a")], footer=False), "it does not end with a snapshot footer"),
        (
            writer.snapshot([writer.topic("a")]) + writer.batch([writer.no_op()], 3),
            "does not end with a snapshot footer",
        ),
        (writer.snapshot([writer.topic("a")])[:-1], "byte 173: the head gives a size of"),
        (writer.flip(writer.snapshot([writer.topic("a")]), 160), "byte 83: stored CRC32C"),
        (b"x" * 200, "no good record batch"),
        (b"".join(LOG), "it does not begin with a snapshot header"),
    ],
)
def test_an_incomplete_snapshot_is_no_state(data: bytes, problem: str, tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {CHECKPOINT: data})
    result, account, _ = scanned(file)
    assert result.snapshots == []
    assert (account.parsed_bytes, account.quarantined_bytes, account.trailing_bytes) == (0, len(data), 0)
    (damage,) = account.damage
    assert (damage.reason, damage.length_bytes) == ("bad_snapshot", len(data))
    assert problem in damage.message


def test_a_file_that_changes_after_it_was_hashed_is_refused(tmp_path: Path) -> None:
    (file,) = captured(tmp_path, {node(1): b"".join(LOG)})
    with file.local.open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(CaptureError, match="the file changed while it was read") as caught:
        scan_files([file])
    assert str(file.local) in str(caught.value)


def test_ranges_of_work_cover_every_batch_once(tmp_path: Path) -> None:
    whole = b"".join(LOG)
    hole = LOG[0] + LOG[1] + b"junk" + LOG[2] + LOG[3]
    files = captured(tmp_path, {node(1): whole, node(2, base=100): b"".join(writer.log(3, base_offset=100))})
    batches = scan_files(files).batches
    for split in (1, 200, 1 << 20):
        ranges = byte_ranges(batches, split)
        reached = {
            (r.path, b.base_offset) for r in ranges for b, _ in read_range(r.source.read_bytes(), r.start, r.end)
        }
        assert reached == {(r["path"], r["base_offset"]) for r in batch_table("c", batches).to_pylist()}
        assert sum(r.end - r.start for r in ranges) == batches.size_bytes
    (file,) = captured(tmp_path / "second", {node(1): hole})
    assert [(r.start, r.end) for r in byte_ranges(scan_files([file]).batches)] == [
        (0, len(LOG[0] + LOG[1])),
        (len(LOG[0] + LOG[1]) + 4, len(hole)),
    ]


def test_a_range_that_no_longer_holds_its_batches_is_an_error() -> None:
    whole = b"".join(LOG)
    with pytest.raises(CaptureError, match="the file changed"):
        list(read_range(writer.flip(whole, len(LOG[0]) + 70), 0, len(whole)))


def test_partition_records_have_typed_fields_and_unchanged_ones_are_null() -> None:
    change = writer.partition_change(3, {0: writer.int32s([2, 1]), 1: b"\x00\x00\x00\x02"})
    data = writer.batch([writer.topic("orders"), change], 4)
    work = ByteRange(Path("p"), "p", "s", kinds.METADATA_CHECKPOINT, 0, len(data), SNAPSHOT, 80, 3)
    rows = list(decode_range(data, work, "c"))
    first, second = pa.Table.from_pylist(rows, schema=tables.SNAPSHOT_RECORDS).to_pylist()
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


@pytest.mark.parametrize("cuts", [(1,), (2, 40), (5, 6, 7, 100)])
def test_a_log_in_several_segments_gives_the_rows_of_one(cuts: tuple[int, ...], tmp_path: Path) -> None:
    """The real log, closed and rolled between other batches: transactions and epochs go on from file to file."""
    data = captured_file("unclean", node(3000))
    heads = scan_batches(data).batches
    files = captured(tmp_path / "whole", {node(3000): data})
    bounds = [0, *(heads[c].position for c in cuts), len(data)]
    firsts = [heads[c].base_offset for c in (0, *cuts)]
    pieces = {
        node(3000, base=b): data[start:end] for b, start, end in zip(firsts, bounds[:-1], bounds[1:], strict=True)
    }
    parts = captured(tmp_path / "parts", pieces)

    def rows(of: list[EvidenceFile]) -> list[dict[str, object]]:
        found = scan_files(of)
        assert {a.note for a in found.accounts.values()} == {None}
        decoded = [
            r for w in work_of(found) for r in decode_range(w.source.read_bytes(), w, "c") if isinstance(r, dict)
        ]
        return sorted(
            ({k: v for k, v in r.items() if k not in ("path", "sha256", "position")} for r in decoded),
            key=lambda r: r["offset"],
        )

    assert len(parts) == len(cuts) + 1
    assert rows(parts) == rows(files)
