"""Ingest: a capture's files -> evidence tables. Idempotent: rows that are already in the lake are not written again.

The driver frames metadata files once. Of a batch that several nodes hold, one copy is decoded (jobs/ingest/records.py):
first for damage and voter sets, then for each table. evidence_files is written last, so an interrupted ingest is
repeated by ingesting the capture again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evidence import tables
from evidence.broker_logs.read import read_broker_logs
from evidence.capture.accounts import Account, provenance, quarantine_rows
from evidence.capture.files import Capture, EvidenceFile, open_capture, the_cluster
from evidence.capture.static_configs import static_configs
from evidence.metadata_log.rows import work_of
from evidence.metadata_log.scan import Log, file_row, scan_files
from evidence.offsets.read import OffsetTables, read_offsets
from jobs.config.settings import Settings
from jobs.ingest import records
from jobs.ingest.log_batches import write_batches
from jobs.lake.lake import Lake
from jobs.lake.tables import STATIC_CONFIGS

Progress = Callable[[str], None]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of ingesting one capture. added: number of rows by table; quarantined: messages; refused: (archive
    member, reason)."""

    capture: str
    cluster_id: str
    added: dict[str, int]
    quarantined: list[str]
    refused: list[tuple[str, str]]
    has_metadata_log: bool


def ingest(lake: Lake, location: Path, settings: Settings, progress: Progress) -> Ingested:
    """Ingest one capture. Errors: CaptureError if the capture as a whole cannot be used (see open_capture)."""
    progress(f"opening {location}")
    with open_capture(location) as capture:
        return ingest_opened(lake, capture, settings, progress)


def ingest_opened(lake: Lake, capture: Capture, settings: Settings, progress: Progress) -> Ingested:
    """Ingest an open capture. Errors: as `ingest`."""
    fresh = not lake.exists()
    lake.create()
    known = {} if fresh else _known_files(lake, capture.name)
    if {(f.path, f.sha256) for f in capture.files} <= set(known):
        return Ingested(capture.name, next(iter(known.values())), {}, [], capture.refused, True)
    return _ingest_new(lake, capture, settings, progress)


def _known_files(lake: Lake, capture: str) -> dict[tuple[str, str], str]:
    """(path, SHA-256) -> cluster id, for the files ingested under a capture's name."""
    files = lake.read("evidence_files", None, ("path", "sha256", "cluster_id"), pc.field("capture") == capture)
    return {(r["path"], r["sha256"]): r["cluster_id"] for r in files.to_pylist()}


def _ingest_new(lake: Lake, capture: Capture, settings: Settings, progress: Progress) -> Ingested:
    lake.start()
    progress(f"{capture.name}: reading log-end offsets")
    duration_ms = settings.evidence.snapshot_duration_ms
    offsets = read_offsets(capture.name, capture.files, settings.metrics.names(), duration_ms)
    cluster = _cluster_id(capture, offsets)
    progress(f"{capture.name}: framing metadata logs")
    scanned = scan_files(capture.files)
    logs_of_brokers = read_broker_logs(capture.name, capture.files)
    accounts = scanned.accounts | offsets.accounts | logs_of_brokers.accounts
    write = _Writer(lake, cluster)
    progress(f"{capture.name}: decoding records")
    aside = records.read_aside(lake, capture.name, work_of(scanned))
    damage = _with_nodes(records.quarantined(aside), capture.files)
    # A note (damage without bytes) leaves a snapshot complete; a missing record does not.
    broken = {r["sha256"] for r in damage if r["length_bytes"] or r["reason"] == "missing_record"}
    write.added["snapshot_records"] = records.write_snapshots(lake, cluster, capture.name, scanned, broken)
    write.append("quorum_reports", offsets.quorum_reports)
    states = write_batches(lake, capture, cluster, scanned.batches, aside)
    write.added["metadata_records"] = records.write_records(lake, cluster, capture.name, scanned, states)
    progress(f"{capture.name}: writing log-end offsets")
    write.append("log_end_offsets", offsets.log_end_offsets)
    write.append("described_partitions", offsets.described_partitions)
    write.append("broker_log_events", logs_of_brokers.events)
    write.append("node_boots", logs_of_brokers.boots)
    write.append("static_configs", pa.Table.from_pylist(static_configs(capture), schema=STATIC_CONFIGS))
    write.append("captures", pa.Table.from_pylist(_manifest_rows(capture), schema=tables.CAPTURES))
    quarantined = [r for f in capture.files for r in _quarantine(capture.name, f, accounts.get(f.path))] + damage
    write.append("quarantine", pa.Table.from_pylist(quarantined, schema=tables.QUARANTINE))
    logs: dict[str, list[Log]] = defaultdict(list)
    for log in scanned.logs:
        logs[log.file.path].append(log)
    rows = [file_row(capture.name, f, accounts.get(f.path), logs.get(f.path, []), duration_ms) for f in capture.files]
    write.append("evidence_files", pa.Table.from_pylist(rows, schema=tables.EVIDENCE_FILES))
    messages = [str(row["message"]) for row in quarantined]
    has_log = any(log.batches for log in scanned.logs)
    return Ingested(capture.name, cluster, write.added, messages, capture.refused, has_log)


class _Writer:
    """Appends new rows to a cluster's tables and counts them."""

    def __init__(self, lake: Lake, cluster: str) -> None:
        self.lake = lake
        self.cluster = cluster
        self.added: dict[str, int] = {}

    def append(self, name: str, rows: pa.Table) -> None:
        if len(rows):
            self.added[name] = self.lake.append(name, self.cluster, rows)


def _cluster_id(capture: Capture, offsets: OffsetTables) -> str:
    """The cluster id in the capture's files and tool reports. Errors: CaptureError if there are several."""
    reported = offsets.quorum_reports["quorum_cluster_id"].to_pylist()
    named = {name for name in (capture.cluster_id, *reported) if name}
    return the_cluster(named, capture.name) or f"unknown-{capture.name}"


def _quarantine(capture: str, file: EvidenceFile, account: Account | None) -> list[Row]:
    return quarantine_rows(capture, file, account.damage) if account else []


def _with_nodes(rows: list[Row], files: Iterable[EvidenceFile]) -> list[Row]:
    nodes = {f.path: f.node_id for f in files}
    return [{**row, "node_id": nodes.get(row["path"])} for row in rows]


def _manifest_rows(capture: Capture) -> list[Row]:
    file = capture.manifest_file
    if capture.manifest is None or file is None:
        return []
    names = ("kafka_release", "clock_error_ms", "snapshot_duration_ms")
    return [{**{n: getattr(capture.manifest, n) for n in names}, **provenance(capture.name, file, 0)}]
