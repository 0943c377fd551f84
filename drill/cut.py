"""What a power loss does to a broker's logs: the last batches were not on disk yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from evidence.text_files import read_checkpoint
from evidence.wire.batches import Batch, read_head


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
    end = batches[-1].last_offset + 1
    gone = [b for b in batches if b.last_offset >= end - count and b.base_offset >= flushed]
    if not gone:
        return 0
    with segment.open("r+b") as stream:
        stream.truncate(gone[0].position)
    return end - gone[0].base_offset


def _batches(data: bytes) -> Iterator[Batch]:
    """The whole batches up to the first torn one."""
    position = 0
    while isinstance(batch := read_head(data, position), Batch):
        yield batch
        position = batch.end


def _recovery_points(file: Path) -> Iterator[tuple[str, int]]:
    """(topic-partition, offset) of each replica."""
    if file.exists():
        for line in read_checkpoint(file.read_bytes(), 2)[0]:
            topic, partition, offset = (word.decode() for word in line.words)
            yield f"{topic}-{partition}", int(offset)
