"""The cluster's own histories: features and the controllers' quorum, a row for every record that changes one.

Sources: Kafka's FeaturesDelta and ClusterDelta (registrations of controllers), KIP-595 (LeaderChangeMessage opens every
epoch), KIP-853 (KRaftVersionRecord, VotersRecord).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from replay.arrow import schemas
from replay.cluster.controllers import CONTROLLER_TYPES, registered_after
from replay.cluster.state import LogShape

Row = dict[str, Any]
Key = tuple[Any, ...]

_FROM_RECORD = ("offset", "timestamp_ms", "batch_base_offset", "capture", "path", "sha256", "position")


def feature_history(records: Sequence[Row]) -> pa.Table:
    """tables.FEATURE_HISTORY. records: of ClusterState.records: those that count, in offset order."""
    rows = [
        {**place(r), "name": r["data"]["name"], "level": r["data"]["featureLevel"]}
        for r in records
        if r["type"] == "FEATURE_LEVEL_RECORD"
    ]
    return with_validity(rows, lambda row: (row["name"],), schemas.FEATURE_HISTORY)


def quorum_history(records: Sequence[Row], shape: LogShape) -> pa.Table:
    """tables.QUORUM_HISTORY: who led the quorum from where on, its voters as the newest record names them, which
    controllers are registered, and the suffixes of other logs that each leader's epoch replaced."""
    rows: list[Row] = []
    state: Row = {"leader_id": None, "voters": None, "kraft_version": None, "controllers": None}
    replaced = _replaced(shape)
    for record in records:
        changed = {**state, **_quorum_change(record)}
        if record["type"] in CONTROLLER_TYPES:
            changed["controllers"] = sorted(registered_after(state["controllers"] or (), record))
        if changed != state or record["type"] == "LEADER_CHANGE":
            state = changed
            cut = replaced.pop(record["epoch"], []) if record["type"] == "LEADER_CHANGE" else []
            rows.append({**place(record), **state, "replaced_suffixes": cut})
    return with_validity(rows, lambda _: (), schemas.QUORUM_HISTORY)


def _replaced(shape: LogShape) -> dict[int, list[Row]]:
    """The branches that did not go on, by the epoch that replaced them: the next one whose log went on."""
    cut = set(shape.truncated)
    live = sorted({b["epoch"] for b in shape.batches if (b["epoch"], b["base_offset"]) not in cut})
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
    """The columns that say which record a row comes from."""
    origin = "checkpoint" if "place" in record else "log"
    return {**{n: record[n] for n in _FROM_RECORD}, "controller_epoch": record["epoch"], "origin": origin}


def with_validity(rows: Iterable[Row], key: Callable[[Row], Key], schema: pa.Schema) -> pa.Table:
    """The rows with the end of their validity: the next row of the same key. Of several rows of one key at one offset
    (a snapshot's resets and its own records) the last counts."""
    last: dict[tuple[Key, int], Row] = {(key(row), row["offset"]): row for row in rows}
    found = list(last.values())
    following: dict[Key, Row] = {}
    for row in reversed(found):
        after = following.get(key(row))
        row["end_offset"] = after["offset"] if after else None
        row["end_timestamp_ms"] = after.get("timestamp_ms") if after else None
        following[key(row)] = row
    return pa.Table.from_pylist(found, schema=schema)
