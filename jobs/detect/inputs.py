"""What `detect`, `whatif` and `ahead` need beside the partitions, loaded from the lake: the cluster's facts, and the
lines of nodes' own logs that verdicts use, with how far each node's clock was off."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evidence.broker_logs.anchors import KINDS_OF_ANCHORS, Anchor, boots_in_utc, least_error_ms, node_clocks, with_utc
from evidence.tables import BROKER_LOG_EVENTS, NODE_BOOTS, NODE_CLOCKS
from jobs.config.settings import Settings
from jobs.detect.topic_ids import LIFETIME_COLUMNS, events_with_topic_ids, lifetimes_of
from jobs.lake.lake import Lake, Row
from jobs.replay.cluster_state import load_cluster_state, replayed_from
from jobs.views.in_duckdb import ask, ask_table
from replay.arrow.runs import groups
from replay.cluster.boots import BOOT_COLUMNS, boots_of, processes_of
from replay.cluster.facts import Clock, ClusterFacts, cluster_facts, fall_ms
from replay.cluster.state import ClusterState, LogShape
from replay.findings.log_lines import COMPARED
from replay.findings.registration_lines import LINES, REGISTRATION_KINDS, SESSIONS, registration_findings
from replay.offsets.broker_lines import KINDS

_STATES = (
    *("topic_id", "topic", "partition", "leader_epoch", "partition_epoch", "timestamp_ms", "isr", "origin"),
    *("directories", "offset"),
)
# The lines that verdicts use or that are compared with the history, and those that name topic ids for others of a file.
USED = tuple(dict.fromkeys((*KINDS, *COMPARED, "partition_created", "log_load_completed")))
# Not those of a disk that is full.
_LOST_WRITES = ["Input/output error", "Read-only file system"]
_SESSIONS = (
    *("broker_id", "broker_epoch", "incarnation_id", "timestamp_ms", "in_controlled_shutdown", "origin", "offset"),
)


def judging_inputs(lake: Lake, cluster: str, settings: Settings, clocks: pa.Table) -> tuple[ClusterState, ClusterFacts]:
    """Load the cluster's state, as it was replayed, and the facts that judging takes from it. clocks:
    evidence.tables.NODE_CLOCKS.

    Errors: LogConflictError when captures contradict each other.
    """
    state = load_cluster_state(lake, cluster, replayed_from(lake, cluster))
    clock = measured_clock(lake, cluster, settings, clocks, state.shape)
    known_end = max((run.end for run in state.shape.runs), default=0)  # after it the state is unknown
    end_ms = newest_ms(lake, cluster, pc.field("base_offset") < known_end)
    restarts = lake.rows("broker_history", cluster, ("offset", "broker_epoch"), pc.field("restart_class") == "unclean")
    unclean = sorted(r["offset"] for r in restarts)
    boots = boots_of(lake.rows("boot_ids", cluster, BOOT_COLUMNS))
    logged = boots_in_utc(lake.read("node_boots", cluster, NODE_BOOTS.names), clocks).to_pylist()
    begun = state.brokers.new_incarnations
    processes = processes_of(logged, state.brokers.incarnations, begun, clock.error_ms)
    errors = disk_errors(lake, cluster, clocks)
    for row in put_back(logged, {r["broker_epoch"] for r in restarts}):
        errors.setdefault(row["node_id"], []).append(row["first_event_ms"])
    facts = cluster_facts(cluster, state, clock, end_ms)
    return state, replace(facts, unclean_restarts=unclean, boots=boots, processes=processes, disk_errors=errors)


def disk_errors(lake: Lake, cluster: str, clocks: pa.Table) -> dict[int, list[int | None]]:
    """By node, when it logged that a disk could not be written or read, in ms by its own clock; None: its zone is not
    known. Linux drops what it cannot write, so that a log may get shorter although its machine runs on."""
    failed = (pc.field("kind") == "disk_error") & pc.field("detail").isin(_LOST_WRITES)
    errors = with_utc(lake.read("broker_log_events", cluster, BROKER_LOG_EVENTS.names, failed), clocks).to_pylist()
    by_node = groups((row for row in errors if row["node_id"] is not None), itemgetter("node_id"))
    return {node: [row["logged_at_utc_ms"] for row in rows] for node, rows in by_node.items()}


def put_back(boots: Iterable[Row], unclean: Collection[int]) -> Iterator[Row]:
    """The processes, rows of NODE_BOOTS, that found the file of a clean stop which is not that of the broker's process
    before, as far as the controllers knew: an older copy of its disk may have been put back. unclean: the broker epochs
    of unclean restarts (ClusterControlManager.registerBroker, BrokerServer, 4.3.1: the file's epoch is compared)."""
    return (row for row in boots if row["previous_shutdown"] == "clean" and row["broker_epoch"] in unclean)


def measured_clock(lake: Lake, cluster: str, settings: Settings, clocks: pa.Table, shape: LogShape) -> Clock:
    """The larger of the configured clock error and the clock error that the evidence itself shows. clocks:
    evidence.tables.NODE_CLOCKS."""
    (ahead,) = ask("detect/clock_error", (lake, cluster))
    measured = max(ahead["least_ms"] or 0, least_error_ms(clocks))
    return Clock(max(settings.evidence.clock_error_ms, measured, fall_ms(shape)), measured)


def topic_lifetimes(lake: Lake, cluster: str) -> pa.Table:
    """jobs.detect.topic_ids.LIFETIMES of the cluster's topics."""
    parts = [lifetimes_of(part) for part in lake.parts("partition_history", cluster, LIFETIME_COLUMNS)]
    return lifetimes_of(pa.concat_tables(parts).rename_columns(LIFETIME_COLUMNS))


def newest_ms(lake: Lake, cluster: str, inside: pc.Expression) -> int | None:
    """The newest time of the committed batches of the log that match; None if there is none."""
    wanted = inside & (pc.field("commit_state") == "committed")
    return pc.max(lake.read("log_batches", cluster, ["max_timestamp_ms"], wanted)["max_timestamp_ms"]).as_py()


def measured_clocks(lake: Lake, cluster: str) -> pa.Table:
    """NODE_CLOCKS of the cluster, by lines about records of the metadata log."""
    anchors = lake.read("broker_log_events", cluster, BROKER_LOG_EVENTS.names, pc.field("kind").isin(KINDS_OF_ANCHORS))
    if not len(anchors):
        return NODE_CLOCKS.empty_table()
    of_topics = pc.field("topic").isin(anchors["topic"].unique().drop_null())
    states = lake.read("partition_history", cluster, _STATES, of_topics)
    sessions = lake.read("broker_history", cluster, _SESSIONS)
    return clocks_of(anchors, states, sessions, lake.read("node_boots", cluster, NODE_BOOTS.names))


def clocks_of(events: pa.Table, states: pa.Table, sessions: pa.Table, boots: pa.Table) -> pa.Table:
    """NODE_CLOCKS of a cluster. events, boots: tables.BROKER_LOG_EVENTS and NODE_BOOTS; states, sessions:
    schemas.PARTITION_HISTORY, of all topics that events name, and BROKER_HISTORY."""
    found = ask_table("detect/anchors", broker_log_events=events, partition_history=states, broker_history=sessions)
    columns = (found[name].to_pylist() for name in ("node_id", "record_ms", "logged_at_ms", "is_upper"))
    return node_clocks(map(Anchor, *columns), events, boots)


def judging_events(
    lake: Lake, cluster: str, known_until_ms: int | None, clocks: pa.Table, lifetimes: pa.Table
) -> pa.Table:
    """The BROKER_LOG_EVENTS rows that verdicts use, with their topic_id and, as far as `clocks` shows it, their
    time in UTC. known_until_ms: see `events_with_topic_ids`. lifetimes: LIFETIMES of the cluster's topics."""
    used = pc.field("kind").isin(USED)
    events = lake.read("broker_log_events", cluster, BROKER_LOG_EVENTS.names, used)
    return events_with_topic_ids(with_utc(events, clocks), lifetimes, known_until_ms)


def registration_mismatches(lake: Lake, cluster: str) -> list[dict[str, Any]]:
    """schemas.FINDINGS rows: lines about brokers' registrations that contradict the metadata log."""
    lines = lake.rows("broker_log_events", cluster, LINES, pc.field("kind").isin(REGISTRATION_KINDS))
    return registration_findings(lines, lake.rows("broker_history", cluster, SESSIONS), cluster) if lines else []
