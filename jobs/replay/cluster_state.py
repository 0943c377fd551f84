"""Load the cluster-wide records of one cluster from the lake and resolve them (replay/cluster/state.py)."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc

from evidence.errors import KraftForensicsError
from jobs.ingest.captures import named_releases
from jobs.lake.lake import Lake
from jobs.lake.row_groups import WITHOUT_TOPIC, read_bucket
from jobs.lake.tables import TABLES
from jobs.replay.buckets import BucketFiles
from jobs.views.in_duckdb import ask
from replay.arrow.schemas import BATCH_AND_PROVENANCE, PROVENANCE_NAMES
from replay.cluster.configs import of_all_captures
from replay.cluster.log import Hole, LogBatches, Problem
from replay.cluster.state import CLUSTER_TYPES, STATE_TYPES, ClusterState, ConflictError, log_shape, resolve_cluster

_COLUMNS = ("offset", "epoch", "timestamp_ms", "type", "payload", *BATCH_AND_PROVENANCE)
_BATCH_COLUMNS = (
    *("epoch", "base_offset", "last_offset", "base_timestamp_ms", "crc", "is_control", "record_count", "nodes"),
    *("commit_state", *PROVENANCE_NAMES),
)
EARLIEST, NEWEST_CHECKPOINT = "earliest", "newest-checkpoint"
# A record whose body cannot be read (a type or version that this release does not know) has it as raw bytes.
_RAW = pc.starts_with(pc.field("payload"), '{"raw":')
# Unreadable records that may carry partition state; an unknown type may.
_STATEFUL = pc.starts_with(pc.field("type"), "UNKNOWN") | pc.field("type").isin(sorted(STATE_TYPES))
_CARRIES_STATE = _RAW & ~pc.field("is_control") & _STATEFUL
_ASKED = ("offset", "type", "payload", "is_control", "snapshot_end_offset")  # the columns that such conditions read
_PLACED, _OF_SNAPSHOT = pc.field("offset").is_valid(), pc.field("snapshot_end_offset").is_valid()


class LogConflictError(KraftForensicsError):
    """Captures contradict each other, so the cluster is not replayed. batches: the two that conflict."""

    def __init__(self, message: str, batches: tuple[dict[str, Any], dict[str, Any]]) -> None:
        super().__init__(message)
        self.batches = batches


def replayed_from(lake: Lake, cluster: str) -> str:
    """The `start` of the replay that built the cluster's partition_history."""
    return str(lake.made("partition_history", cluster).get("start", EARLIEST))


def load_cluster_state(lake: Lake, cluster: str, start: str) -> ClusterState:
    """Read and resolve the cluster-wide records. start: EARLIEST, or NEWEST_CHECKPOINT to skip everything before the
    newest usable snapshot.

    Errors: LogConflictError if captures contradict each other.
    """
    batches = LogBatches(lake.read("log_batches", cluster, _BATCH_COLUMNS, as_codes=True))
    wanted = pc.field("type").isin(sorted(CLUSTER_TYPES | {"SNAPSHOT_HEADER"})) & ~_RAW
    columns = ("snapshot_end_offset", "snapshot_epoch", *_COLUMNS)
    snapshot = _of_cluster(lake, "snapshot_records", cluster, columns, _OF_SNAPSHOT & wanted)
    ends = {(r["snapshot_end_offset"], r["snapshot_epoch"]) for r in snapshot}
    unusable = _unusable_snapshots(lake, cluster)
    try:
        usable = sorted(ends - set(unusable))
        shape = log_shape(batches, usable, _holes(lake, cluster), start == NEWEST_CHECKPOINT)
    except ConflictError as error:
        raise LogConflictError(str(error), error.batches) from error
    shape.problems.extend(Problem("unreadable_record", end, reason) for (end, _), reason in sorted(unusable.items()))
    static = static_files(lake, cluster)
    logged = _of_cluster(lake, "metadata_records", cluster, _COLUMNS, _PLACED & wanted)
    releases = named_releases(lake.rows("captures", cluster, ("kafka_release",)))
    return resolve_cluster(shape, _parsed(logged), _parsed(snapshot), static, releases)


def control_records(lake: Lake, cluster: str) -> list[dict[str, Any]]:
    """Every captured control record, also of replaced branches: offset, epoch, type, data and provenance."""
    columns = [name for name in _COLUMNS if name != "batch_base_offset"]
    return _parsed(_of_cluster(lake, "metadata_records", cluster, columns, pc.field("is_control") & _PLACED))


def _of_cluster(
    lake: Lake, name: str, cluster: str, columns: Sequence[str], where: pc.Expression
) -> list[dict[str, Any]]:
    """The rows of a table of records that are of no topic, or cannot be read, and match `where`."""
    parts, topics = BucketFiles(lake, cluster, [name]).parts(WITHOUT_TOPIC)[name], TABLES[name].topics
    wanted = list(dict.fromkeys((*columns, *_ASKED, ".".join(topics))))
    found = read_bucket(lake.storage, parts, wanted, WITHOUT_TOPIC, topics)
    return [row for rows in found for row in rows.filter(where).select(columns).to_pylist()]


def static_files(lake: Lake, cluster: str) -> dict[int, dict[str, str]]:
    """Node id -> its server.properties, for the nodes whose file was captured; of several captures, all values."""
    files: dict[int, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for row in lake.rows("static_configs", cluster, ("capture", "node_id", "name", "value")):
        files[row["node_id"]][row["capture"]][row["name"]] = row["value"]
    return {node: of_all_captures(list(own.values())) for node, own in files.items()}


def _parsed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "data": json.loads(row["payload"])} for row in rows]


def _unusable_snapshots(lake: Lake, cluster: str) -> dict[tuple[int, int], str]:
    """(end offset, epoch) of snapshots with such a record -> the reason why they are not used."""
    columns = ("snapshot_end_offset", "snapshot_epoch", "type", "version")
    return {
        (r["snapshot_end_offset"], r["snapshot_epoch"]): (
            f"the snapshot at {r['snapshot_end_offset']} holds a {r['type']} of version {r['version']}, which this "
            "release does not know; it is not used as state"
        )
        for r in _of_cluster(lake, "snapshot_records", cluster, columns, _OF_SNAPSHOT & _CARRIES_STATE)
    }


def _holes(lake: Lake, cluster: str) -> list[Hole]:
    """Records of the log after which partition state is unknown."""
    columns = ("offset", "epoch", "type", "version")
    unknown = _of_cluster(lake, "metadata_records", cluster, columns, _PLACED & _CARRIES_STATE)
    holes = [
        Hole(
            r["offset"],
            r["epoch"],
            f"a {r['type']} of version {r['version']}, which this release does not know and which may carry partition "
            "state: state is unknown from here",
        )
        for r in unknown
    ]
    # Only then a batch may lack records.
    unread = ask("replay/unread", (lake, cluster)) if lake.rows("quarantine", cluster, ("reason",), _PLACED) else []
    text = "the record cannot be read (see quarantine): partition state is unknown from here"
    return holes + [Hole(r["offset"], r["epoch"], text) for r in unread]
