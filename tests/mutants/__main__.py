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
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.mutants.conditions import Condition, conditions, without
from tests.support.pure import SHARED

PAGE = """# Conditions of the rules

`make mutants` leaves out one condition of [findings.md](findings.md) at a time and looks for claims that are wrong
then, in `tests/cases/life_*`, `tests/captures/` and lives with each kind of fault. In brackets: how many windows of
these captures ({decided} are decided) it keeps open.{known}

## By what caught them

{caught}
## Caught by unit tests alone

{free} of {all}, in {lives:,} lives or as many as the line says. In brackets the first test of `tests/unit/replay/loss`,
`offsets` and `cluster` or `tests/unit/evidence/offsets` that fails without it. {bare} have none: others imply them, or
the simulator lacks what they guard against.

{others}"""
NOTHING = "nothing"
_CAUGHT = re.compile(r"^- (.+) -> (.+)$", re.MULTILINE)
_OTHERS = re.compile(r"^- ([A-Z]\w*): (.+)$", re.MULTILINE)
_LIVES = re.compile(r"in ([\d,]+) lives or as many")
_FIGURE = re.compile(r"([\d,]+) (open|lives)")
_TEST = re.compile(r"`\w+`")
TESTS = tuple(f"tests/unit/{room}" for room in ("evidence/offsets", "replay/loss", "replay/offsets", "replay/cluster"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """wrong: the first wrong claim, if there is one; of a trial with all conditions all of them. decided: the windows
    of captures that are decided. test: if nothing is wrong, the first test that fails."""

    wrong: tuple[str, ...]
    decided: frozenset[tuple[str | int, ...]]
    test: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """What the page says of a condition. lives: how many were tried; 0 if something caught it. test: the first one
    that fails if nothing else caught it."""

    rule: str
    text: str
    caught: str
    lives: int
    test: str
    opened: int

    def shown(self, lives: int = 0) -> str:
        """The condition in a list. lives: with how many most of the list were tried."""
        more = [self.test] if self.test else []
        more += [f"{self.opened} open"] if self.opened else []
        more += [f"{self.lives:,} lives"] if self.lives != lives else []
        return f"{self.text} [{', '.join(more)}]" if more else self.text


def read(page: Path) -> dict[tuple[str, str], Row]:
    """The rows of a page, by rule and condition; none if it is not there."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    lives = _LIVES.search(text)
    usual = int(lives[1].replace(",", "")) if lives else 0
    caught = [_row(*item.split(" ", 1), by, 0) for by, listed in _CAUGHT.findall(text) for item in listed.split("; ")]
    others = [_row(rule, item, NOTHING, usual) for rule, listed in _OTHERS.findall(text) for item in listed.split("; ")]
    return {(row.rule, row.text): row for row in (*caught, *others)}


def _row(rule: str, shown: str, caught: str, lives: int) -> Row:
    """A row as `Row.shown` shows it. lives: where it does not say how many."""
    condition, _, more = shown.partition(" [")
    figures = {unit: int(n.replace(",", "")) for n, unit in _FIGURE.findall(more)}
    test = next(iter(_TEST.findall(more)), "")
    return Row(rule, condition, caught, figures.get("lives", lives), test, figures.get("open", 0))


def written(rows: Sequence[Row], decided: int, known: str = "") -> str:
    """The page with these rows."""
    free = [row for row in rows if row.caught == NOTHING]
    lives = Counter(row.lives for row in free).most_common(1)[0][0] if free else 0
    by_rule, by_catch = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for row in rows:
        if row.caught == NOTHING:
            by_rule[row.rule].append(row.shown(lives))
        else:
            by_catch[row.caught].append(f"{row.rule} {row.shown()}")
    return PAGE.format(
        decided=decided,
        known=known,
        free=len(free),
        all=len(rows),
        lives=lives,
        bare=sum(not row.test for row in free),
        caught="".join(f"- {by} -> {'; '.join(listed)}\n" for by, listed in by_catch.items()),
        others="".join(f"- {rule}: {'; '.join(listed)}\n" for rule, listed in by_rule.items()),
    )


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
    return Outcome(tuple(found["wrong"]), decided, test)


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
    # An entry of a table has a name of its own (tests/support/window_table.py).
    name = re.search(r"::(?:\w+\[(?=test_))?(\w+)", found[0]) if found else None
    return f"`{name[1]}`" if name else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", metavar="RULE", help="only the conditions of this rule")
    parser.add_argument("--lives", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--page", type=Path, help="the page to go on with and to write")
    options = parser.parse_args()
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
            lives = after + options.lives if caught == NOTHING else 0
            return Row(condition.rule, condition.text, caught, lives, outcome.test, opened)

        for condition, row in zip(chosen, pool.map(row_of, chosen), strict=True):
            rows[condition.rule, condition.text] = row
            print(row, flush=True)
    if options.page is not None:
        shown = [rows.get(key) or before.get(key) for key in ((c.rule, c.text) for c in conditions())]
        listed = [row for row in shown if row is not None]
        known = f"\nWrong anyway, so not counted: {', '.join(whole.wrong)}." if whole.wrong else ""
        options.page.write_text(written(listed, len(whole.decided), known), encoding="utf-8")
    return 1 if whole.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
