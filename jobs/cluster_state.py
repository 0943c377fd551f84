"""The small, cluster-wide part of a replay, held on the driver: which log counts, topics, configs, features, brokers."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evidence.errors import KraftForensicsError
from jobs.lake import Lake
from replay.brokers import BROKER_TYPES, BrokerTimeline, broker_timeline
from replay.configs import MIN_ISR, UNCLEAN, ConfigChange, ConfigTimeline, config_timeline
from replay.history import TOPIC_EVENTS, Context
from replay.log import Problem, Run, Transactions, in_runs, replayable_runs, surviving, transactions

ELR_FEATURE = "eligible.leader.replicas.version"
_TRANSACTION_TYPES = frozenset({"BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD"})
_CLUSTER_TYPES = (
    BROKER_TYPES
    | _TRANSACTION_TYPES
    | {"TOPIC_RECORD", "REMOVE_TOPIC_RECORD", "CONFIG_RECORD", "FEATURE_LEVEL_RECORD", "CLEAR_ELR_RECORD", "LEADER_CHANGE"}
)
_COLUMNS = ("offset", "epoch", "timestamp_ms", "type", "payload", "batch_base_offset", "capture", "path", "sha256", "position")


class ConflictError(KraftForensicsError):
    """Two different batches claim the same place of the same epoch: Raft never writes that."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Everything a bucket of partitions needs to know. truncated: (epoch, batch base offset) of batches cut away."""

    cluster_id: str
    runs: list[Run]
    transactions: Transactions
    truncated: list[tuple[int, int]]
    context: Context
    topic_events: pa.Table
    brokers: BrokerTimeline
    elr_levels: tuple[list[int], list[int]]
    problems: list[Problem]
    log_end: int

    def elr_enabled(self, offset: int) -> bool:
        """Whether the ELR feature's finalized level is at least 1 at an offset."""
        index = bisect_right(self.elr_levels[0], offset)
        return index > 0 and self.elr_levels[1][index - 1] >= 1


def load_cluster_state(lake: Lake, cluster: str) -> ClusterState:
    """Read and resolve the cluster-wide records. Errors: ConflictError (EVIDENCE.md 25)."""
    batches = lake.rows("log_batches", cluster, ("epoch", "base_offset", "last_offset", "crc", "path"))
    _refuse_conflicts(batches)
    epoch = np.array([b["epoch"] for b in batches], dtype=np.int64)
    base = np.array([b["base_offset"] for b in batches], dtype=np.int64)
    last = np.array([b["last_offset"] for b in batches], dtype=np.int64)
    kept = surviving(epoch, base)
    truncated = [(int(e), int(b)) for e, b in zip(epoch[~kept], base[~kept], strict=True)]
    order = np.argsort(base[kept])
    snapshots = {
        (r["snapshot_end_offset"], r["snapshot_epoch"])
        for r in lake.rows("snapshot_records", cluster, ("snapshot_end_offset", "snapshot_epoch"), "type = 'SNAPSHOT_HEADER'")
    }
    runs, problems = replayable_runs(base[kept][order], last[kept][order], sorted(snapshots))  # type: ignore[type-var]
    records = _records(lake, cluster, set(truncated), runs)
    log_end = int(last[kept].max()) + 1 if kept.any() else 0
    resolved = transactions([(r["offset"], r["type"]) for r in records if r["type"] in _TRANSACTION_TYPES], log_end)
    visible = resolved.visible(np.array([r["offset"] for r in records], dtype=np.int64))
    records = [r for r, v in zip(records, visible.tolist(), strict=True) if v]
    topics = _Topics(records)
    brokers = broker_timeline([r for r in records if r["type"] in BROKER_TYPES])
    levels = [
        (r["offset"], r["data"]["featureLevel"])
        for r in records
        if r["type"] == "FEATURE_LEVEL_RECORD" and r["data"]["name"] == ELR_FEATURE
    ]
    return ClusterState(
        cluster_id=cluster,
        runs=runs,
        transactions=resolved,
        truncated=truncated,
        context=_context(lake, cluster, records, topics),
        topic_events=pa.Table.from_pylist(topics.events, schema=TOPIC_EVENTS),
        brokers=brokers,
        elr_levels=([o for o, _ in levels], [v for _, v in levels]),
        problems=[*problems, *resolved.problems, *brokers.problems, *topics.problems],
        log_end=log_end,
    )


def _refuse_conflicts(batches: list[dict[str, Any]]) -> None:
    seen: dict[tuple[int, int], dict[str, Any]] = {}
    for batch in batches:
        other = seen.setdefault((batch["epoch"], batch["base_offset"]), batch)
        if other["crc"] != batch["crc"]:
            raise ConflictError(
                f"offset {batch['base_offset']} of epoch {batch['epoch']} has different bytes in {other['path']} and "
                f"{batch['path']}. Raft never writes that: the files are of different clusters, or one was altered. "
                "Nothing is replayed; ingest the captures into separate lakes."
            )


def _records(lake: Lake, cluster: str, truncated: set[tuple[int, int]], runs: list[Run]) -> list[dict[str, Any]]:
    """The cluster-wide records that count, in offset order; a base snapshot's stand at the offset before its end."""
    wanted = "type in ({})".format(", ".join(f"'{t}'" for t in sorted(_CLUSTER_TYPES)))
    logged = lake.rows("metadata_records", cluster, _COLUMNS, wanted)
    logged = [r for r in logged if (r["epoch"], r["batch_base_offset"]) not in truncated]
    inside = in_runs(np.array([r["offset"] for r in logged], dtype=np.int64), runs).tolist()
    logged = [r for r, keep in zip(logged, inside, strict=True) if keep]
    bases = {run.snapshot for run in runs if run.snapshot}
    if bases:
        columns = ("snapshot_end_offset", "snapshot_epoch", *_COLUMNS)
        for row in lake.rows("snapshot_records", cluster, columns, wanted):
            if (row["snapshot_end_offset"], row["snapshot_epoch"]) in bases:
                at = row["snapshot_end_offset"] - 1
                logged.append({**row, "offset": at, "batch_base_offset": at, "place": row["offset"]})
    for row in logged:
        row["data"] = json.loads(row["payload"])
    return sorted(logged, key=lambda r: (r["offset"], r.get("place", 0)))


class _Topics:
    """Topic names and lifetimes, and the events that touch all partitions of a topic. Filled by one pass."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self.names: dict[str, str] = {}
        self.events: list[dict[str, Any]] = []
        self.removed: list[tuple[int, str]] = []
        self.problems: list[Problem] = []
        alive: dict[str, str] = {}
        for record in records:
            data = record["data"]
            if record["type"] == "TOPIC_RECORD":
                self.names[data["topicId"]] = data["name"]
                alive[data["name"]] = data["topicId"]
            elif record["type"] == "REMOVE_TOPIC_RECORD":
                self._remove(record, alive)
            elif record["type"] == "CLEAR_ELR_RECORD":
                name = data["topicName"]
                scope = list(alive.values()) if not name else [alive[name]] if name in alive else []
                if name and not scope:
                    message = f"ClearElrRecord for topic {name!r}, which does not exist"
                    self.problems.append(Problem("unknown_topic", record["offset"], message))
                self.events += [_topic_event(record, topic_id, removes=False) for topic_id in scope]

    def _remove(self, record: dict[str, Any], alive: dict[str, str]) -> None:
        topic_id = record["data"]["topicId"]
        name = self.names.get(topic_id)
        if name is None or alive.get(name) != topic_id:
            message = f"RemoveTopicRecord for topic id {topic_id}, which does not exist"
            self.problems.append(Problem("unknown_topic", record["offset"], message))
            return
        del alive[name]
        self.removed.append((record["offset"], name))
        self.events.append(_topic_event(record, topic_id, removes=True))


def _topic_event(record: dict[str, Any], topic_id: str, removes: bool) -> dict[str, Any]:
    copied = {k: record[k] for k in ("offset", "timestamp_ms", "batch_base_offset", "capture", "path", "sha256", "position")}
    return {**copied, "controller_epoch": record["epoch"], "topic_id": topic_id, "removes": removes}


def _context(lake: Lake, cluster: str, records: list[dict[str, Any]], topics: _Topics) -> Context:
    changes = [
        ConfigChange(r["offset"], d["resourceType"], d["resourceName"], d["name"], d["value"])
        for r in records
        if r["type"] == "CONFIG_RECORD" and (d := r["data"])
    ]
    controllers = [(r["offset"], r["data"]["leaderId"]) for r in records if r["type"] == "LEADER_CHANGE"]
    static: dict[int, dict[str, str]] = defaultdict(dict)
    for row in lake.rows("static_configs", cluster, ("node_id", "name", "value")):
        static[row["node_id"]][row["name"]] = row["value"]  # type: ignore[index,assignment]

    def timeline(key: str) -> ConfigTimeline:
        return config_timeline(key, changes, controllers, static, topics.removed)

    return Context(topics.names, timeline(MIN_ISR), timeline(UNCLEAN))
