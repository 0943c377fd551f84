"""Metadata segments and snapshots of a capture: which batches they hold, which bytes could not be used.

The same batch held by several nodes is one batch with several holders. Records are decoded later, once per distinct
batch (evidence/decode.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import pyarrow as pa

from evidence import kinds, tables
from evidence.batches import Batch, Scan, scan_batches
from evidence.capture import EvidenceFile
from evidence.errors import Damage
from evidence.records import Record, read_records

MAX_RAW_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """A scanned metadata file. end_offset is exclusive; both offsets are None without a good batch."""

    file: EvidenceFile
    scan: Scan

    @property
    def base_offset(self) -> int | None:
        return self.scan.batches[0].base_offset if self.scan.batches else None

    @property
    def end_offset(self) -> int | None:
        return self.scan.batches[-1].last_offset + 1 if self.scan.batches else None


@dataclass(frozen=True, slots=True)
class DistinctBatch:
    """A batch, the file that its rows point at, and every node that holds it."""

    batch: Batch
    file: EvidenceFile
    nodes: set[int] = field(default_factory=set)


def scan_segment(file: EvidenceFile) -> Segment:
    """Frame a segment; a batch that does not continue the file's name is noted, the bytes are trusted."""
    return Segment(file, scan_batches(file.read()))


def scan_snapshot(file: EvidenceFile) -> Segment:
    """Frame a snapshot. One without its header first and its footer last is quarantined whole: it is not a state.

    Source: Kafka's SnapshotFileReader / RecordsSnapshotReader; KIP-630 for the layout.
    """
    data = file.read()
    scan = scan_batches(data)
    problem = scan.damage[0].message if scan.damage else _snapshot_problem(data, scan.batches)
    if problem is None:
        return Segment(file, scan)
    damage = Damage(
        0, len(data), None, "bad_snapshot", f"the snapshot is not whole: {problem}; it is not used as state"
    )
    return Segment(file, Scan([], [damage], 0, len(data), 0, scan.note))


def _snapshot_problem(data: bytes, batches: list[Batch]) -> str | None:
    if not batches:
        return "it holds no batch"
    first = next(iter(read_records(data, batches[0])), None)
    *_, last = [None, *read_records(data, batches[-1])]
    if not isinstance(first, Record) or first.type != "SNAPSHOT_HEADER":
        return "it does not begin with a snapshot header"
    if not isinstance(last, Record) or last.type != "SNAPSHOT_FOOTER":
        return "it does not end with a snapshot footer"
    return None


def distinct_batches(segments: Iterable[Segment]) -> list[DistinctBatch]:
    """Every batch once, in (epoch, base offset) order, with the nodes that hold it."""
    found: dict[tuple[int, int, int], DistinctBatch] = {}
    for segment in segments:
        for batch in segment.scan.batches:
            entry = found.setdefault(batch.key, DistinctBatch(batch, segment.file))
            if segment.file.node_id is not None:
                entry.nodes.add(segment.file.node_id)
    return [found[key] for key in sorted(found)]


def provenance(capture: str, file: EvidenceFile, position: int) -> dict[str, object]:
    """The columns of tables.PROVENANCE."""
    return {"capture": capture, "path": file.path, "sha256": file.sha256, "position": position}


def batch_table(capture: str, batches: list[DistinctBatch]) -> pa.Table:
    """tables.LOG_BATCHES, one row a distinct batch."""
    rows = [
        {
            "base_offset": d.batch.base_offset,
            "last_offset": d.batch.last_offset,
            "epoch": d.batch.epoch,
            "base_timestamp_ms": d.batch.base_timestamp_ms,
            "max_timestamp_ms": d.batch.max_timestamp_ms,
            "crc": d.batch.crc,
            "record_count": d.batch.record_count,
            "is_control": d.batch.is_control,
            "codec": d.batch.codec,
            "size_bytes": d.batch.size_bytes,
            "nodes": sorted(d.nodes),
            **provenance(capture, d.file, d.batch.position),
        }
        for d in batches
    ]
    return pa.Table.from_pylist(rows, schema=tables.LOG_BATCHES)


def quarantine_rows(capture: str, file: EvidenceFile, damage: list[Damage]) -> list[dict[str, object]]:
    """tables.QUARANTINE rows for a file's damage, with the raw bytes (at most 1 MiB of each stretch)."""
    if not damage:
        return []
    data = file.read()
    return [
        {
            **provenance(capture, file, d.position),
            "node_id": file.node_id,
            "length_bytes": d.length_bytes,
            "offset": d.offset,
            "reason": d.reason,
            "message": d.describe(file.path),
            "raw": data[d.position : d.position + min(d.length_bytes, MAX_RAW_BYTES)],
        }
        for d in damage
    ]


def file_row(capture: str, file: EvidenceFile, scan: Scan | None, damage: list[Damage]) -> dict[str, object]:
    """The tables.EVIDENCE_FILES row. scan None: a file that is read whole (text) or only registered."""
    note = (scan.note if scan else None) or (damage[0].message if damage else None)
    if file.kind == kinds.METADATA_SEGMENT and scan and scan.batches:
        stem, first = PurePosixPath(file.path).stem, scan.batches[0].base_offset
        named = int(stem) if kinds.is_segment(PurePosixPath(file.path)) else first
        if named != first:
            note = f"the name says base offset {named}, the first batch has {first}; the bytes are trusted"
    is_log = file.kind == kinds.METADATA_SEGMENT and scan is not None and bool(scan.batches)
    quarantined = scan.quarantined_bytes if scan else sum(d.length_bytes for d in damage)
    trailing = scan.trailing_bytes if scan else 0
    read = file.kind not in kinds.NOT_READ
    return {
        "capture": capture,
        "path": file.path,
        "kind": file.kind,
        "sha256": file.sha256,
        "size_bytes": file.size_bytes,
        "node_id": file.node_id,
        "captured_at_ms": file.captured_at_ms,
        "base_offset": scan.batches[0].base_offset if scan and is_log else None,
        "end_offset": scan.batches[-1].last_offset + 1 if scan and is_log else None,
        "status": "quarantined" if quarantined else "note" if note else "ok" if read else "registered",
        "parsed_bytes": file.size_bytes - quarantined - trailing if read else 0,
        "quarantined_bytes": quarantined,
        "trailing_bytes": trailing,
        "note": note,
    }
