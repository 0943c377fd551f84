"""The cluster's facts, loaded from the lake: what `detect` and `whatif` need beside the partitions."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from evidence.broker_logs.anchors import boots_in_utc
from evidence.capture.clock_bounds import minimum_clock_error_ms
from evidence.tables import NODE_BOOTS
from jobs.config.settings import Settings
from jobs.lake.lake import Lake
from jobs.replay.cluster_state import load_cluster_state, replayed_from, static_files
from replay.cluster.boots import BOOT_COLUMNS, boots_of, processes_of
from replay.cluster.facts import Clock, ClusterFacts, cluster_facts
from replay.cluster.state import ClusterState
from replay.offsets.clock_anchors import least_clock_error_ms
from replay.offsets.topic_ids import LIFETIME_COLUMNS, lifetimes_of

_OPENED = ["topic_id", "topic", "partition", "leader_epoch", "timestamp_ms", "origin"]
_LINES = ["topic_id", "topic", "partition", "leader_epoch", "epoch_start_offset", "captured_at_ms", "uncertainty_ms"]


def judging_inputs(lake: Lake, cluster: str, settings: Settings, clocks: pa.Table) -> tuple[ClusterState, ClusterFacts]:
    """Load the cluster's state, as it was replayed, and the facts that judging takes from it. clocks:
    evidence.tables.NODE_CLOCKS.

    Errors: LogConflictError when captures contradict each other.
    """
    state = load_cluster_state(lake, cluster, replayed_from(lake, cluster))
    clock, end_ms = measured_clock(lake, cluster, settings), log_end_ms(lake, cluster, state)
    restarts = lake.rows("broker_history", cluster, ("offset",), pc.field("restart_class") == "unclean")
    unclean = sorted(r["offset"] for r in restarts)
    boots = boots_of(lake.rows("boot_ids", cluster, BOOT_COLUMNS))
    logged = boots_in_utc(lake.read("node_boots", cluster, NODE_BOOTS.names), clocks)
    processes = processes_of(logged.to_pylist())
    return state, cluster_facts(cluster, state, clock, end_ms, static_files(lake, cluster), unclean, boots, processes)


def measured_clock(lake: Lake, cluster: str, settings: Settings) -> Clock:
    """The larger of the configured clock error and the clock error that the evidence itself shows."""
    files = lake.rows("evidence_files", cluster, ("captured_at_ms", "uncertainty_ms", "last_timestamp_ms"))
    lines = lake.read("log_end_offsets", cluster, _LINES, pc.field("source") == "leader_epoch")
    measured = minimum_clock_error_ms(files)
    if len(lines):
        opened = lake.read("partition_history", cluster, _OPENED, pc.field("topic").isin(lines["topic"].unique()))
        measured = max(measured, least_clock_error_ms(opened, lines))
    return Clock(max(settings.evidence.clock_error_ms, measured), measured)


def topic_lifetimes(lake: Lake, cluster: str) -> pa.Table:
    """replay.offsets.topic_ids.LIFETIMES of the cluster's topics."""
    parts = [lifetimes_of(part) for part in lake.parts("partition_history", cluster, LIFETIME_COLUMNS)]
    return lifetimes_of(pa.concat_tables(parts).rename_columns(LIFETIME_COLUMNS))


def log_end_ms(lake: Lake, cluster: str, state: ClusterState) -> int | None:
    """The time of the last batch of the log, after which the state is unknown; None if the log has no batch."""
    inside = (pc.field("last_offset") < state.shape.log_end) & (pc.field("commit_state") == "committed")
    return pc.max(lake.read("log_batches", cluster, ["max_timestamp_ms"], inside)["max_timestamp_ms"]).as_py()
