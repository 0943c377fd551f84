"""The table `captures`: exactly one row for each capture, whatever it is and however often it is ingested."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

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
