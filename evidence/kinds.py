"""What a captured file is, judged by its name and place; and which node and time its path speaks of."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

METADATA_LOG_DIR = "__cluster_metadata-0"

METADATA_SEGMENT = "metadata_segment"
METADATA_CHECKPOINT = "metadata_checkpoint"
BOOTSTRAP_CHECKPOINT = "bootstrap_checkpoint"
REPLICA_SEGMENT = "replica_segment"
REPLICATION_OFFSET = "replication_offset"
RECOVERY_POINT = "recovery_point"
LOG_START_OFFSET = "log_start_offset"
LEADER_EPOCH = "leader_epoch"
JMX_EXPORTER = "jmx_exporter"
META_PROPERTIES = "meta_properties"
SERVER_PROPERTIES = "server_properties"
PARTITION_METADATA = "partition_metadata"
QUORUM_STATE = "quorum_state"
OTHER = "other"

_BY_NAME = {
    "bootstrap.checkpoint": BOOTSTRAP_CHECKPOINT,
    "replication-offset-checkpoint": REPLICATION_OFFSET,
    "recovery-point-offset-checkpoint": RECOVERY_POINT,
    "log-start-offset-checkpoint": LOG_START_OFFSET,
    "meta.properties": META_PROPERTIES,
    "server.properties": SERVER_PROPERTIES,
    "broker.properties": SERVER_PROPERTIES,
    "controller.properties": SERVER_PROPERTIES,
    "partition.metadata": PARTITION_METADATA,
    "quorum-state": QUORUM_STATE,
}
_SEGMENT = re.compile(r"\d{20}\.log")
_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_PARTITION_DIR = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_EPOCH_MS = re.compile(r"(?<!\d)(1\d{12})(?!\d)")
_NODE = re.compile(r"(?:broker|controller|node|kafka|server)?[-_.]?(\d{1,10})", re.IGNORECASE)
_METRICS_SUFFIXES = (".prom", ".om", ".openmetrics")
# Kafka's own names for files that are on their way out or not yet whole: never used as state.
_UNFINISHED = (".part", ".deleted", ".swap", ".cleaned")


def classify(path: PurePosixPath) -> str:
    """The kind of a captured file, by name and folder; OTHER for what is only registered and hashed."""
    name, parent = path.name, path.parent.name
    in_replica_dir = parent != METADATA_LOG_DIR and _PARTITION_DIR.fullmatch(parent) is not None
    if name.endswith(_UNFINISHED):
        return OTHER
    if _CHECKPOINT.fullmatch(name):
        return METADATA_CHECKPOINT
    if _SEGMENT.fullmatch(name):
        return REPLICA_SEGMENT if in_replica_dir else METADATA_SEGMENT
    if name == "leader-epoch-checkpoint":
        return LEADER_EPOCH if in_replica_dir else OTHER
    if name.endswith(_METRICS_SUFFIXES):
        return JMX_EXPORTER
    return _BY_NAME.get(name, OTHER)


def checkpoint_name(name: str) -> tuple[int, int] | None:
    """(end offset, epoch) that a snapshot's name says (Kafka's Snapshots.parse), or None."""
    match = _CHECKPOINT.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def partition_of(path: PurePosixPath) -> tuple[str, int] | None:
    """(topic, partition) of the log directory that a file lies in, or None."""
    match = _PARTITION_DIR.fullmatch(path.parent.name)
    return (match["topic"], int(match["partition"])) if match else None


def captured_at(path: PurePosixPath) -> int | None:
    """The epoch-milliseconds number in a path (snapshots/<ms>/..., cli/<ms>-tool.txt): when that capture began."""
    for part in reversed(path.parts):
        if match := _EPOCH_MS.search(part):
            return int(match[1])
    return None


def node_in_path(path: PurePosixPath) -> int | None:
    """The node id that a folder name speaks of (broker-3, controllers/3000), innermost first, or None."""
    for part in reversed(path.parent.parts):
        match = _NODE.fullmatch(part)
        if match and not _EPOCH_MS.fullmatch(part):
            return int(match[1])
    return None
