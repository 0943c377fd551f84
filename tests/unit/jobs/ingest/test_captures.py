"""Captures at ingest: archives, damaged ones, the table `captures`, the brokers' own logs."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from evidence.capture.files import open_capture
from evidence.errors import CaptureError
from jobs.config.settings import load_settings
from jobs.custody.derived import check_capture
from jobs.detect.inputs import judging_inputs, measured_clocks
from jobs.ingest.captures import found_in
from jobs.ingest.stage import Ingested, ingest, read_logs
from jobs.lake.lake import Lake
from jobs.queries.describe import partitions_at
from jobs.replay.cluster_state import EARLIEST, load_cluster_state
from jobs.report.load import load_captured
from tests.support.judged import judged_lake
from tests.support.log_text import log_of
from tests.support.paths import capture, controllers, unpacked
from tests.support.small_captures import SEGMENT, diverged, write_files


def test_an_archive_that_is_in_the_lake_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path / "lake")
    first = ingested(lake, capture("jbod-4.1.1"))
    assert first.added["metadata_records"] > 0
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    again = ingested(lake, capture("jbod-4.1.1"))
    assert (again.cluster_id, again.added, again.has_metadata_log) == (first.cluster_id, {}, True)
    with pytest.raises(FileNotFoundError):
        ingested(lake, capture("jbod-4.0.2"))


def test_another_archive_of_the_same_name_is_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    ingested(lake, capture("jbod-4.1.1"))
    folder = unpacked("jbod-4.1.1", tmp_path)
    (folder / "notes.txt").write_text("a file more")
    packed = shutil.make_archive(str(tmp_path / "jbod-4.1.1"), "xztar", folder)
    added = ingested(lake, Path(packed)).added
    assert (added["evidence_files"], sum(added.values())) == (1, 1)
    assert ingested(lake, Path(packed)).added == {}
    assert ingested(lake, capture("jbod-4.1.1")).added == {}


NODES = (3000, 3001, 3002)
DAMAGED = 5354  # the batch at this byte holds one NoOpRecord, of offset 59


def load(root: Path, location: Path) -> tuple[Lake, str]:
    lake = Lake(root)
    return lake, ingest(lake, location, load_settings(), lambda _: None).cluster_id


def flip(segment: Path, cut: int = 0) -> None:
    """A wrong byte in that batch, and the last bytes cut off."""
    data = bytearray(segment.read_bytes())
    data[DAMAGED + 70] ^= 0x01
    segment.write_bytes(data[: len(data) - cut])


def test_damage_is_quarantined_with_its_place_and_the_rest_is_ingested(tmp_path: Path) -> None:
    """All controllers' copies have the same wrong byte in a batch; one copy is torn; one file is not a segment."""
    folder = controllers("unclean", tmp_path)
    for node in NODES:
        flip(folder / "controllers" / str(node) / SEGMENT, 20 if node == 3002 else 0)
    other = folder / "controllers" / "3000" / "__cluster_metadata-0" / "00000000000000009999.log"
    other.write_bytes(b"not a log" * 30)
    lake, cluster = load(tmp_path / "lake", folder)
    assert {r["offset"] for r in lake.rows("metadata_records", cluster, ("offset",))} == set(range(322)) - {59}

    rows: dict[str, list[Any]] = {}
    for row in lake.rows("quarantine", cluster):
        rows.setdefault(row["reason"], []).append(row)
    assert {row["node_id"] for row in rows["crc_mismatch"]} == set(NODES)
    for row in rows["crc_mismatch"]:
        assert (row["position"], row["offset"], row["length_bytes"], len(row["raw"])) == (DAMAGED, 59, 72, 72)
        assert row["message"].startswith(f"{row['path']}: byte {DAMAGED} (offset 59): ")
    (torn,), (strange,) = rows["torn_batch"], rows["not_a_segment"]
    has_tail = (pc.field("trailing_bytes") > 0) & (pc.field("status") != "registered")
    (file,) = lake.rows("evidence_files", cluster, where=has_tail)
    assert torn["path"] == file["path"] == f"controllers/3002/{SEGMENT}"
    assert torn["position"] + torn["length_bytes"] == file["size_bytes"]
    assert file["trailing_bytes"] == torn["length_bytes"]
    assert (Path(strange["path"]).name, strange["position"], strange["length_bytes"]) == (other.name, 0, 270)
    write_files(tmp_path / "packed", {SEGMENT: log_of("log 1; batch topic:a base_offset=1 codec=lz4; junk 20")})
    torn_end, packed = ingested(Lake(tmp_path / "other"), tmp_path / "packed").quarantined
    assert torn_end.endswith(": 20 bytes left, a batch head has 61")
    assert packed.startswith(f"note: {SEGMENT}: byte 91 (offset 1): compressed with lz4")
    assert torn_end.startswith(f"note: {SEGMENT}: byte ")


def test_a_hole_in_the_only_copy_is_a_finding_but_not_a_mismatch(tmp_path: Path) -> None:
    folder = controllers("unclean", tmp_path)
    for node in NODES:
        flip(folder / "controllers" / str(node) / SEGMENT)
    found = judged_lake(tmp_path / "lake", folder / "controllers" / "3000").rows("findings", None)
    gaps = {f["rule"]: f["start_offset"] for f in found if f["kind"] == "evidence_gap"}
    assert gaps == {"offset_gap": 59, "unknown_prefix": 59}
    assert "snapshot_mismatch" not in {f["kind"] for f in found}
    # Without a later snapshot nothing is known after it.
    for snapshot in folder.rglob("*1.checkpoint"):
        snapshot.unlink()
    lake = judged_lake(tmp_path / "other", folder)
    (cluster,) = lake.clusters()
    (alone,) = (f for f in lake.rows("findings", cluster) if f["kind"] == "last_replica_standing")
    known_ms = max(r["timestamp_ms"] for r in lake.rows("metadata_records", cluster) if r["offset"] < 59)
    facts = judging_inputs(lake, cluster, load_settings(), measured_clocks(lake, cluster))[1]
    assert (alone["end_reason"], (facts.log_end_ms or 0) <= known_ms) == ("hole", True)
    assert [len(partitions_at(lake, cluster, None, None, known_ms + ms)) for ms in (0, 60_000)] == [8, 0]


def test_an_empty_folder_and_a_missing_path_are_errors(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_files(tmp_path / "preview", {SEGMENT: log_of("log 1; batch hex:0002000261 base_offset=1")})
    for name, message in (
        ("empty", "no files"),
        ("nowhere", "nowhere"),
        ("preview", r"\.log: byte 0 \(offset 1\): by its first record, at byte 152: frame version 0"),
        (f"preview/{SEGMENT}", r"\.log: byte 0 \(offset 1\): by its first record, at byte 152: frame version 0"),
    ):
        with pytest.raises(CaptureError, match=message):
            load(tmp_path / "lake", tmp_path / name)
    assert Lake(tmp_path / "lake").rows("evidence_files", None) == []


Row = dict[str, Any]
MANIFEST = 'kafka_release = "4.1.0"\nclock_error_ms = 20\n'
OF_MANIFEST = ("kafka_release", "clock_error_ms", "snapshot_duration_ms", "path")


def ingested(lake: Lake, capture: Path) -> Ingested:
    return ingest(lake, capture, load_settings(), lambda _: None)


def captures(lake: Lake) -> dict[str, Row]:
    """The rows by capture; each is what evidence_files gives."""
    (cluster,) = lake.clusters()
    rows = lake.rows("captures", cluster)
    files = lake.rows("evidence_files", cluster)
    found = {row["capture"]: row for row in rows}
    assert len(found) == len(rows)
    assert found.keys() == {file["capture"] for file in files}
    for name, row in found.items():
        expected = found_in(file for file in files if file["capture"] == name)
        assert {key: row[key] for key in expected} == expected
    return found


def test_a_capture_that_grew_keeps_one_row(tmp_path: Path) -> None:
    lake, (whole, folder, _) = Lake(tmp_path / "lake"), diverged(tmp_path)
    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "gztar", folder))
    (folder / "capture.toml").write_text(MANIFEST)
    for given in (whole, folder, packed):
        assert ingested(lake, given).added["captures"] == 1
    first = captures(lake)
    assert [first[name]["nodes"] for name in ("whole", "alone", "packed")] == [[3000, 3001, 3002], [3001], [3001]]
    assert [first["alone"][name] for name in OF_MANIFEST] == ["4.1.0", 20, None, "capture.toml"]
    assert {first[name][key] for name in ("whole", "packed") for key in OF_MANIFEST} == {None}
    (folder / "notes.txt").write_text("a file more")
    (folder / "capture.toml").write_text(MANIFEST.replace("20", "30").replace("4.1.0", "4.0.2"))
    assert "captures" not in {name for name, count in ingested(lake, folder).added.items() if count}
    rows = captures(lake)
    assert rows["whole"] == first["whole"]
    assert rows["alone"]["clock_error_ms"] == 30
    assert rows["alone"]["kafka_release"] == "4.0.2, 4.1.0"  # the cluster was upgraded: the log is of both
    (cluster,) = lake.clusters()
    assert load_captured(lake, cluster)["releases"] == ["4.0.2", "4.1.0"]
    assert load_cluster_state(lake, cluster, EARLIEST).controller_releases.named == ("4.0.2", "4.1.0")
    differences = check_capture(lake, cluster, folder, load_settings(), None)
    assert [(found.what, found.file) for found in differences] == [("evidence_changed", "capture.toml")]
    assert rows["alone"]["files"] == first["alone"]["files"] + 2  # the manifest before is a file that was read
    assert rows["alone"]["ingested_ms"] >= first["alone"]["ingested_ms"]


def test_files_that_are_read_one_by_one_are_compared(tmp_path: Path) -> None:
    """kafka-1 is the pod of node 4; a rotated file with the logs that a start loaded names no node."""
    begin = "[2026-11-21 00:00:00,123] INFO "
    loaded = f"{begin}[Partition a-0 broker=4] Log loaded for partition a-0 with initial high watermark 7 (k.P)\n"
    version = f"{begin}Kafka version: 4.0.2 (k.A)\n"
    files = {"kafka-1/server.log": loaded.encode(), "kafka-1/server.log.1": version.encode()}
    with open_capture(write_files(tmp_path, files)) as capture:
        rows = read_logs(capture, load_settings()).events.to_pylist()
    assert [(row["path"], row["node_id"]) for row in rows] == [
        ("kafka-1/server.log", 4),
        ("kafka-1/server.log.1", None),
    ]
