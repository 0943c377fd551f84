"""Leave out one condition of one rule at a time, and see whether a case, a capture or a simulated life catches it:

python -m tests.mutants --lives 2000 --processes 2 --page docs/mutants.md

The page grows from run to run: what was caught is not tried again, and the rest is tried with further lives. Without
the page all begin anew. Claims that are wrong with all conditions in place catch nothing; the page names them, and the
exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.mutants.conditions import Condition, conditions, without
from tests.support.pure import SHARED

PAGE = """# Conditions of the rules

Each condition of a rule of [findings.md](findings.md) earns its place: `make mutants` leaves out one at a time and
looks for a claim that is wrong then, in the cases of `tests/cases/life_*`, the captures of `tests/captures/` and lives
of the simulator, those of all its kinds of fault in turn, until one is found. "Keeps open" counts the windows of these
captures ({decided} of them are decided) that would be decided without the condition. Nothing has caught {free} of {all}
so far: such a condition is not needed, or the simulator lacks what it guards against, or it takes more lives. For these
the page names the first test of `tests/unit/replay/loss` and `offsets` that fails without it ({tested} have one);
[findings.md](findings.md) names the class of Kafka that it follows from.{known}{stale}

| rule | condition | caught by | lives tried | else by the test | keeps open |
|---|---|---|---|---|---|
"""
NOTHING = "nothing"
TESTS = ("tests/unit/replay/loss", "tests/unit/replay/offsets")


@dataclass(frozen=True, slots=True)
class Outcome:
    """wrong: the first wrong claim, if there is one; of a trial with all conditions all of them. decided: the windows
    of captures that are decided. stale: of a trial with all conditions, the cases that do not count. test: if nothing
    is wrong, the first test that fails."""

    wrong: tuple[str, ...]
    decided: frozenset[tuple[str | int, ...]]
    stale: tuple[str, ...] = ()
    test: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A condition's row of the page. lives: how many were tried. test: the first one that fails if nothing else caught
    it."""

    rule: str
    text: str
    caught: str
    lives: int
    test: str
    opened: int

    def __str__(self) -> str:
        return f"| {self.rule} | {self.text} | {self.caught} | {self.lives:,} | {self.test} | {self.opened} |"


def read(page: Path) -> dict[tuple[str, str], Row]:
    """The rows of a page, by rule and condition; none if it is not there."""
    rows = {}
    for line in page.read_text(encoding="utf-8").splitlines() if page.exists() else ():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 6 and cells[3].replace(",", "").isdigit():
            rows[cells[0], cells[1]] = Row(*cells[:3], int(cells[3].replace(",", "")), cells[4], int(cells[5]))
    return rows


def tried(
    condition: Condition | None, lives: int, decoded: str, known: tuple[str, ...] = (), after: int = 0
) -> Outcome:
    """What a process of its own gets wrong without the condition (None: with all), beside the known claims. after: how
    many lives were tried before."""
    options = [
        "--lives",
        str(lives),
        "--after",
        str(after),
        *(f"--known={claim}" for claim in known),
        *([] if condition else ["--all"]),
    ]
    with tempfile.TemporaryDirectory() as name:
        without(condition, Path(name))
        done = subprocess.run(
            [sys.executable, "-m", "tests.mutants.trial", *options],
            cwd=name,
            env={SHARED: decoded, **os.environ, "PYTHONPATH": name, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
        )
        test = "" if condition is None or done.returncode or json.loads(done.stdout)["wrong"] else failing(Path(name))
    if done.returncode:
        if condition is None:
            raise RuntimeError(done.stderr)
        return Outcome((f"fails: {(done.stderr.splitlines() or ['?'])[-1]}",), frozenset())
    found = json.loads(done.stdout)
    decided = frozenset(tuple(window) for window in found["decided"])
    return Outcome(tuple(found["wrong"]), decided, tuple(found.get("stale", ())), test)


def failing(folder: Path) -> str:
    """The first test of the rules that fails with the sources of a folder; empty if all pass."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--import-mode=append", *TESTS],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    return f"`{found[0].split('::')[1].split('[')[0].split(' ')[0]}`" if found else ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", metavar="RULE", help="only the conditions of this rule")
    parser.add_argument("--lives", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--page", type=Path, help="the page to go on with and to write")
    options = parser.parse_args(arguments)
    chosen = [c for c in conditions() if options.only is None or c.rule in options.only]
    before = {} if options.page is None else read(options.page)
    rows: dict[tuple[str, str], Row] = {}
    with tempfile.TemporaryDirectory() as decoded, ThreadPoolExecutor(options.processes) as pool:
        try_one = partial(tried, lives=options.lives, decoded=decoded)
        whole = try_one(None, after=max((row.lives for row in before.values()), default=0))
        print(f"wrong with all conditions in place: {', '.join(whole.wrong) or NOTHING}", flush=True)

        def row_of(condition: Condition) -> Row:
            known = before.get((condition.rule, condition.text))
            if known is not None and known.caught != NOTHING:
                return known
            after = 0 if known is None else known.lives
            outcome = try_one(condition, known=whole.wrong, after=after)
            caught, opened = (*outcome.wrong, NOTHING)[0], len(outcome.decided - whole.decided)
            return Row(condition.rule, condition.text, caught, after + options.lives, outcome.test, opened)

        for condition, row in zip(chosen, pool.map(row_of, chosen), strict=True):
            rows[condition.rule, condition.text] = row
            print(row, flush=True)
    if options.page is not None:
        shown = [rows.get(key) or before.get(key) for key in ((c.rule, c.text) for c in conditions())]
        listed = [row for row in shown if row is not None]
        free = sum(row.caught == NOTHING for row in listed)
        known = f"\nWrong anyway, so not counted: {', '.join(whole.wrong)}." if whole.wrong else ""
        stale = f"\nCases of an earlier simulator, so not counted: {', '.join(whole.stale)}." if whole.stale else ""
        tested = sum(bool(row.test) for row in listed)
        figures = {"decided": len(whole.decided), "free": free, "all": len(listed), "tested": tested}
        page = PAGE.format(known=known, stale=stale, **figures)
        options.page.write_text(page + "\n".join(map(str, listed)) + "\n", encoding="utf-8")
    return 1 if whole.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
