"""Damaged captures: damage is quarantined with its position, everything else is ingested and judged."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from evidence.errors import CaptureError
from jobs.config.settings import load_settings
from jobs.detect.stage import run_detect
from jobs.ingest.stage import Ingested, ingest
from jobs.lake.lake import Lake
from jobs.replay.stage import replay
from tests.support.paths import controllers
from tests.support.small_captures import SEGMENT


def load(root: Path, location: Path) -> tuple[Lake, Ingested]:
    lake = Lake(root)
    return lake, ingest(lake, location, load_settings(), lambda _: None)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Ingested, int]:
    """All controllers' copies have the same wrong byte in a batch; one copy is torn; one file is not a segment."""
    folder = controllers("unclean", tmp_path_factory.mktemp("damaged"))
    sizes = 0
    for node in (3000, 3001, 3002):
        path = folder / "controllers" / str(node) / SEGMENT
        data = bytearray(path.read_bytes())
        data[5354 + 70] ^= 0x01  # inside the batch at byte 5354: one NoOpRecord at offset 59
        path.write_bytes(data[:-20] if node == 3002 else data)
        sizes += 1
    (folder / "controllers" / "3000" / "__cluster_metadata-0" / "00000000000000009999.log").write_bytes(
        b"not a log" * 30
    )
    lake, result = load(tmp_path_factory.mktemp("damaged-lake"), folder)
    return lake, result, sizes


def test_a_wrong_crc_is_quarantined_with_file_and_position(damaged: tuple[Lake, Ingested, int]) -> None:
    lake, result, copies = damaged
    rows = lake.rows("quarantine", result.cluster_id, where=pc.field("reason") == "crc_mismatch")
    assert len(rows) == copies
    for row in rows:
        assert row["position"] == 5354
        assert row["offset"] == 59
        assert row["length_bytes"] == 72
        assert len(row["raw"]) == 72
        assert row["message"].startswith(f"{row['path']}: byte 5354 (offset 59): ")
    assert {row["node_id"] for row in rows} == {3000, 3001, 3002}


def test_everything_except_the_damage_is_ingested(damaged: tuple[Lake, Ingested, int]) -> None:
    lake, result, _ = damaged
    offsets = {r["offset"] for r in lake.rows("metadata_records", result.cluster_id, ("offset",))}
    assert offsets == set(range(322)) - {59}


def test_a_torn_last_batch_is_quarantined_and_counted_as_trailing_bytes(damaged: tuple[Lake, Ingested, int]) -> None:
    lake, result, _ = damaged
    (row,) = lake.rows("quarantine", result.cluster_id, where=pc.field("reason") == "torn_batch")
    torn = (pc.field("trailing_bytes") > 0) & (pc.field("status") != "registered")
    (file,) = lake.rows("evidence_files", result.cluster_id, where=torn)
    assert row["path"] == file["path"] == f"controllers/3002/{SEGMENT}"
    assert row["position"] + row["length_bytes"] == file["size_bytes"]
    assert file["trailing_bytes"] == row["length_bytes"]


def test_a_file_that_is_not_a_segment_is_quarantined_completely(damaged: tuple[Lake, Ingested, int]) -> None:
    lake, result, _ = damaged
    (row,) = lake.rows("quarantine", result.cluster_id, where=pc.field("reason") == "not_a_segment")
    assert row["path"].endswith("00000000000000009999.log")
    assert (row["position"], row["length_bytes"]) == (0, 270)


@pytest.fixture(scope="module")
def holed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Ingested]:
    """One controller was captured and one batch of its log (offset 59) is damaged: a hole in the only copy."""
    folder = controllers("unclean", tmp_path_factory.mktemp("holed")) / "controllers" / "3000"
    data = bytearray((folder / SEGMENT).read_bytes())
    data[5354 + 70] ^= 0x01
    (folder / SEGMENT).write_bytes(data)
    lake, result = load(tmp_path_factory.mktemp("holed-lake"), folder)
    settings = load_settings()
    replay(lake, result.cluster_id, settings, lambda _: None)
    run_detect(lake, result.cluster_id, settings, lambda _: None)
    return lake, result


def test_a_hole_is_a_finding_but_not_a_mismatch(holed: tuple[Lake, Ingested]) -> None:
    lake, result = holed
    found = lake.rows("findings", result.cluster_id)
    gaps = {f["rule"]: f["start_offset"] for f in found if f["kind"] == "evidence_gap"}
    assert gaps == {"offset_gap": 59, "unknown_prefix": 59}
    assert "snapshot_mismatch" not in {f["kind"] for f in found}


def test_an_empty_folder_and_a_missing_path_are_errors(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CaptureError, match="no files"):
        load(tmp_path / "lake", tmp_path / "empty")
    with pytest.raises(CaptureError, match="nowhere"):
        load(tmp_path / "lake", tmp_path / "nowhere")
