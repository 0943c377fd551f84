"""Large tables reach Spark as files below the lake: the rows are the same, and nothing stays behind."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from evidence.capture import open_capture
from evidence.metrics import MetricNames
from evidence.offsets import read_offsets
from jobs.ingest import _Writer, ingest
from jobs.lake import Lake
from jobs.settings import load_settings
from tests.spark.conftest import Job
from tests.support.digests import digests
from tests.support.paths import capture

ROWS_PER_FILE = 7


@pytest.fixture
def all_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.lake.STAGED_ROWS", 0)
    monkeypatch.setattr("jobs.lake.FILE_ROWS", ROWS_PER_FILE)


def offsets() -> pa.Table:
    with open_capture(capture("unclean")) as opened:
        return read_offsets(opened.name, opened.files, MetricNames(), 5000).log_end_offsets


def staged_files(lake: Lake) -> list[Path]:
    return [f for f in (lake.root / "_staging").rglob("*") if f.is_file()]


def test_an_ingest_through_files_gives_the_tables_of_one_without(
    job: Job, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A folder that a killed process left there is neither read nor touched, also by one that reads the lake."""
    plain, through_files = Lake(job.lake.spark, tmp_path / "plain"), Lake(job.lake.spark, tmp_path / "files")
    left = through_files.root / "_staging" / "left" / "000000000000.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half a file")
    added = [ingest(plain, capture("unclean"), load_settings(), lambda _: None).added]
    request.getfixturevalue("all_is_large")
    added.append(ingest(through_files, capture("unclean"), load_settings(), lambda _: None).added)
    assert added[0] == added[1]
    assert added[0]["log_end_offsets"] > ROWS_PER_FILE
    assert digests(plain) == digests(through_files)
    assert staged_files(through_files) == [left]
    assert not (plain.root / "_staging").exists()
    through_files.register_views("select count(*) from log_end_offsets")
    assert through_files.clusters() == plain.clusters()


@pytest.mark.usefixtures("all_is_large")
def test_the_frame_of_a_large_table_is_that_of_a_small_one(job: Job, tmp_path: Path) -> None:
    lake, rows = Lake(job.lake.spark, tmp_path / "lake"), offsets()
    small = lake.frame("log_end_offsets", "c", rows)
    with lake.staged("log_end_offsets", "c", rows) as large:
        assert len(staged_files(lake)) == -(-len(rows) // ROWS_PER_FILE) > 1
        assert large.schema == small.schema
        assert sorted(map(str, large.collect())) == sorted(map(str, small.collect()))
    assert list((lake.root / "_staging").iterdir()) == []


@pytest.mark.usefixtures("all_is_large")
@pytest.mark.parametrize(("lacks", "error"), [([], IndexError), (["topic"], KeyError)])
def test_after_an_error_nothing_stays_behind(
    job: Job, tmp_path: Path, lacks: list[str], error: type[Exception]
) -> None:
    """There is no table to write to; or the rows cannot be laid down."""
    lake = Lake(job.lake.spark, tmp_path / "lake")
    writer, rows = _Writer(lake, "c"), offsets().drop_columns(lacks)
    with pytest.raises(error):
        writer.append("log_end_offsets", rows)
    assert list((lake.root / "_staging").iterdir()) == []
