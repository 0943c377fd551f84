"""What the commit of a capture's files says of it: who ingested it, with which version, when, and which files; of an
archive its SHA-256, so that it is not unpacked again."""

from __future__ import annotations

import getpass
import json
import socket
import time
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from evidence.capture.archive import is_archive
from evidence.capture.files import Capture, capture_name, sha256_of
from evidence.capture.remote import Location
from evidence.errors import CaptureError
from jobs.config.settings import CustodySettings
from jobs.lake.lake import Lake
from jobs.lake.marks import writer


def receipt(capture: Capture, settings: CustodySettings) -> dict[str, Any]:
    """capture: its name; files: their number; digest: see `files_digest`; by: who, by the setting; with: this program;
    at_ms: when, by this machine's clock."""
    return {
        "capture": capture.name,
        "files": len(capture.files),
        "digest": files_digest((f.path, f.sha256, f.size_bytes) for f in capture.files),
        "by": person(settings.ingested_by),
        "with": writer(),
        "at_ms": time.time_ns() // 1_000_000,
    }


def files_digest(files: Iterable[tuple[str, str, int]]) -> str:
    """SHA-256 of the (path, SHA-256, size in bytes) of some files, in the order of their paths."""
    return sha256(json.dumps(sorted(files)).encode()).hexdigest()


def person(pattern: str) -> str | None:
    """The setting custody.ingested_by with {user} and {host} filled in; None if it is empty."""
    return pattern.replace("{user}", _user()).replace("{host}", socket.gethostname()) or None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run with a user id that has no name
        return "unknown"


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
