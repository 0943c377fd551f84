"""The record of tries, docs/faults.csv, and its sums by fault in docs/reliability.md beside it."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- make test-faults writes from here -->", "<!-- to here -->"
NEVER = "not tried: not run yet"
COLUMNS = ("fault", "where", "tried", "lost", "run")


@dataclass
class Line:
    """Figures of one fault at one place. tried: how often it happened; lost: how often the outcome was wrong. run:
    date, commit and seed; or why it was not tried."""

    tried: int = 0
    lost: int = 0
    run: str = NEVER


Lines = dict[tuple[str, str], Line]


def record_of(page: Path = PAGE) -> Path:
    """The record beside a page."""
    return page.with_name("faults.csv")


def markdown(lines: Mapping[tuple[str, str], Line], about: str) -> str:
    """The sums by fault; what is 0 in all of them is said once. lines: by fault and place. about: a sentence on how
    they were made."""
    faults = [*dict.fromkeys(fault for fault, _ in lines), "all"]
    of = {fault: [line for (own, _), line in lines.items() if fault in (own, "all")] for fault in faults}
    figures = {fault: _figures(own) for fault, own in of.items()}
    zero = [name for name, figure in figures["all"].items() if figure == 0]
    shown = [name for name in figures["all"] if name not in zero]
    head = [f"| fault | {' | '.join(shown)} |", f"|---|{'---|' * len(shown)}"]
    rows = (f"| {fault} | {' | '.join(str(own[name]) for name in shown)} |" for fault, own in figures.items())
    return "\n".join([about, "", *head, *rows, *([f"\n0 in every row: {', '.join(zero)}."] if zero else [])])


def _figures(lines: list[Line]) -> dict[str, int]:
    never = sum(not line.tried for line in lines)
    tried, lost = sum(line.tried for line in lines), sum(line.lost for line in lines)
    return {"not tried": never, "tried": tried, "lost": lost}


def read(page: Path = PAGE) -> Lines:
    """The record beside the page; empty if there is none."""
    if not record_of(page).exists():
        return {}
    with record_of(page).open(encoding="utf-8", newline="") as file:
        return {(r["fault"], r["where"]): Line(int(r["tried"]), int(r["lost"]), r["run"]) for r in csv.DictReader(file)}


def write(names: Iterable[tuple[str, str]], lines: Lines, about: str, page: Path = PAGE) -> None:
    """Write the record, and its sums into the page. names: all rows, in order; those that are not in `lines` stay as
    they are. Errors: ValueError if the page lacks the markers."""
    older = read(page)
    kept = {name: lines.get(name) or older.get(name) or Line() for name in names}
    text = page.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    page.write_text(f"{text[:begin]}\n{markdown(kept, about)}\n{text[end:]}", encoding="utf-8")
    with record_of(page).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((*name, line.tried, line.lost, line.run) for name, line in kept.items())
