"""Damaged captures: damage is quarantined with its position, everything else is ingested and judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from evidence.errors import CaptureError
from jobs.config.settings import load_settings
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from tests.support.judged import judged_lake
from tests.support.paths import controllers
from tests.support.small_captures import SEGMENT

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


def test_a_hole_in_the_only_copy_is_a_finding_but_not_a_mismatch(tmp_path: Path) -> None:
    folder = controllers("unclean", tmp_path) / "controllers" / "3000"
    flip(folder / SEGMENT)
    found = judged_lake(tmp_path / "lake", folder).rows("findings", None)
    gaps = {f["rule"]: f["start_offset"] for f in found if f["kind"] == "evidence_gap"}
    assert gaps == {"offset_gap": 59, "unknown_prefix": 59}
    assert "snapshot_mismatch" not in {f["kind"] for f in found}


def test_an_empty_folder_and_a_missing_path_are_errors(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, message in (("empty", "no files"), ("nowhere", "nowhere")):
        with pytest.raises(CaptureError, match=message):
            load(tmp_path / "lake", tmp_path / name)
