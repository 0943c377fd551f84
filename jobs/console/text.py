"""Short text for people: what fits the terminal (its width, wrapped sentences, names shortened in the middle), and
bounds of a number."""

import os
import shutil
import sys
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
    words = " ".join(word if cell_len(word) <= room else shortened(word, room) for word in text.split(" "))
    return wrap(
        words, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


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


def range_text(low: int | None, high: int | None, style: tuple[str, str, str] = WORDS, unknown: str = "?") -> str:
    """Format bounds: "70" if both are equal, else by style, e.g. "70 to 75". A null bound is not known; `unknown`: the
    text if neither is."""
    at_least, at_most, between = style
    if low is None:
        return unknown if high is None else at_most.format(high=high)
    if high is None:
        return at_least.format(low=low)
    return str(low) if low == high else between.format(low=low, high=high)
