"""Record batch v2 framing: a file's bytes -> batches, damage, trailing bytes, with every byte accounted for.

Facts: Kafka's DefaultRecordBatch (61-byte head, CRC32C from the attributes on), FileLogInputStream (a torn last batch
ends the file), KafkaRaftClient.MAX_BATCH_SIZE_BYTES (8 MiB for writers; readers here accept up to 64 MiB).
Deliberately unlike Kafka, which deletes everything behind a damaged batch, the later evidence is kept.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import google_crc32c

from evidence.errors import Damage

HEAD_BYTES = 61
MIN_LENGTH = HEAD_BYTES - 12
MAX_BATCH_BYTES = 64 << 20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta, baseTimestamp, maxTimestamp,
# producerId, producerEpoch, baseSequence, recordCount
_HEAD = struct.Struct(">qiibIhiqqqhii")
# How many bytes of CRC work a search for the next good batch may cost, as a multiple of the file's length.
_RESYNC_BUDGET = 8


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch's head. position and size_bytes are in bytes, timestamps in ms since the Unix epoch."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    record_count: int

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & 0x20)

    @property
    def codec(self) -> str:
        return CODECS[self.attributes & 0x07]

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & 0x08)

    @property
    def key(self) -> tuple[int, int, int]:
        """(epoch, base offset, CRC): the same key is the same batch, whoever holds it."""
        return (self.epoch, self.base_offset, self.crc)


@dataclass(frozen=True, slots=True)
class Scan:
    """What a segment or checkpoint holds: parsed + quarantined + trailing bytes = the file's length."""

    batches: list[Batch]
    damage: list[Damage]
    parsed_bytes: int
    quarantined_bytes: int
    trailing_bytes: int
    note: str | None


def read_head(data: bytes, position: int) -> Batch | Damage:
    """The batch that begins at `position`, its CRC checked; or what is wrong there, up to where it is wrong."""
    left = len(data) - position
    if left < HEAD_BYTES:
        return Damage(position, left, None, "torn_batch", f"{left} bytes left, a batch head has {HEAD_BYTES}")
    (base, length, epoch, magic, crc, attributes, delta, first_ts, max_ts, _pid, _pepoch, _seq, count) = (
        _HEAD.unpack_from(data, position)
    )
    size = length + 12
    if magic != 2:
        return Damage(position, left, None, "bad_magic", f"magic {magic}, KRaft writes only 2")
    if length < MIN_LENGTH:
        return Damage(
            position, left, base, "bad_length", f"batch length {length} is below the least possible, {MIN_LENGTH}"
        )
    if size > MAX_BATCH_BYTES:
        return Damage(
            position, left, base, "bad_length", f"batch length {length} is above the limit of {MAX_BATCH_BYTES} bytes"
        )
    if size > left:
        return Damage(position, left, base, "torn_batch", f"the head promises {size} bytes, {left} are left")
    actual = google_crc32c.value(data[position + 21 : position + size])
    if actual != crc:
        return Damage(position, size, base, "crc_mismatch", f"stored CRC32C {crc:#010x}, the bytes give {actual:#010x}")
    if attributes & 0x07 >= len(CODECS):
        return Damage(position, size, base, "bad_codec", f"compression codec {attributes & 7} does not exist")
    if base < 0 or delta < 0:
        return Damage(position, size, base, "bad_offset", f"base offset {base}, last offset delta {delta}")
    if count < 0 or (not attributes & 0x07 and count > (size - HEAD_BYTES) // 7):
        return Damage(position, size, base, "bad_count", f"record count {count} does not fit {size} bytes")
    return Batch(position, size, base, base + delta, epoch, crc, attributes, first_ts, max_ts, count)


def _resync(data: bytes, start: int, budget: int) -> tuple[int, int]:
    """The next position at or behind `start` where a whole batch with a good CRC begins (the end if there is none).

    Also returns what is left of `budget`, the bytes of CRC work still allowed in this file.
    """
    magic = data.find(b"\x02", start + 16)
    while magic != -1 and magic - 16 <= len(data) - HEAD_BYTES and budget > 0:
        position = magic - 16
        length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        if MIN_LENGTH <= length <= len(data) - position - 12 and not data[position]:
            budget -= length
            if isinstance(read_head(data, position), Batch):
                return position, budget
        magic = data.find(b"\x02", magic + 1)
    return len(data), budget


def scan_batches(data: bytes) -> Scan:
    """Frame every batch of a file; go on behind damage at the next batch whose CRC holds.

    Errors: none are raised, whatever the bytes: damage is returned, and the three byte counts add up to len(data).
    """
    batches: list[Batch] = []
    damage: list[Damage] = []
    position, end = 0, len(data)
    trailing, budget = 0, _RESYNC_BUDGET * end
    note = None if end else "empty file: legal for an active segment"
    while position < end:
        head = read_head(data, position)
        if isinstance(head, Batch):
            batches.append(head)
            position += head.size_bytes
            continue
        if not any(data[position:]):
            trailing, note = end - position, f"{end - position} zero bytes after the last batch: preallocated"
            break
        following = position + head.length_bytes
        if head.reason != "crc_mismatch" or (following < end and not isinstance(read_head(data, following), Batch)):
            following, budget = _resync(data, position + 1, budget)
        if following == end and head.reason == "torn_batch" and batches:
            trailing, note = end - position, f"torn batch of {end - position} bytes at the end"
            damage.append(head)
            break
        reason, message = head.reason, head.message
        if following == end and not batches:
            reason, message = "not_a_segment", f"no record batch in this file ({head.message})"
        damage.append(Damage(position, following - position, head.offset, reason, message))
        position = following
    good, flipped = _check_continuity(batches)
    damage = sorted([*damage, *flipped], key=lambda d: d.position)
    parsed = sum(b.size_bytes for b in good)
    return Scan(good, damage, parsed, end - parsed - trailing, trailing, note)


def _check_continuity(batches: list[Batch]) -> tuple[list[Batch], list[Damage]]:
    """Take out batches whose offset or epoch, which the CRC does not cover, contradicts both neighbours."""
    good: list[Batch] = []
    damage: list[Damage] = []
    for index, batch in enumerate(batches):
        before = good[-1] if good else None
        after = batches[index + 1] if index + 1 < len(batches) else None
        count = batch.last_offset - batch.base_offset + 1
        expected = before.last_offset + 1 if before else (after.base_offset - count if after else batch.base_offset)
        wrong = None
        if batch.base_offset != expected and after is not None and after.base_offset == expected + count:
            wrong = "offset_flip", f"base offset {batch.base_offset}, its neighbours leave room for {expected}"
        elif before and batch.epoch < before.epoch:
            wrong = "epoch_flip", f"epoch {batch.epoch} behind epoch {before.epoch}: epochs never go back in a log"
        elif before and after and before.epoch <= after.epoch < batch.epoch:
            wrong = "epoch_flip", f"epoch {batch.epoch} between epochs {before.epoch} and {after.epoch}"
        if wrong:
            damage.append(Damage(batch.position, batch.size_bytes, expected, *wrong))
        else:
            good.append(batch)
    return good, damage
