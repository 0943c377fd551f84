"""Detection of one bucket without Spark: what jobs/detect.py has a task do."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from bench.prepared import Prepared
from evidence.tables import LOG_END_OFFSETS
from jobs.settings import load_settings
from replay.detect import Asked, Cluster, ClusterEvents, detect
from replay.offsets import Clock
from replay.partition_invariants import ClusterFacts, cluster_facts, partition_violations
from replay.rule_findings import invariant_findings, rule_mismatch_findings
from replay.rules import check_rules
from replay.transitions import surroundings_of

_CLUSTER = "bench"


@dataclass(frozen=True, slots=True)
class Told:
    """What every bucket is judged by."""

    context: Cluster
    events: ClusterEvents
    facts: ClusterFacts
    asked: Asked


def told_of(inputs: Prepared) -> Told:
    """Of a prepared log, which has neither offsets nor static configs beside it."""
    state, settings = inputs.state(), load_settings()
    asked = Asked(settings.counterfactuals.deprioritized, settings.counterfactuals.min_isr)
    clock = Clock(settings.evidence.clock_error_ms)
    context = Cluster(_CLUSTER, state.brokers, state.elr_enabled, clock)
    return Told(context, ClusterEvents(surroundings_of(state), state.topic_events), cluster_facts(state, {}), asked)


def judge(history: pa.Table, told: Told) -> int:
    """Everything that is asked of a bucket's tables.PARTITION_HISTORY; how many findings that gives."""
    found = detect(history, LOG_END_OFFSETS.empty_table(), told.context, told.events, told.asked)
    assert found.cut is not None  # since it was told of events
    checked = check_rules(found.history, found.states, found.elections, found.cut)
    violations = partition_violations(found.history, checked.elections, told.facts)
    mismatches = rule_mismatch_findings(checked.differences, _CLUSTER)
    return len(found.findings) + len(mismatches) + len(invariant_findings(violations, _CLUSTER))
