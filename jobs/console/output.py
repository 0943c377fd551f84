"""Results on stdout: a table, JSON or CSV; messages on stderr."""

import base64
import csv
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evidence.limits import MAX_TIME_MS, YEAR_1_MS
from jobs.console.log import show_message
from jobs.console.text import UNKNOWN_WIDTH, column_of, fit, known_width, with_short_words

Row = dict[str, Any]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Format(StrEnum):
    """--format: how rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def plain(value: Any) -> Any:
    """Convert a value to JSON types: bytes to base64, times to ISO 8601, as `utc` has them if they are whole ms."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat(timespec="auto" if value.microsecond % 1000 else "milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


def print_rows(columns: Sequence[str], rows: list[Row], form: Format) -> None:
    """Print rows to stdout. json: one array on one line, never wrapped or coloured. csv: formulas are quoted."""
    if form is Format.JSON:
        sys.stdout.write(json.dumps([plain(r) for r in rows], ensure_ascii=False) + "\n")
    elif form is Format.CSV:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(r.get(c)) for c in columns] for r in rows)
        sys.stdout.write(buffer.getvalue())
    else:
        print_table(columns, rows)


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    text = _text(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _text(value: Any) -> str:
    if value is None:
        return ""
    value = plain(value)
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def printable(text: str) -> str:
    """Escape unprintable characters, so that a captured name cannot control the terminal."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def print_table(
    columns: Sequence[str], rows: list[Row], title: str | None = None, drop: Sequence[str] | None = None
) -> None:
    """Print a text table to stdout that fits the terminal. drop: columns that may be left out, the least important
    first; None: all but the first, the last one first. A last line names those that were left out."""
    width, found = known_width() or UNKNOWN_WIDTH, []
    for name in columns:
        numeric = any(isinstance(r.get(name), int) and not isinstance(r.get(name), bool) for r in rows)
        found.append(column_of(name, [_text(row.get(name)) for row in rows], numeric))
    left_out = fit(found, width, columns[:0:-1] if drop is None else drop)
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), expand=False)
    for column in found:
        header = Text(column.name, overflow="fold")
        shown.add_column(
            header, justify="right" if column.numeric else "left", width=column.width, overflow="fold", no_wrap=False
        )
        column.cells = [with_short_words(cell, column.width) for cell in column.cells]
    for row in zip(*(column.cells for column in found), strict=True):
        shown.add_row(*map(Text, row))
    console = Console(file=sys.stdout, width=max(width, 20), highlight=False)
    with console.capture() as printed:
        if title:
            console.print(Text(title))
            console.print()
        console.print(shown)
        if left_out:
            names = ", ".join(name for name in columns if name in left_out)
            console.print()
            console.print(Text(f"Too narrow for: {names}. To see them: --format json, or a wider terminal."))
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in printed.get().splitlines()))


def say(line: str) -> None:
    """Print a line that may hold names from elsewhere to stderr."""
    show_message(printable(line))


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Print to stdout; that its reader has gone (`... | head`) is no failure of what was done before."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered goes nowhere, also when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def utc_ms(text: str) -> int:
    """Milliseconds since the Unix epoch of an ISO 8601 time; without a zone it is UTC. Errors: ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not an ISO 8601 time, e.g. 2026-11-21T00:39:36.570Z") from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def utc(timestamp_ms: int | None) -> str:
    """Format milliseconds since the Unix epoch as ISO 8601 UTC; '' for None. Beyond the years 1 to 9999 it stays a
    number."""
    if timestamp_ms is None:
        return ""
    if not YEAR_1_MS <= timestamp_ms <= MAX_TIME_MS:
        return f"{timestamp_ms} ms"
    moment = datetime(1970, 1, 1) + timedelta(milliseconds=timestamp_ms)
    return f"{moment.isoformat(timespec='milliseconds')}Z"
