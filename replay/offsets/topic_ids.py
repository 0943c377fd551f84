"""Which topic a captured value belongs to: files and scrapes name topics, and a name may be used again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# One row for each topic id: its newest name, and when its first known state stands in the log.
LIFETIMES = pa.schema(
    [pa.field("topic_id", pa.string()), pa.field("topic", pa.string()), pa.field("created_ms", pa.int64())]
)


def lifetimes_of(history: pa.Table) -> pa.Table:
    """LIFETIMES of the topics in schemas.PARTITION_HISTORY rows (columns topic_id, topic, timestamp_ms)."""
    found = history.group_by("topic_id").aggregate([("topic", "max"), ("timestamp_ms", "min")])
    return found.rename_columns(LIFETIMES.names).cast(LIFETIMES)


def with_topic_ids(offsets: pa.Table, lifetimes: pa.Table) -> pa.Table:
    """Log end offsets with their topic id: the source's own, or that of the one topic of the name that existed when the
    value was read. Rows whose name several topics could mean, or none, are left out: they prove nothing.

    offsets: evidence.tables.LOG_END_OFFSETS rows; lifetimes: LIFETIMES of every topic of the cluster. A removed topic
    counts, too: the checkpoint file of a broker that is down may still name it.
    """
    numbered = offsets.select(["topic", "captured_at_ms", "uncertainty_ms"])
    numbered = numbered.append_column("row", pa.array(np.arange(len(offsets))))
    unnamed = numbered.filter(pc.is_null(offsets["topic_id"]))
    matched = unnamed.join(lifetimes, "topic", join_type="inner")
    existed = pc.less_equal(matched["created_ms"], pc.add(matched["captured_at_ms"], matched["uncertainty_ms"]))
    matched = matched.filter(pc.fill_null(existed, True))
    rows, first, count = np.unique(matched["row"].to_numpy(), return_index=True, return_counts=True)
    ids = offsets["topic_id"].to_numpy(zero_copy_only=False).copy()
    ids[rows[count == 1]] = matched["topic_id"].to_numpy(zero_copy_only=False)[first[count == 1]]
    column = offsets.schema.get_field_index("topic_id")
    table = offsets.set_column(column, offsets.schema.field("topic_id"), pa.array(ids, pa.string()))
    return table.filter(table["topic_id"].is_valid())
