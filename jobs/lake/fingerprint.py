"""What tables and documents were made from.

The input fingerprint in a commit identifies the inputs of a derived table. It is remade only if they changed, or if
another program has changed the table itself (jobs/lake/integrity.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from jobs.lake.conflicts import ChangedMeanwhileError
from jobs.lake.integrity import heads_of, newest_heads, unchanged_heads
from jobs.lake.lake import Lake
from jobs.lake.marks import OtherReleaseError
from jobs.lake.tables import DETECTED, INGESTED, REPLAYED

Row = dict[str, Any]

# Raise this when a code change changes what a stage writes.
CODE_VERSION = 29


def input_fingerprint(lake: Lake, cluster: str, inputs: Sequence[str], parameters: Sequence[object] = ()) -> str:
    """Hash of a stage's inputs: the newest commit of the cluster's rows of each table, the stage's parameters and
    CODE_VERSION. Errors: ChangedTableError if another program has changed one of the tables."""
    heads = newest_heads(lake, cluster, inputs)
    text = "|".join([f"{name}@{head}" for name, head in heads.items()] + [str(p) for p in (*parameters, CODE_VERSION)])
    return sha256(text.encode()).hexdigest()[:16]


def completion(lake: Lake, cluster: str, inputs: Sequence[str], written: Sequence[str], fingerprint: str) -> Row:
    """What the last commit of a stage says: what the tables were made from, and the tables that were written before.
    written: the stage's tables, the last one last."""
    return {
        "input_fingerprint": fingerprint,
        "code_version": CODE_VERSION,
        "inputs": heads_of(lake, cluster, inputs),
        "beside": {name: lake.head(name, cluster).id for name in written[:-1]},
    }


def is_up_to_date(lake: Lake, cluster: str, written: Sequence[str], fingerprint: str) -> bool:
    """Whether a stage's tables were made from these inputs, and are as it left them. written: as in `completion`.
    Errors: OtherReleaseError if the stage of a newer release made them."""
    made = lake.made(written[-1], cluster)
    if (code := made.get("code_version", 0)) > CODE_VERSION:
        raise OtherReleaseError(
            f"{lake.root}: {written[-1]} of {cluster} is of a newer release ({made['mark']['writer']}, code {code}; "
            f"this program has {CODE_VERSION}). Use that release."
        )
    if made.get("input_fingerprint") != fingerprint:
        return False
    heads = unchanged_heads(lake, cluster, written)
    return heads is not None and made.get("beside") == {name: heads[name] for name in written[:-1]}


def require_unchanged(
    before: str, lake: Lake, cluster: str, inputs: Sequence[str], parameters: Sequence[object] = ()
) -> None:
    """Check, before results are committed, that all of them were worked out from the same rows. before: the
    fingerprint from before the first row was read. Errors: ChangedMeanwhileError."""
    if input_fingerprint(lake, cluster, inputs, parameters) != before:
        raise ChangedMeanwhileError(f"{lake.root}: another run has changed the evidence of {cluster} meanwhile.")


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
