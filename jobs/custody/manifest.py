"""The manifest of the captures in a lake."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from evidence.errors import KraftForensicsError
from jobs.lake.lake import Lake
from jobs.provenance.made_from import made_from, receipts

_FILE = ("path", "sha256", "size_bytes", "kind", "node_id")


def manifest(lake: Lake, cluster: str, capture: str | None = None) -> dict[str, Any]:
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
