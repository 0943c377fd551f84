"""What a power loss does to a broker's logs: the last batches were not on disk yet."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

# baseOffset int64, batchLength int32; lastOffsetDelta int32 lies 23 bytes into the batch (Kafka's DefaultRecordBatch).
_HEAD, _DELTA_AT = struct.Struct(">qi"), 23


def cut_tail(data: Path, topics: Iterable[str], count: int) -> dict[str, int]:
    """Remove the last `count` offsets of each replica, or a few more up to a batch's begin, but nothing that Kafka had
    flushed (recovery-point-offset-checkpoint). Returns how many offsets each replica lost."""
    flushed = dict(_recovery_points(data / "recovery-point-offset-checkpoint"))
    wanted, cut = set(topics), {}
    for folder in sorted(data.iterdir()):
        if not folder.is_dir() or folder.name.rpartition("-")[0] not in wanted:
            continue
        segment = max(folder.glob("*.log"), default=None)
        if segment is not None:
            cut[folder.name] = _cut(segment, count, flushed.get(folder.name, 0))
    return cut


def _cut(segment: Path, count: int, flushed: int) -> int:
    batches = list(_batches(segment.read_bytes()))
    if not batches:
        return 0
    end = batches[-1][2]
    gone = [b for b in batches if b[2] > end - count and b[1] >= flushed]
    if not gone:
        return 0
    with segment.open("r+b") as stream:
        stream.truncate(gone[0][0])
    return end - gone[0][1]


def _batches(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(position, first offset, offset after the last) of each whole batch."""
    at = 0
    while at + _HEAD.size <= len(data):
        first, length = _HEAD.unpack_from(data, at)
        if length <= 0 or at + _HEAD.size + length > len(data):
            return
        yield at, first, first + struct.unpack_from(">i", data, at + _DELTA_AT)[0] + 1
        at += _HEAD.size + length


def _recovery_points(file: Path) -> Iterator[tuple[str, int]]:
    """(topic-partition, offset) of an offset checkpoint: a version, a count, then `topic partition offset` lines."""
    if file.exists():
        for line in file.read_text().splitlines()[2:]:
            topic, partition, offset = line.split()
            yield f"{topic}-{partition}", int(offset)
