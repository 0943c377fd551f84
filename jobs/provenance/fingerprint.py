"""The input fingerprint in a commit identifies the inputs of a derived table. It is remade only if they changed, or if
another program has changed the table itself (jobs/lake/chain.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from jobs.lake.chain import changed, metadata_of
from jobs.lake.conflicts import ChangedMeanwhileError
from jobs.lake.lake import Lake
from jobs.lake.storage import at_once
from jobs.lake.tables import CLUSTER_ID, DETECTED, INGESTED, REPLAYED, STAGES
from jobs.lake.versions import newer
from jobs.provenance.rewritten import adopt, changed_file, is_rewritten

Row = dict[str, Any]

# Raise this when a code change changes what a stage writes.
CODE_VERSION = 17
_REMOVED = "its newest commits were removed"


def input_fingerprint(lake: Lake, cluster: str, inputs: Sequence[str], parameters: Sequence[object] = ()) -> str:
    """Hash of a stage's inputs: the newest commit of the cluster's rows of each table, the stage's parameters and
    CODE_VERSION. Errors: ChangedTableError if another program has changed one of the tables."""
    recorded = recorded_inputs(lake, cluster)
    heads = heads_of(lake, cluster, inputs)
    require_newest_evidence(lake, cluster, heads, recorded)
    text = "|".join([f"{name}@{head}" for name, head in heads.items()] + [str(p) for p in (*parameters, CODE_VERSION)])
    return sha256(text.encode()).hexdigest()[:16]


def heads_of(lake: Lake, cluster: str, tables: Iterable[str], adopting: bool = True) -> dict[str, str]:
    """Head.id by table. adopting: evidence that another program has rewritten with the same rows gets a commit that
    says so; False: nothing is written. Errors: ChangedTableError, also if a table was put back to an earlier version,
    or if that of another lake is in its place."""
    tables, recorded = list(tables), dict[str, str]()
    for written in STAGES.values():
        if set(tables) & set(written[:-1]):
            recorded |= lake.made(written[-1], cluster).get("beside", {})
    found = {}
    for name, head in zip(tables, at_once(lambda name: lake.head(name, cluster), tables), strict=True):
        if head.problem and not (name in INGESTED and _has_same_rows(lake, name, cluster, adopting)):
            raise changed(lake.root, name, cluster, head.problem)
        head = lake.head(name, cluster) if head.problem else head
        if name in recorded and not goes_on_from(lake, name, cluster, head.id, recorded[name]):
            raise changed(lake.root, name, cluster, _REMOVED)
        found[name] = head.id
    return found


def _has_same_rows(lake: Lake, name: str, cluster: str, adopting: bool) -> bool:
    return adopt(lake, name, cluster) if adopting else is_rewritten(lake, name, cluster)


def is_older(found: str, recorded: str) -> bool:
    """Whether a Head.id is that of an earlier commit than the recorded one, or of another one in its place."""
    older, newer = _version(found), _version(recorded)
    return older < newer or (older == newer and found != recorded)


def goes_on_from(lake: Lake, name: str, cluster: str, found: str, recorded: str) -> bool:
    """Whether a table with this Head.id has had the recorded one, as far as its log shows."""
    if found == recorded or is_older(found, recorded):
        return found == recorded
    version, _, link = recorded.partition(":")
    for commit in lake.commits(name):
        made = metadata_of(commit)
        if made.get(CLUSTER_ID) == cluster and str(made.get("mark", {}).get("version")) == version:
            return not link or str(made.get("link")).startswith(link)
    return True


def recorded_inputs(lake: Lake, cluster: str) -> list[dict[str, str]]:
    """Head.id by table that histories and findings were made from. Read before the heads that it is compared with:
    another run may commit both in between."""
    return [lake.made(last, cluster).get("inputs", {}) for last in (REPLAYED[-1], DETECTED[-1])]


def require_newest_evidence(
    lake: Lake, cluster: str, heads: Mapping[str, str], recorded: Iterable[Mapping[str, str]]
) -> None:
    """Check that no table of evidence is at an earlier version than when histories or findings were made from it.
    heads: Head.id by table; recorded: of recorded_inputs. Errors: ChangedTableError."""
    for inputs in recorded:
        known = set(INGESTED) & set(heads) & set(inputs)
        older = sorted(name for name in known if _version(heads[name]) < _version(inputs[name]))
        # What is in another lake says nothing of this one: a stage makes it again.
        if older and any(is_had(lake, name, cluster, lake.head(name, cluster).id, inputs[name]) for name in inputs):
            raise changed(lake.root, older[0], cluster, _REMOVED)


def is_had(lake: Lake, name: str, cluster: str, found: str, recorded: str) -> bool:
    """Whether a table with this Head.id certainly is, or was, at the recorded one. An empty table says nothing."""
    return _version(recorded) > 0 and goes_on_from(lake, name, cluster, found, recorded)


def _version(head: str) -> int:
    return int(head.partition(":")[0])


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
    Errors: NewerLakeError if the stage of a newer release made them."""
    last = lake.head(written[-1], cluster)
    if (code := last.made.get("code_version", 0)) > CODE_VERSION:
        raise newer(lake.root, last.made["mark"]["writer"], f"code {code}", f"{CODE_VERSION}")
    if last.problem or last.made.get("input_fingerprint") != fingerprint:
        return False
    heads = {name: lake.head(name, cluster) for name in written[:-1]}
    beside = {name: head.id for name, head in heads.items()}
    if any(head.problem for head in heads.values()) or last.made.get("beside") != beside:
        return False
    return not any(changed_file(lake, name, cluster) for name in written)


def is_as_written(lake: Lake, cluster: str, name: str, last: str) -> bool:
    """Whether a table can be extended: it is what this program left in this lake. last: the table that its stage writes
    last."""
    head, recorded = lake.head(name, cluster), lake.made(last, cluster).get("beside", {}).get(name)
    if head.problem or changed_file(lake, name, cluster):
        return False
    return recorded is None or goes_on_from(lake, name, cluster, head.id, recorded)


def require_bytes(lake: Lake, cluster: str, tables: Iterable[str]) -> None:
    """Check the files of small tables (jobs/provenance/rewritten.py:changed_file). Errors: ChangedTableError."""
    for name in tables:
        if file := changed_file(lake, name, cluster):
            raise changed(lake.root, name, cluster, f"{file} has other bytes than were written")


def require_unchanged(
    before: str, lake: Lake, cluster: str, inputs: Sequence[str], parameters: Sequence[object] = ()
) -> None:
    """Check, before results are committed, that all of them were worked out from the same rows. before: the
    fingerprint from before the first row was read. Errors: ChangedMeanwhileError."""
    if input_fingerprint(lake, cluster, inputs, parameters) != before:
        raise ChangedMeanwhileError(f"{lake.root}: another run has changed the evidence of {cluster} meanwhile.")
