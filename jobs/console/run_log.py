"""The log file of this run: what Spark and Java print, and errors in full. On stderr an error is one line, which names
it."""

import errno
import os
import re
import tempfile
import traceback
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


_MOST_CHARACTERS = 300
_QUERY = re.compile(r"\?[^\s\"']+")  # of a URL: it may be signed
_CAUSE = re.compile(r"\s*(?:\x1b\[\d*m)?↳(?:\x1b\[\d*m)?\s*")
AGAIN = "What was committed stays: run the command again to go on."


def one_line(error: Exception) -> str:
    """The first line of an error's message, shortened, and the log file with all of it."""
    first = _shortened(str(error)) or type(error).__name__
    if type(error).__name__ in ("ParseException", "AnalysisException"):  # in the statement: the line says all
        return first
    java = getattr(error, "_stackTrace", None) or ""
    with suppress(OSError):  # a full disk: the line has to do
        return f"{first} (all of it: {append(''.join(traceback.format_exception(error)) + java)})"
    return first


def of_files(error: OSError) -> str:
    """One line for a file, disk or store that failed: what the system says, where, and that a run again goes on."""
    if error.errno is not None and error.filename is not None:
        return f"{error.filename}: {error.strerror}. {AGAIN}"
    text = (error.strerror if error.errno is not None else None) or _QUERY.sub("?...", str(error))
    where = " (the lake's disk, or that of TMPDIR)" if error.errno == errno.ENOSPC else ""
    return f"{(_shortened(text) or type(error).__name__).rstrip('.')}{where}. {AGAIN}"


def _shortened(text: str) -> str:
    """The first line that is not empty, with the causes that delta-rs writes below it; empty if there is none."""
    lines = _CAUSE.sub(": ", text).splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    return first if len(first) <= _MOST_CHARACTERS else f"{first[:_MOST_CHARACTERS]}..."
