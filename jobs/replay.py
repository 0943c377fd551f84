"""Replay: metadata records -> the cluster's histories and partition_history; and the self-test against snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs import stages
from jobs.cluster_state import LogConflictError, load_cluster_state
from jobs.lake import Lake, spark_schema
from jobs.settings import Settings
from replay.cluster import ClusterState, changes_that_count
from replay.cluster_history import config_history, feature_history, quorum_history
from replay.faults import conflict
from replay.history import CHANGES, build_history
from replay.tables import FINDINGS, PARTITION_HISTORY
from replay.validity import clip_validity

_INPUTS = ("log_batches", "metadata_records", "snapshot_records", "static_configs", "quarantine")
_CLUSTER_HISTORIES = {
    "feature_history": feature_history,
    "config_history": config_history,
    "quorum_history": quorum_history,
}
_STATE = (
    "replicas",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "leader",
    "leader_epoch",
    "partition_epoch",
)


@dataclass(frozen=True, slots=True)
class Replayed:
    """rows: written to partition_history; up_to_date: nothing had changed and nothing was written."""

    cluster_id: str
    rows: int
    up_to_date: bool


def replay(lake: Lake, cluster: str, settings: Settings, progress: Callable[[str], None]) -> Replayed:
    """Remake partition_history of one cluster, unless its inputs are unchanged.

    Errors: LogConflictError when captures contradict each other: the history is then empty, that the only finding.
    """
    lake.create()  # tables that a newer release has and this lake does not
    mark = stages.fingerprint(lake, _INPUTS)
    if lake.mark("partition_history", cluster) == mark:
        return Replayed(cluster, 0, True)
    progress(f"{cluster}: resolving cluster-wide records")
    try:
        state = load_cluster_state(lake, cluster)
    except LogConflictError as error:
        found = pa.Table.from_pylist([conflict(cluster, str(error), error.batches)], schema=FINDINGS)
        lake.replace("findings", cluster, lake.frame("findings", cluster, found))
        for name in ("partition_history", "elections", "counterfactuals"):
            lake.replace(name, cluster, lake.table(name).limit(0))
        raise
    progress(f"{cluster}: replaying partitions")
    changes = changes_frame(lake, cluster, state)
    for name, make in _CLUSTER_HISTORIES.items():
        table = clip_validity(make(state.records), state.shape.runs, state.shape.log_end)
        lake.replace(name, cluster, lake.frame(name, cluster, table))
    history = build(changes, state, settings).withColumn("cluster_id", F.lit(cluster))
    return Replayed(cluster, lake.replace("partition_history", cluster, history, mark), False)


def build(changes: DataFrame, state: ClusterState, settings: Settings) -> DataFrame:
    """partition_history (without cluster_id) from CHANGES rows. Topics are whole within a bucket, since every partition
    of a topic looks at its partition 0."""
    count = bucket_count(changes, settings)
    state = state.for_tasks()

    def reduce_bucket(bucket: pa.Table) -> pa.Table:
        rows = changes_that_count(bucket.select(CHANGES.names).cast(CHANGES), state)
        history = build_history(rows, state.topic_events, state.context).table
        return clip_validity(history, state.shape.runs, state.shape.log_end)

    buckets = changes.withColumn("bucket", F.pmod(F.hash("topic_id"), F.lit(count)))
    return buckets.groupBy("bucket").applyInArrow(reduce_bucket, spark_schema(PARTITION_HISTORY))


def bucket_count(frame: DataFrame, settings: Settings) -> int:
    """How many buckets keep `partitions_per_bucket` partitions each."""
    partitions = frame.select(F.approx_count_distinct(F.struct("topic_id", "partition"))).collect()[0][0]
    return max(1, -(-int(partitions) // settings.replay.partitions_per_bucket))


def changes_frame(lake: Lake, cluster: str, state: ClusterState) -> DataFrame:
    """CHANGES rows: the surviving log's partition records, and those of the snapshots that runs start from."""
    columns = [
        F.col("epoch").alias("controller_epoch"),
        F.col("timestamp_ms"),
        (F.col("type") == "PARTITION_RECORD").alias("full"),
        F.col("partition_change.*"),
        *(F.col(c) for c in ("capture", "path", "sha256", "position")),
    ]
    records = lake.table("metadata_records", cluster).where("partition_change is not null and offset is not null")
    if state.shape.truncated:
        cut = lake.spark.createDataFrame(state.shape.truncated, "epoch int, batch_base_offset long")
        records = records.join(F.broadcast(cut), ["epoch", "batch_base_offset"], "left_anti")
    changes = records.select("offset", "batch_base_offset", F.lit("log").alias("origin"), *columns)
    bases = [run.snapshot for run in state.shape.runs if run.snapshot]
    if bases:
        base = lake.spark.createDataFrame(bases, "snapshot_end_offset long, snapshot_epoch int")
        rows = lake.table("snapshot_records", cluster).where("partition_change is not null")
        rows = rows.join(F.broadcast(base), ["snapshot_end_offset", "snapshot_epoch"])
        rows = rows.dropDuplicates(["snapshot_end_offset", "snapshot_epoch", "offset"])
        at = F.col("snapshot_end_offset") - 1
        rows = rows.select(
            at.alias("offset"), at.alias("batch_base_offset"), F.lit("checkpoint").alias("origin"), *columns
        )
        changes = changes.unionByName(rows)
    return changes


def compare_with_snapshots(lake: Lake, cluster: str, state: ClusterState) -> tuple[int, list[dict[str, object]]]:
    """The law: the state replayed up to a snapshot's end offset is that snapshot's state. Snapshots inside a hole of
    the log have nothing to be compared with and are left out.

    Returns how many partition states were compared, and for each that differs (or is missing on one side) a dict with
    snapshot_end_offset, topic_id, partition, what. The ELR is compared where the feature was on: a writer without it
    leaves it out of snapshots.
    """
    snapshots = lake.table("snapshot_records", cluster).where("partition_change is not null")
    snapshots = snapshots.dropDuplicates(["snapshot_end_offset", "snapshot_epoch", "offset"])
    expected = snapshots.select("snapshot_end_offset", "partition_change.*")
    ends = [end for end, _ in state.shape.snapshots if any(run.start <= end <= run.end for run in state.shape.runs)]
    if not ends:
        return 0, []
    points = lake.spark.createDataFrame(
        [(end, state.elr_enabled(end - 1)) for end in ends], "snapshot_end_offset long, compare_elr boolean"
    )
    expected = expected.join(F.broadcast(points.select("snapshot_end_offset")), "snapshot_end_offset")
    history = lake.table("partition_history", cluster).where("not removed")
    valid = (F.col("offset") < F.col("snapshot_end_offset")) & (
        F.col("end_offset").isNull() | (F.col("end_offset") >= F.col("snapshot_end_offset"))
    )
    actual = history.join(F.broadcast(points), valid)
    names = [*_STATE, "elr", "last_known_elr", "leader_recovery_state"]
    e = expected.select("snapshot_end_offset", "topic_id", "partition", F.struct(*names).alias("e"))
    a = actual.select("snapshot_end_offset", "compare_elr", "topic_id", "partition", F.struct(*names).alias("a"))
    both = e.join(a, ["snapshot_end_offset", "topic_id", "partition"], "full_outer")
    recovery = F.when(F.col("e.leader_recovery_state") == 1, "RECOVERING").otherwise("RECOVERED")
    checks = {n: F.col(f"e.{n}").eqNullSafe(F.col(f"a.{n}")) for n in _STATE}
    checks["leader_recovery_state"] = recovery.eqNullSafe(F.col("a.leader_recovery_state"))
    for name in ("elr", "last_known_elr"):
        same = F.sort_array(f"e.{name}").eqNullSafe(F.sort_array(f"a.{name}"))
        checks[name] = same | ~F.col("compare_elr")
    wrong = F.concat_ws(", ", *(F.when(~F.coalesce(ok, F.lit(False)), n) for n, ok in checks.items()))
    what = (
        F.when(F.col("a").isNull(), "missing in the replay")
        .when(F.col("e").isNull(), "missing in the snapshot")
        .otherwise(wrong)
    )
    judged = both.select("snapshot_end_offset", "topic_id", "partition", what.alias("what")).toArrow().to_pylist()
    return len(judged), [r for r in judged if r["what"]]
