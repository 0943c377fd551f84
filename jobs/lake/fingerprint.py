"""The input fingerprint in a commit identifies the inputs of a derived table. It is remade only if they changed, or if
another program has changed the table itself (jobs/lake/chain.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from jobs.lake.chain import changed
from jobs.lake.conflicts import ChangedMeanwhileError
from jobs.lake.lake import Lake
from jobs.lake.rewritten import adopt
from jobs.lake.tables import INGESTED
from jobs.lake.versions import newer

Row = dict[str, Any]

# Raise this when a code change changes what a stage writes.
CODE_VERSION = 11


def input_fingerprint(lake: Lake, cluster: str, inputs: Sequence[str], parameters: Sequence[object] = ()) -> str:
    """Hash of a stage's inputs: the newest commit of the cluster's rows of each table, the stage's parameters and
    CODE_VERSION. Errors: ChangedTableError if another program has changed one of the tables."""
    heads = heads_of(lake, cluster, inputs)
    text = "|".join([f"{name}@{head}" for name, head in heads.items()] + [str(p) for p in (*parameters, CODE_VERSION)])
    return sha256(text.encode()).hexdigest()[:16]


def heads_of(lake: Lake, cluster: str, tables: Iterable[str]) -> dict[str, str]:
    """Head.id by table. Errors: ChangedTableError, also if evidence was put back to an earlier version."""
    ingested = lake.made(INGESTED[-1], cluster).get("beside", {})
    found = {}
    for name in tables:
        head = lake.head(name, cluster)
        if head.problem and not (name in INGESTED and adopt(lake, name, cluster)):
            raise changed(lake.root, name, cluster, head.problem)
        head = lake.head(name, cluster) if head.problem else head
        if name in ingested and is_older(head.id, ingested[name]):
            raise changed(lake.root, name, cluster, "its newest commits were removed")
        found[name] = head.id
    return found


def is_older(found: str, recorded: str) -> bool:
    """Whether a Head.id is that of an earlier commit than the recorded one, or of another one in its place."""
    older, newer = (int(head.partition(":")[0]) for head in (found, recorded))
    return older < newer or (older == newer and found != recorded)


def completion(lake: Lake, cluster: str, inputs: Sequence[str], written: Sequence[str], fingerprint: str) -> Row:
    """What the last commit of a stage says: what the tables were made from, and the tables that were written before.
    written: the stage's tables, the last one last."""
    return {
        "input_fingerprint": fingerprint,
        "code_version": CODE_VERSION,
        "inputs": heads_of(lake, cluster, inputs),
        "beside": heads_of(lake, cluster, written[:-1]),
    }


def is_up_to_date(lake: Lake, cluster: str, written: Sequence[str], fingerprint: str) -> bool:
    """Whether a stage's tables were made from these inputs, and are as it left them. written: as in `completion`.
    Errors: NewerLakeError if the stage of a newer release made them."""
    last = lake.head(written[-1], cluster)
    if (code := last.made.get("code_version", 0)) > CODE_VERSION:
        raise newer(lake.root, last.made["mark"]["writer"], f"code {code}", f"{CODE_VERSION}")
    if last.problem or last.made.get("input_fingerprint") != fingerprint:
        return False
    heads = {name: lake.head(name, cluster) for name in written[:-1]}
    beside = {name: head.id for name, head in heads.items()}
    return not any(head.problem for head in heads.values()) and last.made.get("beside") == beside


def require_unchanged(
    before: str, lake: Lake, cluster: str, inputs: Sequence[str], parameters: Sequence[object] = ()
) -> None:
    """Check, before results are committed, that all of them were worked out from the same rows. before: the
    fingerprint from before the first row was read. Errors: ChangedMeanwhileError."""
    if input_fingerprint(lake, cluster, inputs, parameters) != before:
        raise ChangedMeanwhileError(f"{lake.root}: another run has changed the evidence of {cluster} meanwhile.")
