"""Find the end of a replica's log from its last segment file: a topic's data, not the metadata log.

Sources: Kafka's FileLogInputStream (a batch shorter than the size in its head ends the file), LogSegment.recover (a
broker that did not stop cleanly truncates the log at the first invalid batch); those of evidence/wire/data_batches.py.
"""

from __future__ import annotations

import mmap
from collections import deque
from dataclasses import dataclass

from evidence.capture.held import Held, Local
from evidence.errors import Damage
from evidence.wire.data_batches import DataBatch, Framing, SegmentBytes, Torn

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


def read_tail(path: Local, base_offset: int) -> Tail:
    """The end of the segment `path`, whose name gives `base_offset`. The CRC of each batch is checked.

    Nothing after damage is read. A broker that recovers would truncate the log there, one that keeps running would not,
    so log_end_offset is None.
    Errors: OSError if the file cannot be read; none for its content.
    """
    if isinstance(path, Held):
        return _Segment(path.data, base_offset).tail()
    with path.open("rb") as file:
        if not file.seek(0, 2):
            return _Segment(b"", base_offset).tail()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Segment(data, base_offset).tail()


class _Segment:
    """One segment's bytes, read from the start."""

    def __init__(self, data: SegmentBytes, base_offset: int) -> None:
        self.framing = Framing(data, base_offset)
        self.batch_offsets: deque[int] = deque(maxlen=LAST_BATCHES)

    def tail(self) -> Tail:
        position = last_position = 0
        while position < self.framing.end:
            found = self.framing.batch(position)
            if not isinstance(found, DataBatch):
                return self._stopped(found, position, last_position)
            self.framing.took(found)
            last_position = position
            self.batch_offsets.append(found.base_offset)
            position = found.end
        note = None if self.framing.end else "empty file: legal for an active segment"
        return self._end(last_position, 0, note)

    def _end(self, last_position: int, trailing_bytes: int, note: str | None) -> Tail:
        """The tail behind the batches so far."""
        of = self.framing
        return Tail(of.next_offset, of.epoch, last_position, [], trailing_bytes, note, tuple(self.batch_offsets))

    def _stopped(self, found: Torn | Damage, position: int, last_position: int) -> Tail:
        """The tail when there is no valid batch at `position`."""
        left = self.framing.end - position
        if self.framing.only_zeros(position):
            note = f"{left} zero bytes {'after the last batch' if position else 'and nothing else'}: preallocated"
            return self._end(last_position, left, note)
        if isinstance(found, Damage):
            return Tail(None, self.framing.epoch, last_position, [found], 0, None)
        if found.size_bytes and self.framing.has_later_batch(position):
            message = (
                f"the head gives a size of {found.size_bytes} bytes, {left} are left, and they may hold a later batch"
            )
            damage = self.framing.damage(position, "bad_length", message)
            return Tail(None, self.framing.epoch, last_position, [damage], 0, None)
        return self._end(last_position, left, found.note)
