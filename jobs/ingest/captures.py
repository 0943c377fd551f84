"""What the lake keeps of each capture beside its records: a row of the table `captures`, with what was found in it and
what its manifest says, and in the commit of its files who ingested it, with which version, when, and which files; of an
archive its SHA-256, so that it is not unpacked again."""

import getpass
import json
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from evidence.capture.accounts import provenance
from evidence.capture.archive import is_archive
from evidence.capture.files import Capture, capture_name, sha256_of
from evidence.capture.remote import Location
from evidence.errors import CaptureError
from evidence.tables import CAPTURES
from jobs.config.settings import CustodySettings
from jobs.lake.lake import Lake, Row
from jobs.lake.marks import undisturbed, writer

TABLE = "captures"
_FILE = ("path", "sha256", "size_bytes", "node_id", "captured_at_ms", "last_timestamp_ms")


def manifest_of(capture: Capture) -> Row:
    """The columns that say what the manifest says; empty without a manifest."""
    file, says = capture.manifest_file, capture.manifest
    if says is None or file is None:
        return {}
    values = {n: getattr(says, n) for n in ("kafka_release", "clock_error_ms", "snapshot_duration_ms")}
    return values | provenance(capture.name, file, 0)


@undisturbed
def write_row(lake: Lake, cluster: str, capture: str, files: Iterable[Row], manifest: Row, done: Row) -> int:
    """Write a capture's row in place of the one that it has, before its files are in evidence_files. files: rows of
    EVIDENCE_FILES to be added. done: its `receipt`. Returns how many captures more the table has."""
    known = lake.rows("evidence_files", cluster, _FILE, pc.field("capture") == capture)
    ingested = {"ingested_ms": done["at_ms"], "ingested_with": done["with"]}
    row = {**manifest, **found_in([*known, *files]), **ingested, "capture": capture}
    since, rows = lake.cluster_version(TABLE, cluster), lake.read(TABLE, cluster, CAPTURES.names)
    is_replaced = pc.equal(rows["capture"], capture)
    replaced = rows.filter(is_replaced).to_pylist()
    # A later manifest may have replaced an earlier one of another release: the log may be of both.
    releases = ", ".join(named_releases([row, *replaced])) or None
    new = pa.Table.from_pylist([{**row, "kafka_release": releases}], schema=CAPTURES)
    kept = rows.filter(pc.invert(is_replaced)).cast(CAPTURES)
    lake.put(TABLE, cluster, pa.concat_tables([kept, new]), since=since)
    return 1 - len(replaced)


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


def receipt(capture: Capture, settings: CustodySettings) -> Row:
    """capture: its name; files: their number; digest: see `files_digest`; by: who, by the setting; with: this program;
    at_ms: when, by this machine's clock."""
    return {
        "capture": capture.name,
        "files": len(capture.files),
        "digest": files_digest((f.path, f.sha256, f.size_bytes) for f in capture.files),
        "by": person(settings.ingested_by),
        "with": writer(),
        "at_ms": time.time_ns() // 1_000_000,
    }


def files_digest(files: Iterable[tuple[str, str, int]]) -> str:
    """SHA-256 of the (path, SHA-256, size in bytes) of some files, in the order of their paths."""
    return sha256(json.dumps(sorted(files)).encode()).hexdigest()


def person(pattern: str) -> str | None:
    """The setting custody.ingested_by with {user} and {host} filled in; None if it is empty."""
    user = "unknown"
    with suppress(KeyError, OSError):  # a container may run with a user id that has no name
        user = getpass.getuser()
    return pattern.replace("{user}", user).replace("{host}", socket.gethostname()) or None


def archive_mark(location: Location) -> dict[str, str]:
    """What the commit of the files of this capture says about it; empty if it is no local archive. Errors:
    CaptureError."""
    if not isinstance(location, Path) or not location.is_file() or not is_archive(location):
        return {}
    try:
        return {"archive_sha256": sha256_of(location), "capture": capture_name(location)}
    except OSError as error:
        raise CaptureError(f"{location}: cannot be read: {error.strerror}.") from error


def ingested_as(lake: Lake, mark: dict[str, str]) -> str | None:
    """The cluster that this archive was ingested for; None if it was not, or was forgotten since."""
    if not mark or not lake.exists():
        return None
    forgotten = set[str]()  # clusters that have forgotten it since
    for made in lake.marks("evidence_files"):
        cluster = str(made["cluster_id"])
        if mark["capture"] in made.get("forgotten", {}).get("removed", ()):
            forgotten.add(cluster)
        if mark.items() <= made.items():
            return None if cluster in forgotten else cluster
    return None
