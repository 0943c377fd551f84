"""What happens to disks: one is full (a file system of its own in memory), or a power loss takes the last batches,
which were not on it yet."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from drill.errors import call
from drill.network import left_by_the_dead, named
from evidence.text_files import read_checkpoint
from evidence.wire.data_batches import DataBatch, Framing
from evidence.wire.data_records import DataRecord, read_data

# Kafka reads the folders of a log directory, and leaves files that it does not know alone.
_FILLER = "filler"
_CHUNKS = (1 << 20, 4096, 1)


@contextlib.contextmanager
def small_disks(sizes_mib: Mapping[Path, int]) -> Iterator[None]:
    """Mount a disk of so many MiB at each folder, which is made; they are unmounted in the end.

    Errors: DrillError if mounting fails.
    """
    for left in left_mounted(Path("/proc/mounts").read_text()) if sizes_mib else ():
        call("umount", "--lazy", left)
    mounted: list[Path] = []
    try:
        for number, (folder, mib) in enumerate(sizes_mib.items()):
            folder.mkdir(parents=True)
            call("mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=700", named(f"disk{number}"), str(folder))
            mounted.append(folder)
        yield
    finally:
        for folder in mounted:
            call("umount", "--lazy", str(folder))


def left_mounted(mounts: str) -> list[str]:
    """Where disks of drills are mounted whose process is gone. mounts: the text of /proc/mounts."""
    words = [line.split(" ") for line in mounts.splitlines()]
    left = set(left_by_the_dead(word[0] for word in words))
    return [word[1] for word in words if word[0] in left]


def fill(disk: Path) -> int:
    """Write until nothing fits any more. Returns the number of bytes."""
    written = 0
    with (disk / _FILLER).open("ab", buffering=0) as stream:
        for size in _CHUNKS:
            try:
                while True:
                    written += stream.write(b"\0" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return written


def free(disk: Path) -> None:
    """Remove what `fill` wrote."""
    (disk / _FILLER).unlink(missing_ok=True)


def cut_tail(data: Path, topics: Iterable[str], count: int) -> dict[str, int]:
    """Remove the last `count` offsets of each replica, or a few more up to a batch's begin, but nothing that Kafka had
    flushed (recovery-point-offset-checkpoint). Returns how many offsets each replica lost."""
    flushed, wanted, cut = dict[str, int](), set(topics), {}
    if (checkpoint := data / "recovery-point-offset-checkpoint").exists():
        for line in read_checkpoint(checkpoint.read_bytes(), 3)[0]:
            topic, partition, offset = (word.decode() for word in line.words)
            flushed[f"{topic}-{partition}"] = int(offset)
    for folder in sorted(data.iterdir()):
        if not folder.is_dir() or folder.name.rpartition("-")[0] not in wanted:
            continue
        segment = max(folder.glob("*.log"), default=None)
        if segment is not None:
            cut[folder.name] = _cut(segment, count, flushed.get(folder.name, 0))
    return cut


def _cut(segment: Path, count: int, flushed: int) -> int:
    batches = list(_batches(segment.read_bytes()))
    end = batches[-1].last_offset + 1 if batches else 0
    gone = [b for b in batches if b.last_offset >= end - count and b.base_offset >= flushed]
    if not gone:
        return 0
    with segment.open("r+b") as stream:
        stream.truncate(gone[0].position)
    return end - gone[0].base_offset


@dataclass(frozen=True, slots=True)
class DiskCopy:
    """A replica on a disk. end: (last leader epoch, log end offset); records: offset -> value."""

    end: tuple[int, int]
    records: dict[int, str]


def read_copy(folder: Path) -> DiskCopy:
    """What the client of a drill wrote into a replica."""
    end, records = (-1, 0), dict[int, str]()
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        for batch in _batches(data):
            end = batch.epoch, batch.last_offset + 1
            found = () if batch.is_control else read_data(data, batch)
            records |= {r.offset: (r.value or b"").decode() for r in found if isinstance(r, DataRecord)}
    return DiskCopy(end, records)


def _batches(data: bytes) -> Iterator[DataBatch]:
    """The whole batches up to the first torn one."""
    return takewhile(lambda found: isinstance(found, DataBatch), Framing(data, 0).all_batches())  # type: ignore[arg-type]
