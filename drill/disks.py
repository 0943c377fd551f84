"""What happens to disks: one is full (a file system of its own in memory), or a power loss takes the last batches,
which were not on it yet."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from drill.errors import DrillError, call, finally_run
from evidence.text_files import read_checkpoint
from evidence.wire.data_batches import DataBatch, Framing
from evidence.wire.data_records import DataRecord, read_data

# Kafka reads the folders of a log directory, and leaves files that it does not know alone.
_FILLER = "filler"


@contextlib.contextmanager
def small_disks(sizes_mib: Mapping[Path, int]) -> Iterator[None]:
    """Mount a disk of so many MiB at each folder, which is made; they are unmounted in the end, also of a drill that is
    killed. Errors: DrillError if mounting fails: it needs root."""
    with finally_run(*(f"umount --lazy {folder}" for folder in sizes_mib)):
        for folder, mib in sizes_mib.items():
            folder.mkdir(parents=True)
            call("mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=700", "drill", str(folder))
        yield


def fill(disk: Path) -> int:
    """Write until nothing fits any more. Returns the number of bytes."""
    with contextlib.suppress(DrillError):  # no space is left
        call("dd", "if=/dev/zero", f"of={disk / _FILLER}", "bs=4096")
    return (disk / _FILLER).stat().st_size


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
    """What the client of a drill, or a coordinator in its own form, wrote into a replica."""
    end, records = (-1, 0), dict[int, str]()
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        for batch in _batches(data):
            end = batch.epoch, batch.last_offset + 1
            found = () if batch.is_control else read_data(data, batch)
            records |= {
                r.offset: (r.value or b"").decode(errors="backslashreplace") for r in found if isinstance(r, DataRecord)
            }
    return DiskCopy(end, records)


def _batches(data: bytes) -> Iterator[DataBatch]:
    """The whole batches up to the first torn one."""
    return takewhile(lambda found: isinstance(found, DataBatch), Framing(data, 0).all_batches())  # type: ignore[arg-type]
