"""Topics that were deleted while the captured log goes on, and those that have their names since."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from jobs.incident.lookup import among
from jobs.lake.lake import Lake

Row = dict[str, Any]


def load_deleted(lake: Lake, cluster: str) -> list[Row]:
    """Topics that were deleted, by time: rows {topic, topic_id, offset, deleted_ms, next_id, next_ms}.

    next_id, next_ms: of the topic that was created with that name after it; null without one."""
    columns = ("topic", "topic_id", "offset", "timestamp_ms")
    removed = lake.read("partition_history", cluster, columns, pc.field("removed"))
    if not len(removed):
        return []
    again = among("topic", removed["topic"].to_pylist()) & ~pc.field("removed")
    states = lake.read("partition_history", cluster, columns, again)
    firsts = states.group_by(["topic", "topic_id"]).aggregate([("offset", "min"), ("timestamp_ms", "min")]).to_pylist()
    gone = removed.group_by(["topic", "topic_id"]).aggregate([("offset", "min"), ("timestamp_ms", "min")])
    return [
        {
            "topic": row["topic"],
            "topic_id": row["topic_id"],
            "offset": row["offset_min"],
            "deleted_ms": row["timestamp_ms_min"],
            **_next(row, firsts),
        }
        for row in gone.sort_by([("offset_min", "ascending"), ("topic_id", "ascending")]).to_pylist()
    ]


def _next(gone: Row, firsts: list[Row]) -> Row:
    later = [row for row in firsts if row["topic"] == gone["topic"] and row["offset_min"] > gone["offset_min"]]
    first = min(later, key=lambda row: row["offset_min"], default={})
    return {"next_id": first.get("topic_id"), "next_ms": first.get("timestamp_ms_min")}
