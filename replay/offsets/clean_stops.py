"""What a session left on disk when it stopped cleanly: recovery points and log ends that are its last.

Sources: Kafka's LogManager.shutdown (recovery points, log starts, then .kafka_cleanshutdown) and KIP-966 (the broker
epoch in that file).
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from replay.cluster.facts import read_by

Row = dict[str, Any]
Place = tuple[Any, str | None]

# log_end_offsets.source of a replica's last segment; next to a .kafka_cleanshutdown the row has the session's epoch.
SEGMENT = "replica_segment"
# Of the heads of its record batches, copied without keys and values.
HEADS = "batch_heads"
RECOVERY_POINT = "recovery_point"
# Of a log that was copied from a disk.
COPIED = (SEGMENT, HEADS)
# Of files in the folder of a partition's current log.
_OF_ITS_FOLDER = ("leader_epoch", *COPIED)
HOLDS_LOG = "holds_log"
# Of a high watermark: no other file of its broker showed another one in the same round of reading.
IS_ONLY_VALUE = "is_only_value"


def left_behind(rows: Iterable[Row]) -> dict[tuple[int, int], list[Row]]:
    """Recovery points and last segments next to a .kafka_cleanshutdown that are as the session left them.

    Keys are (broker, broker epoch). A broker writes its recovery points before that file (Kafka's LogManager.shutdown),
    but whoever copies both may have read one before the broker stopped and the other after. So a recovery point counts
    if an earlier round of copying had the file already, and a segment's end counts if such a recovery point equals it.
    The file is written although the recovery points could not be (checkpointRecoveryOffsetsInDir): if a log that was
    read later ends elsewhere, or a high watermark beside them is higher (ReplicaManager.shutdown writes it first), none
    counts.

    HOLDS_LOG of each: whether the captures of both rounds have the partition's own folder beside it. Else it, or the
    file of the earlier round, may be that of a future log, which a broker is moving into this directory: it stops one
    directory after the other (LogManager.logsByDir has those logs, too).
    """
    rows = list(rows)
    folders = folders_of(rows)
    beside = {place_of(row): row["high_watermark"] for row in rows if row["high_watermark"] is not None}
    points: dict[tuple[int, int], list[Row]] = defaultdict(list)
    ends: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["broker_epoch"] is None:
            continue
        if row["source"] in COPIED and row["log_end_offset"] is not None:
            ends[row["broker_id"], row["broker_epoch"]].append(row)
        elif row["source"] == RECOVERY_POINT and row["recovery_point_offset"] is not None:
            holds_log = place_of(row) in folders
            point = {**row, "log_end_offset": row["recovery_point_offset"], HOLDS_LOG: holds_log}
            points[row["broker_id"], row["broker_epoch"]].append(point)
    left = {}
    for session, own in points.items():
        first, of_log = _first_read(own), _first_read(row for row in own if row[HOLDS_LOG])
        found = [row | {HOLDS_LOG: row[HOLDS_LOG] and _is_after(row, of_log)} for row in own if _is_after(row, first)]
        known = {row["log_end_offset"] for row in found}
        is_last = all(row["log_end_offset"] in known for row in ends[session] if _is_after(row, first))
        if found and is_last and all(beside.get(place_of(row), 0) <= row["log_end_offset"] for row in found):
            same = (row for row in ends[session] if row["source"] == SEGMENT and row["log_end_offset"] in known)
            left[session] = [*found, *({**row, HOLDS_LOG: True} for row in same)]
    return left


def _first_read(rows: Iterable[Row]) -> int | None:
    return min((read_by(row) for row in rows if row["captured_at_ms"] is not None), default=None)


def _is_after(row: Row, read_by_ms: int | None) -> bool:
    """Whether the row was read after that time."""
    return None not in (row["captured_at_ms"], read_by_ms) and read_by_ms < row["captured_at_ms"]


def folders_of(rows: Iterable[Row]) -> set[Place]:
    """The log directories, as they were copied, in which the folder of the partition's current log was captured. rows:
    of one partition.

    None if a round found it in two directories of a broker: one of them may have failed, so that the broker no longer
    writes to it, and made the replica anew elsewhere (Kafka's LogManager.handleLogDirFailure).
    """
    found: dict[tuple[Any, ...], set[Place]] = defaultdict(set)
    for row in rows:
        if row["source"] in _OF_ITS_FOLDER:
            found[row["capture"], row["broker_id"], row["captured_at_ms"]].add(_folder_of(row))
    return {place for places in found.values() if len(places) == 1 for place in places}


def may_be_left(row: Row, folders: set[Place]) -> bool:
    """Whether the row is of a copied log that may be one which its broker does not use any more. folders: of
    `folders_of`."""
    return row["source"] in COPIED and _folder_of(row) not in folders


def _folder_of(row: Row) -> Place:
    return row["capture"], _parent(row["path"], 2)


def place_of(row: Row) -> Place:
    """The log directory that a checkpoint file of all its partitions was copied from."""
    return row["capture"], _parent(row["path"], 1)


def _parent(path: str | None, up: int) -> str | None:
    """The folder that many levels up; None if there is none."""
    parts = (path or "").split("/")
    return "/".join(parts[:-up]) if len(parts) > up else None
