"""The table `captures`: one row for each capture, with what was found in it and what its manifest says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evidence.capture.accounts import provenance
from evidence.capture.files import Capture
from evidence.tables import CAPTURES
from jobs.ingest.receipt import files_digest
from jobs.lake.lake import Lake
from jobs.lake.marks import undisturbed

Row = dict[str, Any]
TABLE = "captures"
_FILE = ("path", "sha256", "size_bytes", "node_id", "captured_at_ms", "last_timestamp_ms")
_OF_MANIFEST = ("kafka_release", "clock_error_ms", "snapshot_duration_ms", "path", "sha256", "position")


def manifest_of(capture: Capture) -> Row:
    """The columns that say what the manifest says; empty without a manifest."""
    file = capture.manifest_file
    if capture.manifest is None or file is None:
        return {}
    values = {name: getattr(capture.manifest, name) for name in _OF_MANIFEST[:3]}
    return values | {name: value for name, value in provenance(capture.name, file, 0).items() if name in _OF_MANIFEST}


def write_row(lake: Lake, cluster: str, capture: str, files: Iterable[Row], manifest: Row, receipt: Row) -> int:
    """Write a capture's row in place of the one that it has, before its files are in evidence_files. files: rows of
    EVIDENCE_FILES to be added. receipt: of jobs/ingest/receipt.py. Returns how many captures more the table has."""
    known = lake.rows("evidence_files", cluster, _FILE, pc.field("capture") == capture)
    ingested = {"ingested_ms": receipt["at_ms"], "ingested_with": receipt["with"]}
    row = {**manifest, **found_in([*known, *files]), **ingested, "capture": capture}

    def once() -> int:
        since, rows = lake.cluster_version(TABLE, cluster), lake.read(TABLE, cluster, CAPTURES.names)
        is_replaced = pc.equal(rows["capture"], capture)
        replaced = rows.filter(is_replaced).to_pylist()
        # A later manifest may have replaced an earlier one of another release: the log may be of both.
        releases = ", ".join(named_releases([row, *replaced])) or None
        new = pa.Table.from_pylist([{**row, "kafka_release": releases}], schema=CAPTURES)
        kept = rows.filter(pc.invert(is_replaced)).cast(CAPTURES)
        lake.put(TABLE, cluster, pa.concat_tables([kept, new]), since=since)
        return 1 - len(replaced)

    return undisturbed(once)


def found_in(files: Iterable[Row]) -> Row:
    """What a capture's files show. files: of evidence_files; one that was given twice counts once."""
    of = {(file["path"], file["sha256"]): file for file in files}.values()
    captured = [file["captured_at_ms"] for file in of if file["captured_at_ms"] is not None]
    logged = [file["last_timestamp_ms"] for file in of if file["last_timestamp_ms"] is not None]
    return {
        "files": len(of),
        "size_bytes": sum(file["size_bytes"] for file in of),
        "digest": files_digest((file["path"], file["sha256"], file["size_bytes"]) for file in of),
        "nodes": sorted({file["node_id"] for file in of} - {None}),
        "first_captured_ms": min(captured, default=None),
        "last_captured_ms": max(captured, default=None),
        "last_timestamp_ms": max(logged, default=None),
    }


def named_releases(rows: Iterable[Row]) -> list[str]:
    """The releases that the manifests of these captures named, sorted. rows: with kafka_release."""
    return sorted({name for row in rows for name in (row.get("kafka_release") or "").split(", ") if name})
