"""Leave out one condition of one rule at a time, and see whether a case, a capture or a simulated life catches it:

python -m tests.mutants --lives 2000 --processes 2 --table docs/mutants.csv

The table grows from run to run: what was caught is not tried again, and the rest is tried with further lives. Without
it all begin anew. Claims that are wrong with all conditions in place are printed and catch nothing; then the exit code
is 1.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

from tests.mutants.conditions import Condition, conditions, without
from tests.support.pure import SHARED

ROOMS = ("evidence/offsets", "replay/loss", "replay/offsets", "replay/cluster", "jobs/detect")
TESTS = tuple(f"tests/unit/{room}" for room in ROOMS)


@dataclass(frozen=True, slots=True)
class Outcome:
    """wrong: the first wrong claim, if there is one; of a trial with all conditions all of them. decided: the windows
    of captures that are decided. test: if nothing is wrong, the first test that fails."""

    wrong: tuple[str, ...]
    decided: frozenset[tuple[str | int, ...]]
    test: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a condition. caught_by: a case, a capture or a life; empty if nothing did. lives: how many were
    tried; 0 if something caught it. test: the first one that fails if nothing else caught it. open_windows: of
    captures, how many the condition keeps open."""

    rule: str
    condition: str
    caught_by: str
    lives: int
    test: str
    open_windows: int


def read(table: Path) -> dict[tuple[str, str], Row]:
    """The rows of a table, by rule and condition; none if it is not there."""
    lines = csv.DictReader(table.read_text(encoding="utf-8").splitlines() if table.exists() else [])
    rows = (Row(**{**line, "lives": int(line["lives"]), "open_windows": int(line["open_windows"])}) for line in lines)
    return {(row.rule, row.condition): row for row in rows}


def write(table: Path, rows: Iterable[Row]) -> None:
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, rows))


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
    return name[1] if name else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", metavar="RULE", help="only the conditions of this rule")
    parser.add_argument("--lives", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--table", type=Path, help="the table to go on with and to write")
    options = parser.parse_args()
    chosen = [c for c in conditions() if options.only is None or c.rule in options.only]
    before = {} if options.table is None else read(options.table)
    rows: dict[tuple[str, str], Row] = {}
    with tempfile.TemporaryDirectory() as decoded, ThreadPoolExecutor(options.processes) as pool:
        try_one = partial(tried, lives=options.lives, decoded=decoded)
        whole = try_one(None, after=max((row.lives for row in before.values()), default=0))
        print(f"wrong with all conditions in place: {', '.join(whole.wrong) or 'nothing'}", flush=True)

        def row_of(condition: Condition) -> Row:
            known = before.get((condition.rule, condition.text))
            if known is not None and known.caught_by:
                return known
            after = 0 if known is None else known.lives
            outcome = try_one(condition, known=whole.wrong, after=after)
            caught, opened = (*outcome.wrong, "")[0], len(outcome.decided - whole.decided)
            lives = 0 if caught else after + options.lives
            return Row(condition.rule, condition.text, caught, lives, outcome.test, opened)

        for condition, row in zip(chosen, pool.map(row_of, chosen), strict=True):
            rows[condition.rule, condition.text] = row
            print(row, flush=True)
    if options.table is not None:
        shown = [rows.get(key) or before.get(key) for key in ((c.rule, c.text) for c in conditions())]
        write(options.table, (row for row in shown if row is not None))
    return 1 if whole.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
