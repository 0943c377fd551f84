"""Small disks: a broker's log directory on a file system of its own in memory, which a step fills."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Mapping
from pathlib import Path

from drill.errors import call
from drill.network import left_by_the_dead, named

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
