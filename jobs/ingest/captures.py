"""The table `captures`: one row for each capture, with what was found in it and what its manifest says.

What was found is worked out from the capture's rows of evidence_files, so a lake of an earlier release gets the same
rows (`add_missing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evidence.capture.accounts import provenance
from evidence.capture.files import Capture
from evidence.tables import CAPTURES
from jobs.ingest.receipt import files_digest
from jobs.lake.conflicts import undisturbed
from jobs.lake.lake import Lake
from jobs.lake.tables import APPEND_ONLY, INGESTED
from jobs.provenance.fingerprint import heads_of
from jobs.provenance.made_from import receipts

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
    """Write a capture's row, before its files are in evidence_files. files: rows of EVIDENCE_FILES to be added.
    receipt: of jobs/ingest/receipt.py. Returns how many captures more the table has."""
    known = lake.rows("evidence_files", cluster, _FILE, pc.field("capture") == capture)
    return _write(lake, cluster, {capture: {**manifest, **found_in([*known, *files]), **_ingested(receipt)}})


def add_missing(lake: Lake, cluster: str) -> int:
    """Write the rows that a lake of an earlier release lacks: it had one for each manifest. Returns how many captures
    got one. Errors: ChangedTableError if another program has changed the evidence."""
    complete = lake.read(TABLE, cluster, ("capture",), pc.field("digest").is_valid())["capture"]
    missing = sorted(lake.captures(cluster).keys() - set(complete.to_pylist()))
    if not missing:
        return 0
    heads_of(lake, cluster, INGESTED)
    wanted = pc.field("capture").isin(missing)
    files = lake.rows("evidence_files", cluster, ("capture", *_FILE), wanted)
    manifests = {row["capture"]: row for row in lake.rows(TABLE, cluster, ("capture", *_OF_MANIFEST), wanted)}
    done = {receipt["capture"]: receipt for receipt in receipts(lake, cluster)}
    rows = {
        name: {
            **manifests.get(name, {}),
            **found_in(file for file in files if file["capture"] == name),
            **_ingested(done.get(name, {})),
        }
        for name in missing
    }
    _write(lake, cluster, rows)
    return len(rows)


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


def _ingested(receipt: Row) -> Row:
    return {"ingested_ms": receipt.get("at_ms"), "ingested_with": receipt.get("with")}


def _write(lake: Lake, cluster: str, rows: Mapping[str, Row]) -> int:
    """Write the rows of some captures, by name, in place of those that they have. Returns how many had none."""

    def once() -> int:
        since, others = lake.cluster_version(TABLE, cluster), lake.read(TABLE, cluster, CAPTURES.names)
        is_replaced = pc.is_in(others["capture"], value_set=pa.array(rows))
        kept, replaced = others.filter(pc.invert(is_replaced)), others.filter(is_replaced).to_pylist()
        # A later manifest may have replaced an earlier one of another release: the log may be of both.
        named = {
            name: ", ".join(named_releases([row, *(old for old in replaced if old["capture"] == name)])) or None
            for name, row in rows.items()
        }
        new = pa.Table.from_pylist(
            [{**row, "capture": name, "kafka_release": named[name]} for name, row in rows.items()], schema=CAPTURES
        )
        table = lake.delta(TABLE)
        if table.metadata().configuration.get(APPEND_ONLY) == "true":  # made by an earlier release
            table.alter.set_table_properties({APPEND_ONLY: "false"})
        lake.put(TABLE, cluster, pa.concat_tables([kept.cast(CAPTURES), new]), since=since)
        return len(new) - len(set(others["capture"].to_pylist()) & rows.keys())

    return undisturbed(once)


def named_releases(rows: Iterable[Row]) -> list[str]:
    """The releases that the manifests of these captures named, sorted. rows: with kafka_release."""
    return sorted({name for row in rows for name in (row.get("kafka_release") or "").split(", ") if name})
