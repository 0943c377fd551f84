"""What a capture has of each node, and what the metadata log says there should be: the input of lacks.py."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence import kinds
from evidence.broker_logs.boot_ids import read_boot_ids
from evidence.broker_logs.read import read_broker_logs
from evidence.capture.accounts import Account
from evidence.capture.files import Capture
from evidence.capture.static_configs import static_configs
from evidence.errors import CaptureError
from evidence.metadata_log.columns import decode_arrow
from evidence.metadata_log.rows import LOG, SNAPSHOT, bytes_of, work_of
from evidence.metadata_log.scan import Scanned, scan_files
from evidence.offsets.jmx_exporter import MetricNames
from evidence.offsets.read import read_offsets
from evidence.wire.batches import Batches

Partition = tuple[str, int]

NO_LEADER, RECOVERING = -1, 1
_CLUSTER_TYPES = (
    *("TOPIC_RECORD", "REMOVE_TOPIC_RECORD", "REGISTER_BROKER_RECORD", "UNREGISTER_BROKER_RECORD"),
    *("REGISTER_CONTROLLER_RECORD", "UNREGISTER_CONTROLLER_RECORD", "KRAFT_VOTERS"),
)
_COLUMNS = ["offset", "timestamp_ms", "type", "payload", "partition_change", "snapshot_end_offset", "holds", "damage"]


@dataclass(frozen=True, slots=True)
class LogCoverage:
    """From a log's first known line to its last one; ms. in_utc: in UTC; else as printed, in an unknown zone."""

    first_ms: int
    last_ms: int
    in_utc: bool


@dataclass(slots=True)
class Facts:
    """has_log: any batch of the metadata log. logs: [first offset, end) of each node's copies, by node (None: unknown).
    gaps: [first, end) of offsets that no copy has, after log_start. snapshot_ends: end offsets of whole snapshots.

    controllers, brokers: the nodes that should be there: registered at the log's end, or named by other files.
    replicas: by broker, the partitions that it should hold at the log's end. exposed_ms: when partitions lost their
    leader or got one that is RECOVERING, by the controllers' clock. files: the kinds captured of each node. epochs: by
    broker, the partitions with a leader-epoch-checkpoint. own_logs: by node and kind. boot_ids: how many readings of
    each node. booted: nodes of which it is known when their machine started; whether their disks are local.
    ran_from_ms: when the first known run of each of these had begun, at the latest. configs: nodes with static
    configs. clock_error_ms: null if nobody measured it. damaged: (path, node, message). refused: as Capture.refused.
    notes: what `collect` could not get, by node.
    """

    has_log: bool = False
    logs: dict[int | None, list[tuple[int, int]]] = field(default_factory=dict)
    log_start: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    snapshot_ends: list[int] = field(default_factory=list)
    controllers: set[int] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    replicas: dict[int, set[Partition]] = field(default_factory=dict)
    exposed_ms: list[int] = field(default_factory=list)
    files: dict[int, set[str]] = field(default_factory=dict)
    epochs: dict[int, set[Partition]] = field(default_factory=dict)
    own_logs: dict[int, dict[str, LogCoverage]] = field(default_factory=dict)
    boot_ids: dict[int, int] = field(default_factory=dict)
    booted: dict[int, bool | None] = field(default_factory=dict)
    ran_from_ms: dict[int, int] = field(default_factory=dict)
    configs: set[int] = field(default_factory=set)
    clock_error_ms: int | None = None
    damaged: list[tuple[str, int | None, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    notes: dict[int, tuple[str, ...]] = field(default_factory=dict)


def read_facts(
    capture: Capture,
    names: MetricNames,
    duration_ms: int,
    patterns: Sequence[str] = (),
    clock_error_ms: int | None = None,
) -> Facts:
    """Read a capture with the readers of ingest. names, duration_ms, patterns: as read_offsets and read_broker_logs.
    clock_error_ms: what is known of the clocks beside the manifest.

    Errors: CaptureError if no file is evidence of any kind.
    """
    if all(file.kind in (kinds.OTHER, kinds.MANIFEST) for file in capture.files):
        why = "".join(f" Refused: {name}: {reason}." for name, reason in capture.refused[:1])
        unknown = (file.path for file in capture.files if file.path not in dict(capture.refused))
        if (path := next(unknown, None)) is not None:
            why += f" Not known: {path}. A file needs the name that it has on its node."
        name = capture.name
        raise CaptureError(f"{name}: no file of a Kafka node or of its tools is in it: this is no capture.{why}")
    facts = Facts(refused=capture.refused)
    scanned = scan_files(capture.files)
    offsets = read_offsets(capture.name, capture.files, names, duration_ms, capture.limits)
    own_logs = read_broker_logs(capture.name, capture.files, patterns, limits=capture.limits)
    boots = read_boot_ids(capture, duration_ms)
    _log_facts(facts, scanned)
    _records(facts, scanned)
    _file_facts(facts, capture)
    for row in offsets.quorum_reports.select(["voters"]).to_pylist():
        facts.controllers |= set(row["voters"] or ())
    for row in pc.unique(offsets.log_end_offsets["broker_id"]).to_pylist():
        facts.brokers |= {row} - {None} - facts.controllers
    _spans(facts, capture, own_logs.events)
    for row in boots.rows.to_pylist():
        node = row["node_id"]
        facts.boot_ids[node] = facts.boot_ids.get(node, 0) + (row["boot_id"] is not None)
        if (booted_ms := row["booted_by_ms"]) is not None:
            facts.booted[node] = row["local_disks"]
            facts.ran_from_ms[node] = min(booted_ms, facts.ran_from_ms.get(node, booted_ms))
    for row in static_configs(capture):
        facts.configs.add(row["node_id"])
        if row["name"] == "process.roles":
            roles = {role.strip() for role in row["value"].split(",")}
            facts.controllers |= {row["node_id"]} if "controller" in roles else set()
            facts.brokers |= {row["node_id"]} if "broker" in roles else set()
    _damage(facts, capture, scanned.accounts | offsets.accounts | own_logs.accounts | boots.accounts)
    manifest = capture.manifest
    known = None if manifest is None else manifest.clock_error_ms
    facts.clock_error_ms = clock_error_ms if known is None else known
    facts.notes = {node.id: node.missing for node in manifest.nodes if node.missing} if manifest else {}
    return facts


def _log_facts(facts: Facts, scanned: Scanned) -> None:
    held: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
    for log in scanned.logs:
        held[log.file.node_id] += _ranges(log.batches)
    facts.logs = {node: merged(ranges) for node, ranges in held.items() if ranges}
    whole = merged([part for ranges in facts.logs.values() for part in ranges])
    facts.has_log = bool(whole)
    facts.log_start = whole[0][0] if whole else 0
    facts.gaps = [(left[1], right[0]) for left, right in pairwise(whole)]
    facts.snapshot_ends = sorted({s.end_offset for s in scanned.snapshots if s.end_offset is not None})


def _ranges(batches: Batches) -> list[tuple[int, int]]:
    """The offsets [start, end) of stretches of batches without a gap."""
    starts, ends = batches.heads["base_offset"], batches.heads["last_offset"] + 1
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    firsts, lasts = np.append(0, breaks), np.append(breaks, len(starts)) - 1
    return list(zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)) if len(starts) else []


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """[start, end) ranges, joined where they touch, in order."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _records(facts: Facts, scanned: Scanned) -> None:
    """Nodes and replicas at the log's end. The newest snapshot comes in its place between the records of the log."""
    newest = facts.snapshot_ends[-1] if facts.snapshot_ends else None
    found: list[tuple[Any, ...]] = []
    for work in work_of(scanned):
        if work.holds == LOG or (work.holds == SNAPSHOT and newest is not None and work.snapshot_end_offset == newest):
            for batch in decode_arrow(bytes_of(work), work, "check"):
                _undecoded(facts, scanned, work.path, batch)
                found += _wanted(facts, pa.Table.from_batches([batch.select(_COLUMNS)]))
    _apply(facts, sorted(found, key=lambda record: record[:2]))


def _undecoded(facts: Facts, scanned: Scanned, path: str, batch: pa.RecordBatch) -> None:
    """Name a file of which records cannot be decoded, once."""
    is_lost = pc.fill_null(pc.greater(pc.struct_field(batch["damage"], "length_bytes"), 0), False)
    lost = batch["damage"].filter(is_lost)
    if len(lost) and path not in (named for named, *_ in facts.damaged):
        files = [*(log.file for log in scanned.logs), *(snapshot.file for snapshot in scanned.snapshots)]
        node = next(file.node_id for file in files if file.path == path)
        facts.damaged.append((path, node, lost[0]["message"].as_py().removeprefix(f"{path}: ")))


def _wanted(facts: Facts, table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """The records that say which nodes and replicas there are: (offset, 1 in the log, 2 in a snapshot, topic id,
    partition and replicas or null, type, payload). Notes when partitions were exposed."""
    is_whole = pc.is_null(pc.struct_field(table["damage"], "reason"))
    table = table.filter(pc.and_(is_whole, pc.is_valid(table["offset"])))
    change, is_log = table["partition_change"], pc.equal(table["holds"], LOG)
    exposed = pc.or_kleene(
        pc.equal(pc.struct_field(change, "leader"), NO_LEADER),
        pc.equal(pc.struct_field(change, "leader_recovery_state"), RECOVERING),
    )
    times = table.filter(pc.and_(pc.fill_null(exposed, False), is_log))["timestamp_ms"]
    facts.exposed_ms += pc.drop_null(times).to_pylist()
    at = pc.if_else(is_log, table["offset"], pc.subtract(table["snapshot_end_offset"], 1))
    topic_id, partition, replicas = (pc.struct_field(change, name) for name in ("topic_id", "partition", "replicas"))
    is_wanted = pc.or_(pc.is_valid(replicas), pc.is_in(table["type"], pa.array(_CLUSTER_TYPES)))
    columns = (at, pc.if_else(is_log, 1, 2), topic_id, partition, replicas, table["type"], table["payload"])
    return zip(*(column.filter(is_wanted).to_pylist() for column in columns), strict=True)


def _apply(facts: Facts, records: Iterable[tuple[Any, ...]]) -> None:
    """The nodes and replicas after each record of `_wanted` in turn."""
    names: dict[str, str] = {}
    held: dict[Partition, list[int]] = {}
    for _, _, topic_id, partition, replicas, kind, payload in records:
        if replicas is not None:
            held[topic_id, partition] = replicas
            continue
        data = json.loads(payload)
        match kind:
            case "TOPIC_RECORD":
                names[data["topicId"]] = data["name"]
            case "REMOVE_TOPIC_RECORD":
                names.pop(data["topicId"], None)
            case "REGISTER_BROKER_RECORD":
                facts.brokers.add(data["brokerId"])
            case "UNREGISTER_BROKER_RECORD":
                facts.brokers.discard(data["brokerId"])
            case "REGISTER_CONTROLLER_RECORD":
                facts.controllers.add(data["controllerId"])
            case "UNREGISTER_CONTROLLER_RECORD":
                facts.controllers.discard(data["controllerId"])
            case "KRAFT_VOTERS":
                facts.controllers |= {voter["voterId"] for voter in data.get("voters", ())}
    for (topic_id, partition), brokers in held.items():
        for broker in brokers if topic_id in names else ():
            facts.replicas.setdefault(broker, set()).add((names[topic_id], partition))
    facts.brokers |= set(facts.replicas)


def _file_facts(facts: Facts, capture: Capture) -> None:
    for file in capture.files:
        if file.node_id is None:
            continue
        facts.files.setdefault(file.node_id, set()).add(file.kind)
        place = kinds.partition_of(PurePosixPath(file.path)) if file.kind == kinds.LEADER_EPOCH else None
        if place is not None:
            facts.epochs.setdefault(file.node_id, set()).add(place)


def _spans(facts: Facts, capture: Capture, events: pa.Table) -> None:
    kind_of = {file.path: file.kind for file in capture.files}
    is_change = pc.is_in(events["kind"], pa.array(kinds.STATE_CHANGES))
    grouped = events.append_column("is_change", is_change).group_by(["node_id", "path"])
    bounds = ("min", "max")
    times = [(name, way) for name in ("logged_at_ms", "logged_at_utc_ms") for way in bounds]
    for row in grouped.aggregate([*times, ("is_change", "any")]).to_pylist():
        name = "logged_at_ms" if row["logged_at_utc_ms_min"] is None else "logged_at_utc_ms"
        first, last = row[f"{name}_min"], row[f"{name}_max"]
        if row["node_id"] is None or first is None:
            continue
        spans = facts.own_logs.setdefault(row["node_id"], {})
        for kind in {kind_of[row["path"]]} | ({kinds.STATE_CHANGE_LOG} if row["is_change_any"] else set()):
            old = spans.get(kind, LogCoverage(first, last, name != "logged_at_ms"))
            in_utc = old.in_utc and name != "logged_at_ms"
            spans[kind] = LogCoverage(min(first, old.first_ms), max(last, old.last_ms), in_utc)


def _damage(facts: Facts, capture: Capture, accounts: dict[str, Account]) -> None:
    for file in capture.files:
        account = accounts.get(file.path)
        if account is not None and account.quarantined_bytes:
            place = next((d.describe("") for d in account.damage if d.length_bytes), "")
            message = place.removeprefix(": ") or account.note or "damaged"
            facts.damaged.append((file.path, file.node_id, message))
