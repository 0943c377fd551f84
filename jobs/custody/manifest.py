"""The manifest of the captures in a lake, and what of a signed one the lake still has.

A manifest, verdict.json and the JSON report name the digest of each ingested capture and the newest commit of each
table. A lake whose chain of digests was made anew does not have these any more, however good the new chain is.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc

from evidence.errors import KraftForensicsError
from jobs.custody.tables import Difference
from jobs.lake.integrity import made_from, receipts
from jobs.lake.lake import Lake, Row
from jobs.lake.tables import CLUSTER_ID, TABLES

_FILE = ("path", "sha256", "size_bytes", "kind", "node_id")


def manifest(lake: Lake, cluster: str, capture: str | None = None) -> Row:
    """Every ingested capture with its files, who ingested it, with which version and when. capture: only this one.
    Errors: KraftForensicsError if there is no such capture."""
    names = [name for name in lake.captures(cluster) if capture in (None, name)]
    if not names:
        raise KraftForensicsError(f"{lake.root}: no capture {capture}; `kraft-forensics manifest` lists all of them")
    done = receipts(lake, cluster)
    captures = []
    for name in names:
        rows = lake.rows("evidence_files", cluster, _FILE, pc.field("capture") == name)
        ingests = [
            {k: v for k, v in receipt.items() if k != "capture"} for receipt in done if receipt["capture"] == name
        ]
        files = sorted(rows, key=lambda row: (row["path"], row["sha256"]))
        captures.append({"capture": name, "ingests": ingests, "files": files})
    return {"cluster_id": cluster, "captures": captures, "tables": made_from(lake, cluster)["tables"]}


def signed_document(file: Path) -> Row | None:
    """The content of a signed file if it says what a lake had; None for any other file."""
    try:
        document = json.loads(file.read_bytes())
    except ValueError:
        return None
    match document.get("made_from", document) if isinstance(document, dict) else None:
        case {"captures": _, "tables": dict()} if CLUSTER_ID in document:
            return document
    return None


def check_signed(lake: Lake, cluster: str, document: Row) -> Iterator[Difference]:
    """What a signed document names and the lake does not have. What was added since is no difference."""
    made_from: Row = document.get("made_from", document)
    has = {(receipt["capture"], receipt["digest"]) for receipt in receipts(lake, cluster)}
    for capture, digest in _captures(made_from):
        if (capture, digest) not in has:
            text = f"{capture}: signed with digest {digest[:16]} of its files, which no ingest of this lake has"
            yield Difference("evidence_files", "not_as_signed", text)
    for name, head in made_from["tables"].items():
        links = {made.get("link") for made in lake.marks(name, cluster)} if name in TABLES else ()
        if head["digest"] not in links:
            text = f"signed at version {head['version']}, digest {head['digest'][:16]}; the table has no such commit"
            yield Difference(name, "not_as_signed", text)


def _captures(made_from: Row) -> list[tuple[str, str]]:
    """(capture, digest of its files): of a manifest one for each ingest."""
    captures = made_from["captures"]
    if isinstance(captures, dict):
        return list(captures.items())
    return [(capture["capture"], ingest["digest"]) for capture in captures for ingest in capture["ingests"]]
