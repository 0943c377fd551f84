"""Ingest: a capture's files -> evidence tables. Idempotent: rows that are already in the lake are not written again.

The driver frames metadata files and reads all other files but large logs of nodes, which tasks read. Tasks also decode
the metadata records and write them: of a batch that several nodes hold, one copy (jobs/ingest/records.py).
evidence_files is written last, so an interrupted ingest is repeated by ingesting the capture again.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evidence import kinds, tables
from evidence.broker_logs.boot_ids import read_boot_ids
from evidence.broker_logs.read import BrokerLogTables, read_broker_logs, without_contradicted
from evidence.capture.accounts import quarantine_rows, with_undecoded
from evidence.capture.files import Capture, EvidenceFile, open_capture, the_cluster
from evidence.capture.remote import Location
from evidence.capture.static_configs import static_configs
from evidence.errors import CaptureError
from evidence.metadata_log.scan import file_row, scan_files
from evidence.offsets.read import OffsetTables, read_offsets
from evidence.redaction import digests_by
from evidence.wire.records import FRAME_VERSION
from jobs.config.settings import Settings
from jobs.ingest.captures import TABLE, archive_mark, ingested_as, manifest_of, receipt, write_row
from jobs.ingest.log_batches import merged_batches
from jobs.ingest.records import (
    RECORDS,
    SNAPSHOTS,
    Decodings,
    control_rows,
    decode_records,
    decode_snapshots,
    plan_records,
)
from jobs.lake.integrity import heads_of
from jobs.lake.lake import Lake, Row
from jobs.lake.marks import undisturbed
from jobs.lake.runs import Size
from jobs.lake.tables import INGESTED, STATIC_CONFIGS
from jobs.spark.tasks import run_tasks
from replay.arrow.runs import groups

Progress = Callable[[str], None]
# Written last: a file in it has been ingested completely.
_LAST = INGESTED[-1]
_UNUSED = ("sha256", "position", "length_bytes")


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of ingesting one capture. added: number of rows by table; quarantined: messages, each with what became
    of the bytes; refused: (archive member, reason)."""

    capture: str
    cluster_id: str
    added: dict[str, int]
    quarantined: list[str]
    refused: list[tuple[str, str]]
    has_metadata_log: bool


def ingest(lake: Lake, location: Location, settings: Settings, progress: Progress) -> Ingested:
    """Ingest one capture. Errors: CaptureError if the capture as a whole cannot be used (see open_capture)."""
    progress(f"opening {location}")
    mark = archive_mark(location)
    if cluster := ingested_as(lake, mark):
        heads_of(lake, cluster, INGESTED)
        return Ingested(mark["capture"], cluster, {}, [], [], True)
    with open_capture(location, settings.limits) as capture:
        # refused members are reported each time
        return ingest_opened(lake, capture, settings, progress, {} if capture.refused else mark)


def ingest_opened(
    lake: Lake, capture: Capture, settings: Settings, progress: Progress, about: Mapping[str, str] | None = None
) -> Ingested:
    """Ingest an open capture. about: what the last commit says, too. Errors: as `ingest`."""
    lake.create()
    write = _Writer(lake, {f.path: f.node_id for f in capture.files}, about or {})
    with digests_by(settings.secrets.key_file):
        return _ingest(write, capture, settings, progress)


@undisturbed
def _ingest(write: "_Writer", capture: Capture, settings: Settings, progress: Progress) -> Ingested:
    lake = write.lake
    files = lake.read("evidence_files", None, ("path", "sha256", "cluster_id"), pc.field("capture") == capture.name)
    known = {(row["path"], row["sha256"]): row["cluster_id"] for row in files.to_pylist()}
    if {(f.path, f.sha256) for f in capture.files} <= set(known):
        cluster = next(iter(known.values()))
        heads_of(lake, cluster, INGESTED)
        return Ingested(capture.name, cluster, write.added, [], capture.refused, True)
    progress(f"{capture.name}: reading log-end offsets")
    duration_ms = settings.evidence.snapshot_duration_ms
    offsets = read_offsets(capture.name, capture.files, settings.metrics, duration_ms, capture.limits)
    cluster = _cluster_id(lake, capture, offsets)
    heads_of(lake, cluster, INGESTED)
    write.begin(cluster)
    progress(f"{capture.name}: framing metadata logs")
    scanned = scan_files(capture.files)
    logs_of_brokers = read_logs(capture, settings)
    boot_ids = read_boot_ids(capture, duration_ms)
    accounts = scanned.accounts | offsets.accounts | logs_of_brokers.accounts | boot_ids.accounts
    read = [(file, account) for file in capture.files if (account := accounts.get(file.path))]
    noted = {file.path for file, account in read if not account.quarantined_bytes}  # as the torn end of a log
    rows = [row for file, account in read for row in quarantine_rows(capture.name, file, account.damage)]
    write.quarantine(rows, noted)
    progress(f"{capture.name}: decoding records")
    write.decoded(SNAPSHOTS, decode_snapshots(lake, cluster, capture.name, scanned, settings))
    write.append("quorum_reports", offsets.quorum_reports)
    plan = plan_records(lake, cluster, scanned)
    states = merged_batches(lake, capture, cluster, scanned.batches, control_rows(plan, capture.name), plan.held)
    write.decoded(RECORDS, decode_records(lake, cluster, capture.name, plan, states, settings))
    if states.batches is not None:  # after the records: every batch in this table has its records
        lake.put("log_batches", cluster, states.batches, since=write.since["log_batches"])
    progress(f"{capture.name}: writing log-end offsets")
    write.append("log_end_offsets", offsets.log_end_offsets)
    write.append("described_partitions", offsets.described_partitions)
    write.append("broker_log_events", logs_of_brokers.events)
    write.append("node_boots", logs_of_brokers.boots)
    write.append("boot_ids", boot_ids.rows)
    write.append("static_configs", pa.Table.from_pylist(static_configs(capture), schema=STATIC_CONFIGS))
    logs = groups(scanned.logs, lambda log: log.file.path)
    accounts = with_undecoded(capture.files, accounts, lake.rows("quarantine", cluster, _UNUSED))
    rows = [file_row(capture.name, f, accounts.get(f.path), logs.get(f.path, []), duration_ms) for f in capture.files]
    done = receipt(capture, settings.custody)
    write.count(TABLE, write_row(lake, cluster, capture.name, rows, manifest_of(capture), done))
    # If another run has ingested files of the cluster meanwhile, commit states are judged again with all of them.
    beside = heads_of(lake, cluster, INGESTED[:-1])
    about = {**write.about, "ingested": done, "beside": beside}
    write.append(_LAST, pa.Table.from_pylist(rows, schema=tables.EVIDENCE_FILES), write.since[_LAST], about)
    has_log = any(log.batches for log in scanned.logs)
    return Ingested(capture.name, cluster, write.added, write.messages, capture.refused, has_log)


class _Writer:
    """Appends new rows to a cluster's tables and counts them, also over several attempts. nodes: node of each file, by
    path. about: what the last commit says. messages: of what was quarantined. since: by table, as in Lake.commit: what
    other runs commit while it is read begins a new attempt."""

    def __init__(self, lake: Lake, nodes: Mapping[str, int | None], about: Mapping[str, str]) -> None:
        self.lake = lake
        self.cluster = ""
        self.nodes = nodes
        self.about = about
        self.added: dict[str, int] = {}
        self.messages: list[str] = []
        self.since: dict[str, int] = {}

    def begin(self, cluster: str) -> None:
        """Begin an attempt."""
        self.cluster, self.messages = cluster, []
        self.since = {n: self.lake.cluster_version(n, cluster) for n in (SNAPSHOTS, RECORDS, "log_batches", _LAST)}

    def append(self, name: str, rows: pa.Table, since: int | None = None, about: Row | None = None) -> None:
        if len(rows):
            self.count(name, self.lake.append(name, self.cluster, rows, since, about))

    def count(self, name: str, rows: int) -> None:
        self.added[name] = self.added.get(name, 0) + rows

    def quarantine(self, rows: list[Row], noted: Collection[str] = ()) -> None:
        """noted: paths of files of which no byte is quarantined. Errors: CaptureError for a log of another frame
        version, as a whole: nothing says what its format means."""
        whole = (r["message"] for r in rows if r["reason"] == FRAME_VERSION and r["position"] == 0)
        if other := next(whole, None):
            raise CaptureError(f"{other}. Leave that file out of the capture.")
        self.append("quarantine", pa.Table.from_pylist(rows, schema=tables.QUARANTINE))
        for row in rows:  # a damage of no bytes is a remark on bytes that are used
            is_lost = row["length_bytes"] and row["path"] not in noted
            self.messages.append(f"{'quarantined' if is_lost else 'note'}: {row['message']}")

    def decoded(self, name: str, found: Decodings) -> None:
        """Commit what tasks decoded. The damage comes first: after a crash in between, whole batches are known and are
        not decoded again."""
        self.quarantine([{**row, "node_id": self.nodes.get(row["path"])} for row in found.damage])
        if found.added or found.removed:
            self.lake.commit(name, self.cluster, found.added, found.removed, since=self.since[name])
        self.count(name, found.rows)


def _cluster_id(lake: Lake, capture: Capture, offsets: OffsetTables) -> str:
    """The cluster id in the capture's files and tool reports; without one that of the cluster that has a segment of
    them already, as if the capture was renamed. Errors: CaptureError if there are several."""
    reports = offsets.quorum_reports.select(["quorum_cluster_id", "path"]).to_pylist()
    named = {row["quorum_cluster_id"]: row["path"] for row in reports if row["quorum_cluster_id"]}
    if capture.cluster_id:
        named[capture.cluster_id] = "meta.properties or the manifest"
    if found := the_cluster(named, capture.name):
        return found
    segments = [file.sha256 for file in capture.files if file.kind == kinds.METADATA_SEGMENT and file.size_bytes]
    of_log = pc.field("sha256").isin(pa.array(segments, pa.string()))
    known = lake.read(_LAST, None, ("cluster_id",), of_log)["cluster_id"].unique()
    return str(known[0]) if len(known) == 1 else f"unknown-{capture.name}"


# The driver has read a smaller file before a task would have begun.
_LARGE_BYTES = 8 << 20
_LINE_BYTES = 200  # of a usual line, with its share of stack traces


def read_logs(capture: Capture, settings: Settings) -> BrokerLogTables:
    """What read_broker_logs finds in a capture's files; the large ones are read by tasks. Errors: as there."""
    files = [file for file in capture.files if file.kind in kinds.BROKER_LOGS]
    large = [file for file in files if file.size_bytes >= _LARGE_BYTES]
    of = {"patterns": settings.evidence.log_patterns, "limits": capture.limits, "is_collected": capture.is_collected}
    read = partial(_read, capture.name, settings.secrets.key_file, of)
    lines = sum(file.size_bytes for file in large) // _LINE_BYTES
    name = f"ingest: nodes' logs of {capture.name}"
    by_tasks = run_tasks(read, large, lines, settings, name, lambda file: Size(None, file.size_bytes))
    by_path = dict(zip((file.path for file in large), by_tasks, strict=True))
    parts = [by_path[file.path] if file.path in by_path else read(file) for file in files]
    found = BrokerLogTables(
        pa.concat_tables([tables.BROKER_LOG_EVENTS.empty_table(), *(part.events for part in parts)]),
        pa.concat_tables([tables.NODE_BOOTS.empty_table(), *(part.boots for part in parts)]),
        {path: account for part in parts for path, account in part.accounts.items()},
        {path: count for part in parts for path, count in part.counts.items()},
        {path: speakers for part in parts for path, speakers in part.speakers.items()},
    )
    return without_contradicted(found, files)


def _read(capture: str, key_file: str, of: dict[str, Any], file: EvidenceFile) -> BrokerLogTables:
    """The function of a task. of: arguments of read_broker_logs."""
    with digests_by(key_file):
        return read_broker_logs(capture, [file], **of)
