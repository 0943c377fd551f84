"""Metadata files of a capture: scanned, noted, snapshots trusted only as a whole, batches counted once.

tests/unit/golden/metadata_files.jsonl has a capture a line: what it shows; its files (tests/support/log_text.py; a node
and a base offset stand for a segment's path); the batches with epoch and nodes; of each file its row, damage (is it
kept in quarantine?) and records.
"""

import re
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest

from evidence import kinds, tables
from evidence.capture.accounts import quarantine_rows, with_undecoded
from evidence.capture.files import EvidenceFile, open_capture
from evidence.errors import CaptureError, Damage
from evidence.metadata_log.rows import SNAPSHOT, ByteRange, byte_ranges, decode_range, heads, work_of
from evidence.metadata_log.scan import Scanned, batch_table, file_row, scan_files
from evidence.wire.batches import scan_batches
from tests.support import writer
from tests.support.golden import filled
from tests.support.log_text import log_of
from tests.support.paths import captured_file
from tests.support.small_captures import write_files

LOG = writer.log(batches=4)
Row = dict[str, Any]
SHOWN = ("status", "note", "base_offset", "end_offset", "parsed_bytes", "quarantined_bytes", "trailing_bytes")


def captured(root: Path, files: dict[str, bytes]) -> list[EvidenceFile]:
    with open_capture(write_files(root, files)) as capture:
        return capture.files


def node(number: int, base: int = 0) -> str:
    return f"controllers/{number}/__cluster_metadata-0/{base:020d}.log"


@filled("metadata_files")
def test_what_is_found_in_the_files_of_a_capture(case: Row) -> Row:
    data = {
        node(*map(int, name.split())) if re.fullmatch(r"[0-9 ]+", name) else name: log_of(text)
        for name, text in case["files"].items()
    }
    with TemporaryDirectory() as folder:
        files = captured(Path(folder), data)
        result = scan_files(files)
        found = [(w.path, list(decode_range(data[w.path], w, "c"))) for w in work_of(result)]
        bad = {f: [i for path, items in found if path == f.path for i in items if isinstance(i, Damage)] for f in files}
        undecoded = [row for file, damage in bad.items() for row in quarantine_rows("c", file, damage)]
        result.accounts = with_undecoded(files, result.accounts, undecoded)
        told = {file.path: account_of(file, data[file.path], result) for file in files}
    rows = batch_table("c", result.batches).to_pylist()
    assert all(len(scan_batches(data[r["path"]][r["position"] :][: r["size_bytes"]]).batches) == 1 for r in rows)
    batches = [f"{row['base_offset']}@{row['epoch']} of {row['nodes']}" for row in rows]
    items: dict[str, list[str]] = {}
    for path, decoded in found:
        items.setdefault(path, []).extend(shown(item) for item in decoded if not isinstance(item, Damage))
    return {"what": case["what"], "files": case["files"], "batches": batches, "records": items, "found": told}


def shown(row: Any) -> str:
    """One record, and what is odd about it."""
    assert isinstance(row, dict)
    place = "" if row.get("snapshot_epoch") is None else f" of {row['snapshot_end_offset']}-{row['snapshot_epoch']}"
    raw = f" version {row['version']}: {row['payload']}" if '"raw"' in str(row["payload"]) else ""
    assert not raw or row["partition_change"] is None
    return f"{row['offset']} {row['type']}{raw}{place}"


def account_of(file: EvidenceFile, data: bytes, result: Scanned) -> Row:
    """A file's row and damage; its bytes are accounted for."""
    account = result.accounts.get(file.path)
    row = file_row("c", file, account, result.logs)
    assert row["parsed_bytes"] + row["quarantined_bytes"] + row["trailing_bytes"] == row["size_bytes"] == len(data)
    told: Row = {name: row[name] for name in SHOWN if row[name] is not None}
    damage = account.damage if account else []
    kept = quarantine_rows("c", file, damage)
    for item in kept:
        assert item["raw"] in (None, data[item["position"] :][: item["length_bytes"]])
        assert str(item["message"]).startswith(f"{file.path}: byte {item['position']}")
    of_damage = [{**asdict(d), "is_kept": k["raw"] is not None} for d, k in zip(damage, kept, strict=True)]
    return {**told, "damage": of_damage}


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
            (r.path, b.base_offset) for r in ranges for b in heads(r.source.read_bytes(), r.start, r.end, r.path)
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
        list(heads(writer.flip(whole, len(LOG[0]) + 70), 0, len(whole), ""))


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
