"""Decode ranges of batches into Arrow: tables.METADATA_RECORDS / SNAPSHOT_RECORDS rows and the damage beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from evidence import tables
from evidence.batches import Batch, read_head
from evidence.errors import Damage
from evidence.records import Record, read_records
from evidence.segments import DistinctBatch

MIGRATING = "AAAAAAAAAAAAAAAAAAAAAA"
NO_LEADER_CHANGE = -2
NO_RECOVERY_CHANGE = -1
SPLIT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Consecutive batches of one file, [start, end) in bytes: the unit of work of one decoding task."""

    local: str
    path: str
    sha256: str
    start: int
    end: int


def byte_ranges(batches: list[DistinctBatch], split_bytes: int = SPLIT_BYTES) -> list[ByteRange]:
    """The distinct batches as contiguous ranges of at most about `split_bytes` each."""
    ranges: list[ByteRange] = []
    ordered = sorted(batches, key=lambda d: (d.file.path, d.batch.position))
    for entry in ordered:
        begin, end = entry.batch.position, entry.batch.position + entry.batch.size_bytes
        last = ranges[-1] if ranges else None
        if last and last.path == entry.file.path and last.end == begin and end - last.start <= split_bytes:
            ranges[-1] = ByteRange(last.local, last.path, last.sha256, last.start, end)
        else:
            ranges.append(ByteRange(str(entry.file.local), entry.file.path, entry.file.sha256, begin, end))
    return ranges


def read_range(data: bytes, start: int, end: int) -> Iterator[tuple[Batch, Record | Damage]]:
    """Every record (or damage) of the batches that lie in data[start:end)."""
    position = start
    while position < end:
        batch = read_head(data, position)
        if isinstance(batch, Damage):
            raise ValueError(f"no batch at byte {position}: the file changed while it was read ({batch.message})")
        for item in read_records(data, batch):
            yield batch, item
        position += batch.size_bytes


def partition_change(record: Record) -> dict[str, Any] | None:
    """The typed fields of a partition record (tables.PARTITION_CHANGE), None for every other type.

    Source: PartitionRegistration: null ELR fields of a PartitionRecord mean empty, directories that are absent or empty
    mean MIGRATING for every replica; in a PartitionChangeRecord an absent field (leader -2, recovery state -1) keeps.
    """
    data = record.data
    if not record.is_known or record.type not in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD"):
        return None
    row = {
        "topic_id": data["topicId"],
        "partition": data["partitionId"],
        "replicas": data.get("replicas"),
        "isr": data.get("isr"),
        "elr": data.get("eligibleLeaderReplicas"),
        "last_known_elr": data.get("lastKnownElr"),
        "removing_replicas": data.get("removingReplicas"),
        "adding_replicas": data.get("addingReplicas"),
        "directories": data.get("directories"),
        "leader": data.get("leader"),
        "leader_epoch": data.get("leaderEpoch"),
        "partition_epoch": data.get("partitionEpoch"),
        "leader_recovery_state": data.get("leaderRecoveryState"),
    }
    if record.type == "PARTITION_RECORD":
        row["elr"] = row["elr"] or []
        row["last_known_elr"] = row["last_known_elr"] or []
        row["directories"] = row["directories"] or [MIGRATING] * len(data["replicas"])
        row["leader_recovery_state"] = row["leader_recovery_state"] or 0
    return row


def to_json(data: dict[str, Any]) -> str:
    """A record's data as the JSON text that is stored and printed."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def record_row(capture: str, path: str, sha256: str, batch: Batch, record: Record) -> dict[str, Any]:
    """A tables.METADATA_RECORDS row."""
    return {
        "offset": record.offset,
        "epoch": record.epoch,
        "timestamp_ms": record.timestamp_ms,
        "type": record.type,
        "version": record.version,
        "is_control": record.is_control,
        "payload": to_json(record.data),
        "partition_change": partition_change(record),
        "batch_base_offset": batch.base_offset,
        "batch_crc": batch.crc,
        "capture": capture,
        "path": path,
        "sha256": sha256,
        "position": record.position,
    }


def snapshot_table(rows: Iterable[dict[str, Any]], end_offset: int, epoch: int) -> pa.Table:
    """tables.SNAPSHOT_RECORDS from the record rows of one snapshot."""
    added = {"snapshot_end_offset": end_offset, "snapshot_epoch": epoch}
    return pa.Table.from_pylist([{**added, **row} for row in rows], schema=tables.SNAPSHOT_RECORDS)
