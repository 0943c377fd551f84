"""Detect: partition_history + log_end_offsets -> elections, rule_differences, findings, counterfactuals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evidence.tables import LOG_END_OFFSETS
from jobs.config.settings import Settings
from jobs.detect.inputs import judging_inputs
from jobs.detect.printed_states import compare_with_described
from jobs.detect.snapshots import compare_with_snapshots
from jobs.lake.fingerprint import input_fingerprint
from jobs.lake.lake import Lake
from jobs.replay.cluster_state import control_records
from jobs.replay.stage import changes_frame
from jobs.spark.buckets import bucket_count, map_both
from jobs.spark.stacked_tables import StackedTables, arrow_rows_of, rows_of
from jobs.spark.types import spark_schema
from replay.arrow import schemas
from replay.arrow.schemas import CHANGES
from replay.bucket import JUDGED, judge
from replay.cluster.facts import ClusterFacts
from replay.cluster.log import Problem
from replay.cluster.state import ClusterState, changes_that_count
from replay.findings.broken_rules import invariant_findings
from replay.findings.faults import divergence, fault, file_faults, rival_snapshots
from replay.findings.kinds import FILE_FAULTS
from replay.invariants.quorum import quorum_violations
from replay.offsets import topic_ids
from replay.offsets.topic_ids import LIFETIMES
from replay.whatif.counterfactuals import Question

_INPUTS = (
    "partition_history",
    "log_end_offsets",
    "snapshot_records",
    "metadata_records",
    "log_batches",
    "quarantine",
    "described_partitions",
    "captures",
    "static_configs",
    "broker_history",
    "evidence_files",
)
MAX_ORPHANS = 100_000

_JUDGED_TABLES = StackedTables(**JUDGED)
_WRITTEN = {"election": "elections", "difference": "rule_differences", "counterfactual": "counterfactuals"}


@dataclass(frozen=True, slots=True)
class DetectSummary:
    """The result of detection. compared, mismatches: partition states compared with captured snapshots, and those that
    differ; described, contradicted: the same for the output of Kafka's tools. predicted: partition changes compared
    with the rules; differences: number of those that differ, by class. violations: number of violations by invariant.
    """

    cluster_id: str
    up_to_date: bool
    compared: int = 0
    mismatches: int = 0
    described: int = 0
    contradicted: int = 0
    predicted: int = 0
    differences: dict[str, int] = field(default_factory=dict)
    violations: dict[str, int] = field(default_factory=dict)


def run_detect(lake: Lake, cluster: str, settings: Settings, progress: Callable[[str], None]) -> DetectSummary:
    """Rebuild the elections, findings and counterfactuals of one cluster, unless their inputs are unchanged."""
    lake.create()  # add the tables that are new in this release
    question = Question(settings.counterfactuals.deprioritized, settings.counterfactuals.min_isr)
    inputs = input_fingerprint(lake, _INPUTS, (settings.evidence.clock_error_ms, question))
    if lake.input_fingerprint("findings", cluster) == inputs:
        return DetectSummary(cluster, True)
    lake.start()
    state, facts = judging_inputs(lake, cluster, settings)
    history = lake.table("partition_history", cluster)
    progress(f"{cluster}: judging elections and windows")
    offsets = with_topic_ids(lake.table("log_end_offsets", cluster), history)
    buckets = bucket_count(history, settings)
    results = _Results(lake, cluster, _judged(history, offsets, facts, question, buckets), buckets)
    for column, name in _WRITTEN.items():
        results.write(column, name)
    of_log = quorum_violations(state.shape, control_records(lake, cluster))
    results.write("violation", "invariant_violations", of_log)
    progress(f"{cluster}: comparing with snapshots and with the output of Kafka's tools")
    compared, mismatches = compare_with_snapshots(lake, cluster, state)
    printed = compare_with_described(lake, cluster, history, facts.clock, facts.log_end_ms)
    problems = [*state.problems, *_orphans(lake, cluster, state, history), *rival_snapshots(state.shape.snapshots)]
    rows = [fault(cluster, problem) for problem in problems]
    rows += [divergence(cluster, branch, state.shape.batches) for branch in state.shape.branches]
    rows += [_mismatch(cluster, state, row) for row in mismatches]
    rows += file_faults(cluster, lake.rows("quarantine", cluster, where=pc.field("reason").isin(FILE_FAULTS)))
    rows += printed.findings
    more = [pa.Table.from_pylist(rows, schema=schemas.FINDINGS), invariant_findings(of_log, cluster)]
    # Written last: the input fingerprint of findings shows that the other tables are complete, too.
    results.write("finding", "findings", pa.concat_tables(more), {"input_fingerprint": inputs})
    predicted = results.predicted()
    results.release()
    return DetectSummary(
        cluster_id=cluster,
        up_to_date=False,
        compared=compared,
        mismatches=len(mismatches),
        described=printed.compared,
        contradicted=len(printed.findings),
        predicted=predicted,
        differences=_counts(lake.read("rule_differences", cluster, ["difference"])),
        violations=_counts(lake.read("invariant_violations", cluster, ["invariant"])),
    )


def _counts(rows: pa.Table) -> dict[str, int]:
    """Number of occurrences of each value in the table's only column."""
    return {c["values"]: c["counts"] for c in rows.column(0).value_counts().to_pylist()}


def _mismatch(cluster: str, state: ClusterState, row: dict[str, Any]) -> dict[str, Any]:
    """The finding for a partition state that differs from the captured snapshot."""
    end = int(row["snapshot_end_offset"])
    message = f"The state replayed up to offset {end} differs from the captured snapshot in: {row['what']}."
    found = fault(cluster, Problem("snapshot_mismatch", end, message), f"{row['topic_id']}-{row['partition']}")
    topic = state.configs.topic_names.get(row["topic_id"])
    return {**found, "topic_id": row["topic_id"], "topic": topic, "partition": row["partition"]}


def with_topic_ids(offsets: DataFrame, history: DataFrame) -> DataFrame:
    """replay.offsets.topic_ids.with_topic_ids for DataFrames."""
    created = history.groupBy("topic_id").agg(F.max("topic").alias("topic"), F.min("timestamp_ms").alias("created_ms"))
    lifetimes = created.toArrow().select(LIFETIMES.names).cast(LIFETIMES)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(batches, LOG_END_OFFSETS.remove_metadata())
        yield from topic_ids.with_topic_ids(rows, lifetimes).to_batches()

    return offsets.select(*LOG_END_OFFSETS.names).mapInArrow(task, spark_schema(LOG_END_OFFSETS))


def _judged(history: DataFrame, offsets: DataFrame, facts: ClusterFacts, question: Question, buckets: int) -> DataFrame:
    """Judge every bucket of partitions; returns its tables (JUDGED), stacked."""

    def of_bucket(left: pa.Table, right: pa.Table) -> pa.Table:
        return _JUDGED_TABLES.stacked(judge(left, right, facts, question))

    sides = (history, schemas.PARTITION_HISTORY), (offsets, LOG_END_OFFSETS)
    return map_both(*sides, buckets, of_bucket, _JUDGED_TABLES.spark_schema)


class _Results:
    """Writes the results of the buckets table by table. The driver fetches the rows of one bucket; Spark caches the
    rows of several."""

    def __init__(self, lake: Lake, cluster: str, judged: DataFrame, buckets: int) -> None:
        self.lake = lake
        self.cluster = cluster
        self.fetched = judged.toArrow() if buckets == 1 else None
        self.cached = None if buckets == 1 else judged.persist()

    def write(
        self, column: str, name: str, more: pa.Table | None = None, about: Mapping[str, Any] | None = None
    ) -> None:
        """Replace the table `name` with the buckets' rows in `column` and the rows in `more`."""
        if self.fetched is not None:
            rows = arrow_rows_of(self.fetched, column)
            if more is not None:
                rows = pa.concat_tables([rows, more.cast(rows.schema)])
            self.lake.put(name, self.cluster, rows, about)
            return
        frame = rows_of(self.cached, column).withColumn("cluster_id", F.lit(self.cluster))
        if more is not None:
            frame = frame.unionByName(self.lake.frame(name, self.cluster, more))
        self.lake.replace(name, self.cluster, frame, about)

    def predicted(self) -> int:
        """Number of partition changes that were compared with the rules."""
        if self.fetched is not None:
            return int(pc.sum(arrow_rows_of(self.fetched, "predicted")["changes"]).as_py() or 0)
        return int(self.cached.agg(F.coalesce(F.sum("predicted.changes"), F.lit(0))).collect()[0][0])

    def release(self) -> None:
        """Drop Spark's cached rows."""
        if self.cached is not None:
            self.cached.unpersist()


def _orphans(lake: Lake, cluster: str, state: ClusterState, history: DataFrame) -> list[Problem]:
    """Problems for valid records that made no state: the partition was never created, or was removed before."""
    changes = changes_frame(lake, cluster, state).where("origin = 'log'")
    key = ["topic_id", "partition", "offset"]
    events = lake.spark.createDataFrame(pa.table({"at": state.topic_events["offset"].unique()}), "at bigint")
    of_records = history.where("origin = 'log'").join(F.broadcast(events), F.col("offset") == F.col("at"), "left_anti")
    # A record makes at most one state: if the numbers are equal, every record made one.
    if changes.count() == of_records.count():
        return []
    unused = changes.join(history.select(key), key, "left_anti").limit(MAX_ORPHANS).toArrow()
    rows = changes_that_count(unused.select(CHANGES.names).cast(CHANGES), state).select(key).to_pylist()
    return [
        Problem("unknown_partition", r["offset"], f"a change of {r['topic_id']}-{r['partition']}, which does not exist")
        for r in rows
    ]
