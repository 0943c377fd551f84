"""Forget a capture: remove what only that capture brought, and make everything that follows from it again.

A row of the lake names the capture that brought it first. Whether another capture brought it, too, only that capture's
bytes can show: it is removed and ingested again. The commit of `evidence_files` comes first and says what is being
forgotten, so a `forget` that was cut off goes on when it is repeated.

Retention: remove the evidence of old captures, and say of a cluster what its younger captures and the metadata log
since a snapshot show.

The log is kept from the end of a snapshot on, so that younger captures lose nothing; histories then begin with that
snapshot's state, as those of a log that was captured late. No capture is read again. A table's
rows are removed one table after the other, `evidence_files` and `captures` last, so a removal that was cut off goes on
when it is repeated.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from evidence import kinds
from evidence.capture.files import capture_name, open_capture
from evidence.capture.remote import Location
from evidence.errors import KraftForensicsError
from jobs.config.settings import Settings
from jobs.ingest.captures import TABLE as CAPTURES
from jobs.ingest.captures import files_digest, found_in, person
from jobs.ingest.log_batches import VOTER_TYPES
from jobs.ingest.stage import ingest
from jobs.lake.data_files import write_file
from jobs.lake.integrity import heads_of, receipts
from jobs.lake.lake import Lake
from jobs.lake.marks import undisturbed
from jobs.lake.row_keys import matches
from jobs.lake.tables import APPEND_ONLY, CLUSTER_ID, INGESTED, KEPT_FINDINGS, STAGES, TABLES
from jobs.quality.stage import DOCS
from jobs.replay.buckets import HISTORY
from jobs.replay.cluster_state import EARLIEST, load_cluster_state
from jobs.verdict.status import ACKNOWLEDGEMENTS, FIRST_SEEN, KEY, change
from replay.cluster.log import LogBatches
from replay.cluster.state import ConflictError, log_shape

Progress = Callable[[str], None]
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
        with open_capture(places[name], settings.limits) as capture:
            if files_digest((f.path, f.sha256, f.size_bytes) for f in capture.files) != digest:
                raise KraftForensicsError(f"{places[name]}: its files are not those that were ingested as {name}")
    return [places[name] for name in plan.again]


def forget(lake: Lake, plan: ForgetPlan, again: Sequence[Location], settings: Settings, progress: Progress) -> None:
    """Remove the rows, and ingest `again` (of `check_given`). Derived tables are as they were: their stages find out.
    Only the history, whose rows name captures, is empty: a replay that resumes would keep its rows. If the cluster has
    no evidence any more, all that the lake knows of it is removed.

    Errors: as `ingest`. Repeated after an error, it goes on.
    """
    progress(f"{plan.cluster_id}: removing {', '.join(plan.removed)}")
    about = forgotten(settings, plan.removed, plan.capture, plan.again)
    if is_all(lake, plan):
        for name in (*_DERIVED, *_SEEN, KEPT_FINDINGS):
            lake.replace(name, plan.cluster_id, [])
    lake.replace(HISTORY, plan.cluster_id, [])
    for name in (_LAST, *INGESTED[:-1]):
        remove_rows(lake, name, plan.cluster_id, of_others(plan.removed), about if name == _LAST else None)
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


def of_others(captures: Sequence[str]) -> pc.Expression:
    """The rows that other captures brought."""
    return ~pc.field("capture").isin(captures)


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


def remove_rows(
    lake: Lake, name: str, cluster: str, stays: pc.Expression, about: dict[str, object] | None = None
) -> None:
    """Remove a cluster's rows of a table, also of one that is append-only. stays: the rows that stay. about: what the
    commit says; None: there is no commit where nothing is removed."""

    @undisturbed
    def rewrite() -> None:
        since, old, new = lake.cluster_version(name, cluster), [], []
        for file in lake.files(name, cluster):
            rows = lake.dataset_of(name, [file.path]).to_table()
            kept = rows.filter(stays)
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
        rewrite()
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


_PLACE = ("capture", "path", "sha256")
# The column that says where in the metadata log a row is; from_offset is compared with it.
_OFFSETS = {
    "metadata_records": "batch_base_offset",
    "log_batches": "base_offset",
    "snapshot_records": "snapshot_end_offset",
    "quarantine": "offset",
}


@dataclass(frozen=True, slots=True)
class Retention:
    """What is removed of a cluster. captures: those that are older than before_ms, but never the newest one, by their
    last time of capture, else by when they were ingested. from_offset: the log is kept from there on; 0: all of it.
    from_ms: the time of its first record then; None if it is all kept. rows: number of rows to remove, by table."""

    cluster_id: str
    before_ms: int
    captures: list[str] = field(default_factory=list)
    from_offset: int = 0
    from_ms: int | None = None
    rows: dict[str, int] = field(default_factory=dict)


def retention_of(lake: Lake, cluster: str, before_ms: int) -> Retention:
    """What is older than before_ms. Errors: ChangedTableError if another program has changed evidence;
    LogConflictError if captures contradict each other."""
    heads_of(lake, cluster, INGESTED)
    times = {row["capture"]: row["last_captured_ms"] or row["ingested_ms"] or 0 for row in lake.rows(CAPTURES, cluster)}
    newest = max(times, key=lambda name: (times[name], name), default=None)
    old = sorted(name for name, at_ms in times.items() if at_ms < before_ms and name != newest)
    if not old:
        return Retention(cluster, before_ms)
    offset, first_ms = _log_from(lake, cluster, old, before_ms)
    found = Retention(cluster, before_ms, old, offset, first_ms)
    tables = [name for name in INGESTED if name not in (CAPTURES, _LAST)]
    stay = {name: lake.count(name, cluster, _staying(lake, found, name)) for name in tables}
    rows = {name: lake.count(name, cluster) - count for name, count in stay.items()}
    return replace(found, rows={name: count for name, count in rows.items() if count})


def _log_from(lake: Lake, cluster: str, old: list[str], before_ms: int) -> tuple[int, int | None]:
    """(from_offset, from_ms): a snapshot's end, at or before the first batch that is young enough, all segments of
    younger captures, and the newest record that names the quorum's voters, by which commits are judged."""
    shape = load_cluster_state(lake, cluster, EARLIEST).shape
    table = lake.read("log_batches", cluster)
    young = table.filter(pc.greater_equal(table["base_timestamp_ms"], before_ms))
    limit = pc.min(young["base_offset"]).as_py() if len(young) else shape.log_end
    voters = pc.field("type").isin(VOTER_TYPES) & pc.field("offset").is_valid()
    named: int | None = pc.max(lake.read("metadata_records", cluster, ("offset",), voters)["offset"]).as_py()
    of_logs = pc.field("kind").isin((kinds.METADATA_SEGMENT, kinds.DUMP_LOG))
    segments = lake.read(_LAST, cluster, ("base_offset",), of_logs & of_others(old))
    limit = min(each for each in (limit, named, pc.min(segments["base_offset"]).as_py()) if each is not None)
    for end, epoch in sorted(shape.snapshots, reverse=True):
        kept = table.filter(pc.greater_equal(table["base_offset"], end))
        if end > limit or not len(kept) or pc.min(kept["base_offset"]).as_py() != end:
            continue
        try:
            runs = log_shape(LogBatches(kept), [each for each in shape.snapshots if each[0] >= end]).runs
        except ConflictError:
            continue
        if runs and runs[0].snapshot == (end, epoch):
            first = kept.filter(pc.equal(kept["base_offset"], end))["base_timestamp_ms"][0].as_py()
            return end, first
    return 0, None


def _staying(lake: Lake, what: Retention, name: str) -> pc.Expression:
    """The rows of a table that stay: those of younger captures, also if an older one brought the same file first, and
    the log from from_offset on."""
    young = of_others(what.captures)
    if "captured_at_ms" not in TABLES[name].key:  # else each capture has rows of its own
        shared = lake.read(_LAST, what.cluster_id, ("sha256",), young)["sha256"].unique()
        young |= pc.field("sha256").isin(shared)
    if name not in _OFFSETS:
        return young
    kept = pc.field(_OFFSETS[name]) >= what.from_offset
    if name in ("metadata_records", "log_batches"):  # younger captures have no segment before from_offset
        return pc.coalesce(kept, young)
    return pc.coalesce(kept, pc.scalar(False)) | young


def remove(lake: Lake, what: Retention, settings: Settings) -> None:
    """Remove the rows. Derived tables are as they were: their stages find out."""
    about = forgotten(settings, what.captures, None, {}, before_ms=what.before_ms, from_offset=what.from_offset)
    for name in what.rows:
        remove_rows(lake, name, what.cluster_id, _staying(lake, what, name))
    needed = _needed_files(lake, what)
    is_needed = pc.binary_join_element_wise(*map(pc.field, _PLACE), pc.scalar("\0")).isin(needed)
    remove_rows(lake, _LAST, what.cluster_id, of_others(what.captures) | is_needed, about)
    _write_captures(lake, what, needed)


def _needed_files(lake: Lake, what: Retention) -> pa.Array:
    """The files of old captures that rows of other tables name, and those captures' manifests."""
    found = set[str]()
    for name in INGESTED:
        if name not in (CAPTURES, _LAST):
            for part in lake.parts(name, what.cluster_id, _PLACE, pc.field("capture").isin(what.captures)):
                found |= set(_places(part).unique().to_pylist())
    captures = pa.array(sorted({place.partition("\0")[0] for place in found}), pa.string())
    with_manifest = pc.field("capture").isin(captures) & pc.field("path").is_valid()
    manifests = lake.read(CAPTURES, what.cluster_id, _PLACE, with_manifest)
    return pa.array(sorted(found | set(_places(manifests).to_pylist())), pa.string())


def _places(rows: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(*(rows[name] for name in _PLACE), "\0")


@undisturbed
def _write_captures(lake: Lake, what: Retention, needed: pa.Array) -> None:
    """The captures that still have files, with what is left of them."""
    since, old = lake.cluster_version(CAPTURES, what.cluster_id), set(what.captures)
    files = lake.read(_LAST, what.cluster_id)
    left = files.filter(pc.is_in(_places(files), value_set=needed)).to_pylist()
    rows = []
    for row in lake.rows(CAPTURES, what.cluster_id, TABLES[CAPTURES].file_schema.names):
        own = [file for file in left if file["capture"] == row["capture"]]
        if row["capture"] not in old:
            rows.append(row)
        elif own:
            rows.append({**row, **found_in(own)})
    lake.put(CAPTURES, what.cluster_id, pa.Table.from_pylist(rows, TABLES[CAPTURES].file_schema), since=since)


def keep_findings(lake: Lake, cluster: str, now_ms: int) -> None:
    """Copy the cluster's findings to kept_findings, before what they follow from is removed."""
    found = lake.read("findings", cluster, TABLES["findings"].file_schema.names)
    lake.append(KEPT_FINDINGS, cluster, found.append_column("kept_ms", pa.array([now_ms] * len(found), pa.int64())))


def settle_findings(lake: Lake, cluster: str, keeps: bool) -> int:
    """After the stages ran again: remove from kept_findings what is still found, or forget what is remembered of the
    findings that are gone. Returns how many findings are kept that are no longer found."""
    if not keeps:
        forget_findings(lake, cluster)
    now = pa.array([str(key[0]) for key in findings_of(lake, cluster)], pa.string())

    def gone(rows: pa.Table) -> pa.Table | None:
        left = rows.filter(pc.invert(pc.is_in(rows["finding_id"], value_set=now)))
        return left if len(left) < len(rows) else None

    change(lake, KEPT_FINDINGS, cluster, gone)
    return lake.count(KEPT_FINDINGS, cluster)
