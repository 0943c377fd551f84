"""Decode ranges of batches into rows of tables.METADATA_RECORDS / SNAPSHOT_RECORDS, and damage."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any

import numpy as np

from evidence import kinds
from evidence.capture.remote import Source, StoredFile
from evidence.dump_log.records import batches_in, read_dumped, read_unplaced
from evidence.errors import CaptureError, Damage, DecodeError
from evidence.metadata_log.record_text import FIELDS
from evidence.metadata_log.scan import DistinctBatches, Scanned, batches_of
from evidence.wire.batches import Batch, read_head
from evidence.wire.records import Record, read_records

MIGRATING = "AAAAAAAAAAAAAAAAAAAAAA"
SPLIT_BYTES = 8 << 20
LOG, SNAPSHOT, PAYLOADS = "log", "snapshot", "payloads"
_OF_RECORD = ("offset", "epoch", "timestamp_ms", "type", "version", "is_control", "position")
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Consecutive batches of one file, [start, end) in bytes: the unit of work of a decoding task.

    source: where tasks read it. kind: of the file (evidence/kinds.py). holds: LOG, SNAPSHOT (the two snapshot fields
    identify it; null for bootstrap.checkpoint, which has no place in the log) or PAYLOADS (records without offsets).
    show_secrets: nothing is redacted.
    """

    source: Source
    path: str
    sha256: str
    kind: str
    start: int
    end: int
    holds: str = LOG
    snapshot_end_offset: int | None = None
    snapshot_epoch: int | None = None
    show_secrets: bool = False


def work_of(scanned: Scanned, split_bytes: int = SPLIT_BYTES) -> list[ByteRange]:
    """All ranges to decode: distinct batches of the log, distinct snapshots, records without offsets."""
    work = byte_ranges(scanned.batches, split_bytes)
    done: set[str] = set()
    for snapshot in (s for s in scanned.snapshots if s.file.sha256 not in done):
        done.add(snapshot.file.sha256)
        end, epoch = snapshot.end_offset, snapshot.epoch
        ranges = byte_ranges(batches_of(snapshot.file, snapshot.batches), split_bytes)
        work += [replace(r, holds=SNAPSHOT, snapshot_end_offset=end, snapshot_epoch=epoch) for r in ranges]
    for file, start, stop in (each for each in scanned.unplaced if each[0].sha256 not in done):
        done.add(file.sha256)
        work.append(ByteRange(file.source, file.path, file.sha256, file.kind, start, stop, PAYLOADS))
    return work


def byte_ranges(batches: DistinctBatches, split_bytes: int = SPLIT_BYTES) -> list[ByteRange]:
    """The distinct batches as contiguous ranges of at most about `split_bytes` each."""
    paths = [file.path for file in batches.files]
    rank = np.unique(paths, return_inverse=True)[1] if paths else np.zeros(0, dtype=np.int64)
    order = np.lexsort((batches.heads["position"], rank[batches.file]))
    begins, ends, files = batches.heads["position"][order], batches.ends[order], batches.file[order]
    breaks = np.flatnonzero((begins[1:] != ends[:-1]) | (rank[files][1:] != rank[files][:-1])) + 1
    ranges = []
    for first, last in pairwise([0, *breaks.tolist(), len(order)]):
        while first < last:
            # As many batches as fit, and at least one.
            after = max(first + 1, first + int(np.searchsorted(ends[first:last], begins[first] + split_bytes, "right")))
            file = batches.files[files[first]]
            begin, end = int(begins[first]), int(ends[after - 1])
            ranges.append(ByteRange(file.source, file.path, file.sha256, file.kind, begin, end))
            first = after
    return ranges


def decode_range(data: bytes, work: ByteRange, capture: str) -> Iterator[dict[str, Any] | Damage]:
    """tables.SNAPSHOT_RECORDS rows of a range, with damage in its place. data: the whole file.

    The two snapshot columns are null for records of the log; offset, epoch, timestamp and batch are null for payloads.
    Errors: CaptureError when the file changed since it was framed.
    """
    if work.holds == PAYLOADS:
        for line in read_unplaced(data, work.start, work.end, work.show_secrets):
            yield line if isinstance(line, Damage) else _unplaced_row(work, capture, *line)
        return
    is_dump = work.kind == kinds.DUMP_LOG
    batches = _dumped(data, work) if is_dump else heads(data, work.start, work.end, work.path)
    for batch in batches:
        for item in (read_dumped if is_dump else read_records)(data, batch, work.show_secrets):
            yield item if isinstance(item, Damage) else record_row(capture, work, batch, item)


def _dumped(data: bytes, work: ByteRange) -> list[Batch]:
    try:
        return batches_in(data, work.start, work.end)
    except DecodeError as error:
        raise CaptureError(f"{work.path}: a framed batch is missing: the file changed ({error})") from error


def heads(data: bytes, start: int, end: int, path: str) -> Iterator[Batch]:
    """The batches of data[start:end), CRCs checked. Errors: CaptureError when there is none where one was framed."""
    position = start
    while position < end:
        head = read_head(data, position)
        if isinstance(head, Damage):
            raise CaptureError(f"{path}: no batch at byte {position} any more: the file changed ({head.message})")
        yield head
        position = head.end


def partition_change(record: Record) -> dict[str, Any] | None:
    """The typed fields of a partition record (tables.PARTITION_CHANGE), None for every other type.

    Source: PartitionRegistration: null ELR fields of a PartitionRecord mean empty, directories that are absent or empty
    mean MIGRATING for every replica; in a PartitionChangeRecord an absent field (leader -2, recovery state -1) keeps.
    """
    data = record.data
    if not record.is_known or record.type not in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD"):
        return None
    row = {column: data.get(name) for column, name in FIELDS.items()}
    if record.type == "PARTITION_RECORD":
        row["elr"] = row["elr"] or []
        row["last_known_elr"] = row["last_known_elr"] or []
        row["directories"] = row["directories"] or [MIGRATING] * len(data["replicas"])
        row["leader_recovery_state"] = row["leader_recovery_state"] or 0
    return row


def to_json(data: dict[str, Any]) -> str:
    """A record's data as the JSON text that is stored and printed."""
    return _ENCODER.encode(data)


def _unplaced_row(
    work: ByteRange, capture: str, position: int, type_name: str, version: int, data: dict[str, Any]
) -> dict[str, Any]:
    """The row of a bare payload line, of which the place in the log is unknown."""
    record = Record(0, 0, 0, type_name, version, data, position, is_control=False, is_known=True)
    of_batch = ("offset", "epoch", "timestamp_ms", "batch_base_offset", "batch_crc")
    return record_row(capture, work, Batch(0, 0, 0, 0, 0, 0, 0, 0, 0, 0), record) | dict.fromkeys(of_batch)


def record_row(capture: str, work: ByteRange, batch: Batch, record: Record) -> dict[str, Any]:
    """A tables.SNAPSHOT_RECORDS row."""
    return {
        **{name: getattr(work, name) for name in ("snapshot_end_offset", "snapshot_epoch", "path", "sha256")},
        **{name: getattr(record, name) for name in _OF_RECORD},
        "payload": to_json(record.data),
        "partition_change": partition_change(record),
        "batch_base_offset": batch.base_offset,
        "batch_crc": batch.crc,
        "capture": capture,
    }


def read_byte_range(source: Source, start: int, end: int) -> Any:
    """A file's bytes [start, end) at the same indexes of a buffer that is sliced like `bytes`; zeros before them, and
    for bytes that the file no longer has. Errors: CaptureError when it is an object that has changed."""
    buffer = mmap(-1, end, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    if isinstance(source, StoredFile):
        buffer[start:end] = source[start:end]
        return buffer
    with source.open("rb") as file, memoryview(buffer) as view:
        file.seek(start)
        file.readinto(view[start:end])
    return buffer


def bytes_of(work: ByteRange) -> Any:
    """The bytes of a range's file, for its decoder. If only the range is needed, the bytes before it are zeros that
    take no memory, and the data ends with the range."""
    if work.kind == kinds.DUMP_LOG or work.holds == PAYLOADS:
        return work.source.read_bytes()
    return read_byte_range(work.source, work.start, work.end)
