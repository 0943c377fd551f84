"""Frame record batches v2: a file's bytes -> batches, damage and trailing bytes. Each byte is accounted for.

Sources: Kafka's DefaultRecordBatch (61-byte head, CRC32C from the attributes on), FileLogInputStream (a torn last batch
ends the file), KafkaRaftClient.MAX_BATCH_SIZE_BYTES (8 MiB for writers; this reader accepts up to 64 MiB). Kafka
deletes everything after a damaged batch. This reader deliberately keeps the later batches as evidence.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

import google_crc32c

from evidence.errors import Damage
from evidence.limits import MAX_INT64, MAX_TIME_MS

HEAD_BYTES = 61
MIN_LENGTH = HEAD_BYTES - 12
MAX_BATCH_BYTES = 64 << 20
MAGIC_AT = 16
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta, baseTimestamp, maxTimestamp,
# producerId, producerEpoch, baseSequence, recordCount
HEAD = struct.Struct(">qiibIhiqqqhii")
# A head that a KRaft controller wrote, from its magic byte on: magic 2, CRC, attributes with an empty high byte, last
# offset delta >= 0, two timestamps, no producer id, producer epoch or sequence (-1 each).
_KRAFT_HEAD = re.compile(rb"\x02.{4}\x00[\x00-\x7f][\x00-\x7f].{19}\xff{14}", re.DOTALL)
# Limit on the failed attempts to find the next good batch: bytes of CRC work for each byte of the file.
_BUDGET = 32
_BLOCK_BYTES = 1 << 20
_LEAST_BLOCK_BYTES = 4 << 10


class Bytes(Protocol):
    """Bytes that are only sliced: `bytes`, or a file that is read by range."""

    def __len__(self) -> int: ...

    def __getitem__(self, where: slice, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """The head of one batch. position and size_bytes are in bytes, timestamps in ms since the Unix epoch.

    extent_bytes: its length in the file if that is not size_bytes, as in kafka-dump-log's text; 0: size_bytes.
    """

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
    extent_bytes: int = 0

    @property
    def end(self) -> int:
        """The byte position after the batch in the file."""
        return self.position + (self.extent_bytes or self.size_bytes)

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
        """(epoch, base offset, CRC): equal keys are the same batch, on any node."""
        return (self.epoch, self.base_offset, self.crc)


@dataclass(frozen=True, slots=True)
class Scan:
    """The content of a segment or checkpoint: parsed + quarantined + trailing bytes = the file's length."""

    batches: list[Batch]
    damage: list[Damage]
    parsed_bytes: int
    quarantined_bytes: int
    trailing_bytes: int
    note: str | None


def read_head(data: Bytes, position: int) -> Batch | Damage:
    """The batch at `position`, with its CRC checked, or the damage there."""
    left = len(data) - position
    if left < HEAD_BYTES:
        return Damage(position, left, None, "torn_batch", f"{left} bytes left, a batch head has {HEAD_BYTES}")
    (base, length, epoch, magic, crc, attributes, delta, first_ts, max_ts, _pid, _pepoch, _seq, count) = HEAD.unpack(
        data[position : position + HEAD_BYTES]
    )
    size = length + 12
    if magic != 2:
        return Damage(position, left, None, "bad_magic", f"magic {magic}, KRaft writes only 2")
    if length < MIN_LENGTH:
        return Damage(position, left, base, "bad_length", f"batch length {length} is below the minimum, {MIN_LENGTH}")
    if size > MAX_BATCH_BYTES:
        return Damage(
            position, left, base, "bad_length", f"batch length {length} is above the limit of {MAX_BATCH_BYTES} bytes"
        )
    if size > left:
        return Damage(position, left, base, "torn_batch", f"the head gives a size of {size} bytes, {left} are left")
    actual = google_crc32c.value(data[position + 21 : position + size])
    if actual != crc:
        return Damage(position, size, base, "crc_mismatch", f"stored CRC32C {crc:#010x}, the bytes give {actual:#010x}")
    if attributes & 0x07 >= len(CODECS):
        return Damage(position, size, base, "bad_codec", f"compression codec {attributes & 7} does not exist")
    if base < 0 or delta < 0 or base + delta >= MAX_INT64:
        return Damage(position, size, None, "bad_offset", f"base offset {base}, last offset delta {delta}")
    if epoch < 0:
        return Damage(position, size, base, "bad_epoch", f"epoch {epoch} is negative")
    if max(abs(first_ts), abs(max_ts)) > MAX_TIME_MS:
        message = f"timestamps {first_ts} and {max_ts} ms: after the year 9999"
        return Damage(position, size, base, "bad_timestamp", message)
    if count < 0 or (not attributes & 0x07 and count > (size - HEAD_BYTES) // 7):
        return Damage(position, size, base, "bad_count", f"record count {count} does not fit {size} bytes")
    if count != delta + 1:
        message = f"record count {count}, the offsets span {delta + 1}: a metadata log is never compacted"
        return Damage(position, size, base, "bad_count", message)
    return Batch(position, size, base, base + delta, epoch, crc, attributes, first_ts, max_ts, count)


class _Search:
    """Finds the next whole batch with a good CRC after damage.

    Failed attempts are charged to a budget that grows with the file, so that the time stays proportional to the file's
    length, even for hostile files. `given_up`: the budget is spent.
    """

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self.budget = _BUDGET * max(len(data), 1 << 20)
        self.no_batch_ahead = False

    @property
    def given_up(self) -> bool:
        return self.budget <= 0

    def position_after(self, damage: Damage) -> int:
        """The position to continue at: the end of the damaged batch if the batch with the next offset begins there,
        else the next good batch. If there is none, the end of the damaged batch, and no_batch_ahead becomes true."""
        own_end = damage.position + damage.length_bytes
        if self.no_batch_ahead:
            return own_end
        at_end = read_head(self.data, own_end) if own_end < len(self.data) else None
        if isinstance(at_end, Batch) and at_end.base_offset == self._offset_after(damage.position):
            return own_end
        self._pay(damage)
        if at_end:
            self._pay(at_end)
        magic_at = _next_head(self.data, damage.position + 1 + MAGIC_AT)
        while magic_at is not None and not self.given_up:
            head = read_head(self.data, magic_at - MAGIC_AT)
            if isinstance(head, Batch):
                return head.position
            self._pay(head)
            magic_at = _next_head(self.data, magic_at + 1)
        self.no_batch_ahead = True
        return own_end

    def _offset_after(self, position: int) -> int:
        """The offset after the batch at `position`, if its head can be trusted. Without this check a damaged length
        that happens to end at a later batch would hide the batches between."""
        head = HEAD.unpack(self.data[position : position + HEAD_BYTES])
        base_offset: int = head[0]
        last_offset_delta: int = head[6]
        return base_offset + last_offset_delta + 1

    def _pay(self, head: Batch | Damage) -> None:
        if isinstance(head, Batch):
            self.budget -= head.size_bytes
        elif head.reason == "crc_mismatch":
            self.budget -= head.length_bytes


def _next_head(data: Bytes, begin: int) -> int | None:
    """The position of the first magic byte from `begin` on that may be that of a head. Only so much is copied as is
    searched: there may be many such positions."""
    size = _LEAST_BLOCK_BYTES
    while begin < len(data):
        match = _KRAFT_HEAD.search(data[begin : begin + size + HEAD_BYTES])
        if match:
            return begin + match.start()
        begin += size
        size = min(2 * size, _BLOCK_BYTES)
    return None


def scan_batches(data: Bytes) -> Scan:
    """Frame each batch of a file; after damage, continue at the next batch with a good CRC.

    Errors: none, for any bytes. Damage is returned, and the three byte counts add up to len(data).
    """
    batches: list[Batch] = []
    damage: list[Damage] = []
    position, end, trailing = 0, len(data), 0
    zeros_from = _zeros_from(data)
    search = _Search(data)
    note = None if end else "empty file: legal for an active segment"
    while position < end:
        if position >= zeros_from:
            trailing = end - position
            note = f"{trailing} zero bytes {'after the last batch' if position else 'and nothing else'}: preallocated"
            break
        head = read_head(data, position)
        if isinstance(head, Batch):
            batches.append(head)
            position += head.size_bytes
            continue
        following = search.position_after(head)
        reason, message = head.reason, head.message
        if search.no_batch_ahead and not batches:
            following, reason, message = end, "not_a_segment", f"no good record batch in this file ({message})"
        elif following == end and reason == "torn_batch" and not search.given_up:
            trailing, note = end - position, f"torn batch of {end - position} bytes at the end"
        elif reason == "torn_batch":
            reason = "bad_length"
        if search.given_up:
            message += "; too much damage: the search for later batches was stopped"
        damage.append(Damage(position, following - position, head.offset, reason, message))
        position = following
    good, flipped = check_continuity(batches)
    damage = _with_offsets(sorted([*damage, *flipped], key=lambda d: d.position), good)
    parsed = sum(b.size_bytes for b in good)
    return Scan(good, damage, parsed, end - parsed - trailing, trailing, note)


def _zeros_from(data: Bytes) -> int:
    """Where the zero bytes at the end begin. Only the end is copied: most batches end with a zero byte."""
    end = len(data)
    while end:
        begin = max(end - _BLOCK_BYTES, 0)
        if used := len(data[begin:end].rstrip(b"\0")):
            return begin + used
        end = begin
    return 0


def _with_offsets(damage: list[Damage], good: list[Batch]) -> list[Damage]:
    """The damage with the offset after the last good batch before it: offsets in damaged bytes are not trusted."""
    positions = [b.position for b in good]
    placed = []
    for item in damage:
        index = bisect_left(positions, item.position)
        claimed = item.offset if item.offset is not None and item.offset >= 0 else None
        offset = good[index - 1].last_offset + 1 if index else claimed
        placed.append(Damage(item.position, item.length_bytes, offset, item.reason, item.message))
    return placed


def _continues(before: Batch, batch: Batch) -> bool:
    """Whether `batch` may directly follow `before`: offsets are dense, and an epoch begins with a LeaderChange."""
    in_epoch = batch.epoch == before.epoch or (batch.epoch > before.epoch and batch.is_control)
    return batch.base_offset == before.last_offset + 1 and in_epoch


def check_continuity(batches: list[Batch]) -> tuple[list[Batch], list[Damage]]:
    """Remove batches whose base offset or epoch, which the CRC does not cover, contradicts the other batches.

    Facts: a Raft log is dense (KafkaRaftClient), its epochs never decrease, and each begins with a LeaderChange control
    batch (KIP-595). A value that contradicts most of the file, or that alone contradicts the adjacent batches, was
    flipped.
    """
    if all(_continues(a, b) for a, b in pairwise(batches)):
        return batches, []
    damage: list[Damage] = []
    for reason, find in (("offset_flip", _wrong_offsets), ("epoch_flip", _wrong_epochs)):
        wrong = find(batches)
        for index, message in wrong.items():
            batch = batches[index]
            following = batches[index + 1] if index + 1 < len(batches) else None
            touched = following and following.position == batch.end and index + 1 not in wrong
            offset = following.base_offset - batch.record_count if following and touched else None
            damage.append(Damage(batch.position, batch.end - batch.position, offset, reason, message))
        batches = [b for i, b in enumerate(batches) if i not in wrong]
    return batches, damage


def _wrong_offsets(batches: list[Batch]) -> dict[int, str]:
    wrong: dict[int, str] = {}
    for run in _runs(batches):
        # All batches of a dense run have the same anchor: base offset minus the number of records before it in the run.
        before = accumulate((batches[i].record_count for i in run[:-1]), initial=0)
        anchors = [batches[i].base_offset - n for i, n in zip(run, before, strict=True)]
        votes = Counter(anchors)
        for index, anchor in zip(run, anchors, strict=True):
            if votes[anchor] == 1 and max(votes.values()) > 1:
                wrong[index] = f"base offset {batches[index].base_offset} does not continue the adjacent batches"
    rest = [i for i in range(len(batches)) if i not in wrong]
    rising = longest_rising([batches[i].base_offset for i in rest], strictly=True)
    for place in set(range(len(rest))) - rising:
        offset = batches[rest[place]].base_offset
        wrong[rest[place]] = f"base offset {offset} is out of order: offsets only increase in a log"
    return wrong


def _wrong_epochs(batches: list[Batch]) -> dict[int, str]:
    wrong: dict[int, str] = {}
    for run in _runs(batches):
        votes = Counter(batches[i].epoch for i in run)
        for before, index, after in zip([None, *run[:-1]], run, [*run[1:], None], strict=True):
            begins_well = before is None or batches[index].is_control or votes[batches[before].epoch] == 1
            ends_well = after is None or batches[after].is_control or votes[batches[after].epoch] == 1
            if votes[batches[index].epoch] == 1 and not (begins_well and ends_well):
                wrong[index] = f"epoch {batches[index].epoch} without the LeaderChange that begins each epoch"
    rest = [i for i in range(len(batches)) if i not in wrong]
    rising = longest_rising([batches[i].epoch for i in rest], strictly=False)
    for place in set(range(len(rest))) - rising:
        wrong[rest[place]] = f"epoch {batches[rest[place]].epoch} is out of order: epochs never decrease in a log"
    return wrong


def _runs(batches: list[Batch]) -> list[list[int]]:
    """The indexes, grouped into runs of batches that are adjacent in the file."""
    runs: list[list[int]] = []
    for index, batch in enumerate(batches):
        last = batches[index - 1] if runs else None
        if last and last.end == batch.position:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def longest_rising(values: Sequence[int], strictly: bool) -> set[int]:
    """The indexes of a longest increasing subsequence of `values`; equal neighbours are allowed unless `strictly`."""
    tails: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for index, value in enumerate(values):
        place = bisect_left(tails, value) if strictly else bisect_right(tails, value)
        previous.append(last[place - 1] if place else -1)
        if place == len(tails):
            tails.append(value)
            last.append(index)
        else:
            tails[place], last[place] = value, index
    chosen: set[int] = set()
    index = last[-1] if last else -1
    while index != -1:
        chosen.add(index)
        index = previous[index]
    return chosen
