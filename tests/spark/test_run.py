"""The main job on three real captures of clusters that were broken on purpose."""

import pyspark.sql
import pytest

from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.pipeline import Pipeline
from tests.spark.conftest import CAPTURES, Job
from tests.support.oracle import assert_equals_replay, captured_replay


def test_workers_import_pyspark_as_it_is_compiled(spark: pyspark.sql.SparkSession) -> None:
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: pyspark.__file__).collect() == [pyspark.__file__]


@pytest.mark.parametrize("name", CAPTURES)
def test_partition_history_equals_kafkas_replay(job: Job, name: str) -> None:
    history = job.lake.read("partition_history", job.clusters[name])
    assert_equals_replay(history, captured_replay(name, 3000))


def test_quality_is_met_and_documented(job: Job) -> None:
    results = job.lake.read("quality_results", None, ["success"])["success"].to_pylist()
    assert len(results) > 3 * 100
    assert all(results)
    assert job.pipeline.failed == []
    for cluster in job.clusters.values():
        assert (job.pipeline.root / "_data_docs" / cluster / "index.html").is_file()


def test_running_again_writes_nothing(job: Job) -> None:
    before = _versions(job.lake)
    again = Pipeline(job.pipeline.root, job.pipeline.captures)
    again.run(job.report)
    assert _versions(again.lake) == before
    assert "spark" not in vars(again.lake)  # no session was started


def _versions(lake: Lake) -> dict[str, int]:
    return {name: lake.version(name) for name in TABLES}
