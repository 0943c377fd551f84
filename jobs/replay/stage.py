"""Replay: metadata records -> the cluster's histories, partition_history and cluster_metrics.

An existing history is extended if everything it was derived from is unchanged (replay/partitions/resume.py): only the
new part of the log is read, reduced and written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.config.settings import Settings
from jobs.lake.fingerprint import CODE_VERSION, input_fingerprint
from jobs.lake.lake import Lake
from jobs.lake.lake_files import LakeFiles
from jobs.lake.tables import TABLES
from jobs.replay.brokers import brokers
from jobs.replay.cluster_state import EARLIEST, LogConflictError, load_cluster_state, static_files
from jobs.replay.metrics import cluster_metrics
from jobs.spark.buckets import bucket_count, map_both, map_buckets
from jobs.spark.stacked_tables import StackedTables, rows_of
from jobs.spark.types import spark_schema
from replay.arrow.schemas import CHANGES, CLUSTER_METRICS, FINDINGS, PARTITION_HISTORY, sorted_history
from replay.cluster.broker_sessions import SESSION_EVIDENCE, registrations, session_evidence
from replay.cluster.histories import config_history, feature_history, quorum_history
from replay.cluster.log import clip_validity
from replay.cluster.state import ClusterState, changes_that_count
from replay.findings.faults import conflict
from replay.partitions.metrics import MOVES, course_of, electable_replicas, moves
from replay.partitions.reducer import build_history
from replay.partitions.resume import ResumePoint, as_base, goes_on_from, news, resume_point

_INPUTS = ("log_batches", "metadata_records", "snapshot_records", "static_configs", "quarantine", "log_end_offsets")
# Written last: its input fingerprint shows that the stage is done.
_LAST = "quorum_history"


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay. rows: written to partition_history; up_to_date: nothing had changed, so nothing was
    written; resumed_at: metadata offset from which an earlier history was extended, None for a new history."""

    cluster_id: str
    rows: int
    up_to_date: bool
    resumed_at: int | None = None


def replay(
    lake: Lake, cluster: str, settings: Settings, progress: Callable[[str], None], start: str = EARLIEST
) -> Replayed:
    """Build or extend the histories of one cluster, unless their inputs are unchanged. start: EARLIEST or
    NEWEST_CHECKPOINT (jobs/replay/cluster_state.py).

    Errors: LogConflictError if captures contradict each other; the history is then empty and the conflict is the only
    finding.
    """
    lake.create()  # add the tables that are new in this release
    inputs = input_fingerprint(lake, _INPUTS, (start,))
    if lake.input_fingerprint(_LAST, cluster) == inputs:
        return Replayed(cluster, 0, True)
    lake.start()
    progress(f"{cluster}: resolving cluster-wide records")
    try:
        state = load_cluster_state(lake, cluster, start)
    except LogConflictError as error:
        found = pa.Table.from_pylist([conflict(cluster, str(error), error.batches)], schema=FINDINGS)
        lake.put("findings", cluster, found)
        for name in ("partition_history", "elections", "rule_differences", "invariant_violations", "counterfactuals"):
            lake.put(name, cluster, TABLES[name].schema.empty_table())
        raise
    progress(f"{cluster}: replaying partitions")
    rows, resumed_at = _partitions(lake, cluster, state, settings, start)
    progress(f"{cluster}: building the cluster-wide histories")
    summaries = _bucket_summaries(lake.table("partition_history", cluster), state, settings).persist()
    metrics = cluster_metrics(lake, cluster, rows_of(summaries, "electable"), rows_of(summaries, "move"), state)
    lake.replace("cluster_metrics", cluster, metrics)
    sessions = brokers(lake, cluster, rows_of(summaries, "session"), state)
    summaries.unpersist()
    for name, table in _cluster_histories(state, sessions):
        clipped = clip_validity(table, state.shape.runs, state.shape.log_end)
        lake.put(name, cluster, clipped, {"input_fingerprint": inputs} if name == _LAST else None)
    return Replayed(cluster, rows, False, resumed_at)


_SUMMARIES = StackedTables(electable=CLUSTER_METRICS, move=MOVES, session=SESSION_EVIDENCE)


def _bucket_summaries(history: DataFrame, state: ClusterState, settings: Settings) -> DataFrame:
    """What each bucket contributes to the cluster-wide tables (_SUMMARIES): metrics and evidence of broker sessions."""
    course, context, registered = course_of(state), state.configs, registrations(state.records)

    def summarize(bucket: pa.Table) -> dict[str, pa.Table]:
        rows = sorted_history(bucket)
        sessions = session_evidence(rows, registered) if len(registered) else SESSION_EVIDENCE.empty_table()
        return {"electable": electable_replicas(rows), "move": moves(rows, context, course), "session": sessions}

    return _SUMMARIES.of_buckets(history, PARTITION_HISTORY, bucket_count(history, settings), summarize)


def _cluster_histories(state: ClusterState, sessions: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    yield "broker_history", sessions
    yield "feature_history", feature_history(state.records)
    yield "config_history", config_history(state.records, state.configs)
    yield _LAST, quorum_history(state.records, state.shape)


def replayed_from(lake: LakeFiles, cluster: str) -> str:
    """The `start` of the replay that built the cluster's partition_history."""
    return str(lake.made("partition_history", cluster).get("start", EARLIEST))


def _partitions(
    lake: Lake, cluster: str, state: ClusterState, settings: Settings, start: str
) -> tuple[int, int | None]:
    """Write partition_history; returns the rows written, and the offset from which it was extended or None."""
    static = static_files(lake, cluster)
    point = resume_point(state, static)
    rules = {"code": CODE_VERSION, "start": start}
    about = {**rules, "resume": asdict(point) if point else None}
    changes = changes_frame(lake, cluster, state)
    made = lake.made("partition_history", cluster)
    if made.get("resume") and rules.items() <= made.items():
        earlier = ResumePoint(**made["resume"])
        if goes_on_from(state, static, earlier):
            rows = extension(lake, cluster, changes, state, settings, earlier.offset)
            written = lake.extend("partition_history", cluster, rows, ("end_offset", "end_timestamp_ms"), about)
            return written, earlier.offset
    return lake.replace("partition_history", cluster, build(changes, cluster, state, settings), about), None


def build(changes: DataFrame, cluster: str, state: ClusterState, settings: Settings) -> DataFrame:
    """Build partition_history from CHANGES rows. A bucket has whole topics because every partition of a topic reads its
    partition 0."""
    state = state.for_tasks()

    def reduce_bucket(bucket: pa.Table) -> pa.Table:
        return _reduce(changes_that_count(bucket, state), state)

    count = bucket_count(changes, settings)
    rows = map_buckets(changes, CHANGES, count, reduce_bucket, spark_schema(PARTITION_HISTORY))
    return rows.withColumn("cluster_id", F.lit(cluster))


def _reduce(changes: pa.Table, state: ClusterState) -> pa.Table:
    history = build_history(changes, state.topic_events, state.configs).table
    return clip_validity(history, state.shape.runs, state.shape.log_end)


def extension(
    lake: Lake, cluster: str, changes: DataFrame, state: ClusterState, settings: Settings, offset: int
) -> DataFrame:
    """The rows that the log from `offset` on adds to a history up to `offset`, and the existing rows that they end."""
    changes = changes.where(F.col("offset") >= offset)
    events = state.topic_events.filter(pa.array(state.topic_events["offset"].to_numpy() >= offset))
    touched = changes.select("topic_id")
    if len(events):
        named = pa.table({"topic_id": events["topic_id"].unique()})
        touched = touched.unionAll(lake.spark.createDataFrame(named, schema="topic_id string"))
    valid = lake.table("partition_history", cluster).where("end_offset is null and not removed")
    base = valid.join(F.broadcast(touched.distinct()), "topic_id", "left_semi")
    later = replace(state.for_tasks(), topic_events=events)

    def reduce_bucket(left: pa.Table, right: pa.Table) -> pa.Table:
        counted = changes_that_count(right, later)
        return news(_reduce(pa.concat_tables([as_base(left), counted]), later), offset)

    sides, count = ((base, PARTITION_HISTORY), (changes, CHANGES)), bucket_count(changes, settings)
    rows = map_both(*sides, count, reduce_bucket, spark_schema(PARTITION_HISTORY))
    return rows.withColumn("cluster_id", F.lit(cluster))


def changes_frame(lake: Lake, cluster: str, state: ClusterState) -> DataFrame:
    """CHANGES rows: the partition records of the surviving log and of the snapshots that its runs start from."""
    columns = [
        F.col("epoch").alias("controller_epoch"),
        F.col("timestamp_ms"),
        (F.col("type") == "PARTITION_RECORD").alias("full"),
        F.col("partition_change.*"),
        *(F.col(c) for c in ("capture", "path", "sha256", "position")),
    ]
    records = lake.table("metadata_records", cluster).where("partition_change is not null and offset is not null")
    if state.shape.truncated:
        truncated = lake.spark.createDataFrame(state.shape.truncated, "epoch int, batch_base_offset long")
        records = records.join(F.broadcast(truncated), ["epoch", "batch_base_offset"], "left_anti")
    changes = records.select("offset", "batch_base_offset", F.lit("log").alias("origin"), *columns)
    bases = [(*snapshot, sha256) for snapshot, sha256 in state.bases.items()]
    if bases:
        base = lake.spark.createDataFrame(bases, "snapshot_end_offset long, snapshot_epoch int, sha256 string")
        rows = lake.table("snapshot_records", cluster).where("partition_change is not null")
        rows = rows.join(F.broadcast(base), ["snapshot_end_offset", "snapshot_epoch", "sha256"])
        at = F.col("snapshot_end_offset") - 1
        rows = rows.select(
            at.alias("offset"), at.alias("batch_base_offset"), F.lit("checkpoint").alias("origin"), *columns
        )
        changes = changes.unionByName(rows)
    return changes
