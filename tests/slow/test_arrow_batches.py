"""Spark hands rows to Python in batches of any size: the history is the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.config.settings import load_settings
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from jobs.replay.stage import replay
from tests.spark.conftest import Job
from tests.support.oracle import assert_equals_replay, captured_replay
from tests.support.paths import controllers

SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
NAME = "churn"


@pytest.fixture(params=[1, 2, 7])
def small_batches(job: Job, request: pytest.FixtureRequest) -> Iterator[None]:
    """The session with this many rows a batch, and then as it was."""
    conf = job.lake.spark.conf
    before = conf.get(SETTING)
    conf.set(SETTING, str(request.param))
    yield
    conf.set(SETTING, before)


@pytest.mark.usefixtures("small_batches")
def test_history_is_the_same_in_batches_of_any_size(job: Job, tmp_path: Path) -> None:
    lake = Lake(job.lake.spark, tmp_path / "lake")
    cluster = ingest(lake, controllers(NAME, tmp_path), load_settings(), lambda _: None).cluster_id
    assert cluster == job.clusters[NAME]
    replay(lake, cluster, load_settings(), lambda _: None)
    history = rows(lake, cluster)
    assert history.num_rows == 485
    assert history.equals(rows(job.lake, cluster))
    assert_equals_replay(lake.table("partition_history", cluster).toArrow(), captured_replay(NAME, 3000))


def rows(lake: Lake, cluster: str) -> pa.Table:
    """Every column but the file: any of the controllers' files may give a record that all of them hold."""
    table = lake.table("partition_history", cluster).drop("path", "sha256", "position").toArrow()
    return table.sort_by([(name, "ascending") for name in ("topic_id", "partition", "offset")]).combine_chunks()
