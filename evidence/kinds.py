"""The kind of a captured file, from its name and folder; the node id and capture time in its path."""

import re
import tomllib
from collections.abc import Collection
from importlib.resources import files
from pathlib import PurePosixPath

from evidence.limits import MAX_INT32, MAX_INT64, int32_of

METADATA_LOG_DIR = "__cluster_metadata-0"

# The metadata log; replicas; files beside them in a log directory.
METADATA_SEGMENT, METADATA_CHECKPOINT = "metadata_segment", "metadata_checkpoint"
BOOTSTRAP_CHECKPOINT, QUORUM_STATE = "bootstrap_checkpoint", "quorum_state"
REPLICA_SEGMENT, BATCH_HEADS, PARTITION_METADATA = "replica_segment", "batch_heads", "partition_metadata"
REPLICATION_OFFSET, RECOVERY_POINT, LOG_START_OFFSET = "replication_offset", "recovery_point", "log_start_offset"
LEADER_EPOCH, META_PROPERTIES, CLEAN_SHUTDOWN = "leader_epoch", "meta_properties", "clean_shutdown"
# A node's config, the capture's manifest, a machine's boot id, the listing of a log directory.
SERVER_PROPERTIES, MANIFEST, BOOT_ID, LISTING = "server_properties", "manifest", "boot_id", "listing"
# What Kafka's tools and metrics exporters print.
DUMP_LOG, LOG_DIRS, GET_OFFSETS, CONSUMER_GROUPS = "dump_log", "log_dirs", "get_offsets", "consumer_groups"
TOPICS_DESCRIBE, QUORUM_STATUS, QUORUM_REPLICATION = "topics_describe", "quorum_status", "quorum_replication"
JMX_TOOL, JMX_EXPORTER, PROMETHEUS = "jmx_tool", "jmx_exporter", "prometheus"
# Protocol responses.
REPLICA_LOG_INFO, DESCRIBE_LOG_DIRS, DESCRIBE_QUORUM = "replica_log_info", "describe_log_dirs", "describe_quorum"
DESCRIBE_TOPIC_PARTITIONS = "describe_topic_partitions"
# The brokers' own logs.
BROKER_LOGS = SERVER_LOG, STATE_CHANGE_LOG, CONTROLLER_LOG = "server_log", "state_change_log", "controller_log"
# Kinds of lines of state-change.log, perhaps in a log of all; those of the other logs say nothing of leader epochs.
STATE_CHANGES = ("leader_started", "follower_started", "leader_unchanged", "follower_unchanged")
OTHER = "other"  # registered and hashed, but not parsed

# By what a kind is known: names of its files, what is in them.
SIGNS = tomllib.loads(files("evidence").joinpath("kinds.toml").read_text("utf-8"))
NAME_NODES = frozenset(SIGNS["nodes"]["named"])
_BY_NAME: dict[str, str] = {name: kind for kind, names in SIGNS["names"].items() for name in names}
_LISTING = re.compile(r"listing-[a-z0-9]+\.txt(?:\.gz)?")
_SEGMENT = re.compile(r"[0-9]{20}\.log")
_HEADS = re.compile(r"[0-9]{20}\.heads")
_CHECKPOINT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_PARTITION_DIR = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]{1,10})")
_CONTROLLER_DIR = re.compile(r"controllers?[-_.]?[0-9]{1,10}", re.IGNORECASE)
_EPOCH_MS = re.compile(r"(?<![0-9])(1[0-9]{12})(?![0-9])")
_NODE = re.compile(r"(?:broker|controller|node|kafka|server)?[-_.]?([0-9]{1,10})", re.IGNORECASE)
_TIME = re.compile(r"20[0-9]{6}|1[0-9]{9}")
# Kafka's appenders, rotated by date, hour or number, and compressed: server.log.2026-11-21-00.gz, server.log.1.
_LOG = re.compile(
    r"(server|state-change|controller)(?:[-.][0-9]{1,4}(?:-[0-9]{2}){0,3})?\.log(?:[-.][0-9][0-9T_-]{0,20})?(?:\.(?:gz|zst))?"
)
_LOG_KINDS = {"server": SERVER_LOG, "state-change": STATE_CHANGE_LOG, "controller": CONTROLLER_LOG}
# Files in a replica's folder: segments, indexes and producer snapshots, each named by an offset, and two small files.
_REPLICA_FILE = re.compile(r"[0-9]{20}\.|leader-epoch-checkpoint|partition\.metadata")
# The folder of a replica that is being deleted, is stray, or moves to another log directory (Kafka's LogFileUtils).
_LEAVING_DIR = re.compile(r"(.+-[0-9]{1,10})\.[0-9a-f]+-(?:delete|stray|future)")
_METRICS_SUFFIXES = (".prom", ".om", ".openmetrics")
# Kafka's suffixes for files that are incomplete or about to be deleted; they are never used as state.
_UNFINISHED = (".part", ".deleted", ".swap", ".cleaned")


def classify(path: PurePosixPath) -> str:
    """The kind of a captured file, from its name and folder; OTHER for a file that is only registered and hashed."""
    name = path.name
    in_replica_dir = partition_of(path) is not None
    if is_unfinished(path):
        return OTHER
    if _CHECKPOINT.fullmatch(name):
        return METADATA_CHECKPOINT
    if _SEGMENT.fullmatch(name) and not _LEAVING_DIR.fullmatch(path.parent.name):
        return REPLICA_SEGMENT if in_replica_dir else METADATA_SEGMENT
    if _HEADS.fullmatch(name) and in_replica_dir:
        return BATCH_HEADS
    if _LISTING.fullmatch(name):
        return LISTING
    if name == "leader-epoch-checkpoint":
        return LEADER_EPOCH if in_replica_dir or path.parent.name == METADATA_LOG_DIR else OTHER
    if name.endswith(_METRICS_SUFFIXES):
        return JMX_EXPORTER
    if log := _LOG.fullmatch(name):
        return _LOG_KINDS[log[1]]
    return _BY_NAME.get(name, OTHER)


def is_unfinished(path: PurePosixPath) -> bool:
    """Whether the file name marks an incomplete file or one about to be deleted."""
    return path.name.endswith(_UNFINISHED)


def is_segment(path: PurePosixPath) -> bool:
    """Whether the file name is that of a log segment: its base offset in 20 digits."""
    return _SEGMENT.fullmatch(path.name) is not None


def checkpoint_name(name: str) -> tuple[int, int] | None:
    """(end offset, epoch) from a snapshot's file name (Kafka's Snapshots.parse), or None, also if no log has them."""
    match = _CHECKPOINT.fullmatch(name)
    end, epoch = map(int, match.groups()) if match else (0, 0)
    return (end, epoch) if match and end <= MAX_INT64 and epoch <= MAX_INT32 else None


def partition_of(path: PurePosixPath) -> tuple[str, int] | None:
    """(topic, partition) of the replica's log directory that contains the file, or None.

    None also for the metadata log: its segments are not replica data. A folder controller-<id> belongs to a node; it is
    not partition <id> of a topic `controller`.
    """
    name = path.parent.name
    match = _PARTITION_DIR.fullmatch(name)
    if match is None or name == METADATA_LOG_DIR or _CONTROLLER_DIR.fullmatch(name):
        return None
    partition = int32_of(match["partition"])
    return None if partition is None else (match["topic"], partition)


def captured_at(path: PurePosixPath) -> int | None:
    """The capture's start time, from an epoch-milliseconds number in the path: snapshots/<ms>/..., cli/<ms>-tool.txt.

    The folder of a replica's log and its files are skipped: a topic may be named `metrics-1700000000000`.
    """
    parts = path.parent.parent.parts if _in_replica_log(path) else path.parts
    for part in reversed(parts):
        if match := _EPOCH_MS.search(part):
            return int(match[1])
    return None


def node_in_path(path: PurePosixPath) -> int | None:
    """The node id from a folder name (broker-3, controllers/3000), innermost first, or None. A number alone that may be
    a date or a time (20261120) counts only if no other folder names a node.

    The folder of a replica's log is skipped: it names a topic, even if the topic is called `broker` or `kafka`.
    """
    folder = path.parent.parent if _in_replica_log(path) else path.parent
    found = [
        match for part in reversed(folder.parts) if (match := _NODE.fullmatch(part)) and int32_of(match[1]) is not None
    ]
    named = next((match for match in found if not _TIME.fullmatch(match[0])), found[0] if found else None)
    return None if named is None else int32_of(named[1])


def says_whose(folder: PurePosixPath, names: Collection[str]) -> bool:
    """Whether a folder's name says what is in it: the metadata log, a replica's log, which has a partition.metadata, or
    a node's files. names: of the files right in it, which may be segments in a folder of any name."""
    if folder.name == METADATA_LOG_DIR:
        return True
    if any(_SEGMENT.fullmatch(name) for name in names):
        is_replica = "partition.metadata" in names and "quorum-state" not in names
        return is_replica and partition_of(folder / "partition.metadata") is not None
    return _NODE.fullmatch(folder.name) is not None and folder.name[0].isalpha()


def _in_replica_log(path: PurePosixPath) -> bool:
    """Whether a file belongs to a replica's log.

    The folder name alone is not enough: `<ms>-broker-1` may be a node's folder, with files that no replica's folder
    has.
    """
    if _REPLICA_FILE.match(path.name) is None:
        return False
    leaving = _LEAVING_DIR.fullmatch(path.parent.name)
    return partition_of(PurePosixPath(leaving[1], path.name) if leaving else path) is not None
