"""Check the replay against captured snapshots: the state replayed up to a snapshot's end offset must equal it."""

from __future__ import annotations

from pyspark.sql import functions as F

from jobs.lake.lake import Lake
from replay.cluster.state import ClusterState

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


def compare_with_snapshots(lake: Lake, cluster: str, state: ClusterState) -> tuple[int, list[dict[str, object]]]:
    """Compare each snapshot with the state replayed up to its end offset. Snapshots inside a hole of the log cannot be
    compared and are skipped.

    Returns the number of partition states compared, and for each one that differs (or is missing on one side) a dict
    with snapshot_end_offset, topic_id, partition, what. The ELR is compared only if the feature was on: without it,
    writers omit the ELR from snapshots.
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
    compared = both.select("snapshot_end_offset", "topic_id", "partition", what.alias("what")).toArrow().to_pylist()
    return len(compared), [r for r in compared if r["what"]]
