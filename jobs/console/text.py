"""Text for people that fits the terminal: its width, wrapped sentences, names shortened in the middle; tables, in which
less important columns are left out and no word is broken; bounds of a number."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.cells import cell_len

_PROSE = 120
_ELLIPSIS = "…"


def known_width() -> int | None:
    """Columns of the terminal, or of the variable COLUMNS; None if stdout is a file or a pipe."""
    if not os.environ.get("COLUMNS", "").isdecimal() and not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, 20)


def wrapped(text: str, first: str = "", indent: str = "  ") -> list[str]:
    """Lines of prose of at most 120 columns, broken at spaces only. A longer word is shortened in the middle.

    first, indent: what the first line and the others begin with.
    """
    width = min(known_width() or _PROSE, _PROSE)
    room = width - max(len(first), len(indent))
    words = with_short_words(text, room)
    return wrap(
        words, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def with_short_words(text: str, width: int) -> str:
    """The text, each word `shortened`."""
    return " ".join(shortened(word, width) for word in text.split(" "))


def shortened(text: str, width: int) -> str:
    """The text in at most `width` columns: the middle is left out, since names differ at both ends."""
    if cell_len(text) <= width:
        return text
    head, tail = list(text[: len(text) // 2]), list(text[len(text) // 2 :])
    while (head or tail) and cell_len("".join((*head, _ELLIPSIS, *tail))) > width:
        if len(head) > len(tail):
            head.pop()
        else:
            tail.pop(0)
    return "".join((*head, _ELLIPSIS, *tail))


# Format strings for a lower bound only, an upper bound only, and both.
WORDS = ("{low} or more", "{high} or less", "{low} to {high}")
SYMBOLS = ("≥ {low}", "≤ {high}", "{low}–{high}")


def range_text(low: int | None, high: int | None, style: tuple[str, str, str] = WORDS) -> str:
    """Format bounds of a loss: "70" if both are equal, else by style, e.g. "70 to 75"; "not known" where they prove
    none and limit none: a lower bound of 0 alone says nothing."""
    at_least, at_most, between = style
    if high is None:
        return at_least.format(low=low) if low else "not known"
    if low is None:
        return at_most.format(high=high)
    return str(low) if low == high else between.format(low=low, high=high)


UNKNOWN_WIDTH = 200  # if stdout is no terminal
_BETWEEN = 2  # columns of space between two columns
_NAME = 24  # names are shortened to this before a column is left out; a time and a finding's id have room
_LEAST = 6
# A cell with spaces that is longer than this is a sentence, and is wrapped.
_SENTENCE = 40
_LEAST_SENTENCE = 24


@dataclass(slots=True)
class Column:
    """width: columns of space that it gets, first what it needs; most: that it can use."""

    name: str
    cells: list[str]
    numeric: bool
    width: int
    most: int


def column_of(name: str, cells: list[str], numeric: bool) -> Column:
    """A column of a table. cells: printable text."""
    header = max(map(cell_len, name.split(" ")))
    widest = max(map(cell_len, cells), default=0)
    wraps = not numeric and any(" " in cell and cell_len(cell) > _SENTENCE for cell in cells)
    words = max((cell_len(word) for cell in cells for word in cell.split(" ")), default=0) if wraps else widest
    least = max(header, words if numeric else min(words, _NAME), _LEAST_SENTENCE if wraps else 0)
    return Column(name, cells, numeric, least, max(cell_len(name), widest, least))


def fit(found: list[Column], width: int, drop: Sequence[str]) -> list[str]:
    """Remove the columns that do not fit, then narrow the others, or give them what is left, those first that need
    least of it. Returns the names of those removed."""
    every, removed = list(found), list[str]()
    for name in drop:
        if _total(found) <= width or len(found) == 1:
            break
        if any(column.name == name for column in found):
            removed.append(name)
            found[:] = [column for column in found if column.name != name]
    for name in removed[-2::-1]:  # a narrow one may fit after all, with all headers on one line
        kept = [column for column in every if column in found or column.name == name]
        if _total(kept) + sum(max(cell_len(c.name) - c.width, 0) for c in kept) <= width:
            removed.remove(name)
            found[:] = kept
    while _total(found) > width:
        widest = max((c for c in found if not c.numeric), key=lambda c: c.width, default=None)
        if widest is None or widest.width <= _LEAST:
            break
        widest.width -= 1
    for column in sorted(found, key=lambda c: c.most - c.width):
        column.width += max(min(column.most - column.width, width - _total(found)), 0)
    return removed


def _total(found: Sequence[Column]) -> int:
    return sum(column.width for column in found) + _BETWEEN * (len(found) - 1)
