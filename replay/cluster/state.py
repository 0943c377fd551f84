"""The small, cluster-wide part of a replay: which log counts, topics, configs, features, brokers.

Plain Python and NumPy over the few records that are not about one partition; every bucket uses the result.

Sources: KIP-595 (branches), KIP-868 (transactions), Kafka's TopicsDelta, ConfigurationsDelta, FeaturesDelta.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Array, Row, bools
from replay.arrow.runs import groups
from replay.arrow.schemas import BATCH_AND_PROVENANCE, TOPIC_EVENTS
from replay.cluster.branches import Branch, branches, surviving
from replay.cluster.brokers import (
    BROKER_TYPES,
    CONTROLLER_TYPES,
    REGISTER_CONTROLLER,
    UNREGISTER_CONTROLLER,
    BrokerTimeline,
    ControllerReleases,
    broker_timeline,
    controller_problems,
)
from replay.cluster.configs import (
    MIN_ISR,
    UNCLEAN_LEADER_ELECTION,
    ElectionConfigs,
    config_changes,
    config_timeline,
    is_usable,
)
from replay.cluster.features import ELR_VERSION, ZK_MIGRATION_STATE, FeatureLevels, feature_levels
from replay.cluster.log import (
    Hole,
    LogBatches,
    LogRange,
    Problem,
    Transactions,
    in_runs,
    newest_run,
    replayable_runs,
    transactions,
)

_TRANSACTION_TYPES = frozenset({"BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD"})
_QUORUM_TYPES = frozenset({"LEADER_CHANGE", "KRAFT_VERSION", "KRAFT_VOTERS", ZK_MIGRATION_STATE}) | CONTROLLER_TYPES
_OTHERS = {"TOPIC_RECORD", "REMOVE_TOPIC_RECORD", "CONFIG_RECORD", "FEATURE_LEVEL_RECORD", "CLEAR_ELR_RECORD"}
CLUSTER_TYPES = BROKER_TYPES | _TRANSACTION_TYPES | _QUORUM_TYPES | _OTHERS

# The records that determine a partition's recorded or effective state.
STATE_TYPES = (CLUSTER_TYPES - _QUORUM_TYPES) | {"PARTITION_RECORD", "PARTITION_CHANGE_RECORD"}


class ConflictError(ValueError):
    """Two different batches have an offset in common and the same epoch, which Raft never writes. batches: the two
    rows."""

    def __init__(self, message: str, batches: tuple[Row, Row]) -> None:
        super().__init__(message)
        self.batches = batches


@dataclass(frozen=True, slots=True)
class LogShape:
    """Which batches count and which ranges of the log can be replayed.

    batches: as given. live: the row numbers of those that no later epoch truncated, by offset. truncated: (epoch, base
    offset) of the others. branches: the suffixes that these form, as
    indexes into `batches`. snapshots: (end offset, epoch) of the complete ones. log_end: exclusive; that of a snapshot
    which is newer than the log.
    """

    batches: LogBatches
    live: Array
    runs: list[LogRange]
    truncated: list[tuple[int, int]]
    branches: list[Branch]
    snapshots: list[tuple[int, int]]
    log_end: int
    problems: list[Problem]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The resolved cluster: everything that a bucket of partitions needs, and the records behind it.

    records: the cluster-wide records that count, in offset order; those of a base snapshot have the offset before its
    end. bases: (end offset, epoch) of each run's snapshot -> SHA-256 of the file that it is read from; each node writes
    its own snapshot, and the files of one end offset may differ in timestamps. static: node id -> server.properties of
    the nodes whose file was captured.
    """

    shape: LogShape
    bases: dict[tuple[int, int], str]
    records: list[Row]
    transactions: Transactions
    configs: ElectionConfigs
    topic_events: pa.Table
    brokers: BrokerTimeline
    features: FeatureLevels
    controller_releases: ControllerReleases
    problems: list[Problem]
    static: Mapping[int, Mapping[str, str]]

    def for_tasks(self) -> "ClusterState":
        """A copy for Spark tasks, without what only the driver needs."""
        none = LogBatches.of([])
        shape = replace(self.shape, batches=none, live=none.column("epoch"), branches=[])
        return replace(self, shape=shape, records=[], problems=[], static={})

    @property
    def cleared(self) -> Array:
        """The offsets of ClearElrRecords, ascending."""
        removes = bools(self.topic_events["removes"])
        return np.unique(self.topic_events["offset"].to_numpy()[~removes])

    def elr_enabled(self, offset: int) -> bool:
        """Whether the ELR feature's finalized level is at least 1 at an offset."""
        return bool(self.features.at_each(ELR_VERSION, np.array([offset]))[0] >= 1)


def log_shape(
    batches: Sequence[Row] | LogBatches,
    snapshots: Sequence[tuple[int, int]],
    holes: Sequence[Hole] = (),
    from_newest: bool = False,
) -> LogShape:
    """Resolve branches and gaps.

    batches: rows with epoch, base_offset, last_offset, crc, path and nodes of every distinct batch. holes: records of
    surviving batches that may carry state and cannot be applied. from_newest: start at the newest snapshot that the log
    continues from, and skip everything before it.

    Errors: ConflictError when one epoch has different bytes at one offset.
    """
    log = LogBatches.of(batches)
    _refuse_conflicts(log)
    epoch, base, last = (log.column(name) for name in ("epoch", "base_offset", "last_offset"))
    kept = surviving(epoch, base, last)
    # Of the bootstrap snapshot 0-0 each node has its own, of its release: the first leader writes what counts into the
    # log (KafkaRaftClient.handleFetchSnapshotRequest, 4.1; MetadataLoader.handleLoadBootstrap, 4.3.1).
    snapshots = [place for place in snapshots if place[0]]
    rows = np.flatnonzero(kept)[np.argsort(base[kept], kind="stable")]
    live = {"base": base[rows], "last": last[rows], "epoch": epoch[rows]}
    runs, problems = replayable_runs(live["base"], live["last"], snapshots, [h for h in holes if _is_live(h, live)])
    runs = newest_run(runs, snapshots) if from_newest else runs
    truncated = [(int(e), int(b)) for e, b in zip(epoch[~kept], base[~kept], strict=True)]
    found = branches(epoch, base, last, log.holders) if len(truncated) else []
    log_end = max([int(last[kept].max(initial=-1)) + 1, *(run.end for run in runs)])
    return LogShape(log, rows, runs, truncated, found, snapshots, log_end, problems)


def _is_live(hole: Hole, live: dict[str, Array]) -> bool:
    """Whether the hole is in the surviving log, not in a replaced branch with the same offsets."""
    index = int(np.searchsorted(live["base"], hole.offset, side="right")) - 1
    return index >= 0 and hole.offset <= live["last"][index] and hole.epoch == live["epoch"][index]


def _refuse_conflicts(batches: LogBatches) -> None:
    epoch, base, last, crc = (batches.column(name) for name in ("epoch", "base_offset", "last_offset", "crc"))
    order = np.lexsort((base, epoch))  # stable: of each place the first row comes first
    before, after = order[:-1], order[1:]
    differs = (base[before] != base[after]) | (crc[before] != crc[after])
    overlaps = np.flatnonzero((epoch[before] == epoch[after]) & (base[after] <= last[before]) & differs)
    if not len(overlaps):
        return
    place = min(overlaps.tolist(), key=lambda row: int(after[row]))
    other, batch = batches[int(before[place])], batches[int(after[place])]
    files = " and ".join(f"{row['path']} of {row['capture']}" for row in (other, batch))
    raise ConflictError(
        f"offset {batch['base_offset']} of epoch {batch['epoch']} has different bytes in {files}. Raft never writes "
        "that: the files are from different clusters, one was altered, or most controllers were formatted anew in "
        "between. Nothing is replayed; ingest the files of each into a lake of its own.",
        (other, batch),
    )


def resolve_cluster(
    shape: LogShape,
    logged: Sequence[Row],
    snapshot: Sequence[Row],
    static: Mapping[int, Mapping[str, str]],
    releases: Sequence[str] = (),
) -> ClusterState:
    """Resolve the cluster-wide records.

    logged: metadata records of CLUSTER_TYPES (rows with offset, epoch, timestamp_ms, type, data, batch_base_offset and
    provenance), in any order. snapshot: the same from captured snapshots, with snapshot_end_offset and snapshot_epoch.
    static: of the state. releases: Kafka releases that manifests name.
    """
    bases = _bases(shape, snapshot)
    records = _with_resets(_in_order(shape, logged, snapshot, bases))
    markers = [(r["offset"], r["type"]) for r in records if r["type"] in _TRANSACTION_TYPES]
    resolved = transactions(markers, shape.runs)
    visible = resolved.visible(np.array([r["offset"] for r in records], dtype=np.int64))
    records = [r for r, v in zip(records, visible.tolist(), strict=True) if v]
    topics = _Topics(records)
    brokers = broker_timeline([r for r in records if r["type"] in BROKER_TYPES])
    controllers = _controllers(shape, logged)
    changes = config_changes(records)
    timelines = (
        config_timeline(key, changes, controllers, static, topics.removed) for key in (MIN_ISR, UNCLEAN_LEADER_ELECTION)
    )
    of_controllers = [r for r in records if r["type"] in CONTROLLER_TYPES]
    levels = [
        (r["offset"], r["data"]["name"], r["data"]["featureLevel"])
        for r in records
        if r["type"] == "FEATURE_LEVEL_RECORD"
    ]
    migrations = [r for r in records if r["type"] == ZK_MIGRATION_STATE]
    levels += [(r["offset"], ZK_MIGRATION_STATE, r["data"]["zkMigrationState"]) for r in migrations]
    return ClusterState(
        shape=shape,
        bases=bases,
        records=records,
        transactions=resolved,
        configs=ElectionConfigs(topics.names, *timelines),
        topic_events=pa.Table.from_pylist(topics.events, schema=TOPIC_EVENTS),
        brokers=brokers,
        features=feature_levels(levels),
        controller_releases=ControllerReleases(
            tuple(controllers), tuple((r["offset"], r["data"]) for r in of_controllers), tuple(releases)
        ),
        problems=[
            *shape.problems,
            *resolved.problems,
            *brokers.problems,
            *topics.problems,
            *controller_problems(of_controllers, controllers),
            # Values that no Kafka release can use, so that its behaviour is unknown.
            *(
                Problem("bad_config", c.offset, f"{c.name}={c.value!r} of {c.resource!r} is not a number")
                for c in changes
                if not is_usable(c.name, c.value)
            ),
        ],
        static=static,
    )


def _bases(shape: LogShape, snapshot: Sequence[Row]) -> dict[tuple[int, int], str]:
    """The lowest SHA-256 among the files of each snapshot that a run starts from, so that input order has no effect."""
    wanted = {run.snapshot for run in shape.runs}
    files = groups(snapshot, itemgetter("snapshot_end_offset", "snapshot_epoch"))
    return {place: min(row["sha256"] for row in own) for place, own in files.items() if place in wanted}


def _in_order(
    shape: LogShape, logged: Sequence[Row], snapshot: Sequence[Row], bases: Mapping[tuple[int, int], str]
) -> list[Row]:
    """The records that count, in offset order; those of a base snapshot have the offset before its end."""
    truncated = set(shape.truncated)
    inside = in_runs(np.array([r["offset"] for r in logged], dtype=np.int64), shape.runs).tolist()
    records = [
        r
        for r, keep in zip(logged, inside, strict=True)
        if keep and (r["epoch"], r["batch_base_offset"]) not in truncated
    ]
    for row in snapshot:
        if bases.get((row["snapshot_end_offset"], row["snapshot_epoch"])) == row["sha256"]:
            at = row["snapshot_end_offset"] - 1
            records.append({**row, "offset": at, "batch_base_offset": at, "place": row["offset"]})
    return sorted(records, key=lambda r: (r["offset"], r.get("place", 0)))


def _with_resets(records: list[Row]) -> list[Row]:
    """Insert, before the records of a snapshot that follows a gap, records that remove what the snapshot lacks.

    Such a snapshot is the complete state: whatever existed before the gap and is missing from it was removed meanwhile.
    """
    result: list[Row] = []
    live: dict[tuple[Any, ...], Row] = {}
    snapshot_end = 0
    for index, record in enumerate(records):
        if "place" in record and index >= snapshot_end:
            snapshot_end = index
            while snapshot_end < len(records) and records[snapshot_end]["offset"] == record["offset"]:
                snapshot_end += 1
            kept = {subject_of(r) for r in records[index:snapshot_end]}
            undone = [_undone(r) for subject, r in live.items() if subject not in kept]
            result += [{**record, **u} for u in undone if u]
            live = {subject: r for subject, r in live.items() if subject in kept}
        subject = subject_of(record)
        if subject is not None:
            live[subject] = record
        result.append(record)
    return result


def subject_of(record: Row) -> tuple[Any, ...] | None:
    """The key of what a record sets or removes; None for records that a snapshot does not hold."""
    data, kind = record["data"], record["type"]
    if kind in ("TOPIC_RECORD", "REMOVE_TOPIC_RECORD"):
        return "topic", data["topicId"]
    if kind in ("REGISTER_BROKER_RECORD", "UNREGISTER_BROKER_RECORD"):
        return "broker", data["brokerId"]
    if kind in CONTROLLER_TYPES:
        return "controller", data["controllerId"]
    if kind == "CONFIG_RECORD":
        return "config", data["resourceType"], data["resourceName"], data["name"]
    return ("feature", data["name"]) if kind == "FEATURE_LEVEL_RECORD" else None


def _undone(record: Row) -> Row | None:
    """Type and data of the record that undoes this one; None if it is itself a removal."""
    data, kind = record["data"], record["type"]
    if kind == "TOPIC_RECORD":
        return {"type": "REMOVE_TOPIC_RECORD", "data": {"topicId": data["topicId"]}}
    if kind == "REGISTER_BROKER_RECORD":
        session = {"brokerId": data["brokerId"], "brokerEpoch": data["brokerEpoch"]}
        return {"type": "UNREGISTER_BROKER_RECORD", "data": session}
    if kind == REGISTER_CONTROLLER:
        return {"type": UNREGISTER_CONTROLLER, "data": {"controllerId": data["controllerId"]}}
    if kind == "CONFIG_RECORD" and data["value"] is not None:
        return {"type": kind, "data": {**data, "value": None}}
    if kind == "FEATURE_LEVEL_RECORD" and data["featureLevel"] > 0:
        return {"type": kind, "data": {**data, "featureLevel": 0}}
    return None


class _Topics:
    """Topic names and lifetimes, and the events that affect all partitions of a topic. Filled in one pass."""

    def __init__(self, records: list[Row]) -> None:
        self.names: dict[str, str] = {}
        self.events: list[Row] = []
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

    def _remove(self, record: Row, alive: dict[str, str]) -> None:
        topic_id = record["data"]["topicId"]
        name = self.names.get(topic_id)
        if name is None or alive.get(name) != topic_id:
            message = f"RemoveTopicRecord for topic id {topic_id}, which does not exist"
            self.problems.append(Problem("unknown_topic", record["offset"], message))
            return
        del alive[name]
        self.removed.append((record["offset"], name))
        self.events.append(_topic_event(record, topic_id, removes=True))


def _topic_event(record: Row, topic_id: str, removes: bool) -> Row:
    copied = {name: record[name] for name in ("offset", "timestamp_ms", *BATCH_AND_PROVENANCE)}
    return {**copied, "controller_epoch": record["epoch"], "topic_id": topic_id, "removes": removes}


def _controllers(shape: LogShape, logged: Sequence[Row]) -> list[tuple[int, int | None]]:
    """(offset, active controller's node id) at the start of each epoch of the surviving log, by offset.

    Epochs before the first run and after a hole are included. The node id is None if the record that names the leader
    was not captured.
    """
    truncated = set(shape.truncated)
    leaders = {
        r["epoch"]: r["data"]["leaderId"]
        for r in logged
        if r["type"] == "LEADER_CHANGE" and (r["epoch"], r["batch_base_offset"]) not in truncated
    }
    # In order of offset, so the first batch of each epoch is its begin.
    epochs, first = np.unique(shape.batches.column("epoch")[shape.live], return_index=True)
    bases = shape.batches.column("base_offset")[shape.live][first]
    begins = zip(bases.tolist(), epochs.tolist(), strict=True)
    return sorted(((base, leaders.get(epoch)) for base, epoch in begins), key=lambda begin: begin[0])


def changes_that_count(changes: pa.Table, state: ClusterState) -> pa.Table:
    """Filter schemas.CHANGES rows to those of snapshots, and those of the surviving log whose offset counts."""
    keep = bools(pc.not_equal(changes["origin"], "log")) | offsets_that_count(changes["offset"].to_numpy(), state)
    return changes if keep.all() else changes.filter(pa.array(keep))


def offsets_that_count(offset: Array, state: ClusterState) -> Array:
    """Which offsets of the surviving log are in replayable runs and committed transactions."""
    found: Array = in_runs(offset, state.shape.runs) & state.transactions.visible(offset)
    return found
