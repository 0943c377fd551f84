"""What a document was made from: the captures' digests, and the newest commit of each table."""

from __future__ import annotations

from typing import Any

from jobs.lake.lake import Lake
from jobs.lake.tables import DETECTED, INGESTED, REPLAYED

Row = dict[str, Any]


def receipts(lake: Lake, cluster: str) -> list[Row]:
    """What jobs/ingest/receipt.py:receipt says of each ingest of the cluster's captures, in their order, those of
    captures left out that were forgotten since (jobs/custody/forget.py)."""
    found: list[Row] = []
    for made in reversed(list(lake.marks(INGESTED[-1], cluster))):
        if "rows_of" in made:
            continue  # it repeats what the commit before it says
        if "forgotten" in made:
            found = [receipt for receipt in found if receipt["capture"] not in made["forgotten"]["removed"]]
        if "ingested" in made:
            found.append(made["ingested"])
    return found


def digest_of(lake: Lake, cluster: str, capture: str) -> str | None:
    """SHA-256 of the list of a capture's files, when it was ingested last; None if it was forgotten since."""
    found: list[str] = [receipt["digest"] for receipt in receipts(lake, cluster) if receipt["capture"] == capture]
    return found[-1] if found else None


def made_from(lake: Lake, cluster: str) -> Row:
    """captures: SHA-256 of the list of each capture's files, by name; tables: version and link of the newest commit of
    each table that has one, as `kraft-forensics verify` checks them (docs/reliability.md)."""
    heads = {name: lake.head(name, cluster) for name in (*INGESTED, *REPLAYED, *DETECTED)}
    return {
        "captures": {receipt["capture"]: receipt["digest"] for receipt in receipts(lake, cluster)},
        "tables": {name: {"version": head.version, "digest": head.link} for name, head in heads.items() if head.link},
    }
