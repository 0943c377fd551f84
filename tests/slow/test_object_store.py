"""A capture in S3 gives the tables that the same capture gives from disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence.errors import CaptureError
from jobs.cli import app
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.pipeline import Pipeline
from tests.spark.conftest import Job
from tests.support import s3
from tests.support.digests import digests
from tests.support.paths import capture, unpacked

NAME, OTHER = "jbod-4.1.1", "jbod-4.0.2"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[s3.Store]:
    with s3.moto(tmp_path / "moto.log") as running:
        for name, value in s3.credentials(running.endpoint, tmp_path).items():
            monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
        yield running


def ingested(root: Path, *captures: Path | str) -> Lake:
    pipeline = Pipeline(root, captures)
    pipeline.ingest()
    return pipeline.lake


def test_the_tables_are_those_of_the_captures_on_disk(store: s3.Store, tmp_path: Path) -> None:
    """A folder, an archive and a single file."""
    folder = unpacked(NAME, tmp_path)
    places = [folder, capture(OTHER), next(folder.rglob("*.log"))]
    store.bucket("captures", {})
    keys = [f"{place.parent.name}/{place.name}" for place in places]
    for place, key in zip(places, keys, strict=True):
        store.upload(place, "captures", key)
    expected = digests(ingested(tmp_path / "disk", *places))
    assert (expected["evidence_files"][0], expected["metadata_records"][0] > 0) == (11, True)
    assert digests(ingested(tmp_path / "s3", *(f"s3a://captures/{key}" for key in keys))) == expected


def test_what_was_ingested_from_disk_is_not_added_from_the_store(store: s3.Store, tmp_path: Path) -> None:
    store.bucket("captures", {f"{NAME}.tar.xz": capture(NAME).read_bytes()})
    lake = ingested(tmp_path / "lake", capture(NAME))
    versions = {name: lake.version(name) for name in TABLES}
    assert versions["evidence_files"] > 0
    ingested(tmp_path / "lake", f"s3://captures/{NAME}.tar.xz")
    assert {name: lake.version(name) for name in TABLES} == versions


def test_explain_shows_bytes_out_of_the_store(job: Job, store: s3.Store) -> None:
    store.bucket("captures", {"unclean.tar.xz": capture("unclean").read_bytes()})
    words = ["explain", "ac1562", "--lake", str(job.pipeline.root), "--format", "json", "--capture"]
    places = ("s3://captures/unclean.tar.xz", str(capture("unclean")))
    shown = [CliRunner().invoke(app, [*words, place]).stdout for place in places]
    assert shown[0] == shown[1]
    assert any(piece["bytes"]["text"] for piece in json.loads(shown[0])[0]["evidence"])


def test_a_capture_that_is_gone_when_it_is_its_turn(store: s3.Store, tmp_path: Path) -> None:
    store.bucket("captures", {"a.tar.xz": capture(NAME).read_bytes()})
    pipeline = Pipeline(tmp_path / "lake", ["s3://captures/a.tar.xz"])
    store.client.delete_object(Bucket="captures", Key="a.tar.xz")
    with pytest.raises(CaptureError, match=r"^s3://captures/a\.tar\.xz: no such object or folder"):
        pipeline.ingest()
