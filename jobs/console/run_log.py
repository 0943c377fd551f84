"""The log file of this run: what Spark and Java print, and errors in full. Errors on stderr name it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Lock

_lock = Lock()
_path: Path | None = None


def run_log() -> Path:
    """The file, made when it is first needed: in the folder for temporary files, readable by its owner only."""
    global _path
    with _lock:
        if _path is None:
            number, name = tempfile.mkstemp(prefix="kraft-forensics-", suffix=".log")
            os.close(number)
            _path = Path(name)
        return _path


def append(text: str) -> Path:
    """Add text to the file, and return where it is."""
    path = run_log()
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return path


def existing() -> Path | None:
    """The file, if there is one."""
    return _path


def discard() -> None:
    """Remove the file of a run that has succeeded. Java may still write to it."""
    global _path
    with _lock:
        if _path is not None:
            with suppress(OSError):
                _path.unlink(missing_ok=True)
            _path = None
