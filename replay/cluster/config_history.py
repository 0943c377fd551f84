"""Configs over offsets: what was set on each resource, and what of it was in force for every topic.

Sources: Kafka's ConfigurationsDelta (a null value deletes; a topic's configs go with the topic), KafkaConfigSchema
(which layer counts). What caps min.insync.replicas for one partition is in partition_history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from replay.arrow import schemas
from replay.cluster.configs import MIN_ISR, UNCLEAN, ConfigTimeline
from replay.cluster.histories import place, with_validity
from replay.partitions.reducer import Context

Row = dict[str, Any]
Key = tuple[str, str, str, int]

RESOURCE_TYPES = {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"}


def config_history(records: Sequence[Row], context: Context) -> pa.Table:
    """tables.CONFIG_HISTORY. records: of ClusterState.records: those that count, in offset order.

    A row for everything that was set or deleted; and for every topic, for the two configs that elections depend on, one
    where what is in force for it begins or changes, whichever layer changed it.
    """
    rows, topics = _as_set(records)
    at = {r["offset"]: r for r in records if r["type"] in ("CONFIG_RECORD", "LEADER_CHANGE")}
    for key, timeline in ((MIN_ISR, context.min_isr), (UNCLEAN, context.unclean)):
        _add_effective(rows, topics, key, timeline, at)
    ordered = sorted(rows.values(), key=lambda r: r["offset"])
    return with_validity(ordered, lambda r: (r["resource_type"], r["resource_name"], r["name"]), schemas.CONFIG_HISTORY)


def _as_set(records: Sequence[Row]) -> tuple[dict[Key, Row], list[tuple[Row, str, Row | None]]]:
    """The rows of what records say, and the topics: (record of its creation, name, record of its removal)."""
    rows: dict[Key, Row] = {}
    alive: dict[str, Row] = {}
    live: dict[str, set[str]] = {}
    ended: list[tuple[Row, str, Row | None]] = []
    for record in records:
        data = record["data"]
        if record["type"] == "TOPIC_RECORD":
            # A snapshot names again what was there before it: known anew from there on.
            if data["topicId"] in alive:
                ended.append((alive[data["topicId"]], data["name"], record))
            alive[data["topicId"]] = record
        elif record["type"] == "REMOVE_TOPIC_RECORD" and data["topicId"] in alive:
            created = alive.pop(data["topicId"])
            name = created["data"]["name"]
            ended.append((created, name, record))
            for key in sorted(live.pop(name, set()) | {MIN_ISR, UNCLEAN}):
                _set(rows, record, "topic", name, key, None)
        elif record["type"] == "CONFIG_RECORD":
            kind = RESOURCE_TYPES.get(data["resourceType"], str(data["resourceType"]))
            if kind == "topic":
                held = live.setdefault(data["resourceName"], set())
                (held.discard if data["value"] is None else held.add)(data["name"])
            _set(rows, record, kind, data["resourceName"], data["name"], data["value"])
    return rows, [*ended, *((created, created["data"]["name"], None) for created in alive.values())]


def _set(rows: dict[Key, Row], record: Row, kind: str, resource: str, name: str, value: str | None) -> None:
    row = {**place(record), "resource_type": kind, "resource_name": resource, "name": name, "value": value}
    rows[kind, resource, name, record["offset"]] = row


def _add_effective(
    rows: dict[Key, Row],
    topics: list[tuple[Row, str, Row | None]],
    key: str,
    timeline: ConfigTimeline,
    at: dict[int, Row],
) -> None:
    """Add what is in force to the rows of one key, and rows where that begins or changes without a setting."""
    names = [name for _, name, _ in topics]
    group, offset = timeline.changes(names)
    created = np.array([c["offset"] for c, _, _ in topics], dtype=np.int64)
    removed = np.array([np.iinfo(np.int64).max if r is None else r["offset"] for _, _, r in topics], dtype=np.int64)
    inside = (offset > created[group]) & (offset < removed[group])
    group = np.concatenate([np.arange(len(topics)), group[inside]])
    offset = np.concatenate([created, offset[inside]])
    order = np.lexsort((offset, group))
    group, offset = group[order], offset[order]
    resolved = timeline.resolve(names, group, offset)
    last: tuple[int, tuple[str, str]] | None = None
    for number, where, index in zip(group.tolist(), offset.tolist(), resolved.index.tolist(), strict=True):
        now = (number, resolved.pairs[index])
        place_of_row = ("topic", names[number], key, where)
        if now != last or place_of_row in rows:
            created = topics[number][0]
            shown = place(at.get(where, created)) if where in at or where == created["offset"] else {"offset": where}
            row = rows.setdefault(place_of_row, {**shown, **_unset(names[number], key)})
            row["effective_value"], row["source"] = resolved.pairs[index]
        last = now


def _unset(topic: str, key: str) -> Row:
    """What a topic says itself where only a lower layer changed. Where an epoch begins whose first record was not
    captured, no record shows that: time and place are null."""
    return {"resource_type": "topic", "resource_name": topic, "name": key, "value": None}
