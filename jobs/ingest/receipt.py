"""Who ingested a capture, with which version, when, and which files: in the commit that adds them to evidence_files."""

from __future__ import annotations

import getpass
import json
import socket
import time
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from evidence.capture.files import Capture
from jobs.config.settings import CustodySettings
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
