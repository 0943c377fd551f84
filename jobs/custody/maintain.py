"""Maintenance: small files are compacted, files that no commit needs are deleted. No row changes.

A compaction is a commit of the chain whose rows are those of the commit before it (`ChainHead.id`), so `verify` stays
clean and nothing is made again. Deleting files makes no commit. Commits are never deleted: they hold the chain.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from pyarrow.fs import FileSelector, FileType

from jobs.lake.data_files import DataFile, write_file
from jobs.lake.integrity import heads_of
from jobs.lake.lake import Lake, Row
from jobs.lake.marks import ChainHead, undisturbed
from jobs.lake.storage import SCRATCH
from jobs.lake.tables import CHECKED, CLUSTER_ID, INGESTED, TABLES

LEAST_FILES = 8  # of a cluster and table, below which compaction is not worth its writes
_SMALL_BYTES, _MOST_BYTES, _MOST_ROWS = 16 << 20, 32 << 20, 1_000_000
_COMMITS = 20  # so many are read quickly without a checkpoint
# What grows file by file. Replay and detect replace the files of the other tables, one for each bucket.
GROWING = (*(name for name in INGESTED if name not in ("log_batches", "captures")), *CHECKED, "runs")


MAINTAINED = ("table", "before", "after", "deleted", "deleted_bytes")


def maintain(
    lake: Lake, retention_days: int, progress: Callable[[str], None], least_files: int = LEAST_FILES
) -> list[Row]:
    """Maintain every table. retention_days: how long a file stays after the commit that removed it, or after it was
    written if no commit names it. least_files: see LEAST_FILES.

    Returns what was done to each table, and to the folder of unfinished files: rows of MAINTAINED. before, after:
    number of files by its log; deleted: of files that no commit needed, and deleted_bytes their size. Errors: LakeError
    if there is no lake; ChangedTableError if another program has changed a table: its old files show what was changed.
    """
    lake.require()
    lake.create()
    clusters = lake.clusters()
    for cluster in clusters:
        heads_of(lake, cluster, TABLES)
    done = []
    progress("looking for small files, and for old ones that no commit needs")
    for name in TABLES:
        before = sum(len(lake.files(name, cluster)) for cluster in clusters)
        for cluster in clusters if name in GROWING else ():
            _compact(lake, name, cluster, least_files, progress)
        if lake.version(name) >= _COMMITS:
            lake.delta(name).create_checkpoint()
        # A dry run makes no commit.
        old = lake.delta(name).vacuum(24 * retention_days, dry_run=True, enforce_retention_duration=False, full=True)
        if old:
            progress(f"{name}: deleting old files ({len(old)})")
        after = sum(len(lake.files(name, cluster)) for cluster in clusters)
        done.append((name, before, after, len(old), _delete(lake, [f"{name}/{file}" for file in old])))
    scratch = list(_old_files(lake, SCRATCH, time.time() - retention_days * 86_400))
    done.append((SCRATCH, 0, 0, len(scratch), _delete(lake, scratch)))
    return [dict(zip(MAINTAINED, each, strict=True)) for each in done]


@undisturbed
def _compact(lake: Lake, name: str, cluster: str, least_files: int, progress: Callable[[str], None]) -> None:
    since, head = lake.cluster_version(name, cluster), lake.head(name, cluster)
    small = [file for file in lake.files(name, cluster) if file.size_bytes < _SMALL_BYTES]
    if len(small) < least_files:
        return
    progress(f"{name}: compacting {len(small)} files of {cluster}")
    groups = [group for group in _groups(small) if len(group) > 1]
    _write_again(lake, name, cluster, groups, _same_rows(head), since)


def adopt(lake: Lake, name: str, cluster: str, by: str | None) -> None:
    """Write a table again that another program has rewritten with the same rows (jobs/custody/tables.py:rewritten), in
    a commit that says so. by: who wants it. Errors: ChangedMeanwhileError if another run has changed it meanwhile."""
    head, files = lake.head(name, cluster), lake.files(name, cluster)
    about = {**_same_rows(head), "adopted": {"of": head.problem, "by": by, "at_ms": time.time_ns() // 1_000_000}}
    _write_again(lake, name, cluster, list(_groups(files)), about, head.version)


def _same_rows(head: ChainHead) -> dict[str, Any]:
    """What a commit says that leaves the rows of the newest one in other files: all that this one says, and its id."""
    about = {name: value for name, value in head.made.items() if name not in (CLUSTER_ID, "mark", "link")}
    return {**about, "rows_of": head.id}


def _write_again(
    lake: Lake, name: str, cluster: str, groups: list[list[DataFile]], about: dict[str, Any], since: int
) -> None:
    """Commit one file instead of each group of files."""
    new = [
        write_file(lake.storage, name, lake.dataset_of(name, [f.path for f in group]).to_table()) for group in groups
    ]
    old = [file for group in groups for file in group]
    lake.commit(name, cluster, new, old, about, since, data_change=False)


def _groups(files: list[DataFile]) -> Iterator[list[DataFile]]:
    """The files in groups, each of which becomes one file. Neighbours by the column that readers skip files by."""
    group: list[DataFile] = []
    for file in sorted(files, key=lambda f: (f.lowest is not None, f.lowest if f.lowest is not None else 0, f.name)):
        more = [*group, file]
        if group and (sum(f.size_bytes for f in more) > _MOST_BYTES or sum(f.rows for f in more) > _MOST_ROWS):
            yield group
            more = [file]
        group = more
    yield group


def _old_files(lake: Lake, folder: str, before: float) -> Iterator[str]:
    """The files of a folder that were written before a time, in seconds since the Unix epoch."""
    selector = FileSelector(lake.storage.path(folder), allow_not_found=True, recursive=True)
    for info in lake.storage.system.get_file_info(selector):
        if info.type == FileType.File and info.mtime_ns is not None and info.mtime_ns / 1e9 < before:
            yield f"{folder}/{info.path.removeprefix(lake.storage.path(folder)).lstrip('/')}"


def _delete(lake: Lake, names: list[str]) -> int:
    """Delete files; returns how many bytes they had."""
    found = lake.storage.system.get_file_info([lake.storage.path(name) for name in names]) if names else []
    for name in names:
        lake.storage.delete(name)
    return sum(info.size or 0 for info in found)
