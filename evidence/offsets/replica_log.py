"""Find the end of a replica's log from its last segment file: a topic's data, not the metadata log.

Sources: Kafka's DefaultRecordBatch (record batch v2: a head of 61 bytes, CRC32C from the attributes on),
FileLogInputStream (a batch shorter than the size in its head ends the file), LogSegment.recover (a broker that did not
stop cleanly truncates the log at the first invalid batch), LogCleaner (compaction keeps a batch's offsets, so a batch
may hold fewer records than its offsets span, or none), LogSegment.canConvertToRelativeOffset (a segment holds no offset
more than an int32 above its base offset), LeaderEpochFileCache (epochs never decrease in a log).
"""

from __future__ import annotations

import mmap
import re
import struct
from collections import deque
from dataclasses import dataclass

import google_crc32c

from evidence.capture.held import Held, Local
from evidence.errors import Damage
from evidence.limits import MAX_INT32, MAX_INT64
from evidence.wire.batches import CODECS, HEAD, HEAD_BYTES, MAGIC_AT

# Bytes that Kafka needs to read a batch's size and magic byte (Records.HEADER_SIZE_UP_TO_MAGIC).
_SIZED_BYTES = 17
_LENGTH_FROM = 12
_CRC_FROM = 21
_LEAST_RECORD_BYTES = 7
# Limits of the search for a batch after a torn one: bytes of CRC work for each byte of the file, and tries.
_BUDGET = 8
_TRIES = 1 << 20
_CHUNK_BYTES = 1 << 20
# More than request threads of a broker need (num.io.threads, 8 by default).
LAST_BATCHES = 32

# baseOffset, batchLength, partitionLeaderEpoch, magic
_SIZED = struct.Struct(">qiib")
# A head from its magic byte on: magic 2, CRC, attributes with an empty high byte, last offset delta >= 0.
_LIKE_A_HEAD = re.compile(rb"\x02.{4}\x00[\x00-\x7f][\x00-\x7f]", re.DOTALL)


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


@dataclass(frozen=True, slots=True)
class _Batch:
    size_bytes: int
    base_offset: int
    last_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class _Torn:
    """A last batch that was not completely written. size_bytes: the size in its head, 0 without one."""

    size_bytes: int
    note: str


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
    """One segment's bytes, read from the start. next_offset and epoch: the minimum for the next batch."""

    def __init__(self, data: bytes | mmap.mmap, base_offset: int) -> None:
        self.data = data
        self.end = len(data)
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.epoch: int | None = None
        self.batch_offsets: deque[int] = deque(maxlen=LAST_BATCHES)

    def tail(self) -> Tail:
        position = last_position = 0
        while position < self.end:
            found = self._batch(position)
            if not isinstance(found, _Batch):
                return self._stopped(found, position, last_position)
            last_position, self.next_offset, self.epoch = position, found.last_offset + 1, found.epoch
            self.batch_offsets.append(found.base_offset)
            position += found.size_bytes
        note = None if self.end else "empty file: legal for an active segment"
        return self._end(last_position, 0, note)

    def _end(self, last_position: int, trailing_bytes: int, note: str | None) -> Tail:
        """The tail behind the batches so far."""
        return Tail(self.next_offset, self.epoch, last_position, [], trailing_bytes, note, tuple(self.batch_offsets))

    def _stopped(self, found: _Torn | Damage, position: int, last_position: int) -> Tail:
        """The tail when there is no valid batch at `position`."""
        left = self.end - position
        if self._only_zeros(position):
            note = f"{left} zero bytes {'after the last batch' if position else 'and nothing else'}: preallocated"
            return self._end(last_position, left, note)
        if isinstance(found, Damage):
            return Tail(None, self.epoch, last_position, [found], 0, None)
        if found.size_bytes and self._has_later_batch(position):
            message = (
                f"the head gives a size of {found.size_bytes} bytes, {left} are left, and they may hold a later batch"
            )
            return Tail(None, self.epoch, last_position, [self._damage(position, "bad_length", message)], 0, None)
        return self._end(last_position, left, found.note)

    def _damage(self, position: int, reason: str, message: str) -> Damage:
        """Damage from `position` to the end of the file, at the offset after the batches before it."""
        return Damage(position, self.end - position, self.next_offset, reason, message)

    def _batch(self, position: int) -> _Batch | _Torn | Damage:
        """The batch at `position`, or what is wrong with it."""
        left = self.end - position
        if left < _SIZED_BYTES:
            return _Torn(0, f"torn batch at the end: {left} bytes, a batch head has {HEAD_BYTES}")
        base, length, epoch, magic = _SIZED.unpack_from(self.data, position)
        size = length + _LENGTH_FROM
        if magic != 2:
            return self._damage(position, "bad_magic", f"magic {magic}: only record batches v2 are read")
        if size < HEAD_BYTES:
            return self._damage(position, "bad_length", f"batch length {length} is below the minimum")
        if base < self.next_offset or base - self.base_offset > MAX_INT32:
            message = f"base offset {base} in segment {self.base_offset}, expected {self.next_offset} or later"
            return self._damage(position, "bad_offset", message)
        if epoch < (self.epoch or 0):
            return self._damage(position, "bad_epoch", f"leader epoch {epoch}, expected at least {self.epoch or 0}")
        if size > left:
            return _Torn(size, f"torn batch of {left} bytes at the end, its head gives a size of {size}")
        _, _, _, _, crc, attributes, delta, _, _, _, _, _, count = HEAD.unpack_from(self.data, position)
        actual = self._crc32c(position + _CRC_FROM, position + size)
        if actual != crc:
            message = f"stored CRC32C {crc:#010x}, the bytes give {actual:#010x}"
            return self._damage(position, "crc_mismatch", message)
        codec = attributes & 0x07
        if codec >= len(CODECS):
            return self._damage(position, "bad_codec", f"compression codec {codec} does not exist")
        if delta < 0 or base + delta - self.base_offset > MAX_INT32 or base + delta >= MAX_INT64:
            return self._damage(position, "bad_offset", f"base offset {base}, last offset delta {delta}")
        if not 0 <= count <= delta + 1 or (not codec and count > (size - HEAD_BYTES) // _LEAST_RECORD_BYTES):
            message = f"record count {count} does not fit {size} bytes and {delta + 1} offsets"
            return self._damage(position, "bad_count", message)
        return _Batch(size, base, base + delta, epoch)

    def _has_later_batch(self, position: int) -> bool:
        """Whether a good batch begins after `position`: then the batch is not torn but its length is damaged. Also true
        if the search becomes too expensive, as the end is then unknown too."""
        budget = _BUDGET * max(self.end - position, 1 << 20)
        match = _LIKE_A_HEAD.search(self.data, position + 1 + MAGIC_AT)
        for _ in range(_TRIES):
            if match is None:
                return False
            found = self._batch(match.start() - MAGIC_AT)
            if isinstance(found, _Batch):
                return True
            if isinstance(found, Damage) and found.reason == "crc_mismatch":
                length: int = _SIZED.unpack_from(self.data, found.position)[1]
                budget -= length
                if budget <= 0:
                    return True
            match = _LIKE_A_HEAD.search(self.data, match.start() + 1)
        return True

    def _crc32c(self, begin: int, end: int) -> int:
        """CRC32C of data[begin:end), in chunks: a damaged head may claim a batch as large as the file."""
        crc: int = google_crc32c.value(self.data[begin : min(begin + _CHUNK_BYTES, end)])
        for at in range(begin + _CHUNK_BYTES, end, _CHUNK_BYTES):
            crc = google_crc32c.extend(crc, self.data[at : min(at + _CHUNK_BYTES, end)])
        return crc

    def _only_zeros(self, position: int) -> bool:
        chunks = (self.data[at : at + _CHUNK_BYTES] for at in range(position, self.end, _CHUNK_BYTES))
        return not any(chunk.strip(b"\0") for chunk in chunks)
