"""Read log end offsets, printed partition states and quorum views from all sources of a capture into three tables.

Each source keeps its own meaning: replication-offset-checkpoint has the replica's high watermark (ReplicaManager), and
leader-epoch-checkpoint's start offset of an epoch is the log end offset of that epoch's leader at its election.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from operator import attrgetter
from pathlib import PurePosixPath

import pyarrow as pa

from evidence import kinds, tables
from evidence.capture.accounts import UNKNOWN_NODE, Account, last_of_each_folder, provenance, read_when
from evidence.capture.files import EvidenceFile
from evidence.errors import Damage
from evidence.limits import DEFAULT_LIMITS, MAX_INT64, Limits, int32_of
from evidence.offsets import json_responses, tool_output
from evidence.offsets.clean_text import clean_checkpoint, clean_metrics
from evidence.offsets.columns import OffsetColumns
from evidence.offsets.jmx_exporter import (
    HIGH_WATERMARK,
    OLDER_MS,
    SCRAPE_MS,
    MetricNames,
    process_start_ms,
    read_metrics,
)
from evidence.offsets.jmx_tool import read_jmx_tool
from evidence.offsets.replica_log import read_heads, read_tail
from evidence.tables import Row
from evidence.text_files import IN_UTF_16, UTF_16, partition_topic_id, read_checkpoint, read_properties, whole_lines

_CHECKPOINT_COLUMN = {
    kinds.REPLICATION_OFFSET: "high_watermark",
    kinds.RECOVERY_POINT: "recovery_point_offset",
    kinds.LOG_START_OFFSET: "log_start_offset",
}
_CHUNK_BYTES = 1 << 20
_LONG_AGO_MS = 6_000
_LOOKBACK_MS = 300_000  # of Prometheus (--query.lookback-delta): how long before its time a value may be from
_OF_LAG = "lag_exporter"  # the source of rows of an exporter of consumer lag, which are of no broker
# Texts with fewer lines, or samples, are read line by line: to make their columns takes longer.
_FEW_LINES, _FEW_SAMPLES = 64, 128


@dataclass(slots=True)
class ReadRows:
    """The content of one file: rows of the three tables without provenance, damage, trailing bytes and a note.

    offsets: columns if a checkpoint file or an exporter's text is clean, else rows. of_file: values that all its rows
    share. older_ms: of values that a monitor read, how long before their time it may have read them at most.
    """

    offsets: list[Row] | pa.RecordBatch = field(default_factory=list)
    of_file: Row = field(default_factory=dict)
    older_ms: int = 0
    partitions: list[Row] = field(default_factory=list)
    quorum: list[Row] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    trailing_bytes: int = 0
    note: str | None = None


Reader = Callable[[EvidenceFile], ReadRows]
TextReader = Callable[[bytes], tuple[list[Row], list[Damage]]]


@dataclass(frozen=True, slots=True)
class OffsetTables:
    """tables.LOG_END_OFFSETS (dictionary-encoded, as columns.ENCODED), DESCRIBED_PARTITIONS and QUORUM_REPORTS of a
    capture. accounts: of each file read."""

    log_end_offsets: pa.Table
    described_partitions: pa.Table
    quorum_reports: pa.Table
    accounts: dict[str, Account]


def read_offsets(
    capture: str,
    files: Iterable[EvidenceFile],
    names: MetricNames,
    uncertainty_ms: int,
    limits: Limits = DEFAULT_LIMITS,
) -> OffsetTables:
    """Read each file that is not a metadata log, snapshot or dump.

    A file with more lines or bytes than `limits` allow is quarantined as a whole.

    uncertainty_ms: how long one round of capturing may have taken if neither the manifest nor an archive gives it. A
    value was read within that time after the file's capture time; the clock's error widens the interval on both sides.
    A replication-offset-checkpoint that had not been written for long, since its broker was down or waited for a disk,
    has its rows as of when it was last written, if the manifest says that.
    Rows of the same replica and source are not joined.
    """
    files = list(files)
    as_a_whole = {*_readers([], {}, names, limits), kinds.PARTITION_METADATA} - {kinds.REPLICA_SEGMENT}
    texts = [file for file in files if file.kind in as_a_whole]
    too_large = {file.path: found for file in texts if (found := _too_large(file, limits)) is not None}
    readable = [file for file in files if file.path not in too_large]
    topic_ids = {
        str(PurePosixPath(f.path).parent): partition_topic_id(f.read())
        for f in readable
        if f.kind == kinds.PARTITION_METADATA
    }
    readers = _readers(readable, topic_ids, names, limits)
    offsets = OffsetColumns()
    partitions: list[Row] = []
    quorum: list[Row] = []
    accounts: dict[str, Account] = {}
    for file in files:
        if file.kind not in readers:
            continue
        found = _within(too_large.get(file.path) or readers[file.kind](file), file, limits)
        names_node = file.kind in kinds.NAME_NODES or "broker_id" in found.of_file
        if file.node_id is None and not names_node and (found.offsets or found.quorum):
            found = _refused(file, UNKNOWN_NODE, "unknown_node")
        accounts[file.path] = _account(file, found)
        within_ms = file.read_within_ms(uncertainty_ms)
        common = {"source": file.kind, **read_when(file.captured_at_ms, within_ms, file.clock_error_ms, found.older_ms)}
        broker = {"broker_id": None if file.kind in kinds.NAME_NODES else file.node_id}
        for when in [*_as_written(file)] or [common]:
            shared = {**common, **when, **broker, **found.of_file, **provenance(capture, file, 0)}
            if isinstance(found.offsets, pa.RecordBatch):
                offsets.add_columns(shared, found.offsets)
            else:
                offsets.add_rows(
                    {**shared, **row, **_own_time(file, row, uncertainty_ms, found.older_ms)} for row in found.offsets
                )
        partitions += [{**common, **row, **provenance(capture, file, row["position"])} for row in found.partitions]
        node = {"node_id": file.node_id if file.kind == kinds.QUORUM_STATE else None}
        quorum += [{**common, **node, **row, **provenance(capture, file, row["position"])} for row in found.quorum]
    named: dict[str, set[str]] = defaultdict(set)
    for folder, topic_id in topic_ids.items():
        if topic_id and (place := kinds.partition_of(PurePosixPath(folder, kinds.PARTITION_METADATA))):
            named[topic_id].add(place[0])
    for file in (f for f in files if f.kind in _READ_ELSEWHERE):
        found = too_large.get(file.path) or _within(_small(file, topic_ids, named), file, limits)
        accounts[file.path] = _account(file, found)
    return OffsetTables(
        offsets.table(),
        pa.Table.from_pylist(partitions, schema=tables.DESCRIBED_PARTITIONS),
        pa.Table.from_pylist(quorum, schema=tables.QUORUM_REPORTS),
        accounts,
    )


# Small files that are read when a capture is opened, or together with other files.
_READ_ELSEWHERE = (kinds.META_PROPERTIES, kinds.SERVER_PROPERTIES, kinds.PARTITION_METADATA, kinds.MANIFEST)


def _small(file: EvidenceFile, topic_ids: Mapping[str, str | None], named: Mapping[str, set[str]]) -> ReadRows:
    """No rows; damage if the file does not have what it is read for. topic_ids: by folder, that of its
    partition.metadata; named: by topic id, the topics whose folders have it."""
    lacks = None
    if file.kind == kinds.PARTITION_METADATA:
        topic_id = topic_ids[str(PurePosixPath(file.path).parent)]
        topics = sorted(named.get(topic_id or "", ()))
        if topic_id is None:
            lacks = "no topic id"
        elif len(topics) > 1:
            lacks = f"folders of several topics have the topic id {topic_id}: {', '.join(topics)}"
    elif file.kind == kinds.META_PROPERTIES:
        properties = read_properties(whole_lines(file.read()))
        if int32_of(properties.get("node.id", properties.get("broker.id", ""))) is None:
            lacks = "no node id"
    elif file.kind == kinds.SERVER_PROPERTIES:
        data = file.read()
        whole, properties = whole_lines(data), read_properties(data)
        if properties and read_properties(whole) != properties:
            message = "the last line has no line end: as editors leave it, or of a copy that was cut off"
            return ReadRows(damage=[Damage(len(whole), 0, None, "cut_line", message)])  # a remark: it is used
        lacks = None if properties else "no properties"
    return ReadRows() if lacks is None else _refused(file, lacks, "bad_properties")


def _too_large(file: EvidenceFile, limits: Limits) -> ReadRows | None:
    """The damage of a text that is not read because it is too large to hold in memory; None for any other one."""
    # All lines of a leader-epoch-checkpoint are of one partition.
    of_lines = "partition_lines" if file.kind == kinds.LEADER_EPOCH else "text_file_lines"
    most = getattr(limits, of_lines)
    if file.size_bytes > limits.text_file_bytes:
        allowed = f"limits.text_file_bytes = {limits.text_file_bytes} allows fewer"
        return _refused(file, f"{file.size_bytes} bytes, {allowed}")
    if file.size_bytes <= most or (lines := _lines(file)) <= most:
        return None
    return _refused(file, f"{lines} lines, limits.{of_lines} = {most} allows fewer")


def _lines(file: EvidenceFile) -> int:
    with file.unchanged(), file.local.open("rb") as stream:
        return sum(chunk.count(b"\n") for chunk in iter(partial(stream.read, _CHUNK_BYTES), b""))


def _within(found: ReadRows, file: EvidenceFile, limits: Limits) -> ReadRows:
    """What was found in a file, or one range of damage instead of very many."""
    count = len(found.damage)
    if count and file.kind != kinds.REPLICA_SEGMENT:
        with file.slices() as data:
            if data[:2].startswith(UTF_16):
                return _refused(file, IN_UTF_16, "bad_text")
    if count <= limits.damaged_lines:
        return found
    return _refused(file, f"{count} damaged lines, limits.damaged_lines = {limits.damaged_lines} allows fewer")


def _refused(file: EvidenceFile, message: str, reason: str = "too_large", offset: int | None = None) -> ReadRows:
    return ReadRows(damage=[Damage(0, file.size_bytes, offset, reason, message)])


def _account(file: EvidenceFile, found: ReadRows) -> Account:
    quarantined = sum(d.length_bytes for d in found.damage)
    note = found.note or (found.damage[0].message if found.damage else None)
    parsed = file.size_bytes - quarantined - found.trailing_bytes
    return Account(parsed, quarantined, found.trailing_bytes, note, found.damage)


def _as_written(file: EvidenceFile) -> Iterator[Row]:
    """When the values of a file stood in it already: when it was last written, if that was long before it was read. A
    broker that runs writes its high watermarks every replica.high.watermark.checkpoint.interval.ms (5 s)."""
    written, read_ms = file.written_ms, file.captured_at_ms
    if file.kind == kinds.REPLICATION_OFFSET and written and read_ms and read_ms - written[0] > _LONG_AGO_MS:
        yield read_when(*written, file.clock_error_ms)


def _own_time(file: EvidenceFile, row: Row, uncertainty_ms: int, older_ms: int) -> Row:
    """When a row's value was read, if the row has its own time; the time the file was copied does not bound it."""
    if "captured_at_ms" not in row:
        return {}
    duration_ms = uncertainty_ms if file.snapshot_duration_ms is None else file.snapshot_duration_ms
    return read_when(row["captured_at_ms"], SCRAPE_MS if older_ms else duration_ms, file.clock_error_ms, older_ms)


def _readers(
    files: list[EvidenceFile], topic_ids: dict[str, str | None], names: MetricNames, limits: Limits
) -> dict[str, Reader]:
    """The reader of each kind. topic_ids: by folder."""
    ends = (kinds.REPLICA_SEGMENT, kinds.BATCH_HEADS)
    last = {path for kind in ends for path in last_of_each_folder(files, kind)}
    epochs = {str(PurePosixPath(f.path).parent): f for f in files if f.kind == kinds.LEADER_EPOCH}
    stopped = {str(PurePosixPath(f.path).parent): _stopped(f) for f in files if f.kind == kinds.CLEAN_SHUTDOWN}
    texts: dict[str, tuple[str, TextReader]] = {
        kinds.GET_OFFSETS: ("offsets", tool_output.read_get_offsets),
        kinds.CONSUMER_GROUPS: ("offsets", tool_output.read_consumer_groups),
        kinds.QUORUM_REPLICATION: ("offsets", tool_output.read_quorum_replication),
        kinds.LOG_DIRS: ("offsets", json_responses.read_log_dirs),
        kinds.DESCRIBE_LOG_DIRS: ("offsets", json_responses.read_describe_log_dirs),
        kinds.REPLICA_LOG_INFO: ("offsets", json_responses.read_replica_log_info),
        kinds.CLEAN_SHUTDOWN: ("offsets", json_responses.read_clean_shutdown),
        kinds.LISTING: ("offsets", lambda data: tool_output.read_listing(data, limits.text_file_bytes)),
        kinds.JMX_TOOL: ("offsets", read_jmx_tool),
        kinds.TOPICS_DESCRIBE: ("partitions", tool_output.read_topics),
        kinds.DESCRIBE_TOPIC_PARTITIONS: ("partitions", json_responses.read_describe_topic_partitions),
        kinds.QUORUM_STATUS: ("quorum", tool_output.read_quorum_status),
        kinds.QUORUM_STATE: ("quorum", json_responses.read_quorum_state),
    }
    return {
        **{kind: partial(_rows_of, *of_kind) for kind, of_kind in texts.items()},
        **dict.fromkeys(_CHECKPOINT_COLUMN, partial(_offset_checkpoint, stopped)),
        kinds.LEADER_EPOCH: partial(_leader_epochs, topic_ids),
        kinds.JMX_EXPORTER: partial(_exporter, names),
        **dict.fromkeys(ends, partial(_log_end, topic_ids, last, stopped, epochs)),
        kinds.DESCRIBE_QUORUM: _describe_quorum,
        kinds.PROMETHEUS: partial(_prometheus, names, limits.text_file_lines),
    }


def _rows_of(rows_are: str, read: TextReader, file: EvidenceFile) -> ReadRows:
    """rows_are: the field of ReadRows that the reader's rows are."""
    rows, damage = read(file.read())
    found = ReadRows(damage=damage)
    setattr(found, rows_are, rows)
    return found


def _describe_quorum(file: EvidenceFile) -> ReadRows:
    replicas, reports, damage = json_responses.read_describe_quorum(file.read())
    return ReadRows(offsets=replicas, quorum=reports, damage=damage)


def _prometheus(names: MetricNames, most_rows: int, file: EvidenceFile) -> ReadRows:
    rows, damage = json_responses.read_prometheus(file.read(), names, most_rows)
    return ReadRows(offsets=rows, older_ms=_LOOKBACK_MS + OLDER_MS, damage=damage)


def _exporter(names: MetricNames, file: EvidenceFile) -> ReadRows:
    data = file.read()
    of_file = {"process_start_ms": process_start_ms(data, names)}
    samples = sum(data.count(metric.encode()) for metric in names.fields())
    clean = clean_metrics(data, names) if samples >= _FEW_SAMPLES else None
    rows, damage = read_metrics(data, names) if clean is None else (clean, [])
    note = None if len(rows) or damage else "none of the metrics that the settings in [metrics] name"
    if isinstance(rows, list) and any(HIGH_WATERMARK in row for row in rows):
        return ReadRows(offsets=rows, of_file={"broker_id": None, "source": _OF_LAG}, older_ms=OLDER_MS, damage=damage)
    return ReadRows(offsets=rows, of_file=of_file, damage=damage, note=note)


def _offset_checkpoint(stopped: dict[str, int | None], file: EvidenceFile) -> ReadRows:
    data, column = file.read(), _CHECKPOINT_COLUMN[file.kind]
    of_file: Row = {}
    if file.kind == kinds.RECOVERY_POINT:
        # Written before the marker of a clean stop (LogManager.shutdown), and next by the following session.
        of_file = {"broker_epoch": stopped.get(str(PurePosixPath(file.path).parent))}
    clean = clean_checkpoint(data, column) if data.count(b"\n") >= _FEW_LINES else None
    if clean is not None:
        return ReadRows(offsets=clean, of_file=of_file)
    lines, damage = read_checkpoint(data, 3)
    rows = []
    for line in lines:
        place = {"topic": line.words[0].decode("utf-8", "replace"), "partition": int(line.words[1])}
        rows.append({**place, column: int(line.words[2]), "position": line.position})
    return ReadRows(offsets=rows, of_file=of_file, damage=damage)


def _leader_epochs(topic_ids: dict[str, str | None], file: EvidenceFile) -> ReadRows:
    path = PurePosixPath(file.path)
    is_metadata = path.parent.name == kinds.METADATA_LOG_DIR
    place = (tool_output.METADATA_TOPIC, 0) if is_metadata else kinds.partition_of(path)
    if place is None:
        return _refused(file, "the folder name is not that of a partition", "unknown_partition")
    lines, damage = read_checkpoint(file.read(), 2)
    if damage:
        # A line in the middle may be missing. Kafka does not read such a file either (CheckpointFile).
        last = max(damage, key=attrgetter("position"))  # a line rather than the count, which then does not fit either
        message = f"byte {last.position}: {last.message}: an epoch may be missing, none is used"
        return _refused(file, message, "bad_checkpoint")
    topic_id = None if is_metadata else topic_ids.get(str(path.parent))
    of_file = {"topic": place[0], "partition": place[1], "topic_id": topic_id}
    rows: list[Row] = []
    for line in lines:
        epoch, start = map(int, line.words)
        rows.append({"leader_epoch": epoch, "epoch_start_offset": start, "position": line.position})
    for before, after in pairwise(rows):
        if any(before[name] >= after[name] for name in ("leader_epoch", "epoch_start_offset")):
            message = "epochs or offsets that do not rise: Kafka writes no such file (LeaderEpochFileCache)"
            start = after["epoch_start_offset"]
            return _refused(file, f"byte {after['position']}: {message}", "bad_checkpoint", start)
    return ReadRows(offsets=rows, of_file=of_file, damage=damage)


def _stopped(file: EvidenceFile) -> int | None:
    """The broker epoch in a .kafka_cleanshutdown: the session that last wrote the files next to it."""
    rows, _ = json_responses.read_clean_shutdown(file.read())
    return next((row.get("broker_epoch") for row in rows), None)


def _log_end(
    topic_ids: dict[str, str | None],
    last: set[str],
    stopped: dict[str, int | None],
    checkpoints: dict[str, EvidenceFile],
    file: EvidenceFile,
) -> ReadRows:
    """The log end of a replica, from its last segment (the others only hold records) or from the heads of its last
    batches; never with the epoch of a clean stop from these: nobody checked the CRCs of these batches."""
    path = PurePosixPath(file.path)
    place, base_offset = kinds.partition_of(path), int(path.name.partition(".")[0])
    if place is None or file.path not in last:
        return ReadRows(trailing_bytes=file.size_bytes, note="not of the replica's last segment: not read")
    if base_offset > MAX_INT64:
        return _refused(file, "the name gives an offset that no log has", "bad_offset")
    row = {"topic": place[0], "partition": place[1], "topic_id": topic_ids.get(str(path.parent))}
    checkpoint = checkpoints.get(str(path.parent))
    known = _leader_epochs(topic_ids, checkpoint).offsets if checkpoint else ()
    epochs = [(each["leader_epoch"], each["epoch_start_offset"]) for each in known]
    if file.kind == kinds.BATCH_HEADS:
        tail = read_heads(file.read(), base_offset, epochs)
    else:
        row["broker_epoch"] = stopped.get(str(path.parent.parent))
        with file.unchanged():
            tail = read_tail(file.local, base_offset, epochs)
    found = ReadRows(damage=tail.damage, trailing_bytes=tail.trailing_bytes, note=tail.note)
    if tail.log_end_offset is not None:
        end = {"log_end_offset": tail.log_end_offset, "last_written_leader_epoch": tail.last_written_leader_epoch}
        batches = list(tail.batch_offsets) or None
        found.offsets = [{**row, **end, "last_batch_offsets": batches, "position": tail.position}]
    return found
