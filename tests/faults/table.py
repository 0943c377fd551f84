"""The table of tries in docs/reliability.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- make test-faults writes from here -->", "<!-- to here -->"
NEVER = "not tried: not run yet"


@dataclass
class Line:
    """Figures of one fault at one place. tried: how often it happened; lost: how often the outcome was wrong. run:
    date, commit and seed; or why it was not tried."""

    tried: int = 0
    lost: int = 0
    run: str = NEVER

    def missed(self, reason: str) -> None:
        """Say why it was not tried. reason: what this machine lacks."""
        self.run = f"not tried: {reason}"


Lines = dict[tuple[str, str], Line]
_ROW = re.compile(
    r"^\| (?P<fault>[^|]+) \| (?P<where>[^|]+) \| (\d+) \| \d+ \| (\d+) \| ([^|]+) \|$", re.MULTILINE
)  # the line of all rows has no place


def markdown(lines: Mapping[tuple[str, str], Line], about: str) -> str:
    """The table. lines: by fault and place. about: a sentence on how it was made."""
    rows = [
        f"| {fault} | {where} | {line.tried} | {line.tried - line.lost} | {line.lost} | {line.run} |"
        for (fault, where), line in lines.items()
    ]
    total = Line(sum(line.tried for line in lines.values()), sum(line.lost for line in lines.values()))
    rows.append(f"| all | | {total.tried} | {total.tried - total.lost} | {total.lost} | |")
    head = ["| fault | where | tried | survived | lost | run |", "|---|---|---|---|---|---|"]
    return "\n".join([about, "", *head, *rows])


def read(page: Path = PAGE) -> Lines:
    """The figures that the page has. Errors: ValueError if it lacks the markers."""
    text = page.read_text(encoding="utf-8")
    table = text[text.index(BEGIN) : text.index(END)]
    return {(row[1], row[2]): Line(int(row[3]), int(row[4]), row[5]) for row in _ROW.finditer(table)}


def write(names: Iterable[tuple[str, str]], lines: Lines, about: str, page: Path = PAGE) -> None:
    """Write the table into the page. names: all rows, in order; those that are not in `lines` stay as they are. Errors:
    ValueError if the page lacks the markers."""
    older = read(page)
    kept = {name: lines.get(name) or older.get(name) or Line() for name in names}
    text = page.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    page.write_text(f"{text[:begin]}\n{markdown(kept, about)}\n{text[end:]}", encoding="utf-8")
