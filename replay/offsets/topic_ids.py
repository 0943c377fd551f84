"""Which topic a captured value belongs to: files and scrapes name topics, and a name may be used again."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.runs import last_true, next_true, run_starts
from replay.arrow.schemas import schema
from replay.offsets.broker_lines import DAMAGED

LIFETIMES = schema("lifetimes")
# What `lifetimes_of` reads of a history.
LIFETIME_COLUMNS = ("topic_id", "topic", "timestamp_ms")
# A node's lines about a partition in one file; a line of an unknown node is alone.
_ONE_PLACE = ("capture", "path", "node_id", "topic", "partition")
# No zone's clocks are further from UTC.
_ZONES_MS = 14 * 3_600_000


def lifetimes_of(history: pa.Table) -> pa.Table:
    """LIFETIMES of the topics in schemas.PARTITION_HISTORY rows (columns topic_id, topic, timestamp_ms)."""
    found = history.group_by("topic_id").aggregate([("topic", "max"), ("timestamp_ms", "min")])
    return found.rename_columns(LIFETIMES.names).cast(LIFETIMES)


def with_topic_ids(offsets: pa.Table, lifetimes: pa.Table) -> pa.Table:
    """Log end offsets with their topic id: the source's own, or that of the one topic of the name that existed when the
    value was read. Rows whose name several topics could mean, or none, or not the one of their own id (the
    partition.metadata of another folder), are left out: they prove nothing.

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
    names = lifetimes["topic"].take(pc.index_in(offsets["topic_id"], lifetimes["topic_id"]))
    ids[pc.fill_null(pc.not_equal(names, offsets["topic"]), False).to_numpy()] = None
    column = offsets.schema.get_field_index("topic_id")
    table = offsets.set_column(column, offsets.schema.field("topic_id"), pa.array(ids, pa.string()))
    return table.filter(table["topic_id"].is_valid())


def events_with_topic_ids(events: pa.Table, lifetimes: pa.Table, is_complete: bool) -> pa.Table:
    """Events of brokers' own logs that are about a topic, with its id. Rows whose topic is not certain are left out.

    It is the line's own id; else the id that the last line before it and the next line after it, in the same file, of
    the same node and about the same partition, both have, since a topic that was deleted never comes back; else, if
    is_complete, that of the only topic that ever had the name, unless that line before or after it has another, or the
    line may be from before the topic's creation: a cluster that is set up anew goes on with the files of another.

    events: evidence.tables.BROKER_LOG_EVENTS rows; lifetimes: LIFETIMES of every topic of the cluster; is_complete: the
    log is known from its first record on, so that no other topic can have had the name.
    """
    events = events.filter(pc.and_(pc.is_valid(events["topic"]), pc.is_valid(events["partition"])))
    events = events.sort_by([(name, "ascending") for name in (*_ONE_PLACE, "position")]).combine_chunks()
    count = len(events)
    ids = events["topic_id"].to_numpy(zero_copy_only=False).astype(object)
    begins = run_starts(*(events[name].to_numpy(zero_copy_only=False) for name in _ONE_PLACE))
    named = np.array([i is not None for i in ids], dtype=bool)
    before, after = last_true(named), next_true(named)
    has_before, has_after = before >= last_true(begins), after <= next_true(np.append(begins, True)[1:])
    between = has_before & has_after
    between[between] = ids[before[between]] == ids[after[between]]
    found = np.where(between, ids[np.where(between, before, 0)], None) if count else ids
    if is_complete:
        values = [("topic_id", "count_distinct"), ("topic_id", "max"), ("created_ms", "min")]
        names = lifetimes.group_by("topic").aggregate(values).to_pylist()
        only = {row["topic"]: row for row in names if row["topic_id_count_distinct"] == 1}
        columns = (events[n].to_pylist() for n in ("topic", "kind", "logged_at_utc_ms", "logged_at_ms"))
        topics = np.array([_id_since(only.get(t), *line) for t, *line in zip(*columns, strict=True)], dtype=object)
        # A file with another id beside the line is of another cluster, at least there.
        for has_one, place in ((has_before, before), (has_after, after)):
            rows = np.flatnonzero(has_one)
            topics[rows[ids[place[rows]] != topics[rows]]] = None
        found = np.where(np.array([i is not None for i in found], dtype=bool), found, topics)
    column = events.schema.get_field_index("topic_id")
    table = events.set_column(column, events.schema.field("topic_id"), pa.array(found, pa.string()))
    return table.filter(table["topic_id"].is_valid())


def _id_since(topic: Mapping[str, Any] | None, kind: str, utc_ms: int | None, wall_ms: int | None) -> str | None:
    """The topic's id, if a line of that time can not be from before its creation; if it may be from after it, where the
    line keeps a loss from being excluded."""
    if topic is None:
        return None
    latest, found = kind in DAMAGED, utc_ms
    if found is None and wall_ms is not None:
        found = wall_ms + _ZONES_MS if latest else wall_ms - _ZONES_MS
    is_since = latest if found is None else found >= topic["created_ms_min"]
    return str(topic["topic_id_max"]) if is_since else None
