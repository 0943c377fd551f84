"""What a session left on disk when it stopped cleanly: recovery points and log ends that are its last.

Sources: Kafka's LogManager.shutdown (recovery points, log starts, then .kafka_cleanshutdown) and KIP-966 (the broker
epoch in that file).
"""

from __future__ import annotations

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
# Of files in the folder of a partition's current log.
_OF_ITS_FOLDER = ("leader_epoch", SEGMENT, HEADS)
HOLDS_LOG = "holds_log"


def left_behind(rows: Iterable[Row]) -> dict[tuple[int, int], list[Row]]:
    """Recovery points and last segments next to a .kafka_cleanshutdown that are as the session left them.

    Keys are (broker, broker epoch). A broker writes its recovery points before that file (Kafka's LogManager.shutdown),
    but whoever copies both may have read one before the broker stopped and the other after. So a recovery point counts
    if an earlier round of copying had the file already, and a segment's end counts if such a recovery point equals it.

    HOLDS_LOG of each: whether the capture has the partition's own folder beside it. Else the recovery point may be that
    of a future log, which a broker is moving into this directory (LogManager.logsByDir has those, too).
    """
    rows = list(rows)
    folders = folders_of(rows)
    points: dict[tuple[int, int], list[Row]] = defaultdict(list)
    segments: list[Row] = []
    for row in rows:
        if row["broker_epoch"] is None:
            continue
        if row["source"] == SEGMENT and row["log_end_offset"] is not None:
            segments.append(row)
        elif row["source"] == RECOVERY_POINT and row["recovery_point_offset"] is not None:
            points[row["broker_id"], row["broker_epoch"]].append(row)
    left: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for session, own in points.items():
        timed = [r for r in own if r["captured_at_ms"] is not None]
        first_read = min((read_by(r) for r in timed), default=None)
        for row in timed:
            if first_read is not None and first_read < row["captured_at_ms"]:
                holds_log = place_of(row) in folders
                left[session].append({**row, "log_end_offset": row["recovery_point_offset"], HOLDS_LOG: holds_log})
    for row in segments:
        session = row["broker_id"], row["broker_epoch"]
        if any(r["log_end_offset"] == row["log_end_offset"] for r in left.get(session, [])):
            left[session].append({**row, HOLDS_LOG: True})
    return dict(left)


def folders_of(rows: Iterable[Row]) -> set[Place]:
    """The log directories, as they were copied, in which the folder of the partition's current log was captured. rows:
    of one partition."""
    return {(r["capture"], _parent(r["path"], 2)) for r in rows if r["source"] in _OF_ITS_FOLDER}


def place_of(row: Row) -> Place:
    """The log directory that a checkpoint file of all its partitions was copied from."""
    return row["capture"], _parent(row["path"], 1)


def _parent(path: str | None, up: int) -> str | None:
    """The folder that many levels up; None if there is none."""
    parts = (path or "").split("/")
    return "/".join(parts[:-up]) if len(parts) > up else None
