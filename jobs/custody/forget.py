"""Forget a capture: remove what only that capture brought, and make everything that follows from it again.

A row of the lake names the capture that brought it first. Whether another capture brought it, too, only that capture's
bytes can show: it is removed and ingested again. The commit of `evidence_files` comes first and says what is being
forgotten, so a `forget` that was cut off goes on when it is repeated.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from evidence import kinds
from evidence.capture.files import capture_name, open_capture
from evidence.capture.remote import Location
from evidence.errors import KraftForensicsError
from jobs.config.settings import Settings
from jobs.ingest.captures import files_digest, person
from jobs.ingest.stage import ingest
from jobs.lake.data_files import write_file
from jobs.lake.integrity import heads_of, receipts
from jobs.lake.lake import Lake
from jobs.lake.marks import undisturbed
from jobs.lake.row_keys import matches
from jobs.lake.tables import APPEND_ONLY, CLUSTER_ID, INGESTED, KEPT_FINDINGS, STAGES
from jobs.quality.stage import DOCS
from jobs.verdict.status import ACKNOWLEDGEMENTS, FIRST_SEEN, KEY, change

Progress = Callable[[str], None]
RowFilter = Callable[[pa.Table], pa.ChunkedArray]
_LAST = INGESTED[-1]
_DERIVED = tuple(name for stage, tables in STAGES.items() if stage != "ingest" for name in tables)
_SEEN = (FIRST_SEEN, ACKNOWLEDGEMENTS)
# What these files say is merged: one row for all captures, or a commit state that follows from all of them.
_MERGED = frozenset(
    {
        *(kinds.METADATA_SEGMENT, kinds.METADATA_CHECKPOINT, kinds.DUMP_LOG),
        *(kinds.QUORUM_STATE, kinds.QUORUM_STATUS, kinds.QUORUM_REPLICATION, kinds.DESCRIBE_QUORUM),
        *(kinds.SERVER_PROPERTIES, kinds.MANIFEST),
    }
)


@dataclass(frozen=True, slots=True)
class ForgetPlan:
    """What forgetting a capture changes. rows: number of rows to remove, by table. again: digest of the list of files
    (jobs/ingest/captures.py) by name of the captures to ingest again, in the order in which they were ingested."""

    cluster_id: str
    capture: str
    rows: dict[str, int]
    again: dict[str, str]

    @property
    def removed(self) -> list[str]:
        return [self.capture, *self.again]


def cluster_of(lake: Lake, capture: str, wanted: str | None) -> str:
    """The cluster that a capture is of. Errors: KraftForensicsError if there is none, or if there are several and none
    is wanted."""
    lake.require()
    clusters = [wanted] if wanted else sorted({made[CLUSTER_ID] for made in lake.marks(_LAST)})
    found = [c for c in clusters if _counts(lake, c, capture) or _unfinished(lake, c, capture)]
    if len(found) == 1:
        return found[0]
    if found:
        raise KraftForensicsError(f"{capture}: name a cluster with --cluster; {', '.join(found)} have such a capture")
    raise KraftForensicsError(f"{lake.root}: no capture {capture}; `kraft-forensics manifest` lists all of them")


def plan_of(lake: Lake, cluster: str, capture: str) -> ForgetPlan:
    """What forgetting a capture changes. Errors: ChangedTableError if another program has changed evidence."""
    heads_of(lake, cluster, INGESTED)
    files = lake.read(_LAST, cluster, ("capture", "path", "sha256", "size_bytes", "kind")).to_pylist()
    merged = {name: {f["kind"] for f in files if f["capture"] == name} & _MERGED for name in lake.captures(cluster)}
    shared = {f["sha256"] for f in files if f["capture"] == capture} & _with_rows(lake, cluster, capture)
    others = {f["capture"] for f in files if f["sha256"] in shared}
    if merged.get(capture):
        others |= {name for name, found in merged.items() if found}
    digests = {
        name: files_digest((f["path"], f["sha256"], f["size_bytes"]) for f in files if f["capture"] == name)
        for name in others - {capture}
    }
    unfinished = _unfinished(lake, cluster, capture)
    order = [receipt["capture"] for receipt in receipts(lake, cluster)]
    later = sorted(digests.keys() - unfinished, key=lambda name: (order.index(name) if name in order else -1, name))
    again = unfinished | {name: digests[name] for name in later}
    return ForgetPlan(cluster, capture, _counts(lake, cluster, capture), again)


def is_all(lake: Lake, plan: ForgetPlan) -> bool:
    """Whether the cluster has no other evidence, so that nothing of it remains."""
    return not plan.again and set(lake.captures(plan.cluster_id)) <= {plan.capture}


def check_given(plan: ForgetPlan, given: Sequence[Location], settings: Settings) -> list[Location]:
    """The captures to ingest again, in the plan's order. Errors: KraftForensicsError if one of them is not given, is
    beyond the settings' limits, or is not what was ingested."""
    places = {capture_name(place): place for place in given}
    if missing := [name for name in plan.again if name not in places]:
        raise KraftForensicsError(
            f"{plan.capture} shares records or files with {', '.join(missing)}, which must be ingested again: name the "
            "path of each with --capture."
        )
    for name, digest in plan.again.items():
        with open_capture(places[name], settings.limits.of_captures()) as capture:
            if files_digest((f.path, f.sha256, f.size_bytes) for f in capture.files) != digest:
                raise KraftForensicsError(f"{places[name]}: its files are not those that were ingested as {name}")
    return [places[name] for name in plan.again]


def forget(lake: Lake, plan: ForgetPlan, again: Sequence[Location], settings: Settings, progress: Progress) -> None:
    """Remove the rows, and ingest `again` (of `check_given`). Derived tables are as they were: their stages find out,
    unless the cluster has no evidence any more; then all that the lake knows of it is removed.

    Errors: as `ingest`. Repeated after an error, it goes on.
    """
    progress(f"{plan.cluster_id}: removing {', '.join(plan.removed)}")
    about = forgotten(settings, plan.removed, plan.capture, plan.again)
    if is_all(lake, plan):
        for name in (*_DERIVED, *_SEEN, KEPT_FINDINGS):
            lake.replace(name, plan.cluster_id, [])
    for name in (_LAST, *INGESTED[:-1]):
        remove_rows(
            lake, name, plan.cluster_id, lambda rows: is_of_others(rows, plan.removed), about if name == _LAST else None
        )
    for place in again:
        ingest(lake, place, settings, progress)
    if plan.cluster_id not in lake.clusters():
        lake.storage.empty(f"{DOCS}/{plan.cluster_id}")
    if not lake.clusters():
        for file in ("verdict.json", f"verdict-{quote(plan.cluster_id, safe='')}.json", "report.html"):
            lake.storage.delete(file)


def forgotten(
    settings: Settings, removed: Sequence[str], capture: str | None, again: Mapping[str, str], **more: int
) -> dict[str, object]:
    """What the commit of evidence_files says. capture: the one that was named; again: as in ForgetPlan."""
    by, at_ms = person(settings.custody.ingested_by), time.time_ns() // 1_000_000
    about = {"removed": [*removed], "capture": capture, "again": {**again}, **more, "by": by, "at_ms": at_ms}
    return {"forgotten": about}


def is_of_others(rows: pa.Table, captures: Sequence[str]) -> pa.ChunkedArray:
    """Mask of the rows that other captures brought."""
    return pc.invert(pc.is_in(rows["capture"], value_set=pa.array(captures, pa.string())))


def findings_of(lake: Lake, cluster: str) -> set[tuple[str | None, ...]]:
    """(finding_id, verdict, severity) of each finding of a cluster."""
    return {tuple(row[name] for name in KEY) for row in lake.rows("findings", cluster, KEY)}


def forget_findings(lake: Lake, cluster: str) -> None:
    """Remove what is remembered of findings that the cluster no longer has."""
    found = lake.read("findings", cluster, KEY)

    def kept(rows: pa.Table) -> pa.Table | None:
        left = rows.filter(pa.array(matches(rows, found, KEY) >= 0))
        return left if len(left) < len(rows) else None

    for name in _SEEN:
        change(lake, name, cluster, kept)


def remove_rows(lake: Lake, name: str, cluster: str, stays: RowFilter, about: dict[str, object] | None = None) -> None:
    """Remove a cluster's rows of a table, also of one that is append-only. stays: mask of the rows that stay. about:
    what the commit says; None: there is no commit where nothing is removed."""

    def once() -> None:
        since, old, new = lake.cluster_version(name, cluster), [], []
        for file in lake.files(name, cluster):
            rows = lake.dataset_of(name, [file.path]).to_table()
            kept = rows.filter(stays(rows))
            if len(kept) < len(rows):
                old.append(file)
                new += [write_file(lake.storage, name, kept)] if len(kept) else []
        if old or about:
            lake.commit(name, cluster, new, old, about, since)

    table = lake.delta(name)
    append_only = table.metadata().configuration.get(APPEND_ONLY) == "true"
    if append_only:
        table.alter.set_table_properties({APPEND_ONLY: "false"})
    try:
        undisturbed(once)
    finally:
        if append_only:
            lake.delta(name).alter.set_table_properties({APPEND_ONLY: "true"})


def _counts(lake: Lake, cluster: str, capture: str) -> dict[str, int]:
    """Number of rows that a capture brought, by table."""
    found = {name: lake.count(name, cluster, pc.field("capture") == capture) for name in INGESTED}
    return {name: count for name, count in found.items() if count}


def _with_rows(lake: Lake, cluster: str, capture: str) -> set[str]:
    """SHA-256 of the files that gave rows of a capture."""
    of_capture = pc.field("capture") == capture
    columns = (lake.read(name, cluster, ("sha256",), of_capture)["sha256"] for name in INGESTED[:-1])
    return {sha256 for column in columns for sha256 in column.unique().to_pylist()}


def _unfinished(lake: Lake, cluster: str, capture: str) -> dict[str, str]:
    """What a `forget` of this capture that was cut off has still to ingest again, as Plan.again."""
    known, begun = set(lake.captures(cluster)), bool(_counts(lake, cluster, capture))
    if capture not in known:
        for made in lake.marks(_LAST, cluster):
            if made.get("forgotten", {}).get("capture") == capture:
                return {name: of for name, of in made["forgotten"]["again"].items() if begun or name not in known}
    return {}
