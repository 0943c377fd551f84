"""Frame record batches v2: a file's bytes -> batches, damage and trailing bytes. Each byte is accounted for.

Sources: Kafka's DefaultRecordBatch (61-byte head, CRC32C from the attributes on), FileLogInputStream (a torn last batch
ends the file), KafkaRaftClient.MAX_BATCH_SIZE_BYTES (8 MiB for writers; this reader accepts up to 64 MiB). Kafka
deletes everything after a damaged batch. This reader deliberately keeps the later batches as evidence.
"""

import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol, overload

import google_crc32c
import numpy as np

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
class BatchHeader:
    """The head of a batch v2. position and size_bytes are in bytes, timestamps in ms since the Unix epoch."""

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
    def codec(self) -> str:
        return CODECS[self.attributes & 0x07]

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & 0x08)

    @property
    def key(self) -> tuple[int, int, int, int]:
        """(base offset, epoch, CRC, size): equal keys are the same batch, on any node."""
        return self.base_offset, self.epoch, self.crc, self.size_bytes


@dataclass(frozen=True, slots=True)
class Batch(BatchHeader):
    """The head of a metadata log's batch.

    extent_bytes: its length in the file if that is not size_bytes, as in kafka-dump-log's text; 0: size_bytes.
    """

    extent_bytes: int = 0

    @property
    def end(self) -> int:
        """The byte position after the batch in the file."""
        return self.position + (self.extent_bytes or self.size_bytes)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)


Array = np.ndarray[Any, Any]
# Batch, as columns.
HEADS = np.dtype(
    [
        ("position", "<i8"),
        ("size_bytes", "<i4"),
        ("base_offset", "<i8"),
        ("last_offset", "<i8"),
        ("epoch", "<i4"),
        ("crc", "<u4"),
        ("attributes", "<i2"),
        ("base_timestamp_ms", "<i8"),
        ("max_timestamp_ms", "<i8"),
        ("record_count", "<i4"),
        ("extent_bytes", "<i8"),
    ]
)
_FIELDS = attrgetter(*HEADS.names or ())
_CONTROL = 0x20
_AT_ONCE = 4096


class Batches(Sequence[Batch]):
    """The heads of batches as columns, 66 bytes each. A Batch is made when it is asked for. heads: of dtype HEADS."""

    __slots__ = ("heads",)

    def __init__(self, heads: Array) -> None:
        self.heads = heads

    @classmethod
    def of(cls, batches: Iterable[Batch]) -> "Batches":
        heads, some = [np.empty(0, HEADS)], list[tuple[int, ...]]()
        for batch in batches:
            some.append(_FIELDS(batch))
            if len(some) == _AT_ONCE:
                heads.append(np.array(some, HEADS))
                some = []
        return cls(np.concatenate([*heads, np.array(some, HEADS)]))

    def __len__(self) -> int:
        return len(self.heads)

    @overload
    def __getitem__(self, where: int, /) -> Batch: ...

    @overload
    def __getitem__(self, where: slice, /) -> "Batches": ...

    def __getitem__(self, where: int | slice, /) -> "Batch | Batches":
        if isinstance(where, slice):
            return Batches(self.heads[where])
        return Batch(*self.heads[where].item())

    def __iter__(self) -> Iterator[Batch]:
        for first in range(0, len(self.heads), _AT_ONCE):
            yield from (Batch(*head) for head in self.heads[first : first + _AT_ONCE].tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Batches) and bool(np.array_equal(self.heads, other.heads))

    __hash__ = None  # type: ignore[assignment]

    @property
    def ends(self) -> Array:
        """int64 byte position after each batch in its file."""
        heads = self.heads
        sizes: Array = np.where(heads["extent_bytes"] != 0, heads["extent_bytes"], heads["size_bytes"])
        return heads["position"] + sizes

    @property
    def are_control(self) -> Array:
        """Mask of the control batches."""
        return (self.heads["attributes"] & _CONTROL) != 0


@dataclass(frozen=True, slots=True)
class Scan:
    """The content of a segment or checkpoint: parsed + quarantined + trailing bytes = the file's length."""

    batches: Batches
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
        if isinstance(at_end, Batch):
            # Only if its head can be trusted: a damaged length may happen to end at a later batch.
            base, *_, delta = HEAD.unpack(self.data[damage.position : damage.position + HEAD_BYTES])[:7]
            if at_end.base_offset == base + delta + 1:
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
    framing = _Framing(data)
    good, flipped = check_continuity(Batches.of(framing.batches()))
    damage = _with_offsets(sorted([*framing.damage, *flipped], key=lambda d: d.position), good)
    parsed, trailing = int(good.heads["size_bytes"].sum(dtype=np.int64)), framing.trailing_bytes
    return Scan(good, damage, parsed, len(data) - parsed - trailing, trailing, framing.note)


class _Framing:
    """Frames a file once. Afterwards damage, trailing_bytes and note say what is no batch."""

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self.damage: list[Damage] = []
        self.trailing_bytes = 0
        self.note = None if len(data) else "empty file: legal for an active segment"

    def batches(self) -> Iterator[Batch]:
        position, end, found = 0, len(self.data), False
        zeros, search = zeros_from(self.data), _Search(self.data)
        while position < end:
            if position >= zeros:
                self.trailing_bytes = end - position
                where = "after the last batch" if position else "and nothing else"
                self.note = f"{self.trailing_bytes} zero bytes {where}: preallocated"
                break
            head = read_head(self.data, position)
            if isinstance(head, Batch):
                found = True
                yield head
                position += head.size_bytes
                continue
            following = search.position_after(head)
            reason, message = head.reason, head.message
            if search.no_batch_ahead and not found:
                following, reason, message = end, "not_a_segment", f"no good record batch in this file ({message})"
            elif following == end and reason == "torn_batch" and not search.given_up:
                self.trailing_bytes = end - position
                self.note = f"torn batch of {self.trailing_bytes} bytes at the end"
            elif reason == "torn_batch":
                reason = "bad_length"
            if search.given_up:
                message += "; too much damage: the search for later batches was stopped"
            self.damage.append(Damage(position, following - position, head.offset, reason, message))
            position = following


def zeros_from(data: Bytes) -> int:
    """Where the zero bytes at the end begin. Only the end is copied: most batches end with a zero byte."""
    end = len(data)
    while end:
        begin = max(end - _BLOCK_BYTES, 0)
        if used := len(data[begin:end].rstrip(b"\0")):
            return begin + used
        end = begin
    return 0


def _with_offsets(damage: list[Damage], good: Batches) -> list[Damage]:
    """The damage with the offset after the last good batch before it: offsets in damaged bytes are not trusted."""
    before = np.searchsorted(good.heads["position"], [item.position for item in damage]).tolist()
    placed = []
    for item, index in zip(damage, before, strict=True):
        claimed = item.offset if item.offset is not None and item.offset >= 0 else None
        offset = int(good.heads["last_offset"][index - 1]) + 1 if index else claimed
        placed.append(Damage(item.position, item.length_bytes, offset, item.reason, item.message))
    return placed


def check_continuity(batches: Batches) -> tuple[Batches, list[Damage]]:
    """Remove batches whose base offset or epoch, which the CRC does not cover, contradicts the other batches.

    Facts: a Raft log is dense (KafkaRaftClient), its epochs never decrease, and each begins with a LeaderChange control
    batch (KIP-595). A value that contradicts most of the file, or that alone contradicts the adjacent batches, was
    flipped.
    """
    if _is_continuous(batches):
        return batches, []
    damage: list[Damage] = []
    epochs = ("epoch_flip", _wrong_epochs)
    for reason, find in (("offset_flip", _wrong_offsets), epochs, epochs):
        wrong = find(batches)
        for index, message in wrong.items():
            batch = batches[index]
            following = batches[index + 1] if index + 1 < len(batches) else None
            touched = following and following.position == batch.end and index + 1 not in wrong
            offset = following.base_offset - batch.record_count if following and touched else None
            damage.append(Damage(batch.position, batch.end - batch.position, offset, reason, message))
        batches = Batches(np.delete(batches.heads, list(wrong))) if wrong else batches
    return batches, damage


def _is_continuous(batches: Batches) -> bool:
    """Whether each batch may directly follow the one before it: offsets are dense, and an epoch begins with a
    LeaderChange."""
    before, after = batches.heads[:-1], batches.heads[1:]
    begins = (after["epoch"] > before["epoch"]) & batches.are_control[1:]
    in_epoch = (after["epoch"] == before["epoch"]) | begins
    return bool(((after["base_offset"] == before["last_offset"] + 1) & in_epoch).all())


def is_whole(snapshot: Batches) -> bool:
    """Whether no record of a snapshot's batches is missing before the last one: they are numbered from 0
    (RecordsSnapshotWriter)."""
    return not snapshot.heads["base_offset"][0] and _is_continuous(snapshot)


def _wrong_offsets(batches: Batches) -> dict[int, str]:
    base, run = batches.heads["base_offset"], _runs(batches)
    # All batches of a dense run have the same anchor: base offset minus the number of records before it in the file.
    counts = batches.heads["record_count"].astype(np.int64)
    votes = _votes(run, base - (np.cumsum(counts) - counts))
    wrong = {
        index: f"base offset {base[index]} does not continue the adjacent batches"
        for index in np.flatnonzero((votes == 1) & (_most_in_run(votes, run) > 1)).tolist()
    }
    rest = np.delete(np.arange(len(base)), list(wrong))
    for index in _falling(base[rest], rest, strictly=True):
        wrong[index] = f"base offset {base[index]} is out of order: offsets only increase in a log"
    return wrong


def _wrong_epochs(batches: Batches) -> dict[int, str]:
    epoch, control, base = batches.heads["epoch"], batches.are_control, batches.heads["base_offset"]
    joined = (np.diff(_runs(batches)) == 0) & (base[1:] == batches.heads["last_offset"][:-1] + 1)
    follows = (epoch[1:] == epoch[:-1]) | (control[1:] & (epoch[1:] > epoch[:-1]))
    odd = set((np.flatnonzero(joined & ~follows) + 1).tolist())

    def explains(index: int) -> bool:
        """Whether some other epoch of this batch would follow from the one before, and the one after from it."""
        if not 0 < index < len(joined) or not joined[index - 1 : index + 1].all():
            return True
        before, after = epoch[index - 1], epoch[index + 1]
        return bool(before == after or (before < after and control[index : index + 2].any()))

    found = {index: [i for i in (index - 1, index) if explains(i)] for index in sorted(odd)}
    if not all(found.values()) and _falling(epoch, np.arange(len(epoch)), strictly=False):
        found = {}  # no single flips: first what is out of order goes, then the rest is looked at again
    wrong: dict[int, str] = {}
    for index, places in found.items():
        if index - 1 in wrong or (len(places) == 2 and _are_alone(joined, index)):
            continue
        if index in places and index + 1 in odd:
            places = [index]
        for place in places:  # none: two stretches, as no flip of one batch makes them
            wrong[place] = f"epoch {epoch[place]} without the LeaderChange that begins each epoch"
    rest = np.delete(np.arange(len(epoch)), list(wrong))
    for index in _falling(epoch[rest], rest, strictly=False):
        wrong[index] = f"epoch {epoch[index]} is out of order: epochs never decrease in a log"
    return wrong


def _are_alone(joined: Array, index: int) -> bool:
    """Whether a batch and the one before are a run of two: which is wrong is not known."""
    return not joined[max(index - 2, 0) : index - 1].any() and not joined[index : index + 1].any()


def _runs(batches: Batches) -> Array:
    """For each batch the number of its run: batches that are adjacent in the file."""
    begins = np.append(True, batches.heads["position"][1:] != batches.ends[:-1])
    return np.cumsum(begins[: len(batches)])


def begins(*keys: Array) -> Array:
    """True for the first row, and for each row in which a key differs from the row before."""
    found = np.ones(len(keys[0]), dtype=bool)
    found[1:] = np.logical_or.reduce([np.diff(key) != 0 for key in keys])
    return found


def _votes(run: Array, values: Array) -> Array:
    """For each batch how many of its run have its value."""
    if not len(run):
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort((values, run))
    group = np.cumsum(begins(run[order], values[order])) - 1
    votes = np.empty(len(run), dtype=np.int64)
    votes[order] = np.bincount(group)[group]
    return votes


def _most_in_run(votes: Array, run: Array) -> Array:
    """For each batch the most votes in its run."""
    most = np.zeros(int(run[-1]) + 1 if len(run) else 1, dtype=np.int64)
    np.maximum.at(most, run, votes)
    return most[run]


def _falling(values: Array, places: Array, strictly: bool) -> list[int]:
    """The places of the values that are in no longest increasing subsequence; of equal ones see `longest_rising`."""
    steps = np.diff(values.astype(np.int64))
    if (steps > 0).all() or (not strictly and (steps >= 0).all()):
        return []
    rising = longest_rising(values.tolist(), strictly)
    return [place for number, place in enumerate(places.tolist()) if number not in rising]


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
