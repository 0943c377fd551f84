"""Damaged captures: damage is quarantined with its position, everything else is ingested and judged."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evidence.errors import CaptureError
from jobs.config.settings import load_settings
from jobs.detect.stage import run_detect
from jobs.ingest.stage import Ingested, ingest
from jobs.replay.stage import replay
from tests.support.paths import capture
from tests.support.rows import rows_where
from tests.support.spark_lake import SparkLake

SEGMENT = "__cluster_metadata-0/00000000000000000000.log"


def unpack_controllers(target: Path) -> Path:
    """Unpack the folders of the bundled capture's three controllers, which are small and enough for these tests."""
    with tarfile.open(capture("unclean")) as tar:
        members = [m for m in tar if "/controllers/" in f"/{m.name}" and m.isreg()]
        tar.extractall(target, members=members, filter="data")
    return target / "unclean"


def load(spark: SparkSession, root: Path, location: Path) -> tuple[SparkLake, Ingested]:
    lake = SparkLake(spark, root)
    return lake, ingest(lake, location, load_settings(), lambda _: None)


@pytest.fixture(scope="module")
def damaged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[SparkLake, Ingested, int]:
    """All controllers' copies have the same wrong byte in a batch; one copy is torn; one file is not a segment."""
    folder = unpack_controllers(tmp_path_factory.mktemp("damaged"))
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
    lake, result = load(spark, tmp_path_factory.mktemp("damaged-lake"), folder)
    return lake, result, sizes


def test_a_wrong_crc_is_quarantined_with_file_and_position(damaged: tuple[SparkLake, Ingested, int]) -> None:
    lake, result, copies = damaged
    rows = rows_where(lake, "quarantine", result.cluster_id, where="reason = 'crc_mismatch'")
    assert len(rows) == copies
    for row in rows:
        assert row["position"] == 5354
        assert row["offset"] == 59
        assert row["length_bytes"] == 72
        assert len(row["raw"]) == 72
        assert row["message"].startswith(f"{row['path']}: byte 5354 (offset 59): ")
    assert {row["node_id"] for row in rows} == {3000, 3001, 3002}


def test_everything_except_the_damage_is_ingested(damaged: tuple[SparkLake, Ingested, int]) -> None:
    lake, result, _ = damaged
    offsets = {r["offset"] for r in lake.rows("metadata_records", result.cluster_id, ("offset",))}
    assert offsets == set(range(322)) - {59}


def test_a_torn_last_batch_is_quarantined_and_counted_as_trailing_bytes(
    damaged: tuple[SparkLake, Ingested, int],
) -> None:
    lake, result, _ = damaged
    (row,) = rows_where(lake, "quarantine", result.cluster_id, where="reason = 'torn_batch'")
    (file,) = rows_where(
        lake, "evidence_files", result.cluster_id, where="trailing_bytes > 0 and status <> 'registered'"
    )
    assert row["path"] == file["path"] == f"controllers/3002/{SEGMENT}"
    assert row["position"] + row["length_bytes"] == file["size_bytes"]
    assert file["trailing_bytes"] == row["length_bytes"]


def test_a_file_that_is_not_a_segment_is_quarantined_completely(damaged: tuple[SparkLake, Ingested, int]) -> None:
    lake, result, _ = damaged
    (row,) = rows_where(lake, "quarantine", result.cluster_id, where="reason = 'not_a_segment'")
    assert row["path"].endswith("00000000000000009999.log")
    assert (row["position"], row["length_bytes"]) == (0, 270)


def test_bytes_add_up_in_damaged_files(damaged: tuple[SparkLake, Ingested, int]) -> None:
    lake, result, _ = damaged
    for row in lake.rows("evidence_files", result.cluster_id):
        assert row["parsed_bytes"] + row["quarantined_bytes"] + row["trailing_bytes"] == row["size_bytes"], row["path"]


@pytest.fixture(scope="module")
def holed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[SparkLake, Ingested]:
    """One controller was captured and one batch of its log (offset 59) is damaged: a hole in the only copy."""
    folder = unpack_controllers(tmp_path_factory.mktemp("holed")) / "controllers" / "3000"
    data = bytearray((folder / SEGMENT).read_bytes())
    data[5354 + 70] ^= 0x01
    (folder / SEGMENT).write_bytes(data)
    lake, result = load(spark, tmp_path_factory.mktemp("holed-lake"), folder)
    settings = load_settings()
    replay(lake, result.cluster_id, settings, lambda _: None)
    run_detect(lake, result.cluster_id, settings, lambda _: None)
    return lake, result


def test_a_hole_is_a_finding_but_not_a_mismatch(holed: tuple[SparkLake, Ingested]) -> None:
    lake, result = holed
    found = lake.rows("findings", result.cluster_id)
    gaps = {f["rule"]: f["start_offset"] for f in found if f["kind"] == "evidence_gap"}
    assert gaps == {"offset_gap": 59, "unknown_prefix": 59}
    assert "snapshot_mismatch" not in {f["kind"] for f in found}


def test_an_empty_folder_and_a_missing_path_are_errors(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CaptureError, match="no files"):
        load(spark, tmp_path / "lake", tmp_path / "empty")
    with pytest.raises(CaptureError, match="nowhere"):
        load(spark, tmp_path / "lake", tmp_path / "nowhere")
