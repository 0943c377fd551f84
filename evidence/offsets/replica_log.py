"""Find the end of a replica's log from its last segment file: a topic's data, not the metadata log.

Sources: Kafka's FileLogInputStream (a batch shorter than the size in its head ends the file), LogSegment.recover (a
broker that did not stop cleanly truncates the log at the first invalid batch); those of evidence/wire/data_batches.py.
"""

from collections import deque
from dataclasses import dataclass

from evidence.capture.blocks import Held, Local
from evidence.errors import Damage
from evidence.wire.data_batches import Framing, Torn, mapped

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
        return _tail(Framing(path.data, base_offset))
    with mapped(path) as data:
        return _tail(Framing(data, base_offset))


def _tail(framing: Framing) -> Tail:
    last_position, trailing_bytes, offsets = 0, 0, deque[int](maxlen=LAST_BATCHES)
    note = None if framing.end else "empty file: legal for an active segment"
    for found in framing.all_batches(goes_on=False):
        if isinstance(found, Damage):
            return Tail(None, framing.epoch, last_position, [found], 0, None)
        if isinstance(found, Torn):
            trailing_bytes, note = found.size_bytes, found.note
        else:
            last_position = found.position
            offsets.append(found.base_offset)
    return Tail(framing.next_offset, framing.epoch, last_position, [], trailing_bytes, note, tuple(offsets))
