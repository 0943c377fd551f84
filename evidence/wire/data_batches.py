"""Frame the record batches of a topic's data: a segment's bytes -> heads of batches, with their CRCs checked.

Sources: Kafka's DefaultRecordBatch (record batch v2: a head of 61 bytes, CRC32C from the attributes on),
AbstractLegacyRecordBatch and LegacyRecord (message formats 0 and 1, CRC32 from the magic byte on; brokers from 3.0 on
write none, but their old segments may hold some, KIP-724; MemoryRecords.filterTo of 4.3.1 makes them batches v2 without
a leader epoch, -1), LogCleaner (compaction keeps a batch's offsets, so a batch
may hold fewer records than its offsets span, or none), LogSegment.canConvertToRelativeOffset (a segment holds no offset
more than an int32 above its base offset), LeaderEpochFileCache (epochs never decrease in a log).
"""

import mmap
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import google_crc32c

from evidence.errors import Damage
from evidence.limits import MAX_INT32, MAX_INT64
from evidence.wire.batches import CODECS, HEAD, HEAD_BYTES, MAGIC_AT, BatchHeader, zeros_from

# Bytes that Kafka needs to read a batch's size and magic byte (Records.HEADER_SIZE_UP_TO_MAGIC).
_SIZED_BYTES = 17
LENGTH_FROM = 12
_CRC_FROM = 21
_LEAST_RECORD_BYTES = 7
# Of a message of format 0 or 1: offset, size, CRC, magic byte, attributes, the timestamp of format 1, key and value.
LEGACY = struct.Struct(">qiIbb")
LEGACY_TIME = struct.Struct(">q")
_LEGACY_CRC_FROM = 16
_LEAST_LEGACY_BYTES = LEGACY.size + 8
_LEGACY_CODEC_BITS, _V2_CODEC_BITS = 0x03, 0x07
# Limits of the search for a batch after a bad one: bytes of CRC work for each byte of the file, and tries.
_BUDGET = 8
_TRIES = 1 << 20
_CHUNK_BYTES = 1 << 20

# baseOffset, batchLength, partitionLeaderEpoch, magic
_SIZED = struct.Struct(">qiib")
# A head from its magic byte on: magic 2, CRC, attributes with an empty high byte, last offset delta >= 0.
_LIKE_A_HEAD = re.compile(rb"\x02.{4}\x00[\x00-\x7f][\x00-\x7f]", re.DOTALL)

SegmentBytes = bytes | mmap.mmap


@dataclass(frozen=True, slots=True)
class DataBatch(BatchHeader):
    """The head of a batch of a topic.

    Of formats 0 and 1 (magic): base_offset is the offset of its last record, epoch and producer are -1, record_count
    is 0 if the batch is compressed, for only its records show more; there are three codecs.
    """

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    magic: int = 2

    @property
    def end(self) -> int:
        """The byte position after the batch in its file."""
        return self.position + self.size_bytes

    @property
    def codec(self) -> str:
        return CODECS[self.attributes & (_V2_CODEC_BITS if self.magic == 2 else _LEGACY_CODEC_BITS)]

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & 0x10)

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & 0x20)


@dataclass(frozen=True, slots=True)
class Torn:
    """A last batch that was not completely written. size_bytes: the size in its head, 0 without one."""

    size_bytes: int
    note: str


class Framing:
    """One segment's bytes. next_offset and epoch: the minimum for the next batch. least_magic: 2 refuses the formats 0
    and 1, 0 reads them."""

    def __init__(self, data: SegmentBytes, base_offset: int, least_magic: int = 2) -> None:
        self.data = data
        self.end = len(data)
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.epoch: int | None = None
        self.least_magic = least_magic

    def batch(self, position: int) -> DataBatch | Torn | Damage:
        """The batch at `position`, or what is wrong with it."""
        left = self.end - position
        if left < _SIZED_BYTES:
            return Torn(0, f"torn batch at the end: {left} bytes, a batch head has {HEAD_BYTES}")
        base, length, epoch, magic = _SIZED.unpack_from(self.data, position)
        size = length + LENGTH_FROM
        if not self.least_magic <= magic <= 2:
            read = "only record batches v2 are read" if self.least_magic == 2 else "only formats 0, 1 and 2 exist"
            return self.damage(position, "bad_magic", f"magic {magic}: {read}")
        if size < (HEAD_BYTES if magic == 2 else _LEAST_LEGACY_BYTES):
            return self.damage(position, "bad_length", f"batch length {length} is below the minimum")
        if base < self.next_offset or base - self.base_offset > MAX_INT32:
            message = f"base offset {base} in segment {self.base_offset}, expected {self.next_offset} or later"
            return self.damage(position, "bad_offset", message)
        if magic == 2 and epoch < (least := -1 if self.epoch is None else self.epoch):
            return self.damage(position, "bad_epoch", f"leader epoch {epoch}, expected at least {max(least, 0)}")
        if size > left:
            return Torn(size, f"torn batch of {left} bytes at the end, its head gives a size of {size}")
        return self._whole(position, size) if magic == 2 else self._legacy(position, size)

    def _whole(self, position: int, size: int) -> DataBatch | Damage:
        (base, _, epoch, _, crc, attributes, delta, first_ms, max_ms, producer, producer_epoch, sequence, count) = (
            HEAD.unpack_from(self.data, position)
        )
        actual = self._crc32c(position + _CRC_FROM, position + size)
        if actual != crc:
            message = f"stored CRC32C {crc:#010x}, the bytes give {actual:#010x}"
            return self.damage(position, "crc_mismatch", message)
        codec = attributes & _V2_CODEC_BITS
        if codec >= len(CODECS):
            return self.damage(position, "bad_codec", f"compression codec {codec} does not exist")
        if delta < 0 or base + delta - self.base_offset > MAX_INT32 or base + delta >= MAX_INT64:
            return self.damage(position, "bad_offset", f"base offset {base}, last offset delta {delta}")
        if not 0 <= count <= delta + 1 or (not codec and count > (size - HEAD_BYTES) // _LEAST_RECORD_BYTES):
            message = f"record count {count} does not fit {size} bytes and {delta + 1} offsets"
            return self.damage(position, "bad_count", message)
        head = (position, size, base, base + delta, epoch, crc, attributes, first_ms, max_ms, count)
        return DataBatch(*head, producer, producer_epoch, sequence)

    def _legacy(self, position: int, size: int) -> DataBatch | Damage:
        offset, _, crc, magic, attributes = LEGACY.unpack_from(self.data, position)
        actual = zlib.crc32(self.data[position + _LEGACY_CRC_FROM : position + size])
        if actual != crc:
            return self.damage(position, "crc_mismatch", f"stored CRC32 {crc:#010x}, the bytes give {actual:#010x}")
        codec = attributes & _LEGACY_CODEC_BITS
        time_ms = LEGACY_TIME.unpack_from(self.data, position + LEGACY.size)[0] if magic else -1
        count = 0 if codec else 1
        return DataBatch(position, size, offset, offset, -1, crc, attributes, time_ms, time_ms, count, magic=magic)

    def damage(self, position: int, reason: str, message: str) -> Damage:
        """Damage from `position` to the end of the file, at the offset after the batches before it."""
        return Damage(position, self.end - position, self.next_offset, reason, message)

    def _later_batch(self, position: int) -> tuple[int | None, bool]:
        """(Where the first good batch v2 after `position` begins, or None; whether the search became too expensive)."""
        budget = _BUDGET * max(self.end - position, 1 << 20)
        match = _LIKE_A_HEAD.search(self.data, position + 1 + MAGIC_AT)
        for _ in range(_TRIES):
            if match is None:
                return None, False
            found = self.batch(match.start() - MAGIC_AT)
            if isinstance(found, DataBatch):
                return found.position, False
            if isinstance(found, Damage) and found.reason == "crc_mismatch":
                length: int = _SIZED.unpack_from(self.data, found.position)[1]
                budget -= length
                if budget <= 0:
                    break
            match = _LIKE_A_HEAD.search(self.data, match.start() + 1)
        return None, True

    def all_batches(self, goes_on: bool = True) -> Iterator[DataBatch | Damage | Torn]:
        """Each batch in order, and what lies between and after them: a Damage of each bad range, after which the next
        good batch follows, and one Torn for a torn end or for zeros, with the bytes that it takes as size_bytes. The
        last batch is not torn but damaged if a good one follows, or if the search for one became too expensive.

        goes_on: False: the first Damage is of all bytes that are left.
        """
        position, zeros = 0, zeros_from(self.data)
        while position < self.end:
            found = self.batch(position)
            if isinstance(found, DataBatch):
                # Nothing before this batch's end may follow it.
                self.next_offset = found.last_offset + 1
                self.epoch = found.epoch if found.epoch >= 0 else self.epoch
                yield found
                position = found.end
                continue
            left = self.end - position
            if position >= zeros:  # space that was allocated in advance (log.preallocate)
                where = "after the last batch" if position else "and nothing else"
                yield Torn(left, f"{left} zero bytes {where}: preallocated")
                return
            is_torn = isinstance(found, Torn)
            following, given_up = self._later_batch(position) if goes_on or is_torn else (None, False)
            if isinstance(found, Torn):
                if following is None and not given_up:
                    yield Torn(left, found.note)
                    return
                size = f"the head gives a size of {found.size_bytes} bytes"
                message = f"{size}, {left} are left, and they may hold a later batch"
                found = self.damage(position, "bad_length", message)
            end = following if goes_on and following is not None else self.end
            yield Damage(position, end - position, found.offset, found.reason, found.message)
            position = end

    def _crc32c(self, begin: int, end: int) -> int:
        """CRC32C of data[begin:end), in chunks: a damaged head may claim a batch as large as the file."""
        crc: int = google_crc32c.value(self.data[begin : min(begin + _CHUNK_BYTES, end)])
        for at in range(begin + _CHUNK_BYTES, end, _CHUNK_BYTES):
            crc = google_crc32c.extend(crc, self.data[at : min(at + _CHUNK_BYTES, end)])
        return crc
