"""server.log, state-change.log and controller.log -> tables.BROKER_LOG_EVENTS and tables.NODE_BOOTS.

Lines that are no known message are counted, not stored: what applications and plugins log is nobody's business here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from evidence import kinds, tables
from evidence.broker_logs.boots import BootTracker, marker_of
from evidence.broker_logs.events import WANTED, read_event
from evidence.broker_logs.layouts import HEAD_BYTES, Layout, detect
from evidence.broker_logs.lines import Line, LineScanner
from evidence.broker_logs.streams import CHUNK_BYTES, TextStream
from evidence.capture.accounts import Account, provenance
from evidence.capture.files import EvidenceFile
from evidence.errors import Damage
from evidence.limits import DEFAULT_LIMITS, Limits
from evidence.redaction import REDACTED, SECRET_WORDS, redact_text
from evidence.tables import Row, with_column
from evidence.text_files import IN_UTF_16, UTF_16

MAX_MESSAGE_CHARS = 2000
# A secret that the cut would divide is redacted before the cut.
_EXAMINED_CHARS = 2 * MAX_MESSAGE_CHARS
_CHUNK_ROWS = 50_000
# What Kafka prints anew at every start may be longer than a chunk: some layouts are known only by a later line.
_MAX_HEAD_BYTES = 4 * HEAD_BYTES
# Threads write their lines some ms after they took their times.
_OUT_OF_ORDER_MS = 1000
_IN_ONE_VALUE = "; of JSON an object a line is read, as jq -c '.[]' or '.events[]' prints it"


@dataclass(frozen=True, slots=True)
class BrokerLogTables:
    """events: tables.BROKER_LOG_EVENTS, file by file, in the order of their lines. boots: tables.NODE_BOOTS. accounts:
    of every file read. counts: by file, how many lines begin an event (of any kind) and how many of them are rows.
    speakers: by file, the nodes that its lines name as their own."""

    events: pa.Table
    boots: pa.Table
    accounts: dict[str, Account]
    counts: dict[str, tuple[int, int]]
    speakers: dict[str, frozenset[int]]


@dataclass(slots=True)
class _FileRows:
    """is_whole: copied and read whole, without damage. is_contiguous: undamaged, a node's own file by its layout, and
    its times do not go back: what a container's runtime or a log archive gives may have gaps, or the newest first.
    sources: EventHead.source of rows. latest_ms: the latest time of a row, by the wall clock."""

    rows: list[Row] = field(default_factory=list)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    speakers: Counter[int] = field(default_factory=Counter)
    sources: set[str | None] = field(default_factory=set)
    latest_ms: int = 0
    boots: BootTracker = field(default_factory=BootTracker)
    is_whole: bool = False
    is_contiguous: bool = True


def read_broker_logs(
    capture: str,
    files: Iterable[EvidenceFile],
    patterns: Sequence[str] = (),
    chunk_bytes: int = CHUNK_BYTES,
    limits: Limits = DEFAULT_LIMITS,
    is_collected: bool = False,
) -> BrokerLogTables:
    """Read every file of kinds.BROKER_LOGS. patterns: log4j patterns or expressions of the site (layouts.of_pattern),
    tried before the known ones. is_collected: Capture.is_collected; an archive of logs may have dropped lines.

    A row's node is the one that its line names, else the only one that the file's lines name, else the one that the
    file was copied from (`without_contradicted`). Times in UTC are null where neither the text nor the manifest has the
    zone: anchors.py finds it.
    Errors: ValueError for a pattern that is not supported; CaptureError when a file cannot be read or has changed.
    """
    events: list[pa.RecordBatch] = []
    boots: list[Row] = []
    accounts: dict[str, Account] = {}
    counts: dict[str, tuple[int, int]] = {}
    speakers: dict[str, frozenset[int]] = {}
    files = [file for file in files if file.kind in kinds.BROKER_LOGS]
    for file in files:
        found = _FileRows()
        with file.unchanged():
            stream = TextStream(file.local, chunk_bytes, limits.compression_ratio)
            place = {name: value for name, value in provenance(capture, file, 0).items() if name != "position"}
            scanner = _scan(stream, patterns, found, place, file)
        accounts[file.path] = _account(file, stream, scanner, found)
        _flush(found)
        counts[file.path] = (scanner.events if scanner else 0, sum(map(len, found.batches)))
        found.is_whole = is_collected and scanner is not None and not scanner.quarantined_bytes
        found.is_whole &= stream.broken_at is None
        if scanner is None or scanner.damage or stream.broken_at is not None:
            found.is_contiguous = False
        speakers[file.path] = frozenset(found.speakers)
        is_of_one = len(found.speakers) <= 1 and len(found.sources) <= 1
        node = next(iter(found.speakers), file.node_id) if is_of_one else None
        events += [_of_file(batch, node, found.is_whole) for batch in found.batches]
        if file.kind == kinds.SERVER_LOG and is_of_one:
            place |= {"node_id": node, "whole_until_ms": _whole_until_ms(file) if found.is_whole else None}
            for row in found.boots.rows:
                begins = row["begins_in_file"] and (found.is_whole or found.is_contiguous)
                boots.append({**row, "begins_in_file": begins, "position": row["first_position"], **place})
    tables_read = BrokerLogTables(
        pa.Table.from_batches(events, schema=tables.BROKER_LOG_EVENTS),
        pa.Table.from_pylist(boots, schema=tables.NODE_BOOTS),
        accounts,
        counts,
        speakers,
    )
    return without_contradicted(tables_read, files)


def without_contradicted(read: BrokerLogTables, files: Iterable[EvidenceFile]) -> BrokerLogTables:
    """The rows without the node of a file whose lines name none, if the lines of another file that was copied from that
    node name others, and not it: a folder may be named by something else, such as a pod's number."""
    placed = {file.path: file.node_id for file in files if file.path in read.speakers}
    others = {node for path, node in placed.items() if read.speakers[path] and node not in read.speakers[path]}
    doubted = [path for path, node in placed.items() if not read.speakers[path] and node in others]
    if not doubted:
        return read
    return replace(read, events=_of_nobody(read.events, doubted), boots=_of_nobody(read.boots, doubted))


def _of_nobody(rows: pa.Table, paths: Sequence[str]) -> pa.Table:
    is_doubted = pc.is_in(rows["path"], pa.array(paths, pa.string()))
    return with_column(rows, "node_id", pc.if_else(is_doubted, pa.scalar(None, pa.int32()), rows["node_id"]))


def _scan(
    stream: TextStream, patterns: Sequence[str], found: _FileRows, place: Row, file: EvidenceFile
) -> LineScanner | None:
    """The scanner, after all of the text; None where no line of the text's beginning begins an event."""
    chunks, start = iter(stream), b""
    for chunk in chunks:
        start += chunk
        if len(start) >= HEAD_BYTES:
            layout = detect(start[:_MAX_HEAD_BYTES], patterns)
            if layout is not None or len(start) >= _MAX_HEAD_BYTES:
                break
    else:
        layout = detect(start, patterns)
    if layout is None:
        return None
    scanner = LineScanner(layout, WANTED)

    def take(lines: Iterable[Line]) -> None:
        for line in lines:
            found.is_contiguous = found.is_contiguous and layout.is_own(line.head)
            row = _row(line, layout, scanner)
            if row is not None:
                row.update(place)
                wall_ms, zone_ms = row["logged_at_ms"], file.log_utc_offset_ms
                if row["logged_at_utc_ms"] is None and wall_ms is not None and zone_ms is not None:
                    row["logged_at_utc_ms"] = wall_ms - zone_ms
                _add(row, line, scanner, found)

    take(scanner.feed(start))
    del start
    for chunk in chunks:
        take(scanner.feed(chunk))
    take(scanner.end())
    if file.kind == kinds.SERVER_LOG and scanner.first is not None:
        if not found.boots.rows:
            found.boots.begin_file(_at(scanner.first, layout))
        found.boots.end(_at(scanner.last, layout) if scanner.last else None)
    return scanner


def _row(line: Line, layout: Layout, scanner: LineScanner) -> Row | None:
    head = layout.read(line.head)
    if head is None:
        return None
    text = head.message if line.is_head else line.text.decode("utf-8", "replace")
    again = layout.begin.search(text) if line.is_head and layout.begin is not None else None
    text = text if again is None else text[: again.start()]
    event = read_event(text, line.is_head, head.is_cut or again is not None)
    if again is not None:
        message = "another event begins inside the line, as after a full disk or a power loss: that one is not read"
        scanner.remark(line, "two_events", message)
    if event is None:
        return None
    event["logged_at_ms"], event["logged_at_utc_ms"] = head.logged_at_ms, head.logged_at_utc_ms
    event["level"], event["logger"], event["source"] = head.level, head.logger, head.source
    event["position"], event["length_bytes"] = line.position, line.length_bytes
    event["message"] = text[:_EXAMINED_CHARS]
    return event


def _add(row: Row, line: Line, scanner: LineScanner, found: _FileRows) -> None:
    speaker = row.pop("speaker_id", None)
    if speaker is not None:
        found.speakers[speaker] += 1
    found.sources.add(row.pop("source"))
    at_ms = row["logged_at_ms"] or found.latest_ms
    found.is_contiguous = found.is_contiguous and at_ms + _OUT_OF_ORDER_MS >= found.latest_ms
    found.latest_ms = max(at_ms, found.latest_ms)
    if not found.boots.rows and scanner.first is not None:
        found.boots.begin_file(_at(scanner.first, scanner.layout))
    before = _at(line.before, scanner.layout) if line.before and marker_of(row) else None
    found.boots.add(row, before)
    row["node_id"] = speaker
    found.rows.append(row)
    if len(found.rows) >= _CHUNK_ROWS:
        _flush(found)


def _at(place: tuple[int, bytes], layout: Layout) -> Row:
    head = layout.read(place[1])
    return {"position": place[0], "logged_at_ms": head.logged_at_ms if head else None}


def _flush(found: _FileRows) -> None:
    if found.rows:
        _redact(found.rows)
        found.batches.append(pa.RecordBatch.from_pylist(found.rows, schema=tables.BROKER_LOG_EVENTS))
        found.rows.clear()


def _redact(rows: list[Row]) -> None:
    """Replace secrets, and cut long messages. One look at all of them finds the few that may hold one."""
    messages = pa.array([row["message"] for row in rows], pa.string())
    suspects = pc.match_substring_regex(messages, pattern=SECRET_WORDS, ignore_case=True)
    for index in pc.indices_nonzero(suspects).to_pylist():
        row = rows[index]
        row["message"] = redact_text(row["message"])
        # A detail is a part of the message: it is shown if that part still is.
        if row.get("detail") and row["detail"] not in row["message"]:
            row["detail"] = REDACTED
    for row in rows:
        if len(row["message"]) > MAX_MESSAGE_CHARS:
            row["message"] = row["message"][:MAX_MESSAGE_CHARS]


def _whole_until_ms(file: EvidenceFile) -> int | None:
    """When the file to which the node was writing was copied, at the earliest; None for one that was rotated away."""
    is_live = file.path.rpartition("/")[2] == "server.log"
    return file.captured_at_ms - file.clock_error_ms if is_live and file.captured_at_ms is not None else None


def _of_file(batch: pa.RecordBatch, node: int | None, is_whole: bool) -> pa.RecordBatch:
    """The rows with what is only known at the file's end: its node, and whether it was read to there."""
    batch = with_column(batch, "file_is_whole", pa.repeat(pa.scalar(is_whole), len(batch)))
    nodes = batch["node_id"]
    return batch if node is None else with_column(batch, "node_id", nodes.fill_null(pa.scalar(node, pa.int32())))


def _account(file: EvidenceFile, stream: TextStream, scanner: LineScanner | None, found: _FileRows) -> Account:
    if scanner is None:
        if not file.size_bytes:
            return Account(0, note="an empty file")
        reason = stream.reason or "no line begins as in any known layout: set evidence.log_patterns to the site's"
        code = "bad_compression" if stream.reason else "unknown_layout"
        with file.slices() as data:
            start = data[:2]
        reason = IN_UTF_16 if start in UTF_16 else reason + _IN_ONE_VALUE if start[:1] in b"{[" else reason
        damage = [Damage(0, file.size_bytes, None, code, reason)]
        return Account(0, file.size_bytes, 0, reason, damage)
    notes = [*scanner.notes, *_about_nodes(file, found)]
    if stream.codec is None:
        rest = file.size_bytes - scanner.quarantined_bytes - scanner.trailing_bytes
        parts = (rest, scanner.quarantined_bytes, scanner.trailing_bytes)
        damage = scanner.damage
    else:
        # Positions in an unpacked text are none in the file: what is wrong there is a remark on the whole.
        damage = [Damage(0, 0, None, d.reason, _in_text(d)) for d in scanner.damage]
        broken = 0 if stream.broken_at is None else file.size_bytes - stream.broken_at
        if stream.broken_at is not None:
            damage.append(Damage(stream.broken_at, broken, None, "bad_compression", stream.reason))
        parts = (file.size_bytes - broken, broken, 0)
    notes += [d.message for d in damage[:1]]
    return Account(*parts, "; ".join(notes) or None, damage)


def _in_text(damage: Damage) -> str:
    return f"in the unpacked text, byte {damage.position}, {damage.length_bytes} bytes: {damage.message}"


def _about_nodes(file: EvidenceFile, found: _FileRows) -> list[str]:
    if file.node_id is None:
        many = len(found.speakers) > 1 or len(found.sources) > 1
        named = "lines of several nodes" if many else "" if found.speakers else "nothing says which node this is from"
        return [named] if named else []
    others = sorted(set(found.speakers) - {file.node_id})
    return [f"lines of node {', '.join(map(str, others))} in a file of node {file.node_id}"] if others else []
