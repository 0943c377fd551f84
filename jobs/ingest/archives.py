"""An archive that has been ingested is not unpacked again: the commit of its files names its SHA-256."""

from __future__ import annotations

from pathlib import Path

from evidence.capture.archive import is_archive
from evidence.capture.files import capture_name, sha256_of
from evidence.capture.remote import Location
from evidence.errors import CaptureError
from jobs.lake.lake import Lake

_SHA256, _CAPTURE = "archive_sha256", "capture"


def archive_mark(location: Location) -> dict[str, str]:
    """What the commit of the files of this capture says about it; empty if it is no local archive. Errors:
    CaptureError."""
    if not isinstance(location, Path) or not location.is_file() or not is_archive(location):
        return {}
    try:
        return {_SHA256: sha256_of(location), _CAPTURE: capture_name(location)}
    except OSError as error:
        raise CaptureError(f"{location}: cannot be read: {error.strerror}.") from error


def ingested_as(lake: Lake, mark: dict[str, str]) -> str | None:
    """The cluster that this archive was ingested for; None if it was not, or was forgotten since."""
    if not mark or not lake.exists():
        return None
    forgotten = set()
    for made in lake.marks("evidence_files"):
        forgotten |= {(made["cluster_id"], name) for name in made.get("forgotten", {}).get("removed", ())}
        if mark.items() <= made.items():
            found = str(made["cluster_id"])
            return None if (found, mark[_CAPTURE]) in forgotten else found
    return None
