"""Compare the partition states that Kafka's own tools printed with the replayed states; a difference is a finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.lake.lake import Lake
from replay.arrow.schemas import PROVENANCE_NAMES
from replay.cluster.facts import Clock
from replay.findings.faults import described
from replay.offsets.evidence import PROPAGATION_MS

_STATE = ("leader", "replicas", "isr", "elr", "last_known_elr")
_SETS = ("isr", "elr", "last_known_elr")
MAX_FINDINGS = 10_000


@dataclass(frozen=True, slots=True)
class Described:
    """compared: number of printed partition states with a replayed state at their time. findings: one for each that
    differs."""

    compared: int
    findings: list[dict[str, Any]]


def compare_with_described(
    lake: Lake, cluster: str, history: DataFrame, clock: Clock, log_end_ms: int | None
) -> Described:
    """Compare each printed state with every replayed state that was valid while the tool may have read it. The broker
    that answered may lag the controller by PROPAGATION_MS. States printed after the end of the log are not compared."""
    printed = lake.table("described_partitions", cluster).where("captured_at_ms is not null")
    if log_end_ms is None or printed.isEmpty():
        return Described(0, [])
    keys = ["sha256", "path", "position"]
    begin = F.col("p.captured_at_ms") - clock.error_ms - PROPAGATION_MS
    end = F.col("p.captured_at_ms") + F.coalesce("p.uncertainty_ms", F.lit(0)) + clock.error_ms
    same_topic = F.coalesce(F.col("p.topic_id") == F.col("h.topic_id"), F.col("p.topic") == F.col("h.topic"))
    # A state with an end offset but no end time ends in a hole of the log, at an unknown time.
    until = F.when(F.col("h.end_offset").isNull(), F.lit(log_end_ms)).otherwise(F.col("h.end_timestamp_ms"))
    holds = (F.col("h.timestamp_ms") <= end) & (until >= begin)
    same_partition = F.col("p.partition") == F.col("h.partition")
    joined = printed.alias("p").join(history.alias("h"), same_topic & same_partition & holds & ~F.col("h.removed"))
    fits = (end <= log_end_ms).alias("within")
    judged = joined.select(
        *(F.col(f"p.{k}") for k in keys),
        _same().alias("same"),
        fits,
        F.struct("p.*").alias("printed"),
        F.struct(*(F.col(f"h.{c}") for c in ("offset", "topic", "topic_id", *_STATE, *PROVENANCE_NAMES))).alias(
            "state"
        ),
    )
    grouped = judged.groupBy(keys).agg(
        F.max("same").alias("same"),
        F.max("within").alias("within"),
        F.first("printed").alias("printed"),
        F.sort_array(F.collect_list("state")).alias("states"),
    )
    answered = grouped.where("same or within").persist()
    compared = answered.count()
    wrong = answered.where("not same").orderBy(*keys).limit(MAX_FINDINGS).toArrow().to_pylist()
    answered.unpersist()
    findings = [described(cluster, r["printed"], r["states"], _topic(r["states"][0])) for r in wrong]
    return Described(compared, findings)


def _topic(state: dict[str, Any]) -> dict[str, Any]:
    return {"topic": state["topic"], "topic_id": state["topic_id"]}


def _same() -> Column:
    """Whether the printed state equals the replayed one in everything that was printed. ISR and ELR are sets. Kafka
    also prints no leader if the leader has no endpoint on the listener used (KRaftMetadataCache)."""
    leader = (F.col("p.leader") == F.col("h.leader")) | (F.col("p.leader") == -1)
    checks = [leader, F.col("p.replicas") == F.col("h.replicas")]
    checks += [F.sort_array(f"p.{n}").eqNullSafe(F.sort_array(f"h.{n}")) | F.col(f"p.{n}").isNull() for n in _SETS]
    checks.append(F.col("p.leader_epoch").isNull() | (F.col("p.leader_epoch") == F.col("h.leader_epoch")))
    result = checks[0]
    for check in checks[1:]:
        result = result & check
    return result
