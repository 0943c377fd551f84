"""Errors of libraries as one line; the rest of their text goes to the run's log file."""

from __future__ import annotations

import traceback

from jobs.console.run_log import append

_MOST_CHARACTERS = 300
# Errors in the statement itself: their first line says all.
_OF_THE_STATEMENT = ("ParseException", "AnalysisException")


def is_of_the_statement(error: BaseException | None) -> bool:
    """Whether an error of Spark is in the statement that it was given, so that no log says more."""
    return type(error).__name__ in _OF_THE_STATEMENT


def one_line(error: Exception) -> str:
    """The first line of an error's message, shortened, and the log file with all of it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    first = lines[0] if len(lines[0]) <= _MOST_CHARACTERS else f"{lines[0][:_MOST_CHARACTERS]}..."
    if is_of_the_statement(error):
        return first
    java = getattr(error, "_stackTrace", None) or ""
    return f"{first} (all of it: {append(''.join(traceback.format_exception(error)) + java)})"
