"""Find the end of a replica's log from the heads of its last record batches, as `collect` writes them.

A file `<topic>-<partition>/<20 digits>.heads` is of the segment with that base offset (docs/evidence.md): `size` and
its length; for each batch behind the last entry of its index its position and the 61 bytes of the head in hex;
`skipped` and how many heads were left out before the last one; `end`, where the last whole batch ends, and what follows
there. It has no keys and no values.

Sources: DefaultRecordBatch (a head of 61 bytes), LogSegment.append (an index entry names the position at which the
batch after it begins), FileLogInputStream. A head's CRC is of the records, so it cannot be checked: a broker that
recovers may cut the log before a batch whose head is whole.
"""

import re
from collections import deque
from collections.abc import Sequence

from evidence.errors import Damage
from evidence.limits import MAX_INT32, MAX_INT64
from evidence.offsets.replica_log import LAST_BATCHES, Tail, unconfirmed
from evidence.text_files import text_lines
from evidence.wire.batches import HEAD, HEAD_BYTES

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
