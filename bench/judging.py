"""Detect the findings of one bucket without Spark, as a task of jobs/detect/task.py does."""

from __future__ import annotations

import pyarrow as pa

from bench.prepared import Prepared
from evidence.tables import LOG_END_OFFSETS
from jobs.config.settings import load_settings
from replay import bucket
from replay.cluster.facts import Clock, ClusterFacts, cluster_facts
from replay.whatif.counterfactuals import Question


def facts_of(inputs: Prepared) -> ClusterFacts:
    """The facts of a prepared log, without offsets or static configs."""
    return cluster_facts("bench", inputs.state(), Clock(load_settings().evidence.clock_error_ms), None, {})


def judge(history: pa.Table, facts: ClusterFacts) -> int:
    """Judge a bucket's schemas.PARTITION_HISTORY. Returns the number of findings."""
    settings = load_settings().counterfactuals
    question = Question(settings.deprioritized, settings.min_isr)
    return len(bucket.judge(history, LOG_END_OFFSETS.empty_table(), facts, question)["finding"])
