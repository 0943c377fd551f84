"""The cluster's histories: features, the controllers' quorum and configs. One row per record that changes them.

Sources: Kafka's FeaturesDelta and ClusterDelta (registrations of controllers), KIP-595 (LeaderChangeMessage opens every
epoch), KIP-853 (KRaftVersionRecord, VotersRecord); ConfigurationsDelta (a null value deletes; removing a topic removes
its configs), KafkaConfigSchema (which layer counts). The cap of min.insync.replicas for one partition is in
partition_history.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from replay.arrow import schemas
from replay.arrow.ragged import INT64_MAX, Row
from replay.cluster.brokers import CONTROLLER_TYPES, registered_after
from replay.cluster.configs import MIN_ISR, UNCLEAN_LEADER_ELECTION, ConfigTimeline, ElectionConfigs
from replay.cluster.state import LogShape

RESOURCE_TYPES = {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"}
Key = tuple[Any, ...]
# (resource type, resource name, config name, offset)
ConfigKey = tuple[str, str, str, int]

_FROM_RECORD = ("offset", "timestamp_ms", *schemas.BATCH_AND_PROVENANCE)


def feature_history(records: Sequence[Row]) -> pa.Table:
    """Build schemas.FEATURE_HISTORY. records: ClusterState.records, those that count, in offset order."""
    rows = [
        {**place(r), "name": r["data"]["name"], "level": r["data"]["featureLevel"]}
        for r in records
        if r["type"] == "FEATURE_LEVEL_RECORD"
    ]
    return with_validity(rows, lambda row: (row["name"],), schemas.FEATURE_HISTORY)


def quorum_history(records: Sequence[Row], shape: LogShape) -> pa.Table:
    """Build schemas.QUORUM_HISTORY from ClusterState.records (those that count, in offset order).

    Rows hold the quorum's leader, its voters as the newest record names them, the registered controllers, and the
    suffixes of other logs that each leader's epoch replaced.
    """
    rows: list[Row] = []
    state: Row = {"leader_id": None, "voters": None, "kraft_version": None, "controllers": None}
    replaced = _replaced(shape)
    for record in records:
        # A snapshot behind a hole begins a state, even where it changes nothing: the one before ended at the hole.
        is_base = bool(rows) and "place" in record and rows[-1]["offset"] < record["offset"]
        if is_base and rows[-1]["controller_epoch"] != record["epoch"]:
            state = {**state, "leader_id": None}
        changed = {**state, **_quorum_change(record)}
        if record["type"] in CONTROLLER_TYPES:
            changed["controllers"] = sorted(registered_after(state["controllers"] or (), record))
        if changed != state or is_base or record["type"] == "LEADER_CHANGE":
            state = changed
            suffixes = replaced.pop(record["epoch"], []) if record["type"] == "LEADER_CHANGE" else []
            rows.append({**place(record), **state, "replaced_suffixes": suffixes})
    return with_validity(rows, lambda _: (), schemas.QUORUM_HISTORY)


def _replaced(shape: LogShape) -> dict[int, list[Row]]:
    """The replaced branches by the epoch that replaced them: the next epoch of the surviving log."""
    live = np.unique(shape.batches.column("epoch")[shape.live]).tolist()
    found: dict[int, list[Row]] = defaultdict(list)
    for branch in shape.branches:
        batches = [shape.batches[i] for i in branch.batches]
        first, last = batches[0], batches[-1]
        suffix = {"nodes": list(branch.nodes), "epoch": last["epoch"], "base_offset": first["base_offset"]}
        suffix |= {"last_offset": last["last_offset"], "diverging_epoch": branch.epoch}
        by = next((e for e in live if e > last["epoch"]), None)
        if by is not None:
            found[by].append(suffix)
    return found


def _quorum_change(record: Row) -> Row:
    data = record["data"]
    voters = sorted(v["voterId"] for v in data.get("voters") or [])
    if record["type"] == "LEADER_CHANGE":
        return {"leader_id": data["leaderId"], **({"voters": voters} if voters else {})}
    if record["type"] == "KRAFT_VOTERS":
        return {"voters": voters}
    return {"kraft_version": data["kRaftVersion"]} if record["type"] == "KRAFT_VERSION" else {}


def place(record: Row) -> Row:
    """The columns that identify the record that a row comes from."""
    origin = "checkpoint" if "place" in record else "log"
    return {**{n: record[n] for n in _FROM_RECORD}, "controller_epoch": record["epoch"], "origin": origin}


def with_validity(rows: Iterable[Row], key: Callable[[Row], Key], schema: pa.Schema) -> pa.Table:
    """Set where each row's validity ends: at the next row with the same key.

    If several rows of a key have the same offset (a snapshot's resets and its own records), the last one counts.
    """
    last: dict[tuple[Key, int], Row] = {(key(row), row["offset"]): row for row in rows}
    found = list(last.values())
    following: dict[Key, Row] = {}
    for row in reversed(found):
        after = following.get(key(row))
        row["end_offset"] = after["offset"] if after else None
        row["end_timestamp_ms"] = after.get("timestamp_ms") if after else None
        following[key(row)] = row
    return pa.Table.from_pylist(found, schema=schema)


def config_history(records: Sequence[Row], context: ElectionConfigs) -> pa.Table:
    """Build schemas.CONFIG_HISTORY. records: ClusterState.records, those that count, in offset order.

    There is one row for every value that was set or deleted. For each topic and each of the two configs that elections
    depend on, there is also a row wherever the effective value begins or changes, whichever layer changed it.
    """
    rows, topics = _as_set(records)
    at = {r["offset"]: r for r in records if r["type"] in ("CONFIG_RECORD", "LEADER_CHANGE")}
    for key, timeline in ((MIN_ISR, context.min_isr), (UNCLEAN_LEADER_ELECTION, context.unclean)):
        _add_effective(rows, topics, key, timeline, at)
    ordered = sorted(rows.values(), key=lambda r: r["offset"])
    return with_validity(ordered, lambda r: (r["resource_type"], r["resource_name"], r["name"]), schemas.CONFIG_HISTORY)


def _as_set(records: Sequence[Row]) -> tuple[dict[ConfigKey, Row], list[tuple[Row, str, Row | None]]]:
    """The rows of settings made by records, and the topics as (creation record, name, removal record or None)."""
    rows: dict[ConfigKey, Row] = {}
    alive: dict[str, Row] = {}
    live: dict[str, set[str]] = {}
    ended: list[tuple[Row, str, Row | None]] = []
    for record in records:
        data = record["data"]
        if record["type"] == "TOPIC_RECORD":
            # A snapshot repeats the topics that exist: their lifetime starts again there.
            if data["topicId"] in alive:
                ended.append((alive[data["topicId"]], data["name"], record))
            alive[data["topicId"]] = record
        elif record["type"] == "REMOVE_TOPIC_RECORD" and data["topicId"] in alive:
            created = alive.pop(data["topicId"])
            name = created["data"]["name"]
            ended.append((created, name, record))
            for key in sorted(live.pop(name, set()) | {MIN_ISR, UNCLEAN_LEADER_ELECTION}):
                _set(rows, record, "topic", name, key, None)
        elif record["type"] == "CONFIG_RECORD":
            kind = RESOURCE_TYPES.get(data["resourceType"], str(data["resourceType"]))
            if kind == "topic":
                held = live.setdefault(data["resourceName"], set())
                (held.discard if data["value"] is None else held.add)(data["name"])
            _set(rows, record, kind, data["resourceName"], data["name"], data["value"])
    return rows, [*ended, *((created, created["data"]["name"], None) for created in alive.values())]


def _set(rows: dict[ConfigKey, Row], record: Row, kind: str, resource: str, name: str, value: str | None) -> None:
    row = {**place(record), "resource_type": kind, "resource_name": resource, "name": name, "value": value}
    rows[kind, resource, name, record["offset"]] = row


def _add_effective(
    rows: dict[ConfigKey, Row],
    topics: list[tuple[Row, str, Row | None]],
    key: str,
    timeline: ConfigTimeline,
    at: dict[int, Row],
) -> None:
    """Add effective values to the rows of one key, and rows where one begins or changes without a topic setting."""
    names = [name for _, name, _ in topics]
    group, offset = timeline.changes(names)
    created = np.array([c["offset"] for c, _, _ in topics], dtype=np.int64)
    removed = np.array([INT64_MAX if r is None else r["offset"] for _, _, r in topics], dtype=np.int64)
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
            # If an epoch begins whose first record was not captured, no record shows the change: time and provenance
            # are null.
            shown = place(at.get(where, created)) if where in at or where == created["offset"] else {"offset": where}
            unset = {"resource_type": "topic", "resource_name": names[number], "name": key, "value": None}
            row = rows.setdefault(place_of_row, {**shown, **unset})
            row["effective_value"], row["source"] = resolved.pairs[index]
        last = now
