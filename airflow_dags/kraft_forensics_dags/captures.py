"""Which captures a run reads, and where collected ones go: clusters' folders, and dates in the names of captures."""

import logging
import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from kraft_forensics_dags.params import CLUSTER_PATTERN

log = logging.getLogger("kraft_forensics.dag")

# 2026-11-21, 2026-11-21.tar.xz, 2026-11-21T04, 2026-11-21T0440Z-controllers.tar.gz, 2026-11-21T04:40:12
_DATED = re.compile(r"(\d{4}-\d{2}-\d{2})(?:T(\d{2}(?:[:-]?\d{2}){0,2}))?(?![0-9T])")
# What stands beside a capture: its checksum or signature, or what is not whole yet.
_BESIDE = re.compile(r".*\.(?:(?:sha\d+|md5)(?:sum)?|(?:mini)?sig|asc|part|tmp)")


def folder_at(place: str) -> Any:
    """A folder, or a prefix in an object store (its Airflow provider must be installed, e.g. `amazon` with s3fs)."""
    if "://" not in place:
        return Path(place)
    from airflow.sdk import ObjectStoragePath

    return ObjectStoragePath(place)


def folders_of(root: str) -> dict[str, str]:
    """name -> path or URL of every folder in `root`, by name. Errors: OSError, without such a folder."""
    return _of_clusters(folder_at(root), "", "a cluster's folder")


def nodes_of(folder: str) -> dict[str, str]:
    """cluster -> path of `<cluster>.toml` in a folder on the worker, by name. Errors: OSError, without that folder."""
    return _of_clusters(Path(folder), ".toml", "a file <cluster>.toml")


def _of_clusters(folder: Any, suffix: str, what: str) -> dict[str, str]:
    """The folders, or the files with a suffix, that clusters are named by. Other entries are logged and left out."""
    found = {}
    for entry in folder.iterdir():
        name = entry.name.removesuffix(suffix)
        is_named = name + suffix == entry.name and re.fullmatch(CLUSTER_PATTERN, name)
        if is_named and (entry.is_file() if suffix else entry.is_dir()):
            found[name] = str(entry)
        else:
            log.warning("not %s, left out: %r", what, entry.name)
    return dict(sorted(found.items()))


def capture_name(cluster: str, moment: datetime, light: bool) -> str:
    """The name of a collected capture: its time (UTC) first, by which `captures_of` chooses it."""
    return f"{moment:%Y-%m-%dT%H%M%SZ}-{cluster}{'-light' if light else ''}.tar.gz"


def copy_to(file: Path, place: str) -> None:
    """Copy a file to a URL; a path is where it is already."""
    if "://" in place:
        with file.open("rb") as source, folder_at(place).open("wb") as target:
            shutil.copyfileobj(source, target)


def moment_of(name: str) -> datetime | None:
    """The time at the start of a capture's name (UTC); None without a valid one."""
    if (found := _DATED.match(name)) is None:
        return None
    time = re.sub("[:-]", "", found[2] or "00")
    try:
        return datetime.fromisoformat(f"{found[1]}T{time}+00:00")
    except ValueError:
        return None


def captures_of(folder: str, start: datetime | None, end: datetime | None, late: timedelta) -> list[str]:
    """Paths or URLs of a cluster's captures of [start - late, end), the oldest first. start, end: None is no bound."""
    chosen = []
    for entry in folder_at(folder).iterdir():
        moment = moment_of(entry.name)
        if moment is None or _BESIDE.fullmatch(entry.name):
            log.warning("no capture, or no date at the start of its name, left out: %r", entry.name)
        elif (start is None or start - late <= moment) and (end is None or moment < end):
            chosen.append((moment, str(entry)))
    return [place for _, place in sorted(chosen)]
