"""Messages on stderr: plain text, text with times and levels (--verbose), or a JSON object on each line."""

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
_LOGGER = logging.getLogger("kraft_forensics")
# All but tab and line end: C0, DEL, C1, and what changes the direction of text.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# What every JSON line says beside its message.
_about: ContextVar[Mapping[str, str]] = ContextVar("about", default=MappingProxyType({}))

# --log-format: how messages are written to stderr.
LogFormat = Literal["text", "json"]


class _Plain(logging.Formatter):
    """The message; an error begins with `error: `."""

    def format(self, record: logging.LogRecord) -> str:
        return f"error: {record.getMessage()}" if record.levelno >= ERROR else record.getMessage()


class _Timed(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname} {record.getMessage()}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        found = {"time": _time(record), "level": record.levelname.lower(), "message": record.getMessage()}
        return json.dumps({**found, **_about.get(), **getattr(record, "figures", {})}, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Stderr(logging.Handler):
    """Writes to what sys.stderr is at that time; never wrapped or styled. Control characters, which a captured name may
    have, are escaped."""

    def emit(self, record: logging.LogRecord) -> None:
        text = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", self.format(record))
        sys.stderr.write(text + "\n")


_HANDLER = _Stderr()
_HANDLER.setFormatter(_Plain())
_LOGGER.addHandler(_HANDLER)
_LOGGER.setLevel(INFO)
_LOGGER.propagate = False


def configure(verbose: bool = False, quiet: bool = False, form: LogFormat = "text") -> None:
    """Set what is written, for the whole process. verbose: details, too, and in text times and levels; quiet: only
    errors."""
    _LOGGER.setLevel(ERROR if quiet else DEBUG if verbose else INFO)
    _HANDLER.setFormatter(_Json() if form == "json" else _Timed() if verbose else _Plain())


def show_message(message: str, level: int = INFO) -> None:
    """Write one line to stderr, unless its level is too low; never wrapped or styled."""
    _LOGGER.log(level, "%s", message)


@contextmanager
def about(**names: str) -> Iterator[None]:
    """Inside, every JSON line has these fields, too: run_id, command, stage, cluster."""
    token = _about.set({**_about.get(), **names})
    try:
        yield
    finally:
        _about.reset(token)


def log_figures(message: str, **figures: str | float) -> None:
    """Write a line with figures as fields, if lines are JSON. In text they would only be in a reader's way."""
    if isinstance(_HANDLER.formatter, _Json):
        _LOGGER.log(INFO, "%s", message, extra={"figures": figures})


def is_verbose() -> bool:
    """Whether details are written."""
    return _LOGGER.isEnabledFor(DEBUG)


def allows_bar() -> bool:
    """Whether a progress bar may be drawn: not among JSON lines, and not if only errors are wanted."""
    return _LOGGER.isEnabledFor(INFO) and not isinstance(_HANDLER.formatter, _Json)
