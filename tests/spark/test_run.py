"""The main job on three real captures of clusters that were broken on purpose."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pytest

from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.pipeline import Pipeline
from tests.spark.conftest import CAPTURES, Job
from tests.support.oracle import assert_equals_replay, captured_replay

# Measured when the clusters were broken: (topic, partition) -> (lost acknowledged offsets, first of them).
LOST = {
    "unclean": {("ledger", 0): (70, 80), ("ledger", 2): (70, 80), ("audit", 1): (30, 100)},
    "elr": {},
    "churn": {("t2", 6): (6, 15)},
}


def windows(job: Job, name: str) -> list[dict[str, Any]]:
    return job.lake.rows("findings", job.clusters[name], where=pc.field("kind") == "hwm_regression")


@pytest.mark.parametrize("name", CAPTURES)
def test_proven_windows_are_exactly_the_partitions_that_lost_records(job: Job, name: str) -> None:
    proven = {(f["topic"], f["partition"]): f for f in windows(job, name) if f["verdict"] == "proven"}
    assert set(proven) == set(LOST[name])
    for place, (lost, first) in LOST[name].items():
        finding = proven[place]
        assert finding["loss_min"] <= lost
        assert finding["loss_max"] is None or finding["loss_max"] >= lost
        assert finding["loss_min"] == lost
        # If the previous leader may have crashed during its session, the common part of the logs is unknown.
        assert finding["first_lost_offset"] in (None, first)
        roles = {e["role"] for e in finding["evidence"]}
        assert {"election", "state_before", "high_watermark_floor", "leader_log_end"} <= roles


@pytest.mark.parametrize("name", CAPTURES)
def test_partition_history_equals_kafkas_replay(job: Job, name: str) -> None:
    history = job.lake.read("partition_history", job.clusters[name])
    assert_equals_replay(history, captured_replay(name, 3000))


@pytest.mark.parametrize("name", CAPTURES)
def test_every_record_is_stored_once_although_three_controllers_hold_it(job: Job, name: str) -> None:
    records = job.lake.rows("metadata_records", job.clusters[name], ("offset", "commit_state"))
    offsets = sorted(r["offset"] for r in records)
    assert offsets == list(range(len(offsets)))
    batches = job.lake.rows("log_batches", job.clusters[name])
    assert sum(b["record_count"] for b in batches) == len(offsets)
    assert max(len(b["nodes"]) for b in batches) == 3


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


def test_snapshots_agree_with_the_replay(job: Job) -> None:
    assert "snapshot_mismatch" not in job.lake.read("findings", None, ["kind"])["kind"].to_pylist()
    changes = job.lake.read("snapshot_records", None, ["partition_change"])["partition_change"]
    assert len(changes) - changes.null_count > 200


def test_every_byte_of_every_file_is_accounted_for(job: Job) -> None:
    for row in job.lake.read("evidence_files", None).to_pylist():
        assert row["parsed_bytes"] + row["quarantined_bytes"] + row["trailing_bytes"] == row["size_bytes"], row["path"]
    assert len(job.lake.read("quarantine", None)) == 0


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


def test_the_cluster_wide_histories_are_written(job: Job) -> None:
    churn = job.clusters["churn"]
    levels = job.lake.rows("feature_history", churn, where=pc.field("name") == "eligible.leader.replicas.version")
    assert sorted((r["offset"], r["level"]) for r in levels) == [(5, 1), (489, 0), (492, 1)]
    quorum = job.lake.rows("quorum_history", churn, where=pc.field("origin") == "log")
    assert [r["leader_id"] for r in sorted(quorum, key=lambda r: r["offset"])][-1] == 3002
    assert all(r["voters"] == [3000, 3001, 3002] for r in quorum)
    of_brokers = (pc.field("name") == "min.insync.replicas") & (pc.field("resource_type") == "broker")
    configs = job.lake.rows("config_history", churn, where=of_brokers)
    assert [(r["resource_name"], r["value"], r["end_offset"]) for r in configs] == [("", "2", None)]
