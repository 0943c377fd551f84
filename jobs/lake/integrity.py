"""What tables were made from, and whether they are still what this program left: by the end of each table's log, by
what the last commit of each stage says of other tables, and by the bytes of small tables (docs/reliability.md).
`verify` (jobs/custody) reads everything.

The input fingerprint in a commit identifies the inputs of a derived table. It is made again only if they changed, or if
another program has changed the table itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from evidence.capture.remote import Remote
from jobs.lake.lake import Lake, Row
from jobs.lake.marks import ChangedMeanwhileError, ChangedTableError, OtherReleaseError, changed
from jobs.lake.tables import DETECTED, INGESTED, REPLAYED, STAGES

# Raise this when a code change changes what a stage writes.
CODE_VERSION = 42

MOST_HASHED_BYTES = 16 << 20  # of a table, by commands that answer at once
_REMOVED = "its newest commits were removed"
_DERIVED = {"replay": REPLAYED, "detect": DETECTED}


def heads_of(lake: Lake, cluster: str, tables: Iterable[str]) -> dict[str, str]:
    """ChainHead.id by table. Errors: ChangedTableError if another program has changed a table, also if it was put back
    to an earlier version, or if that of another lake is in its place."""
    tables, recorded = list(tables), dict[str, str]()
    for written in STAGES.values():
        if set(tables) & set(written[:-1]):
            recorded |= lake.made(written[-1], cluster).get("beside", {})
    found = {}
    for name, head in zip(tables, lake.storage.answers(lambda name: lake.head(name, cluster), tables), strict=True):
        if head.problem:
            raise changed(lake.root, name, cluster, head.problem)
        if name in recorded and not has_had(lake, name, cluster, head.id, recorded[name]):
            raise changed(lake.root, name, cluster, _REMOVED)
        found[name] = head.id
    return found


def newest_heads(lake: Lake, cluster: str, tables: Iterable[str]) -> dict[str, str]:
    """Like `heads_of`, for tables that something is made from or that are shown. Errors: ChangedTableError, also if a
    table of evidence is older than when histories or findings were made from it."""
    # Before the heads: another run may commit both in between.
    recorded = [lake.made(tables[-1], cluster).get("inputs", {}) for tables in _DERIVED.values()]
    heads = heads_of(lake, cluster, tables)
    for inputs in recorded:
        known = set(INGESTED) & heads.keys() & inputs.keys()
        older = sorted(name for name in known if _version(heads[name]) < _version(inputs[name]))
        # What was made in another lake says nothing of this one: a stage makes it again. Nor does an empty table.
        if older and any(
            _version(head) and has_had(lake, name, cluster, lake.head(name, cluster).id, head)
            for name, head in inputs.items()
        ):
            raise changed(lake.root, older[0], cluster, _REMOVED)
    return heads


def has_had(lake: Lake, name: str, cluster: str, found: str, recorded: str) -> bool:
    """Whether a table with the ChainHead.id `found` is, or was, at the recorded one, as far as its log shows."""
    version = _version(recorded)
    if found == recorded or _version(found) <= version:
        return found == recorded
    links = (str(made.get("link")) for made in lake.marks(name, cluster) if made["mark"]["version"] == version)
    return next(links, recorded.partition(":")[2]).startswith(recorded.partition(":")[2])


def _version(head: str) -> int:
    return int(head.partition(":")[0])


def unchanged_heads(lake: Lake, cluster: str, tables: Iterable[str]) -> dict[str, str] | None:
    """Like `heads_of`; None if another program has changed a table, or the bytes of a small one."""
    try:
        heads = heads_of(lake, cluster, tables)
        require_bytes(lake, cluster, heads)
    except ChangedTableError:
        return None
    return heads


def require_bytes(lake: Lake, cluster: str, tables: Iterable[str]) -> None:
    """Compare the files of tables with the digests in their commits, unless a table is in an object store or has more
    than MOST_HASHED_BYTES. Errors: ChangedTableError."""
    for name in () if isinstance(lake.root, Remote) else tables:
        files = {file.name: file for file in lake.files(name, cluster)}
        if sum(file.size_bytes for file in files.values()) > MOST_HASHED_BYTES:
            continue
        for made in lake.marks(name, cluster):
            for file, digest in made["mark"]["added"].items() if files else ():
                found = files.pop(file, None)
                if found is not None and lake.sha256(name, found.path) != digest:
                    raise changed(lake.root, name, cluster, f"{found.path} has other bytes than were written")
            if not files:
                break


def require_as_written(lake: Lake, cluster: str) -> Iterator[str]:
    """Check a cluster's tables before a command shows them. Yields a warning for each stage that has not run, or whose
    tables are older than what they are made from. Errors: ChangedTableError if another program has changed a table."""
    every = (*INGESTED, *REPLAYED, *DETECTED)
    for name, is_there in zip(every, lake.storage.answers(lake.has, every), strict=True):
        if not is_there:
            raise changed(lake.root, name, cluster, "the table is missing")
    # Before the heads: another run may commit both in between.
    made = {stage: lake.made(tables[-1], cluster) for stage, tables in _DERIVED.items()}
    heads = newest_heads(lake, cluster, every)
    require_bytes(lake, cluster, heads)
    for stage, row in made.items():
        if "inputs" not in row:
            yield f"{cluster}: {stage} has not run to its end: run `kraft-forensics {stage}`"
        last, recorded = _DERIVED[stage][-1], {**row.get("inputs", {}), **row.get("beside", {})}
        for name in recorded:
            if not has_had(lake, name, cluster, heads[name], recorded[name]):
                raise changed(lake.root, last, cluster, f"it was made from another {name}")
        if newer := [name for name, head in recorded.items() if heads[name] != head]:
            more = f" and {len(newer) - 1} more tables" if len(newer) > 1 else ""
            yield f"{cluster}: {last} is not of the newest {newer[0]}{more}: run `kraft-forensics {stage}`"


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
    """What jobs/ingest/captures.py:receipt says of each ingest of the cluster's captures, in their order, those of
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
