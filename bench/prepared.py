"""Prepare the data of the stages, outside the timed code.

A separate process (`python -m bench.prepared LOG FOLDER`) writes a log's partition changes as Parquet, in the same
buckets as the job, so that no stage's memory includes this work.
"""

import mmap
import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evidence.capture.archive import is_archive
from evidence.capture.files import open_capture
from evidence.errors import CaptureError
from evidence.metadata_log.rows import ByteRange, work_of
from evidence.metadata_log.scan import Scanned, scan_files
from jobs.config.settings import load_settings
from jobs.ingest.records import RECORDS, SNAPSHOTS
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from jobs.replay.buckets import BucketFiles, buckets, read_changes
from jobs.replay.cluster_state import EARLIEST, load_cluster_state
from replay.arrow.schemas import CHANGES
from replay.cluster.state import ClusterState, changes_that_count

CAPTURE = "bench"
_STATE = "cluster-state.pickle"


@dataclass(frozen=True, slots=True)
class Prepared:
    """An input (a file or a folder of a capture) and a folder for the files made from it."""

    source: Path
    folder: Path

    @property
    def files(self) -> list[Path]:
        return files_of(self.source)

    def scanned(self) -> Scanned:
        with open_capture(self.source) as capture:
            return scan_files(capture.files)

    def ranges(self) -> Iterator[tuple[Any, ByteRange]]:
        """Each range to decode, and its file mapped into memory."""
        for work in work_of(self.scanned()):
            assert isinstance(work.source, Path)
            with work.source.open("rb") as file:
                yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), work

    @property
    def has_changes(self) -> bool:
        """Whether `prepare` was run for this folder."""
        return (self.folder / _STATE).exists()

    def state(self) -> ClusterState:
        """The cluster state from the log's records."""
        state: ClusterState = pickle.loads((self.folder / _STATE).read_bytes())
        return state

    def changes(self) -> Iterator[pa.Table]:
        """The CHANGES rows that count, bucket by bucket."""
        for file in sorted(self.folder.glob("changes-*.parquet")):
            yield pq.read_table(file, schema=CHANGES)


def files_of(path: Path) -> list[Path]:
    """The file itself, or all files in a folder."""
    return [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())


def is_log(source: Path) -> bool:
    """Whether the file holds a segment of the log, not a snapshot. Errors: CaptureError when it holds neither."""
    if is_archive(source):
        raise CaptureError(f"{source}: an archive. Give one segment (.log) or snapshot (.checkpoint) of it.")
    with open_capture(source) as capture:
        scanned = scan_files(capture.files)
    if not scanned.snapshots and not scanned.batches:
        raise CaptureError(f"{source}: holds no record of the metadata log. Give a segment (.log) or a snapshot.")
    return bool(scanned.batches)


def prepare(source: Path, folder: Path) -> None:
    """Ingest a log into a lake in the folder, as the job does. Write its changes, in the job's buckets, and the
    cluster's state."""
    settings, lake = load_settings("local"), Lake(folder / "lake")
    ingest(lake, source, settings, lambda _: None)
    (cluster,) = lake.clusters()
    state = load_cluster_state(lake, cluster, EARLIEST)
    files = BucketFiles(lake, cluster, (RECORDS, SNAPSHOTS))
    for bucket in buckets(lake, cluster, settings, state, files.rows(RECORDS)):
        changes = changes_that_count(read_changes(lake.storage, files.parts(bucket), bucket, state), state)
        pq.write_table(changes, folder / f"changes-{bucket.number:04d}.parquet")
    (folder / _STATE).write_bytes(pickle.dumps(state))


if __name__ == "__main__":
    prepare(*map(Path, sys.argv[1:]))
