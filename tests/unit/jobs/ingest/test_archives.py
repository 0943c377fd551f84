"""An archive that is in the lake is not unpacked again."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from jobs.config.settings import load_settings
from jobs.ingest.stage import Ingested, ingest
from jobs.lake.lake import Lake
from tests.support.paths import capture, unpacked


def ingested(lake: Lake, source: Path) -> Ingested:
    return ingest(lake, source, load_settings(), lambda _: None)


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
