"""What detect takes from the nodes' own logs: the lines that verdicts use, and how far each node's clock was off."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evidence import tables
from evidence.broker_logs.anchors import KINDS_OF_ANCHORS, node_clocks, with_utc
from jobs.lake.lake import Lake
from replay.cluster.log import is_complete
from replay.cluster.state import LogShape
from replay.findings.log_lines import COMPARED
from replay.findings.registration_lines import LINES, REGISTRATION_KINDS, SESSIONS, registration_findings
from replay.offsets.broker_lines import KINDS
from replay.offsets.topic_ids import events_with_topic_ids

_STATES = ["topic_id", "topic", "partition", "leader_epoch", "partition_epoch", "timestamp_ms", "isr", "origin"]
# The lines that verdicts use or that are compared with the history, and those that name topic ids for others of a file.
USED = tuple(dict.fromkeys((*KINDS, *COMPARED, "partition_created", "log_load_completed")))
_SESSIONS = ["broker_id", "broker_epoch", "incarnation_id", "timestamp_ms", "in_controlled_shutdown", "origin"]


def measured_clocks(lake: Lake, cluster: str) -> pa.Table:
    """tables.NODE_CLOCKS of the cluster, by lines about records of the metadata log."""
    anchors = lake.read(
        "broker_log_events", cluster, tables.BROKER_LOG_EVENTS.names, pc.field("kind").isin(KINDS_OF_ANCHORS)
    )
    if not len(anchors):
        return tables.NODE_CLOCKS.empty_table()
    of_topics = pc.field("topic").isin(anchors["topic"].unique().drop_null())
    states = lake.read("partition_history", cluster, _STATES, of_topics)
    sessions = lake.read("broker_history", cluster, _SESSIONS)
    return node_clocks(anchors, states, sessions, lake.read("node_boots", cluster, tables.NODE_BOOTS.names))


def judging_events(lake: Lake, cluster: str, shape: LogShape, clocks: pa.Table, lifetimes: pa.Table) -> pa.Table:
    """The tables.BROKER_LOG_EVENTS rows that verdicts use, with their topic_id and, as far as `clocks` shows it, their
    time in UTC. lifetimes: LIFETIMES of the cluster's topics."""
    used = pc.field("kind").isin(USED)
    events = lake.read("broker_log_events", cluster, tables.BROKER_LOG_EVENTS.names, used)
    return events_with_topic_ids(with_utc(events, clocks), lifetimes, is_complete(shape.runs))


def registration_mismatches(lake: Lake, cluster: str) -> list[dict[str, Any]]:
    """schemas.FINDINGS rows: lines about brokers' registrations that contradict the metadata log."""
    lines = lake.rows("broker_log_events", cluster, LINES, pc.field("kind").isin(REGISTRATION_KINDS))
    return registration_findings(lines, lake.rows("broker_history", cluster, SESSIONS), cluster) if lines else []
