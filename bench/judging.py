"""Detection of one bucket without Spark, as a task of jobs/detect/stage.py does it."""

from __future__ import annotations

import pyarrow as pa

from bench.prepared import Prepared
from evidence.tables import LOG_END_OFFSETS
from jobs.config.settings import load_settings
from replay import bucket
from replay.bucket import Told
from replay.controller.transitions import surroundings_of
from replay.findings.windows import Asked, ClusterEvents
from replay.invariants.partitions import cluster_facts
from replay.loss.cluster_facts import judged_cluster
from replay.offsets.evidence import Clock


def told_of(inputs: Prepared) -> Told:
    """Of a prepared log, which has neither offsets nor static configs beside it."""
    state, settings = inputs.state(), load_settings()
    asked = Asked(settings.counterfactuals.deprioritized, settings.counterfactuals.min_isr)
    clock = Clock(settings.evidence.clock_error_ms)
    context = judged_cluster("bench", state, clock, None, {})
    return Told(context, ClusterEvents(surroundings_of(state), state.topic_events), cluster_facts(state, {}), asked)


def judge(history: pa.Table, told: Told) -> int:
    """Judge a bucket's tables.PARTITION_HISTORY; how many findings that gives."""
    return len(bucket.judge(history, LOG_END_OFFSETS.empty_table(), told)["finding"])
