"""Everything that is asked of a bucket of partitions: what a task of jobs/detect/stage.py does, and `make bench`
times."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from replay.arrow import schemas
from replay.arrow.rule_schemas import RULE_DIFFERENCES
from replay.findings.broken_rules import invariant_findings, rule_mismatch_findings
from replay.findings.windows import Asked, Cluster, ClusterEvents, detect
from replay.invariants.catalogue import INVARIANT_VIOLATIONS
from replay.invariants.partitions import ClusterFacts, partition_violations

# The tables that a bucket gives. predicted: how many changes were held against the rules, a row a bucket.
JUDGED = {
    "election": schemas.ELECTIONS,
    "difference": RULE_DIFFERENCES,
    "violation": INVARIANT_VIOLATIONS,
    "finding": schemas.FINDINGS,
    "counterfactual": schemas.COUNTERFACTUALS,
    "predicted": pa.schema([("changes", pa.int64())]),
}


@dataclass(frozen=True, slots=True)
class Told:
    """What every bucket is judged by."""

    context: Cluster
    events: ClusterEvents
    facts: ClusterFacts
    asked: Asked


def judge(history: pa.Table, offsets: pa.Table, told: Told) -> dict[str, pa.Table]:
    """JUDGED of a bucket. history: its tables.PARTITION_HISTORY rows; offsets: log-end offsets of the same topics,
    evidence.tables.LOG_END_OFFSETS."""
    if not len(history):
        return {name: schema.empty_table() for name, schema in JUDGED.items()}
    cluster = told.context.cluster_id
    found = detect(history, offsets, told.context, told.events, told.asked)
    checked = found.checked
    assert checked is not None  # since it was told of events
    violations = partition_violations(found.history, checked.elections, told.facts)
    of_rules = [rule_mismatch_findings(checked.differences, cluster), invariant_findings(violations, cluster)]
    return {
        "election": checked.elections,
        "difference": checked.differences,
        "violation": violations,
        "finding": pa.concat_tables([found.findings, *of_rules]),
        "counterfactual": found.counterfactuals,
        "predicted": pa.table({"changes": pa.array([checked.predicted], type=pa.int64())}),
    }
