"""Small captures for tests of the stages without Spark."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from evidence.wire.batches import scan_batches
from tests.support import writer
from tests.support.paths import rounds, unpacked

SEGMENT = f"__cluster_metadata-0/{0:020d}.log"
_OTHERS = ("controllers", "disks", "cli", "logs")


def write_files(root: Path, files: Mapping[str, bytes | str]) -> Path:
    """Files below a folder, by path. Returns the folder."""
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return root


def diverged(folder: Path) -> tuple[Path, Path, int]:
    """A capture of three controllers, of which 3001 wrote a branch that was replaced, with a record that cannot be
    decoded in the logs of all; of this capture controller 3001 alone; the offset of that record."""
    whole = unpacked("diverge", folder, "controllers", "cli").rename(folder / "whole")
    alone = folder / "alone"
    broken = writer.partition_change()[:-1]  # it ends before its tagged fields
    for segment in (whole / "controllers").glob(f"*/{SEGMENT}"):
        data = segment.read_bytes()
        old = next(b for b in scan_batches(data).batches if b.base_offset > 20 and b.record_count == 2)
        values = [broken, writer.no_op()]
        new = writer.batch(values, old.base_offset, old.epoch, timestamp_ms=old.base_timestamp_ms)
        segment.write_bytes(data[: old.position] + new + data[old.end :])
    shutil.copytree(whole / "controllers" / "3001", alone / "controllers" / "3001")
    return whole, alone, old.base_offset


def with_rounds(name: str, folder: Path, count: int, *more: str) -> Path:
    """A capture with some of its rounds of copying, from its first to its last time, and with more that are named."""
    every = rounds(name)
    return unpacked(name, folder, *_OTHERS, *every[:: len(every) // count], *more)
