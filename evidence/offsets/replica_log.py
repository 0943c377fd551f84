"""Find the end of a replica's log from its last segment file: a topic's data, not the metadata log.

Sources: Kafka's FileLogInputStream (a batch shorter than the size in its head ends the file), LogSegment.recover (a
broker that did not stop cleanly truncates the log at the first invalid batch); those of evidence/wire/data_batches.py.
Of answers to producers (3.9 to 4.3): SocketServer mutes a connection from a request to its answer, so the next request
is read after that; a producer sends to a broker by one connection (NetworkClient), and the batches of one partition in
the order of their sequence numbers, which a batch that it gives up begins anew in another producer epoch
(TransactionManager).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from evidence.capture.held import Held, Local
from evidence.errors import Damage
from evidence.wire.data_batches import DataBatch, Framing, Torn, mapped

# More than request threads of a broker need (num.io.threads, 8 by default).
LAST_BATCHES = 32


def answered_offset(batches: Iterable[DataBatch]) -> int | None:
    """Where the last of these batches ends that the next one of its producer follows: the leader that appended it had
    answered by then, whatever it answered. None if no batch is followed so."""
    last: dict[tuple[int, int], DataBatch] = {}
    answered = []
    for batch in batches:
        if batch.producer_id < 0 or batch.is_control:
            continue
        producer = batch.producer_id, batch.producer_epoch
        before = last.get(producer)
        if before is not None and before.next_sequence == batch.base_sequence:
            answered.append(before.last_offset + 1)
        last[producer] = batch
    return max(answered, default=None)


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of one segment: parsed bytes + damage + trailing bytes = the file's length.

    log_end_offset: the offset that the next record would get; None if unknown. last_written_leader_epoch: of the last
    valid batch; None without one. batches: the last valid ones, at most LAST_BATCHES. position: the byte position of
    the last one; 0 without one. note: why there are trailing bytes, or no batches; None if the file ends with a whole
    batch.
    """

    log_end_offset: int | None
    last_written_leader_epoch: int | None
    position: int
    damage: list[Damage]
    trailing_bytes: int
    note: str | None
    batches: tuple[DataBatch, ...] = ()


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
    position, last_position, batches = 0, 0, deque[DataBatch](maxlen=LAST_BATCHES)
    note = None if framing.end else "empty file: legal for an active segment"
    while position < framing.end:
        found = framing.batch(position)
        if not isinstance(found, DataBatch):
            stopped = _stopped(framing, found, position)
            if isinstance(stopped, Damage):
                return Tail(None, framing.epoch, last_position, [stopped], 0, None)
            note = stopped
            break
        framing.took(found)
        last_position = position
        batches.append(found)
        position = found.end
    return Tail(framing.next_offset, framing.epoch, last_position, [], framing.end - position, note, tuple(batches))


def _stopped(framing: Framing, found: Torn | Damage, position: int) -> Damage | str:
    """Why there is no valid batch at `position`: damage, or a note on trailing bytes."""
    left = framing.end - position
    if framing.only_zeros(position):
        return f"{left} zero bytes {'after the last batch' if position else 'and nothing else'}: preallocated"
    if isinstance(found, Damage):
        return found
    if found.size_bytes and framing.has_later_batch(position):
        size = f"the head gives a size of {found.size_bytes} bytes"
        message = f"{size}, {left} are left, and they may hold a later batch"
        return framing.damage(position, "bad_length", message)
    return found.note
