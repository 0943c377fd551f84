"""Find the end of a replica's log from its last segment file: a topic's data, not the metadata log.

Sources: Kafka's FileLogInputStream (a batch shorter than the size in its head ends the file), LogSegment.recover (a
broker that did not stop cleanly truncates the log at the first invalid batch), UnifiedLog.append (a leader's
offsets are dense, and the epoch of each batch is in the leader-epoch-checkpoint before it is in the log), LogCleaner
(the last segment is not compacted); those of evidence/wire/data_batches.py.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from evidence.capture.blocks import Local, mapped
from evidence.errors import Damage
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
