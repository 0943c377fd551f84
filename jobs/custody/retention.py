"""Retention: remove the evidence of old captures, and say of a cluster what its younger captures and the metadata log
since a snapshot show.

The log is kept from the end of a snapshot on, so that younger captures lose nothing; histories then begin with that
snapshot's state, as those of a log that was captured late. No capture is read again. A table's
rows are removed one table after the other, `evidence_files` and `captures` last, so a removal that was cut off goes on
when it is repeated.
"""

from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from evidence.kinds import DUMP_LOG, METADATA_SEGMENT
from jobs.config.settings import Settings
from jobs.custody.forget import RowFilter, findings_of, forget_findings, forgotten, is_of_others, remove_rows
from jobs.ingest.captures import TABLE as CAPTURES
from jobs.ingest.captures import found_in
from jobs.ingest.log_batches import VOTER_TYPES
from jobs.lake.integrity import heads_of
from jobs.lake.lake import Lake
from jobs.lake.marks import undisturbed
from jobs.lake.tables import INGESTED, KEPT_FINDINGS, TABLES
from jobs.replay.cluster_state import EARLIEST, load_cluster_state
from jobs.verdict.status import change
from replay.cluster.log import LogBatches
from replay.cluster.state import ConflictError, log_shape

_FILES = INGESTED[-1]
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
    rows = {name: _count(lake, found, name) for name in INGESTED if name not in (CAPTURES, _FILES)}
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
    of_logs = pc.field("kind").isin((METADATA_SEGMENT, DUMP_LOG))
    segments = lake.read(_FILES, cluster, ("capture", "base_offset"), of_logs)
    segments = segments.filter(is_of_others(segments, old))
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


def _filter_of(lake: Lake, what: Retention, name: str) -> RowFilter:
    """The rows of a table that stay: those of younger captures, also if an older one brought the same file first, and
    the log from from_offset on."""
    files = lake.read(_FILES, what.cluster_id, ("capture", "sha256"))
    shared = files.filter(is_of_others(files, what.captures))["sha256"].unique()
    if "captured_at_ms" in TABLES[name].key:  # each capture has rows of its own
        shared = shared.slice(0, 0)

    def stays(rows: pa.Table) -> pa.ChunkedArray:
        young = pc.or_(is_of_others(rows, what.captures), pc.is_in(rows["sha256"], value_set=shared))
        if name not in _OFFSETS:
            return young
        offset = rows[_OFFSETS[name]]
        kept = pc.greater_equal(offset, what.from_offset)
        if name in ("metadata_records", "log_batches"):  # younger captures have no segment before from_offset
            return pc.coalesce(kept, young)
        return pc.or_(pc.fill_null(kept, False), young)

    return stays


def _count(lake: Lake, what: Retention, name: str) -> int:
    stays, columns = _filter_of(lake, what, name), ["capture", "sha256", *filter(None, [_OFFSETS.get(name)])]
    parts = lake.parts(name, what.cluster_id, columns)
    return sum(len(part) - (pc.sum(stays(part)).as_py() or 0) for part in parts)


def remove(lake: Lake, what: Retention, settings: Settings) -> None:
    """Remove the rows. Derived tables are as they were: their stages find out."""
    about = forgotten(settings, what.captures, None, {}, before_ms=what.before_ms, from_offset=what.from_offset)
    for name in what.rows:
        remove_rows(lake, name, what.cluster_id, _filter_of(lake, what, name))
    needed = _needed_files(lake, what)

    def stays(rows: pa.Table) -> pa.ChunkedArray:
        return pc.or_(is_of_others(rows, what.captures), pc.is_in(_places(rows), value_set=needed))

    remove_rows(lake, _FILES, what.cluster_id, stays, about)
    undisturbed(partial(_write_captures, lake, what, needed))


def _needed_files(lake: Lake, what: Retention) -> pa.Array:
    """The files of old captures that rows of other tables name, and those captures' manifests."""
    found = set[str]()
    for name in INGESTED:
        if name not in (CAPTURES, _FILES):
            for part in lake.parts(name, what.cluster_id, _PLACE, pc.field("capture").isin(what.captures)):
                found |= set(_places(part).unique().to_pylist())
    captures = pa.array(sorted({place.partition("\0")[0] for place in found}), pa.string())
    with_manifest = pc.field("capture").isin(captures) & pc.field("path").is_valid()
    manifests = lake.read(CAPTURES, what.cluster_id, _PLACE, with_manifest)
    return pa.array(sorted(found | set(_places(manifests).to_pylist())), pa.string())


def _places(rows: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(*(rows[name] for name in _PLACE), "\0")


def _write_captures(lake: Lake, what: Retention, needed: pa.Array) -> None:
    """The captures that still have files, with what is left of them."""
    since, old = lake.cluster_version(CAPTURES, what.cluster_id), set(what.captures)
    files = lake.read(_FILES, what.cluster_id)
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
