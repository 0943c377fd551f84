"""The cluster's own histories: features, configs and the controllers' quorum, a row for every record that changes one.

Sources: Kafka's FeaturesDelta, ConfigurationsDelta (a null value deletes; a topic's configs go with the topic), KIP-595
(LeaderChangeMessage opens every epoch), KIP-853 (KRaftVersionRecord, VotersRecord).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from replay import tables

Row = dict[str, Any]
Key = tuple[Any, ...]

RESOURCE_TYPES = {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"}
_FROM_RECORD = ("offset", "timestamp_ms", "batch_base_offset", "capture", "path", "sha256", "position")


def feature_history(records: Sequence[Row]) -> pa.Table:
    """tables.FEATURE_HISTORY. records: of ClusterState.records: those that count, in offset order."""
    rows = [
        {**_place(r), "name": r["data"]["name"], "level": r["data"]["featureLevel"]}
        for r in records
        if r["type"] == "FEATURE_LEVEL_RECORD"
    ]
    return _table(rows, lambda row: (row["name"],), tables.FEATURE_HISTORY)


def config_history(records: Sequence[Row]) -> pa.Table:
    """tables.CONFIG_HISTORY: what was set on each resource. What held for a partition is in partition_history."""
    rows: list[Row] = []
    names: dict[str, str] = {}
    live: dict[str, set[str]] = {}
    for record in records:
        data = record["data"]
        if record["type"] == "TOPIC_RECORD":
            names[data["topicId"]] = data["name"]
        elif record["type"] == "REMOVE_TOPIC_RECORD":
            topic = names.get(data["topicId"], "")
            gone = sorted(live.pop(topic, ()))
            rows += [_config(record, "topic", topic, name, None) for name in gone]
        elif record["type"] == "CONFIG_RECORD":
            kind = RESOURCE_TYPES.get(data["resourceType"], str(data["resourceType"]))
            if kind == "topic" and data["value"] is not None:
                live.setdefault(data["resourceName"], set()).add(data["name"])
            elif kind == "topic":
                live.get(data["resourceName"], set()).discard(data["name"])
            rows.append(_config(record, kind, data["resourceName"], data["name"], data["value"]))
    return _table(rows, lambda r: (r["resource_type"], r["resource_name"], r["name"]), tables.CONFIG_HISTORY)


def _config(record: Row, kind: str, resource: str, name: str, value: str | None) -> Row:
    return {**_place(record), "resource_type": kind, "resource_name": resource, "name": name, "value": value}


def quorum_history(records: Sequence[Row]) -> pa.Table:
    """tables.QUORUM_HISTORY: who led the quorum from where on, and its voters as the newest record names them."""
    rows: list[Row] = []
    state: Row = {"leader_id": None, "voters": None, "kraft_version": None}
    for record in records:
        changed = {**state, **_quorum_change(record)}
        if changed != state or record["type"] == "LEADER_CHANGE":
            state = changed
            rows.append({**_place(record), **state})
    return _table(rows, lambda _: (), tables.QUORUM_HISTORY)


def _quorum_change(record: Row) -> Row:
    data = record["data"]
    voters = sorted(v["voterId"] for v in data.get("voters") or [])
    if record["type"] == "LEADER_CHANGE":
        return {"leader_id": data["leaderId"], **({"voters": voters} if voters else {})}
    if record["type"] == "KRAFT_VOTERS":
        return {"voters": voters}
    return {"kraft_version": data["kRaftVersion"]} if record["type"] == "KRAFT_VERSION" else {}


def _place(record: Row) -> Row:
    origin = "checkpoint" if "place" in record else "log"
    return {**{n: record[n] for n in _FROM_RECORD}, "controller_epoch": record["epoch"], "origin": origin}


def _table(rows: Iterable[Row], key: Callable[[Row], Key], schema: pa.Schema) -> pa.Table:
    """The rows with the end of their validity: the next row of the same key. Of several rows of one key at one offset
    (a snapshot's resets and its own records) the last counts."""
    last: dict[tuple[Key, int], Row] = {(key(row), row["offset"]): row for row in rows}
    found = list(last.values())
    following: dict[Key, Row] = {}
    for row in reversed(found):
        after = following.get(key(row))
        row["end_offset"] = after["offset"] if after else None
        row["end_timestamp_ms"] = after["timestamp_ms"] if after else None
        following[key(row)] = row
    return pa.Table.from_pylist(found, schema=schema)
