"""Results on stdout (table, json, csv); progress and errors on stderr."""

from __future__ import annotations

import base64
import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

Row = dict[str, Any]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Format(StrEnum):
    """--format: how rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def plain(value: Any) -> Any:
    """Convert a value to JSON types: bytes to base64, times to ISO 8601."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date):
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


def print_table(columns: Sequence[str], rows: list[Row], title: str | None = None) -> None:
    """Print a text table to stdout."""
    table = Table(title=title, title_justify="left")
    for name in columns:
        numeric = any(isinstance(r.get(name), int) and not isinstance(r.get(name), bool) for r in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(row.get(name))) for name in columns))
    width = None if sys.stdout.isatty() else 200
    Console(width=width).print(table)


def show_message(message: str) -> None:
    """Print a line to stderr; never wrapped or styled."""
    sys.stderr.write(message + "\n")


@contextmanager
def progress_steps(total: int) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """Show progress over stages on stderr; yields (function that shows a message, function that ends a stage).

    A terminal gets a live bar; otherwise each message is a line.
    """
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("starting Spark", total=total)

        def describe(message: str) -> None:
            bar.update(task, description=message)
            if not console.is_terminal:
                show_message(message)

        yield describe, lambda: bar.advance(task)


def utc(timestamp_ms: int | None) -> str:
    """Format milliseconds since the Unix epoch as ISO 8601 UTC; '' for None."""
    if timestamp_ms is None:
        return ""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
