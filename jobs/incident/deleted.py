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
    names = lake.read("partition_history", cluster, ("topic",), pc.field("removed"))["topic"].to_pylist()
    if not names:
        return []
    columns = ("topic", "topic_id", "offset", "timestamp_ms", "removed")
    states = lake.read("partition_history", cluster, columns, among("topic", names))
    firsts = states.group_by(["topic", "topic_id", "removed"]).aggregate([("offset", "min"), ("timestamp_ms", "min")])
    rows = firsts.sort_by([("offset_min", "ascending"), ("topic_id", "ascending")]).to_pylist()

    def after(gone: Row) -> Row:
        later = (row for row in rows if row["topic"] == gone["topic"] and row["offset_min"] > gone["offset_min"])
        return next((row for row in later if not row["removed"]), {})

    return [
        {
            "topic": row["topic"],
            "topic_id": row["topic_id"],
            "offset": row["offset_min"],
            "deleted_ms": row["timestamp_ms_min"],
            "next_id": after(row).get("topic_id"),
            "next_ms": after(row).get("timestamp_ms_min"),
        }
        for row in rows
        if row["removed"]
    ]
