"""The table of tries in docs/reliability.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- make test-faults writes from here -->", "<!-- to here -->"


@dataclass
class Line:
    """Figures of one fault at one place. tried: how often it happened; lost: how often the outcome was wrong."""

    tried: int = 0
    lost: int = 0


Lines = dict[tuple[str, str], Line]
_ROW = re.compile(r"^\| (?P<fault>[^|]+) \| (?P<where>[^|]+) \| (\d+) \| \d+ \| (\d+) \|$", re.MULTILINE)


def markdown(lines: Lines, about: str) -> str:
    """The table. lines: by fault and place. about: a sentence on how it was made."""
    rows = [
        f"| {fault} | {where} | {line.tried} | {line.tried - line.lost} | {line.lost} |"
        for (fault, where), line in lines.items()
    ]
    total = Line(sum(line.tried for line in lines.values()), sum(line.lost for line in lines.values()))
    rows.append(f"| all | | {total.tried} | {total.tried - total.lost} | {total.lost} |")
    head = ["| fault | where | tried | survived | lost |", "|---|---|---|---|---|"]
    return "\n".join([about, "", *head, *rows])


def merged(table: str, lines: Lines) -> Lines:
    """The figures of an older table, with these in their place."""
    older = {(row[1], row[2]): Line(int(row[3]), int(row[4])) for row in _ROW.finditer(table)}
    return {**older, **lines}


def write(lines: Lines, about: str, is_all: bool, page: Path = PAGE) -> None:
    """Write the table into the page; is_all: False keeps the rows of other faults. Errors: ValueError if the page lacks
    the markers."""
    text = page.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    kept = lines if is_all else merged(text[begin:end], lines)
    page.write_text(f"{text[:begin]}\n{markdown(kept, about)}\n{text[end:]}", encoding="utf-8")
