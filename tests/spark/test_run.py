"""The main job on three real captures of clusters that were broken on purpose."""

from __future__ import annotations

import pytest

from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.pipeline import Pipeline
from tests.spark.conftest import CAPTURES, Job
from tests.support.oracle import assert_equals_replay, captured_replay


@pytest.mark.parametrize("name", CAPTURES)
def test_partition_history_equals_kafkas_replay(job: Job, name: str) -> None:
    history = job.lake.read("partition_history", job.clusters[name])
    assert_equals_replay(history, captured_replay(name, 3000))


@pytest.mark.parametrize("name", CAPTURES)
def test_a_record_is_committed_once_a_majority_holds_it(job: Job, name: str) -> None:
    """The controllers were stopped one by one: the last one wrote a few records that no other has."""
    batches = sorted(job.lake.rows("log_batches", job.clusters[name]), key=lambda b: b["base_offset"])
    majority = [len(b["nodes"]) >= 2 for b in batches]
    assert [b["commit_state"] for b in batches] == ["committed" if m else "unknown" for m in majority]
    assert sum(majority) > 0.95 * len(batches)
    records = job.lake.rows("metadata_records", job.clusters[name], ("batch_base_offset", "commit_state"))
    states = {b["base_offset"]: b["commit_state"] for b in batches}
    assert all(r["commit_state"] == states[r["batch_base_offset"]] for r in records)


def test_quality_is_met_and_documented(job: Job) -> None:
    results = job.lake.read("quality_results", None, ["success"])["success"].to_pylist()
    assert len(results) > 3 * 100
    assert all(results)
    assert job.outcome.quality_failed == []
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
