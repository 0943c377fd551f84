"""Text of `kafka-dump-log --cluster-metadata-decoder` -> the logs, batches and records that the bytes would give.

Three shapes: everything; --skip-record-metadata (no offsets in the record lines, control records as empty lines);
and JSON payload lines alone, whose offsets are unknown. One text may hold several dumps. Lines:
evidence/dump_log/lines.py. What no shape holds: unknown tagged fields and the bytes of unknown records. What a terminal
without UTF-8 printed as `?` cannot be told from a real `?`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from evidence.dump_log import lines as lines
from evidence.errors import Damage, DecodeError
from evidence.wire.batches import Batch

_MAX_LACKS = 3
_BOM = b"\xef\xbb\xbf"
_NOT_UNDERSTOOD = f"not what kafka-dump-log prints, or a line of more than {lines.MAX_LINE_BYTES} bytes"


@dataclass(slots=True)
class DumpedLog:
    """One dumped file. name: its base name, "" if not told. snapshot: (end offset, epoch), None for a log.

    lacks: what of the file the text does not hold, as a sentence, or None.
    """

    name: str
    snapshot: tuple[int, int] | None
    batches: list[Batch]
    lacks: str | None = None


@dataclass(slots=True)
class DumpScan:
    """What a text holds: parsed + quarantined + trailing bytes = its length.

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
    """The batch whose lines are being read. head None: its line is damaged, or the tool found its CRC wrong."""

    position: int
    head: Batch | None
    reason: str
    message: str
    told: int = 0
    untold: int = 0
    blank: int = 0
    first: tuple[int, int] = (0, 0)
    last: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class _OpenLog:
    """The dump that is being read; damage_from: the index of the first damage that lies in it."""

    log: DumpedLog
    position: int
    damage_from: int
    is_started: bool = False
    is_bootstrap: bool = False
    told_control: int = 0
    told_data: int = 0
    untold: int = 0
    untold_batches: int = 0
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
        self.cut_at: int | None = None

    def scan(self) -> DumpScan:
        data, end = self.data, len(self.data)
        for start, stop, following in lines.spans(data, len(_BOM) if data.startswith(_BOM) else 0, end):
            kind = lines.kind_of(data, start, stop)
            if following == end and data[end - 1] != 10 and self._is_cut(kind, start, stop):
                self.cut_at = start
                break
            self._take(kind, start, stop, following)
        self._close_log(end)
        if self.logs:
            for start, stop in self.bare:
                self._quarantine(start, stop, None, "unplaced_payload", "payload lines that belong to no batch")
            self.damage.sort(key=lambda d: d.position)
        unplaced = (self.bare[0][0], self.bare[-1][1]) if self.bare and not self.logs else None
        quarantined = sum(d.length_bytes for d in self.damage)
        trailing = 0 if self.cut_at is None else end - self.cut_at
        note = f"the text is cut off in the line at byte {self.cut_at}" if trailing else None if end else "empty file"
        return DumpScan(self.logs, unplaced, self.damage, end - quarantined - trailing, quarantined, trailing, note)

    def _is_cut(self, kind: str, start: int, stop: int) -> bool:
        """Whether the last line, which does not end, is only the beginning of one."""
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
            self._bare(start, following)
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
        if batch.head and batch.head.is_control and lines.is_untold(self.data[start:stop]):
            batch.untold += 1
        else:
            batch.first = batch.first if batch.told else (start, stop)
            batch.last = (start, stop)
            batch.told += 1

    def _bare(self, start: int, following: int) -> None:
        if self.bare and self.bare[-1][1] == start:
            start = self.bare.pop()[0]
        self.bare.append((start, following))

    def _known(self, start: int, stop: int) -> None:
        if self.log is None:
            return
        line, told = self.data[start:stop], None
        if line.startswith((b"Exception in thread ", b"\tat ")):
            told = "kafka-dump-log stopped with an exception: later batches are not in the text"
        elif line.startswith(b"Found ") and b" invalid bytes " in line:
            told = f"the last {line[6:25].split()[0].decode()} bytes of the file were no whole batch"
        if told and told not in self.log.lacks and len(self.log.lacks) < _MAX_LACKS:
            self.log.lacks.append(told)

    def _unknown(self, start: int, following: int) -> None:
        if self.batch and self.batch.head is None:
            return  # the damaged batch is quarantined whole
        last = self.damage[-1] if self.damage else None
        if last and last.reason == "not_understood" and last.position + last.length_bytes == start:
            self.damage.pop()
            start = last.position
        is_utf16 = start == 0 and self.data.startswith((b"\xff\xfe", b"\xfe\xff"))
        message = "UTF-16 text, as PowerShell's '>' writes it: convert it to UTF-8" if is_utf16 else _NOT_UNDERSTOOD
        self._quarantine(start, following, None, "not_understood", message)

    def _quarantine(self, start: int, end: int, offset: int | None, reason: str, message: str) -> None:
        self.damage.append(Damage(start, end - start, offset, reason, message))

    def _start(self, start: int, stop: int, following: int) -> None:
        told = lines.parse_start(self.data[start:stop])
        if told is None:
            self._unknown(start, following)
            return
        name, snapshot = told
        if self.log is None or self.log.is_started or self.log.first:  # its "Dumping" line is lost
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
            stop = end if self.cut_at is None or end < len(self.data) else self.cut_at
            self._quarantine(batch.position, stop, before, batch.reason, batch.message)
            return
        log.log.batches.append(replace(head, extent_bytes=end - batch.position))
        held = batch.told
        if not head.is_control:
            log.told_data += batch.told
        elif not batch.told and not batch.untold:  # --skip-record-metadata; empty lines are easily lost
            log.untold += min(batch.blank, head.record_count)
            log.untold_batches += batch.blank > 0
            return
        else:
            log.told_control += batch.told
            log.untold += batch.untold
            log.untold_batches += batch.untold > 0
            held += batch.untold
        if held != head.record_count:
            log.problem = f"{held} of {head.record_count} records of the batch at offset {head.base_offset} are there"

    def _close_log(self, end: int) -> None:
        self._close_batch(end)
        log, self.log = self.log, None
        if log is None or (log.first is None and not log.log.name.endswith((".log", ".checkpoint"))):
            return
        self.logs.append(log.log)
        problem = None if log.is_bootstrap else self._snapshot_problem(log)
        if problem:
            message = f"the snapshot is not whole: {problem}; it is not used as state"
            del self.damage[log.damage_from :]
            self._quarantine(log.position, end, None, "bad_snapshot", message)
            if end == len(self.data):
                self.cut_at = None
            log.log.batches, log.lacks = [], [message]
        elif log.is_bootstrap:
            log.log.batches, log.lacks = [], ["the records of bootstrap.checkpoint are no part of the log: not read"]
        elif log.untold:
            batches = f"{log.untold} control records of {log.untold_batches} batches are not in the text"
            log.lacks.insert(0, f"{batches} ({'an older release' if log.told_control else '--skip-record-metadata'})")
        if any(not b.is_control for b in log.log.batches) and not log.told_data:
            log.lacks.insert(0, "no metadata record is in the text (made without --cluster-metadata-decoder?)")
        log.log.lacks = "; ".join(log.lacks) or None

    def _snapshot_problem(self, log: _OpenLog) -> str | None:
        """What makes the snapshot unusable (compare evidence.metadata_log.scan.scan_snapshot), None if nothing does."""
        first, last = log.first, log.last
        begins = first is not None and self.data.find(b" SnapshotHeader {", *first.first) >= 0
        if log.log.snapshot is None:
            is_snapshot = begins or log.log.name.endswith(".checkpoint")
            return "the text does not name its end offset" if is_snapshot else None
        if first is None or last is None:
            return "it holds no batch"
        damage = self.damage[log.damage_from :]
        if damage:
            return damage[0].message
        if self.cut_at is not None:
            return "the text is cut off in it"
        if log.problem:
            return log.problem
        heads = log.log.batches
        if not heads[0].is_control or (log.told_control and not begins):
            return "it does not begin with a snapshot header"
        if not heads[-1].is_control or (log.told_control and self.data.find(b" SnapshotFooter {", *last.last) < 0):
            return "it does not end with a snapshot footer"
        return None


def scan_dump(data: bytes) -> DumpScan:
    """Which dumps and batches a text holds, every byte accounted for. Never raises, whatever the bytes.

    A batch that the tool calls invalid is quarantined with its records; a snapshot that is not whole, as a whole.
    """
    return _Scanner(data).scan()
