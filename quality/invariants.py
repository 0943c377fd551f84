"""Invariants of a partition's state as boolean columns, which the expectations require to be true.

Names and meanings are those of replay.invariants.catalogue.INVARIANTS and docs/invariants.md. This module has those
that can be checked on a single row; the catalogue has all, with where each was broken and for how long.

Sources: KIP-966 (ELR and ISR are disjoint; a non-empty ELR means |ISR| < min ISR), KIP-704 (a RECOVERING leader has an
ISR of one), PartitionRegistration (leader in ISR; directories match replicas).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

INVARIANTS: dict[str, Column] = {
    "isr_within_replicas": F.size(F.array_except("isr", "replicas")) == 0,
    "elr_within_replicas": F.size(F.array_except("elr", "replicas")) == 0,
    "isr_and_elr_disjoint": F.size(F.array_intersect("isr", "elr")) == 0,
    "leader_in_isr": (F.col("leader") == -1) | F.array_contains("isr", F.col("leader")),
    "elr_empty_at_min_isr": (F.size("elr") == 0)
    | (F.size("isr") < F.col("min_isr"))
    | (F.col("min_isr_source") == "assumed_default"),
    "recovering_isr_is_leader": (F.col("leader_recovery_state") != "RECOVERING") | (F.size("isr") <= 1),
    "directories_match_replicas": F.size("directories") == F.size("replicas"),
    "last_known_elr_never_minus_one": ~F.array_contains("last_known_elr", -1),
    "replicas_distinct": F.size(F.array_distinct("replicas")) == F.size("replicas"),
}


def with_invariants(history: DataFrame) -> DataFrame:
    """partition_history without removed rows, with one boolean column for each entry of INVARIANTS."""
    columns = (
        "cluster_id",
        "topic_id",
        "topic",
        "partition",
        "offset",
        "leader",
        "leader_epoch",
        "partition_epoch",
        "min_isr",
    )
    live = history.where("not removed")
    return live.select(*columns, "leader_recovery_state", *(rule.alias(name) for name, rule in INVARIANTS.items()))
