"""The table `captures`: exactly one row for each capture, whatever it is and however often it is ingested."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from jobs.config.settings import load_settings
from jobs.custody.derived import check_capture
from jobs.ingest.captures import found_in
from jobs.ingest.stage import Ingested, ingest
from jobs.lake.lake import Lake
from jobs.replay.cluster_state import EARLIEST, load_cluster_state
from jobs.report.load import load_captured
from tests.support.small_captures import diverged

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


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `whole`, an archive, and a folder with a manifest."""
    folder = tmp_path_factory.mktemp("given")
    _, alone, _ = diverged(folder)
    shutil.make_archive(str(folder / "packed"), "gztar", alone)
    described = shutil.copytree(alone, folder / "described")
    (described / "capture.toml").write_text(MANIFEST)
    return folder


def test_each_capture_has_its_row(given: Path, tmp_path: Path) -> None:
    lake, before_ms = Lake(tmp_path / "lake"), time.time_ns() // 1_000_000
    for name in ("whole", "packed.tar.gz", "described"):
        assert ingested(lake, given / name).added["captures"] == 1
    rows = captures(lake)
    assert rows.keys() == {"whole", "packed", "described"}
    assert (rows["whole"]["nodes"], rows["packed"]["nodes"]) == ([3000, 3001, 3002], [3001])
    assert [rows["described"][name] for name in OF_MANIFEST] == ["4.1.0", 20, None, "capture.toml"]
    assert {rows[name][key] for name in ("whole", "packed") for key in OF_MANIFEST} == {None}
    assert rows["packed"]["files"] == rows["described"]["files"] - 1
    for row in rows.values():
        assert before_ms <= row["ingested_ms"] <= time.time_ns() // 1_000_000
        assert row["ingested_with"].startswith("kraft-forensics")
        assert row["last_timestamp_ms"] is not None
    assert ingested(lake, given / "whole").added == {}
    assert captures(lake) == rows


def test_a_capture_that_grew_keeps_one_row(given: Path, tmp_path: Path) -> None:
    lake, folder = Lake(tmp_path / "lake"), shutil.copytree(given / "described", tmp_path / "described")
    ingested(lake, given / "whole")
    ingested(lake, folder)
    first = captures(lake)
    (folder / "notes.txt").write_text("a file more")
    (folder / "capture.toml").write_text(MANIFEST.replace("20", "30").replace("4.1.0", "4.0.2"))
    assert "captures" not in {name for name, count in ingested(lake, folder).added.items() if count}
    rows = captures(lake)
    assert rows["whole"] == first["whole"]
    assert rows["described"]["clock_error_ms"] == 30
    assert rows["described"]["kafka_release"] == "4.0.2, 4.1.0"  # the cluster was upgraded: the log is of both
    (cluster,) = lake.clusters()
    assert load_captured(lake, cluster).releases == ["4.0.2", "4.1.0"]
    assert load_cluster_state(lake, cluster, EARLIEST).controller_releases.named == ("4.0.2", "4.1.0")
    differences = check_capture(lake, cluster, folder, load_settings(), None)
    assert [(found.what, found.file) for found in differences] == [("evidence_changed", "capture.toml")]
    assert rows["described"]["files"] == first["described"]["files"] + 2  # the manifest before is a file that was read
    assert rows["described"]["ingested_ms"] >= first["described"]["ingested_ms"]
