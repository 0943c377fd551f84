"""Ingest: a capture's files -> evidence tables. Idempotent: what is there already is not written again.

Segments are framed once on the driver; records are decoded once for each distinct batch, however many nodes hold it,
by Spark tasks over byte ranges. evidence_files is written last: a capture that was cut off is simply ingested again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evidence import kinds, tables
from evidence.capture import Capture, open_capture
from evidence.decode import ByteRange, byte_ranges, read_range, record_row
from evidence.errors import Damage
from evidence.offsets import read_offsets
from evidence.records import Record, read_records
from evidence.redaction import REDACTED, is_secret_config
from evidence.segments import (
    MAX_RAW_BYTES,
    DistinctBatch,
    Segment,
    batch_table,
    distinct_batches,
    file_row,
    provenance,
    quarantine_rows,
    scan_segment,
    scan_snapshot,
)
from evidence.text_files import read_properties
from jobs.lake import Lake, spark_schema
from jobs.settings import Settings
from jobs.tables import STATIC_CONFIGS, TABLES
from replay.log import COMMITTED, UNCOMMITTED, commit_states

Progress = Callable[[str], None]

_DAMAGE = pa.struct(
    [
        pa.field("position", pa.int64()),
        pa.field("length_bytes", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("message", pa.string()),
        pa.field("raw", pa.binary()),
    ]
)
_DECODED = pa.schema([*tables.SNAPSHOT_RECORDS, pa.field("node_id", pa.int32()), pa.field("damage", _DAMAGE)])
_CHUNK_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Ingested:
    """What one capture brought: rows added by table, the quarantine's messages, archive members that were refused."""

    capture: str
    cluster_id: str
    added: dict[str, int]
    quarantined: list[str]
    refused: list[tuple[str, str]]
    has_metadata_log: bool


@dataclass(frozen=True, slots=True)
class _Scanned:
    segments: list[Segment]
    snapshots: list[Segment]
    batches: list[DistinctBatch]


def ingest(lake: Lake, location: Path, settings: Settings, progress: Progress) -> Ingested:
    """Ingest one capture. Errors: CaptureError for a capture that cannot be used as a whole (see open_capture)."""
    progress(f"opening {location}")
    with open_capture(location) as capture:
        cluster = capture.cluster_id or f"unknown-{capture.name}"
        fresh = not lake.exists()
        lake.create()
        keys = {(f.path, f.sha256) for f in capture.files}
        known = [] if fresh else lake.rows("evidence_files", cluster, ("capture", "path", "sha256"))
        if keys <= {(r["path"], r["sha256"]) for r in known if r["capture"] == capture.name}:
            return Ingested(capture.name, cluster, {}, [], capture.refused, True)
        return _ingest_new(lake, capture, cluster, settings, progress)


def _ingest_new(lake: Lake, capture: Capture, cluster: str, settings: Settings, progress: Progress) -> Ingested:
    progress(f"{capture.name}: framing metadata logs")
    scanned = _scan(capture)
    offsets, damage = read_offsets(
        capture.name, capture.files, settings.metrics.names(), settings.evidence.snapshot_duration_ms
    )
    scans = {s.file.path: s.scan for s in (*scanned.segments, *scanned.snapshots)}
    damage |= {path: scan.damage for path, scan in scans.items() if scan.damage}
    quarantined = [row for f in capture.files for row in quarantine_rows(capture.name, f, damage.get(f.path, []))]
    batches = _write_batches(lake, capture, cluster, scanned)
    progress(f"{capture.name}: decoding records")
    added, bad = _write_records(lake, capture, cluster, scanned, batches)
    progress(f"{capture.name}: writing log-end offsets")
    added["log_end_offsets"] = lake.append_new("log_end_offsets", lake.frame("log_end_offsets", cluster, offsets))
    configs = pa.Table.from_pylist(list(_static_configs(capture)), schema=STATIC_CONFIGS)
    added["static_configs"] = lake.append_new("static_configs", lake.frame("static_configs", cluster, configs))
    quarantined += bad
    if quarantined:
        table = pa.Table.from_pylist(quarantined, schema=tables.QUARANTINE)
        added["quarantine"] = lake.append_new("quarantine", lake.frame("quarantine", cluster, table))
    rows = [file_row(capture.name, f, scans.get(f.path), damage.get(f.path, [])) for f in capture.files]
    files = lake.frame("evidence_files", cluster, pa.Table.from_pylist(rows, schema=tables.EVIDENCE_FILES))
    added["evidence_files"] = lake.append_new("evidence_files", files)
    return Ingested(
        capture.name, cluster, added, [str(r["message"]) for r in quarantined], capture.refused, bool(scanned.batches)
    )


def _scan(capture: Capture) -> _Scanned:
    segments = [scan_segment(f) for f in capture.files if f.kind == kinds.METADATA_SEGMENT]
    snapshots = [scan_snapshot(f) for f in capture.files if f.kind == kinds.METADATA_CHECKPOINT]
    return _Scanned(segments, snapshots, distinct_batches(segments))


def voters_of(batches: list[DistinctBatch]) -> frozenset[int]:
    """The newest voter set that the log names (KRaftVotersRecord, else LeaderChangeMessage)."""
    newest: frozenset[int] = frozenset()
    for entry in batches:
        if not entry.batch.is_control:
            continue
        for record in read_records(entry.file.read(), entry.batch):
            if isinstance(record, Record) and record.type in ("KRAFT_VOTERS", "LEADER_CHANGE"):
                newest = frozenset(v["voterId"] for v in record.data.get("voters", [])) or newest
    return newest


def _write_batches(lake: Lake, capture: Capture, cluster: str, scanned: _Scanned) -> DataFrame:
    """Merge the batches into log_batches; returns (epoch, base_offset, crc, commit_state) of all of the cluster's."""
    old = {_batch_key(r): r for r in lake.rows("log_batches", cluster)}
    merged = dict(old)
    for row in batch_table(capture.name, scanned.batches).to_pylist():
        before = old.get(_batch_key(row))
        merged[_batch_key(row)] = {**before, "nodes": sorted({*row["nodes"], *before["nodes"]})} if before else row
    rows = [merged[key] for key in sorted(merged)]
    judged = _commit_states(rows, scanned)
    for key, state in zip(sorted(merged), judged, strict=True):
        # What was once known to be committed stays so, whatever a later capture leaves out.
        known = key in old and old[key]["commit_state"] == COMMITTED and state != UNCOMMITTED
        merged[key] = {**merged[key], "commit_state": COMMITTED if known else state}
    rows = [merged[key] for key in sorted(merged)]
    schema = pa.schema([f for f in TABLES["log_batches"].schema if f.name != "cluster_id"])
    frame = lake.frame("log_batches", cluster, pa.Table.from_pylist(rows, schema=schema))
    keys = [F.col("epoch"), F.col("base_offset").alias("batch_base_offset"), F.col("crc").alias("batch_crc")]
    states = frame.select("cluster_id", *keys, "commit_state")
    if rows:
        lake.merge("log_batches", frame, ("nodes", "commit_state"))
    if any(merged[key]["commit_state"] != before["commit_state"] for key, before in old.items()):
        lake.update("metadata_records", states, ("epoch", "batch_base_offset", "batch_crc"), ("commit_state",))
    return states.drop("cluster_id")


def _batch_key(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["epoch"], row["base_offset"], row["crc"]


def _commit_states(rows: list[dict[str, Any]], scanned: _Scanned) -> list[str]:
    """The state of every batch, from who holds it and from this capture's snapshots and voter sets."""
    proven = max((e for s in scanned.snapshots if s.scan.batches and (e := _snapshot_end(s)) is not None), default=0)
    names = ("epoch", "base_offset", "last_offset")
    epoch, base, last = (np.array([r[n] for r in rows], dtype=np.int64) for n in names)
    return commit_states(epoch, base, last, [r["nodes"] for r in rows], voters_of(scanned.batches), proven)


def _snapshot_end(snapshot: Segment) -> int | None:
    name = kinds.checkpoint_name(Path(snapshot.file.path).name)
    return name[0] if name else None


def _write_records(
    lake: Lake, capture: Capture, cluster: str, scanned: _Scanned, batches: DataFrame
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Decode and append metadata_records and snapshot_records; returns the counts and the quarantine rows."""
    decoded = _decode(lake, capture, scanned)
    if decoded is None:
        return {}, []
    decoded = decoded.persist()
    bad = decoded.where("damage is not null").select("capture", "path", "sha256", "node_id", "damage.*")
    rows: list[dict[str, Any]] = bad.toArrow().to_pylist()
    good = decoded.where("damage is null").select("*", F.lit(cluster).alias("cluster_id"))
    records = good.where("snapshot_end_offset is null").join(
        F.broadcast(batches), ["epoch", "batch_base_offset", "batch_crc"], "left"
    )
    # A snapshot with a record that cannot be decoded is no whole state.
    broken = sorted({row["sha256"] for row in rows})
    snapshots = good.where("snapshot_end_offset is not null").where(~F.col("sha256").isin(broken))
    added = {
        "metadata_records": lake.append_new("metadata_records", records),
        "snapshot_records": lake.append_new("snapshot_records", snapshots),
    }
    decoded.unpersist()
    return added, rows


def _decode(lake: Lake, capture: Capture, scanned: _Scanned) -> DataFrame | None:
    work = [_work(capture.name, r, None, None) for r in byte_ranges(scanned.batches)]
    seen: set[str] = set()
    for snapshot in scanned.snapshots:
        name = kinds.checkpoint_name(Path(snapshot.file.path).name)
        if snapshot.scan.batches and name and snapshot.file.sha256 not in seen:
            seen.add(snapshot.file.sha256)
            single = [DistinctBatch(b, snapshot.file) for b in snapshot.scan.batches]
            work += [_work(capture.name, r, *name) for r in byte_ranges(single)]
    if not work:
        return None
    spread = lake.spark.sparkContext.defaultParallelism
    frame = lake.spark.createDataFrame(pa.Table.from_pylist(work)).repartition(min(len(work), 4 * spread))
    return frame.mapInArrow(_decode_ranges, spark_schema(_DECODED))


def _work(capture: str, entry: ByteRange, end_offset: int | None, epoch: int | None) -> dict[str, Any]:
    columns = {"local": entry.local, "path": entry.path, "sha256": entry.sha256, "start": entry.start, "end": entry.end}
    return {"capture": capture, **columns, "end_offset": -1 if end_offset is None else end_offset, "epoch": epoch or 0}


def _decode_ranges(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The decoding task: byte ranges in, records and damage out (schema _DECODED)."""
    for task in (row for batch in work for row in batch.to_pylist()):
        data = Path(task["local"]).read_bytes()
        place = {k: task[k] for k in ("capture", "path", "sha256")}
        of_snapshot = task["end_offset"] >= 0
        snapshot = {
            "snapshot_end_offset": task["end_offset"] if of_snapshot else None,
            "snapshot_epoch": task["epoch"] if of_snapshot else None,
        }
        rows: list[dict[str, Any]] = []
        for batch, item in read_range(data, task["start"], task["end"]):
            if isinstance(item, Damage):
                rows.append({**place, "damage": _damage(data, task["path"], item)})
            else:
                rows.append({**snapshot, **record_row(task["capture"], task["path"], task["sha256"], batch, item)})
            if len(rows) >= _CHUNK_ROWS:
                yield from pa.Table.from_pylist(rows, schema=_DECODED).to_batches()
                rows = []
        yield from pa.Table.from_pylist(rows, schema=_DECODED).to_batches()


def _damage(data: bytes, path: str, damage: Damage) -> dict[str, Any]:
    return {
        "position": damage.position,
        "length_bytes": damage.length_bytes,
        "offset": damage.offset,
        "reason": damage.reason,
        "message": damage.describe(path),
        "raw": data[damage.position : damage.position + min(damage.length_bytes, MAX_RAW_BYTES)],
    }


def _static_configs(capture: Capture) -> Iterator[dict[str, Any]]:
    for file in capture.files:
        if file.kind != kinds.SERVER_PROPERTIES or file.node_id is None:
            continue
        for name, value in read_properties(file.read()).items():
            shown = REDACTED if is_secret_config(name) else value
            yield {"node_id": file.node_id, "name": name, "value": shown, **provenance(capture.name, file, 0)}
