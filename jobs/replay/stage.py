"""Replay: metadata records -> the cluster's histories, partition_history and cluster_metrics.

A history that is there already is extended, where all that it follows from is unchanged (replay/partitions/resume.py):
only what the log has gained is read, reduced and written.
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
# Written last: its mark says that the stage is done.
_LAST = "quorum_history"


@dataclass(frozen=True, slots=True)
class Replayed:
    """rows: written to partition_history; up_to_date: nothing had changed and nothing was written; resumed_at: the
    metadata offset from which an earlier history was extended, None if it was made anew."""

    cluster_id: str
    rows: int
    up_to_date: bool
    resumed_at: int | None = None


def replay(
    lake: Lake, cluster: str, settings: Settings, progress: Callable[[str], None], start: str = EARLIEST
) -> Replayed:
    """Make or extend the histories of one cluster, unless their inputs are unchanged. start: EARLIEST or
    NEWEST_CHECKPOINT (jobs/replay/cluster_state.py).

    Errors: LogConflictError when captures contradict each other: the history is then empty, that the only finding.
    """
    lake.create()  # tables that a newer release has and this lake does not
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
    progress(f"{cluster}: the cluster's own histories")
    told = _statement(lake.table("partition_history", cluster), state, settings).persist()
    metrics = cluster_metrics(lake, cluster, rows_of(told, "electable"), rows_of(told, "move"), state)
    lake.replace("cluster_metrics", cluster, metrics)
    sessions = brokers(lake, cluster, rows_of(told, "session"), state)
    told.unpersist()
    for name, table in _cluster_histories(state, sessions):
        clipped = clip_validity(table, state.shape.runs, state.shape.log_end)
        lake.put(name, cluster, clipped, {"input_fingerprint": inputs} if name == _LAST else None)
    return Replayed(cluster, rows, False, resumed_at)


_TOLD = StackedTables(electable=CLUSTER_METRICS, move=MOVES, session=SESSION_EVIDENCE)


def _statement(history: DataFrame, state: ClusterState, settings: Settings) -> DataFrame:
    """What every bucket tells of the whole cluster: its metrics, its brokers' sessions."""
    course, context, registered = course_of(state), state.configs, registrations(state.records)

    def tell(bucket: pa.Table) -> dict[str, pa.Table]:
        rows = sorted_history(bucket)
        sessions = session_evidence(rows, registered) if len(registered) else SESSION_EVIDENCE.empty_table()
        return {"electable": electable_replicas(rows), "move": moves(rows, context, course), "session": sessions}

    return _TOLD.of_buckets(history, PARTITION_HISTORY, bucket_count(history, settings), tell)


def _cluster_histories(state: ClusterState, sessions: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    yield "broker_history", sessions
    yield "feature_history", feature_history(state.records)
    yield "config_history", config_history(state.records, state.configs)
    yield _LAST, quorum_history(state.records, state.shape)


def replayed_from(lake: LakeFiles, cluster: str) -> str:
    """The start that the cluster's partition_history was made with."""
    return str(lake.made("partition_history", cluster).get("start", EARLIEST))


def _partitions(
    lake: Lake, cluster: str, state: ClusterState, settings: Settings, start: str
) -> tuple[int, int | None]:
    """Write partition_history; returns the rows written and where an earlier history was extended."""
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
    """partition_history from CHANGES rows. Topics are whole within a bucket, since every partition of a topic looks at
    its partition 0."""
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
    """The rows that the log from `offset` on adds to a history that reaches up to there, and those that end by it."""
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
    bases = [(*place, sha256) for place, sha256 in state.bases.items()]
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
