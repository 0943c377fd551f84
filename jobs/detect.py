"""Detect: partition_history + log_end_offsets -> elections, findings, counterfactuals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from evidence.tables import LOG_END_OFFSETS
from jobs import stages
from jobs.cluster_state import load_cluster_state
from jobs.lake import Lake, spark_schema
from jobs.replay import bucket_count, changes_frame, compare_with_snapshots
from jobs.settings import Settings
from replay import tables
from replay.cluster import ClusterState, changes_that_count
from replay.detect import Cluster, detect, finding_id
from replay.elections import build_elections, states_of
from replay.history import CHANGES
from replay.log import Problem
from replay.offsets import Clock
from replay.verdicts import RULE_VERSION

_INPUTS = ("partition_history", "log_end_offsets", "snapshot_records", "metadata_records")
_ORDER = [("topic_id", "ascending"), ("partition", "ascending"), ("offset", "ascending")]

MAX_ORPHANS = 100_000

# Faults of the log itself, with (verdict, severity): facts about what is there, or about what cannot be known.
FAULTS = {
    "snapshot_mismatch": ("proven", "critical"),
    "truncated_branch": ("proven", "low"),
    "broker_epoch_mismatch": ("proven", "medium"),
    "unknown_broker": ("proven", "medium"),
    "unknown_topic": ("proven", "medium"),
    "unknown_partition": ("undetermined", "medium"),
    "nested_transaction": ("proven", "medium"),
    "stray_transaction_end": ("proven", "medium"),
    "open_transaction": ("undetermined", "low"),
    "offset_gap": ("undetermined", "high"),
    "no_snapshot": ("undetermined", "high"),
    "unknown_prefix": ("undetermined", "medium"),
    "unobserved": ("undetermined", "medium"),
}


@dataclass(frozen=True, slots=True)
class Found:
    """What detection wrote. compared: partition states held against captured snapshots."""

    cluster_id: str
    compared: int
    mismatches: int
    up_to_date: bool


def run_detect(lake: Lake, cluster: str, settings: Settings, progress: Callable[[str], None]) -> Found:
    """Remake elections, findings and counterfactuals of one cluster, unless their inputs are unchanged."""
    mark = stages.fingerprint(lake, _INPUTS, (settings.evidence.clock_error_ms,))
    if lake.mark("findings", cluster) == mark:
        return Found(cluster, 0, 0, True)
    state = load_cluster_state(lake, cluster)
    context = Cluster(cluster, state.brokers, state.elr_enabled, Clock(settings.evidence.clock_error_ms))
    history = lake.table("partition_history", cluster).persist()
    progress(f"{cluster}: elections")
    buckets = bucket_count(history, settings)
    lake.replace("elections", cluster, _elections(history, context, buckets))
    progress(f"{cluster}: judging windows")
    offsets = with_topic_ids(lake.table("log_end_offsets", cluster), history)
    judged = _judge(history, offsets, context, buckets).persist()
    progress(f"{cluster}: comparing with snapshots")
    compared, mismatches = compare_with_snapshots(lake, cluster, state)
    found = judged.where("finding is not null").select(F.lit(cluster).alias("cluster_id"), "finding.*")
    problems = [*state.problems, *_orphans(lake, cluster, state, history)]
    rows = _faults(cluster, state, problems, mismatches)
    faults = lake.frame("findings", cluster, pa.Table.from_pylist(rows, schema=tables.FINDINGS))
    policies = judged.where("counterfactual is not null").select(F.lit(cluster).alias("cluster_id"), "counterfactual.*")
    lake.replace("counterfactuals", cluster, policies)
    # Last: the mark on findings says that the other tables are made, too.
    lake.replace("findings", cluster, found.unionByName(faults), mark)
    judged.unpersist()
    history.unpersist()
    return Found(cluster, compared, len(mismatches), False)


def with_topic_ids(offsets: DataFrame, history: DataFrame) -> DataFrame:
    """Offsets with the topic id filled in: named by the source, or the one topic of that name that existed when the
    value was read. A name that several topics could mean at that time is left out: it proves nothing."""
    lifetimes = history.groupBy("topic_id").agg(
        F.max("topic").alias("topic"),
        F.min("timestamp_ms").alias("created_ms"),
    )
    named = offsets.where("topic_id is not null")
    open_end = F.col("captured_at_ms") + F.col("uncertainty_ms")
    # A removed topic counts, too: the checkpoint file of a broker that is down may still speak of it.
    existed = F.coalesce(F.col("created_ms") <= open_end, F.lit(True))
    unnamed = offsets.where("topic_id is null").drop("topic_id")
    matched = unnamed.join(
        F.broadcast(lifetimes.withColumnRenamed("topic", "name")), (F.col("topic") == F.col("name")) & existed
    )
    row = ["broker_id", "source", "captured_at_ms", "topic", "partition", "sha256", "path", "position"]
    ambiguous = matched.groupBy(row).agg(F.count_distinct("topic_id").alias("n")).where("n > 1")
    clear = matched.join(ambiguous, [matched[c].eqNullSafe(ambiguous[c]) for c in row], "left_anti")
    return named.unionByName(clear.select(named.columns))


def _elections(history: DataFrame, context: Cluster, buckets: int) -> DataFrame:
    def elect(bucket: pa.Table) -> pa.Table:
        table = (
            bucket.select(tables.PARTITION_HISTORY.names)
            .cast(tables.PARTITION_HISTORY)
            .sort_by(_ORDER)
            .combine_chunks()
        )
        return build_elections(table, states_of(table), context.brokers)

    rows = _bucketed(history, buckets).groupBy("bucket").applyInArrow(elect, spark_schema(tables.ELECTIONS))
    return rows.withColumn("cluster_id", F.lit(context.cluster_id))


def _judge(history: DataFrame, offsets: DataFrame, context: Cluster, buckets: int) -> DataFrame:
    """One row a finding or a counterfactual, each in its own struct column."""
    finding, counterfactual = pa.struct(tables.FINDINGS), pa.struct(tables.COUNTERFACTUALS)
    schema = pa.schema([pa.field("finding", finding), pa.field("counterfactual", counterfactual)])

    def judge(left: pa.Table, right: pa.Table) -> pa.Table:
        if not len(left):
            return schema.empty_table()
        rows = left.select(tables.PARTITION_HISTORY.names).cast(tables.PARTITION_HISTORY)
        found = detect(rows, right.select(LOG_END_OFFSETS.names).cast(LOG_END_OFFSETS), context)
        out: list[dict[str, Any]] = [{"finding": r} for r in found.findings.to_pylist()]
        out += [{"counterfactual": r} for r in found.counterfactuals.to_pylist()]
        return pa.Table.from_pylist(out, schema=schema)

    kinds = from_arrow_schema(schema)
    plain = StructType([StructField(f.name, f.dataType) for f in kinds.fields])
    left, right = _bucketed(history, buckets).groupBy("bucket"), _bucketed(offsets, buckets).groupBy("bucket")
    return left.cogroup(right).applyInArrow(judge, plain)


def _bucketed(frame: DataFrame, buckets: int) -> DataFrame:
    return frame.withColumn("bucket", F.pmod(F.hash("topic_id"), F.lit(buckets)))


def _orphans(lake: Lake, cluster: str, state: ClusterState, history: DataFrame) -> list[Problem]:
    """Records that count but made no state: they speak of a partition that nobody created, or that was removed."""
    changes = changes_frame(lake, cluster, state).where("origin = 'log'")
    place = ["topic_id", "partition", "offset"]
    unused = changes.join(history.select(place), place, "left_anti").limit(MAX_ORPHANS).toArrow()
    rows = changes_that_count(unused.select(CHANGES.names).cast(CHANGES), state).select(place).to_pylist()
    return [
        Problem("unknown_partition", r["offset"], f"a change of {r['topic_id']}-{r['partition']}, which does not exist")
        for r in rows
    ]


def _faults(
    cluster: str, state: ClusterState, problems: list[Problem], mismatches: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Findings about the log itself."""
    rows = [_fault(cluster, problem) for problem in problems]
    if state.shape.truncated:
        first = min(base for _, base in state.shape.truncated)
        epochs = sorted({epoch for epoch, _ in state.shape.truncated})
        message = (
            f"Captured logs diverge at offset {first}: {len(state.shape.truncated)} batches of epoch(s) {epochs} were "
            "replaced by a later epoch. They were never committed and are not applied."
        )
        rows.append(_fault(cluster, Problem("truncated_branch", first, message)))
    for row in mismatches:
        end = int(row["snapshot_end_offset"])
        message = f"The state replayed up to offset {end} differs from the captured snapshot in: {row['what']}."
        fault = _fault(cluster, Problem("snapshot_mismatch", end, message), f"{row['topic_id']}-{row['partition']}")
        topic = state.context.topic_names.get(row["topic_id"])
        rows.append({**fault, "topic_id": row["topic_id"], "topic": topic, "partition": row["partition"]})
    return rows


def _fault(cluster: str, problem: Problem, place: str = "") -> dict[str, Any]:
    verdict, severity = FAULTS[problem.kind]
    return {
        "finding_id": finding_id(cluster, problem.kind, problem.offset, place or problem.message),
        "kind": problem.kind,
        "start_offset": problem.offset,
        "verdict": verdict,
        "severity": severity,
        "rule": problem.kind,
        "rule_version": RULE_VERSION,
        "evidence": [],
        "explanation": problem.message,
    }
