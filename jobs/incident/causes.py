"""Load what the chains of causes of proven losses follow from (replay/incident/causes.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evidence.broker_logs.anchors import with_utc
from evidence.tables import NODE_CLOCKS
from jobs.lake.lake import Lake
from replay.cluster.boots import BOOT_COLUMNS, boots_of
from replay.findings.kinds import HWM_REGRESSION
from replay.incident.causes import ELECTION, SESSIONS, STATES, chain
from replay.incident.node_logs import EVENT_KINDS, EVENTS, STARTS, NodeLogs, node_logs
from replay.loss.verdicts import PROVEN

Row = dict[str, Any]

_PLACE = ("topic_id", "partition")


def load_causes(lake: Lake, cluster: str, findings: Iterable[Row]) -> dict[str, list[str]]:
    """finding_id -> its chain of causes, for those of the findings that are windows with a proven loss."""
    proven = [f for f in findings if f["kind"] == HWM_REGRESSION and f["verdict"] == PROVEN]
    proven = [f for f in proven if f["election_offset"] is not None and f["topic_id"] is not None]
    if not proven:
        return {}
    last = max(f["election_offset"] for f in proven)
    topics = pa.array(sorted({f["topic_id"] for f in proven}), pa.string())
    partitions = pa.array(sorted({f["partition"] for f in proven}), pa.int32())
    of_places = (
        pc.field("topic_id").isin(topics) & pc.field("partition").isin(partitions) & (pc.field("offset") <= last)
    )
    states: dict[Any, list[Row]] = defaultdict(list)
    for row in lake.read("partition_history", cluster, (*_PLACE, *STATES), of_places).sort_by("offset").to_pylist():
        states[row["topic_id"], row["partition"]].append(row)
    elected = pc.field("offset").isin(pa.array(sorted({f["election_offset"] for f in proven}), pa.int64()))
    elections = {
        (row["topic_id"], row["partition"], row["offset"]): row
        for row in lake.rows("elections", cluster, (*_PLACE, *ELECTION), of_places & elected)
    }
    sessions = lake.read("broker_history", cluster, SESSIONS).sort_by("offset").to_pylist()
    boots = boots_of(lake.rows("boot_ids", cluster, BOOT_COLUMNS))
    logs = _node_logs(lake, cluster, {row["broker_id"] for row in sessions})
    return {
        f["finding_id"]: chain(
            f,
            states[f["topic_id"], f["partition"]],
            sessions,
            elections.get((f["topic_id"], f["partition"], f["election_offset"])),
            boots,
            logs,
        )
        for f in proven
    }


def _node_logs(lake: Lake, cluster: str, brokers: Collection[int]) -> NodeLogs:
    events = lake.read("broker_log_events", cluster, EVENTS, pc.field("kind").isin(EVENT_KINDS))
    events = with_utc(events, lake.read("node_clocks", cluster, NODE_CLOCKS.names))
    return node_logs(events.to_pylist(), lake.rows("node_boots", cluster, STARTS), brokers)
