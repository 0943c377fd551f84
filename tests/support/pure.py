"""The job without Spark: evidence and replay put together by hand, for tests of the pure packages."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from evidence import kinds
from evidence.capture import open_capture
from evidence.decode import read_range, record_row
from evidence.metrics import MetricNames
from evidence.offsets import read_offsets
from evidence.segments import distinct_batches, scan_segment, scan_snapshot
from evidence.text_files import read_properties
from replay.cluster import ClusterState, changes_that_count, log_shape, resolve_cluster
from replay.history import CHANGES, History, build_history

Row = dict[str, Any]


@dataclass(frozen=True)
class Decoded:
    """A capture as rows: batches, records and snapshot records with `data` parsed, offsets, static configs."""

    batches: list[Row]
    records: list[Row]
    snapshots: list[Row]
    offsets: pa.Table
    static: dict[int, dict[str, str]]

    @property
    def snapshot_ends(self) -> list[tuple[int, int]]:
        return sorted({(r["snapshot_end_offset"], r["snapshot_epoch"]) for r in self.snapshots})


def decode(location: Path) -> Decoded:
    """Everything that ingest would write, of one capture."""
    with open_capture(location) as capture:
        segments = [scan_segment(f) for f in capture.files if f.kind == kinds.METADATA_SEGMENT]
        batches = distinct_batches(segments)
        records = [row for d in batches for row in _rows(d.file, d.batch.position, d.batch.size_bytes)]
        snapshots = []
        seen = set()
        for segment in (scan_snapshot(f) for f in capture.files if f.kind == kinds.METADATA_CHECKPOINT):
            end, epoch = kinds.checkpoint_name(Path(segment.file.path).name)
            if (end, epoch) not in seen:
                seen.add((end, epoch))
                added = {"snapshot_end_offset": end, "snapshot_epoch": epoch}
                for batch in segment.scan.batches:
                    snapshots += [{**added, **r} for r in _rows(segment.file, batch.position, batch.size_bytes)]
        static = defaultdict(dict)
        for file in capture.files:
            if file.kind == kinds.SERVER_PROPERTIES:
                static[file.node_id] |= read_properties(file.local.read_bytes())
        offsets, _ = read_offsets(capture.name, capture.files, MetricNames(), 5000)
        shapes = [
            {
                "epoch": d.batch.epoch,
                "base_offset": d.batch.base_offset,
                "last_offset": d.batch.last_offset,
                "crc": d.batch.crc,
                "path": d.file.path,
                "nodes": sorted(d.nodes),
            }
            for d in batches
        ]
        return Decoded(shapes, records, snapshots, offsets, dict(static))


def _rows(file: Any, position: int, size: int) -> list[Row]:
    data = file.local.read_bytes()
    items = read_range(data, position, position + size)
    rows = [record_row("test", file.path, file.sha256, batch, item) for batch, item in items]
    return [{**row, "data": json.loads(row["payload"])} for row in rows]


def cluster_state(decoded: Decoded) -> ClusterState:
    shape = log_shape(decoded.batches, decoded.snapshot_ends)
    return resolve_cluster(shape, decoded.records, decoded.snapshots, decoded.static)


def changes_of(decoded: Decoded, state: ClusterState) -> pa.Table:
    """replay.history.CHANGES rows that count: of the surviving log, and of the snapshots that runs start from."""
    cut = set(state.shape.truncated)
    bases = {run.snapshot for run in state.shape.runs}
    rows = [_change(r, r["offset"], "log") for r in decoded.records if (r["epoch"], r["batch_base_offset"]) not in cut]
    rows += [
        _change(r, r["snapshot_end_offset"] - 1, "checkpoint")
        for r in decoded.snapshots
        if (r["snapshot_end_offset"], r["snapshot_epoch"]) in bases
    ]
    table = pa.Table.from_pylist([r for r in rows if r], schema=CHANGES)
    return changes_that_count(table, state)


def _change(record: Row, offset: int, origin: str) -> Row | None:
    if record["partition_change"] is None:
        return None
    full = record["type"] == "PARTITION_RECORD"
    row = {**record, **record["partition_change"], "offset": offset, "controller_epoch": record["epoch"]}
    return {**row, "full": full, "origin": origin}


def history_of(decoded: Decoded) -> tuple[History, ClusterState]:
    state = cluster_state(decoded)
    return build_history(changes_of(decoded, state), state.topic_events, state.context), state
