"""Find the end of a replica's log from its last segment file, or from the heads of its last record batches, as
`collect` writes them: a topic's data, not the metadata log.

A file `<topic>-<partition>/<20 digits>.heads` is of the segment with that base offset (docs/evidence.md): `size` and
its length; for each batch behind the last entry of its index its position and the 61 bytes of the head in hex;
`skipped` and how many heads were left out before the last one; `end`, where the last whole batch ends, and what follows
there. It has no keys and no values.

Sources: Kafka's FileLogInputStream (a batch shorter than the size in its head ends the file), LogSegment.recover (a
broker that did not stop cleanly truncates the log at the first invalid batch), UnifiedLog.append (a leader's
offsets are dense, and the epoch of each batch is in the leader-epoch-checkpoint before it is in the log), LogCleaner
(the last segment is not compacted); those of evidence/wire/data_batches.py. DefaultRecordBatch (a head of 61 bytes),
LogSegment.append (an index entry names the position at which the batch after it begins). A head's CRC is of the
records, so it cannot be checked: a broker that recovers may cut the log before a batch whose head is whole.
"""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from evidence.capture.blocks import Local, mapped
from evidence.errors import Damage
from evidence.limits import MAX_INT32, MAX_INT64
from evidence.text_files import text_lines
from evidence.wire.batches import HEAD, HEAD_BYTES
from evidence.wire.data_batches import Framing, Torn

# More than request threads of a broker need (num.io.threads, 8 by default).
LAST_BATCHES = 32


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of one segment: parsed bytes + damage + trailing bytes = the file's length.

    log_end_offset: the offset that the next record would get; None if unknown. last_written_leader_epoch: of the last
    valid batch; None without one. batch_offsets: base offsets of the last valid batches, ascending, at most
    LAST_BATCHES. position: the byte position of the last valid batch; 0 without one. note: why there
    are trailing bytes, or no batches; None if the file ends with a whole batch.
    """

    log_end_offset: int | None
    last_written_leader_epoch: int | None
    position: int
    damage: list[Damage]
    trailing_bytes: int
    note: str | None
    batch_offsets: tuple[int, ...] = ()


def unconfirmed(
    base: int, last: int, epoch: int | None, expected: tuple[int, int | None], epochs: Sequence[tuple[int, int]]
) -> tuple[str, str] | None:
    """(Reason, message) if the offset or the leader epoch of a log's last batch, which no CRC covers and no batch after
    it confirms, contradicts what is before it; else None. expected: the offset after the batch before, and its epoch.
    epochs: (leader epoch, start offset) of the leader-epoch-checkpoint, ascending; none if it is missing. It may have
    been copied before an election: a later epoch than it has is right if two batches have it."""
    if base != expected[0]:
        return "bad_offset", f"base offset {base} of the last batch, expected {expected[0]}: nothing confirms it"
    recorded = [known for known, start in epochs if start <= last][-1:]
    if epoch is None or not epochs or recorded == [epoch] or (epoch == expected[1] and recorded < [epoch]):
        return None
    return "bad_epoch", f"leader epoch {epoch} of the last batch, which leader-epoch-checkpoint does not have there"


def read_tail(path: Local, base_offset: int, epochs: Sequence[tuple[int, int]] = ()) -> Tail:
    """The end of the segment `path`, whose name gives `base_offset`. The CRC of each batch is checked. epochs: see
    `unconfirmed`.

    Nothing after damage is read. A broker that recovers would truncate the log there, one that keeps running would not,
    so log_end_offset is None.
    Errors: OSError if the file cannot be read; none for its content.
    """
    with mapped(path) as data:
        return _tail(Framing(data, base_offset), epochs)


def _tail(framing: Framing, epochs: Sequence[tuple[int, int]]) -> Tail:
    last_position, trailing_bytes, offsets = 0, 0, deque[int](maxlen=LAST_BATCHES)
    note = None if framing.end else "empty file: legal for an active segment"
    before = after = (framing.base_offset, framing.epoch, 0)
    for found in framing.all_batches(goes_on=False):
        if isinstance(found, Damage):
            return Tail(None, framing.epoch, last_position, [found], 0, None)
        if isinstance(found, Torn):
            trailing_bytes, note = found.size_bytes, found.note
        else:
            before, after = after, (framing.next_offset, framing.epoch, found.position)
            last_position = found.position
            offsets.append(found.base_offset)
    expected, epoch, position = before
    last = framing.next_offset - 1
    if offsets and (wrong := unconfirmed(offsets[-1], last, framing.epoch, before[:2], epochs)):
        damage = Damage(last_position, framing.end - last_position, expected, *wrong)
        return Tail(None, epoch, position, [damage], 0, None)
    return Tail(framing.next_offset, framing.epoch, last_position, [], trailing_bytes, note, tuple(offsets))


_LENGTH_FROM = 12
_LINE = re.compile(
    rb"size (?P<size>\d{1,15})|skipped (?P<skipped>\d{1,15})|(?P<position>\d{1,15}) (?P<head>[0-9a-f]{122})|"
    rb"end (?P<end>\d{1,15}) (?P<why>whole|zeros|torn|bad)"
)
_NOTES = {"whole": None, "zeros": "zeros after the last batch: preallocated", "torn": "a torn batch at the end"}


class _Broken(Exception):
    """A line that does not follow from those before it: reason, message."""


def read_heads(data: bytes, base_offset: int, epochs: Sequence[tuple[int, int]] = ()) -> Tail:
    """The end of the segment with this base offset, from its heads. position: of the last head's line in `data`.
    epochs: see `unconfirmed`.

    What does not fit together is damaged from there on, and the log end is None; likewise where the heads end at bytes
    that are no batch (`bad`). Without a head it is None, too, unless the segment is empty: its end is its base offset.
    """
    heads = _Heads(base_offset)
    position = 0
    try:
        for position, line, ended in text_lines(data):
            if not ended:
                raise _Broken("a line without its end")
            heads.take(line, position)
        position = len(data)
        heads.check(epochs)
    except _Broken as broken:
        message = f"{broken} (docs/evidence.md has the format)"
        damage = [Damage(position, len(data) - position, None, "bad_heads", message)]
        return Tail(None, heads.epoch, heads.line_at, damage, 0, None)
    known = heads.why in _NOTES and (heads.epoch is not None or heads.end == 0)
    note = _NOTES.get(heads.why) if known else "no whole batch behind the last index entry, or bytes that are none"
    batches = tuple(heads.batch_offsets) if known else ()
    return Tail(heads.next_offset if known else None, heads.epoch, heads.line_at, [], 0, note, batches)


class _Heads:
    """What the lines so far say. line_at: where the last head's line begins. expected: the offset after the
    batch before the last one, if that is known."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = self.next_offset = base_offset
        self.expected: tuple[int, int | None] = base_offset, None
        self.size: int | None = None
        self.at: int | None = None
        self.end: int | None = None
        self.epoch: int | None = None
        self.line_at = 0
        self.why = ""
        self.batch_offsets: deque[int] = deque(maxlen=LAST_BATCHES)
        self._skips = False

    def take(self, line: bytes, line_at: int) -> None:
        found = _LINE.fullmatch(line)
        if found is None or (found["size"] is None) == (self.size is None) or self.end is not None:
            raise _Broken("not a line that can be here")
        if found["size"]:
            self.size = int(found["size"])
        elif found["skipped"]:
            self._skips = True
        elif found["head"]:
            self._head(int(found["position"]), bytes.fromhex(found["head"].decode()))
            self.line_at, self._skips = line_at, False
        else:
            self.end, self.why = int(found["end"]), found["why"].decode()

    def check(self, epochs: Sequence[tuple[int, int]]) -> None:
        """Errors: _Broken if the end is missing, or not where the last batch ends, or that batch is unconfirmed."""
        if self.end is None or self.size is None or self._skips:
            raise _Broken("the end is missing")
        wrong = self.end > self.size or (self.why == "whole" and self.end != self.size)
        if wrong or self.at not in (None, self.end):
            raise _Broken("the end is not where the last batch ends")
        for base in list(self.batch_offsets)[-1:]:
            if contradiction := unconfirmed(base, self.next_offset - 1, self.epoch, self.expected, epochs):
                raise _Broken(contradiction[1])

    def _head(self, position: int, head: bytes) -> None:
        base, length, epoch, magic, _, _, delta, *_ = HEAD.unpack(head)
        size = length + _LENGTH_FROM
        if self.at is not None and (position < self.at if self._skips else position != self.at):
            raise _Broken("a batch that does not begin where the one before it ends")
        if magic != 2 or size < HEAD_BYTES or position + size > (self.size or 0):
            raise _Broken("not the head of a batch inside the segment")
        if base < self.next_offset or delta < 0 or epoch < (self.epoch or 0):
            raise _Broken("offsets or leader epochs fall")
        if self._skips:
            self.batch_offsets.clear()
        self.expected = self.next_offset if position in (0, self.at) else base, self.epoch
        if base + delta - self.base_offset > MAX_INT32 or base + delta >= MAX_INT64:
            raise _Broken("an offset that this segment cannot hold")
        self.at, self.next_offset, self.epoch = position + size, base + delta + 1, epoch
        self.batch_offsets.append(base)
