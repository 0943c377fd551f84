"""Frame the text of `kafka-dump-log --cluster-metadata-decoder`: the same logs, batches and records as in the bytes.

The text has one of three forms: everything; --skip-record-metadata (no offsets in the record lines, control records as
empty lines); or JSON payload lines alone, whose offsets are unknown. One text may hold several dumps. Lines:
evidence/dump_log/lines.py. No form holds unknown tagged fields or the bytes of unknown records. A `?` that a terminal
without UTF-8 printed cannot be distinguished from a real `?`.
"""

from dataclasses import dataclass, field, replace

from evidence.dump_log import lines
from evidence.errors import Damage, DecodeError
from evidence.text_files import IN_UTF_16, UTF_16
from evidence.wire.batches import Batch, Batches, is_whole

_MAX_LACKS = 3
_BOM = b"\xef\xbb\xbf"
_NOT_UNDERSTOOD = f"not a line that kafka-dump-log prints, or longer than {lines.MAX_LINE_BYTES} bytes"


@dataclass(slots=True)
class DumpedLog:
    """One dumped file. name: its base name, "" if unknown. snapshot: (end offset, epoch), None for a log.

    lacks: what is missing from the text, as a sentence, or None.
    """

    name: str
    snapshot: tuple[int, int] | None
    batches: list[Batch]
    lacks: str | None = None


@dataclass(slots=True)
class DumpScan:
    """The content of a text: parsed + quarantined + trailing bytes = its length.

    unplaced: [start, end) of payload lines without batches, for read_unplaced. note: a sentence, or None.
    """

    logs: list[DumpedLog]
    unplaced: tuple[int, int] | None
    damage: list[Damage]
    parsed_bytes: int
    quarantined_bytes: int
    trailing_bytes: int
    note: str | None


@dataclass(slots=True)
class _OpenBatch:
    """The batch whose lines are being read.

    head: None if its line is damaged or the tool found its CRC wrong. printed: record lines with content; omitted:
    control lines without their record; blank: empty lines; first_line, last_line: [start, end) of the first and last
    printed line.
    """

    position: int
    head: Batch | None
    reason: str
    message: str
    printed: int = 0
    omitted: int = 0
    blank: int = 0
    first_line: tuple[int, int] = (0, 0)
    last_line: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class _OpenLog:
    """The dump that is being read. damage_from: the index of its first damage; omitted_control: control records that
    are not in the text, of batches_with_omitted batches."""

    log: DumpedLog
    position: int
    damage_from: int
    is_started: bool = False
    is_bootstrap: bool = False
    printed_control: int = 0
    printed_data: int = 0
    omitted_control: int = 0
    batches_with_omitted: int = 0
    first: _OpenBatch | None = None
    last: _OpenBatch | None = None
    problem: str | None = None
    lacks: list[str] = field(default_factory=list)


class _Scanner:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.logs: list[DumpedLog] = []
        self.damage: list[Damage] = []
        self.bare: list[tuple[int, int]] = []
        self.log: _OpenLog | None = None
        self.batch: _OpenBatch | None = None
        self.cut_line_at: int | None = None

    def scan(self) -> DumpScan:
        data, end = self.data, len(self.data)
        for start, stop, following in lines.spans(data, len(_BOM) if data.startswith(_BOM) else 0, end):
            kind = lines.kind_of(data, start, stop)
            if following == end and data[end - 1] != 10 and self._is_cut(kind, start, stop):
                self.cut_line_at = start
                if kind != lines.RECORD:
                    self._close_batch(start)
                break
            self._take(kind, start, stop, following)
        self._close_log(end)
        if self.logs:
            for start, stop in self.bare:
                self._quarantine(start, stop, None, "unplaced_payload", "payload lines that belong to no batch")
            self.damage.sort(key=lambda d: d.position)
        unplaced = (self.bare[0][0], self.bare[-1][1]) if self.bare and not self.logs else None
        quarantined = sum(d.length_bytes for d in self.damage)
        trailing = 0 if self.cut_line_at is None else end - self.cut_line_at
        note = (
            f"the text is cut off in the line at byte {self.cut_line_at}" if trailing else None if end else "empty file"
        )
        return DumpScan(self.logs, unplaced, self.damage, end - quarantined - trailing, quarantined, trailing, note)

    def _is_cut(self, kind: str, start: int, stop: int) -> bool:
        """Whether the last line, which has no line end, is incomplete."""
        line = self.data[start:stop]
        try:
            if kind == lines.BATCH:
                lines.parse_batch(line, start)
            elif kind in (lines.RECORD, lines.BARE) and self.log is None:
                lines.parse_payload(lines.payload_of(line))
            elif kind == lines.RECORD and self.batch and self.batch.head:
                lines.parse_record(line, self.batch.head)
            elif kind in (lines.HEADER, lines.START, lines.UNKNOWN):
                return self.log is not None or kind != lines.UNKNOWN
        except DecodeError:
            return self.log is not None or bool(self.bare) or kind == lines.BATCH
        return False

    def _take(self, kind: str, start: int, stop: int, following: int) -> None:
        if kind == lines.RECORD and self.batch:
            self._count(start, stop, self.batch)
        elif kind in (lines.RECORD, lines.BARE) and self.log is None:
            begin = self.bare.pop()[0] if self.bare and self.bare[-1][1] == start else start
            self.bare.append((begin, following))
        elif kind == lines.BATCH:
            self._open_batch(start, stop)
        elif kind == lines.HEADER:
            self._open_log(start, *lines.dumped_name(self.data[start:stop]))
        elif kind == lines.START:
            self._start(start, stop, following)
        elif kind == lines.KNOWN:
            self._known(start, stop)
        elif kind == lines.BLANK:
            if self.batch and start == stop:
                self.batch.blank += 1
        else:
            self._unknown(start, following)

    def _count(self, start: int, stop: int, batch: _OpenBatch) -> None:
        if batch.head and batch.head.is_control and lines.is_control_without_record(self.data[start:stop]):
            batch.omitted += 1
        else:
            batch.first_line = batch.first_line if batch.printed else (start, stop)
            batch.last_line = (start, stop)
            batch.printed += 1

    def _known(self, start: int, stop: int) -> None:
        if self.log is None:
            return
        line, missing = self.data[start:stop], None
        if line.startswith((b"Exception in thread ", b"\tat ")):
            missing = "kafka-dump-log stopped with an exception: later batches are not in the text"
        elif line.startswith(b"Found ") and b" invalid bytes " in line:
            missing = f"the last {line[6:25].split()[0].decode()} bytes of the file were not a whole batch"
        if missing and missing not in self.log.lacks and len(self.log.lacks) < _MAX_LACKS:
            self.log.lacks.append(missing)

    def _unknown(self, start: int, following: int) -> None:
        if self.batch and self.batch.head is None:
            return  # the damaged batch is quarantined as a whole
        last = self.damage[-1] if self.damage else None
        if last and last.reason == "not_understood" and last.position + last.length_bytes == start:
            self.damage.pop()
            start = last.position
        message = IN_UTF_16 if start == 0 and self.data.startswith(UTF_16) else _NOT_UNDERSTOOD
        self._quarantine(start, following, None, "not_understood", message)

    def _quarantine(self, start: int, end: int, offset: int | None, reason: str, message: str) -> None:
        self.damage.append(Damage(start, end - start, offset, reason, message))

    def _start(self, start: int, stop: int, following: int) -> None:
        start_line = lines.parse_start(self.data[start:stop])
        if start_line is None:
            self._unknown(start, following)
            return
        name, snapshot = start_line
        if self.log is None or self.log.is_started or self.log.first:  # its "Dumping" line is missing
            self._open_log(start, name, None)
        assert self.log
        self.log.is_started, self.log.is_bootstrap = True, name == lines.BOOTSTRAP
        self.log.log.snapshot = snapshot or self.log.log.snapshot

    def _open_log(self, position: int, name: str, snapshot: tuple[int, int] | None) -> None:
        self._close_log(position)
        self.log = _OpenLog(DumpedLog(name, snapshot, []), position, len(self.damage))

    def _open_batch(self, start: int, stop: int) -> None:
        self._close_batch(start)
        if self.log is None:
            self._open_log(start, "", None)
        try:
            head, is_valid = lines.parse_batch(self.data[start:stop], start)
        except DecodeError as error:
            self.batch = _OpenBatch(start, None, error.reason, str(error))
        else:
            message = f"kafka-dump-log found that the CRC of the batch at offset {head.base_offset} is wrong"
            self.batch = _OpenBatch(start, head if is_valid else None, "crc_mismatch", message)
        if self.log:
            self.log.first = self.log.first or self.batch

    def _close_batch(self, end: int) -> None:
        log, batch, self.batch = self.log, self.batch, None
        if log is None or batch is None:
            return
        log.last = batch
        head = batch.head
        if head is None:
            before = log.log.batches[-1].last_offset + 1 if log.log.batches else None
            stop = end if self.cut_line_at is None or end < len(self.data) else self.cut_line_at
            self._quarantine(batch.position, stop, before, batch.reason, batch.message)
            return
        log.log.batches.append(replace(head, extent_bytes=end - batch.position))
        found = batch.printed
        if not head.is_control:
            log.printed_data += batch.printed
        elif not batch.printed and not batch.omitted:  # --skip-record-metadata; empty lines are easily lost
            log.omitted_control += min(batch.blank, head.record_count)
            log.batches_with_omitted += batch.blank > 0
            return
        else:
            log.printed_control += batch.printed
            log.omitted_control += batch.omitted
            log.batches_with_omitted += batch.omitted > 0
            found += batch.omitted
        if found != head.record_count:
            log.problem = f"the batch at offset {head.base_offset} has {found} of its {head.record_count} records"

    def _close_log(self, end: int) -> None:
        self._close_batch(end)
        log, self.log = self.log, None
        if log is None or (log.first is None and not log.log.name.endswith((".log", ".checkpoint"))):
            return
        self.logs.append(log.log)
        problem = None if log.is_bootstrap else self._snapshot_problem(log)
        if lines.is_of_a_topic(self.data, log.position, end):
            self._refuse(log, end, "not_metadata_log", "a dump of a topic's log, not of the metadata log")
        elif problem:
            self._refuse(log, end, "bad_snapshot", f"the snapshot is incomplete: {problem}; it is not used as state")
        elif log.is_bootstrap:
            log.log.batches, log.lacks = [], ["the records of bootstrap.checkpoint are not part of the log: not read"]
        elif log.omitted_control:
            counts = f"{log.omitted_control} control records of {log.batches_with_omitted} batches are not in the text"
            log.lacks.insert(0, f"{counts} ({'an older release' if log.printed_control else '--skip-record-metadata'})")
        if any(not b.is_control for b in log.log.batches) and not log.printed_data:
            log.lacks.insert(0, "no metadata record is in the text (run without --cluster-metadata-decoder?)")
        log.log.lacks = "; ".join(log.lacks) or None

    def _refuse(self, log: _OpenLog, end: int, reason: str, message: str) -> None:
        del self.damage[log.damage_from :]
        self._quarantine(log.position, end, None, reason, message)
        if end == len(self.data):
            self.cut_line_at = None
        log.log.batches, log.lacks = [], [message]

    def _snapshot_problem(self, log: _OpenLog) -> str | None:
        """Why the snapshot is unusable, or None. Compare evidence.metadata_log.scan._scan_snapshot."""
        first, last = log.first, log.last
        begins = first is not None and self.data.find(b" SnapshotHeader {", *first.first_line) >= 0
        if log.log.snapshot is None:
            is_snapshot = begins or log.log.name.endswith(".checkpoint")
            return "the text does not name its end offset" if is_snapshot else None
        if first is None or last is None:
            return "it has no batch"
        damage = self.damage[log.damage_from :]
        if damage:
            return damage[0].message
        if self.cut_line_at is not None:
            return "the text is cut off in it"
        if log.problem:
            return log.problem
        heads = log.log.batches
        if not heads[0].is_control or (log.printed_control and not begins):
            return "it does not begin with a snapshot header"
        if not heads[-1].is_control or (
            log.printed_control and self.data.find(b" SnapshotFooter {", *last.last_line) < 0
        ):
            return "it does not end with a snapshot footer"
        return None if is_whole(Batches.of(heads)) else "its records are not numbered from 0 without a gap"


def scan_dump(data: bytes) -> DumpScan:
    """Find the dumps and batches in a text. Each byte is accounted for. Never raises, for any bytes.

    A batch that the tool calls invalid is quarantined with its records; an incomplete snapshot is quarantined as a
    whole.
    """
    return _Scanner(data).scan()
