"""Load a cluster's answer (replay/incident/answer.py) from the lake, for the report and for commands."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evidence.broker_logs.anchors import with_utc
from evidence.tables import NODE_CLOCKS
from jobs.incident.deleted import load_deleted
from jobs.incident.focus import ALL, Focus
from jobs.lake.lake import Lake
from replay.findings.kinds import EVIDENCE_GAP, HWM_REGRESSION
from replay.incident.answer import COLUMNS, MOST_GAPS, Scope, answer
from replay.incident.missing import STATE_CHANGES, CapturedLogs
from replay.loss.verdicts import PROVEN

Row = dict[str, Any]

_TIMES = ("logged_at_ms", "logged_at_utc_ms")


def load_answer(lake: Lake, cluster: str, focus: Focus = ALL) -> Row:
    """The answer of a cluster, as docs/verdict.md describes it. focus: what findings it is about."""
    within = focus.findings()
    of_gaps = (pc.field("kind") == EVIDENCE_GAP) & within
    gaps = lake.read("findings", cluster, ("finding_id", "rule", "start_offset", "explanation"), of_gaps)
    order = [(name, "ascending") for name in ("start_offset", "rule", "finding_id")]
    grave = (pc.field("verdict") == PROVEN) & (pc.field("severity") == "critical")
    faults = lake.read("findings", cluster, ("kind",), grave & (pc.field("kind") != HWM_REGRESSION) & within)
    ends = lake.read("evidence_files", cluster, ("last_timestamp_ms",))["last_timestamp_ms"]
    scope = Scope(
        gaps=gaps.sort_by(order).slice(0, MOST_GAPS).to_pylist(),
        gap_count=len(gaps),
        conflicts=faults["kind"].unique().to_pylist(),
        states=lake.count("partition_history", cluster),
        until_ms=pc.max(ends).as_py(),
        logs=_captured_logs(lake, cluster),
        deleted=load_deleted(lake, cluster),
    )
    return answer(lake.read("findings", cluster, COLUMNS, (pc.field("kind") == HWM_REGRESSION) & within), scope)


def _captured_logs(lake: Lake, cluster: str) -> CapturedLogs:
    lines = lake.read("broker_log_events", cluster, ("node_id", *_TIMES, "kind"))
    of_brokers = lines.filter(pc.is_in(lines["kind"], pa.array(STATE_CHANGES)))["node_id"].unique().drop_null()
    lines = lines.filter(pc.is_in(lines["node_id"], of_brokers)).group_by("node_id")
    clocks = lake.read("node_clocks", cluster, NODE_CLOCKS.names)
    first, last = (
        with_utc(lines.aggregate([(n, which) for n in _TIMES]).rename_columns(["node_id", *_TIMES]), clocks).to_pylist()
        for which in ("min", "max")
    )
    ends = {row["node_id"]: row["logged_at_utc_ms"] for row in last}
    spans = {row["node_id"]: (row["logged_at_utc_ms"], ends[row["node_id"]]) for row in first}
    booted = (
        lake.read("boot_ids", cluster, ("node_id",), pc.is_valid(pc.field("boot_id")))["node_id"].unique().to_pylist()
    )
    return CapturedLogs({broker: span for broker, span in spans.items() if None not in span}, booted)
