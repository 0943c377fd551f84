"""Leave out one condition of one rule at a time, and see whether a case, a capture or a simulated life catches it:

python -m tests.mutants --lives 2000 --processes 2 --out docs/mutants.md

Claims that are wrong with all conditions in place catch nothing; the page names them, and the exit code is 1.
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
looks for a claim that is wrong then, in the cases of `tests/cases/life_*`, the captures of `tests/captures/` and
{lives} lives of the simulator, those of all its kinds of fault in turn. "Keeps open" counts the windows of these
captures ({decided} of them are decided) that would be decided without the condition. Nothing catches {free} of {all}:
such a condition is not needed, or the simulator lacks what it guards against, or it takes more lives.{known}{stale}

| rule | condition | caught by | keeps open |
|---|---|---|---|
"""
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Outcome:
    """wrong: the first wrong claim, if there is one; of a trial with all conditions all of them. decided: the windows
    of captures that are decided. stale: of a trial with all conditions, the cases that do not count."""

    wrong: tuple[str, ...]
    decided: frozenset[tuple[str | int, ...]]
    stale: tuple[str, ...] = ()


def tried(condition: Condition | None, lives: int, decoded: str, known: tuple[str, ...] = ()) -> Outcome:
    """What a process of its own gets wrong without the condition (None: with all), beside the known claims."""
    options = ["--lives", str(lives), *(f"--known={claim}" for claim in known), *([] if condition else ["--all"])]
    with tempfile.TemporaryDirectory() as name:
        without(condition, Path(name))
        done = subprocess.run(
            [sys.executable, "-m", "tests.mutants.trial", *options],
            cwd=name,
            env={SHARED: decoded, **os.environ, "PYTHONPATH": name, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        if condition is None:
            raise RuntimeError(done.stderr)
        return Outcome((f"fails: {(done.stderr.splitlines() or ['?'])[-1]}",), frozenset())
    found = json.loads(done.stdout)
    decided = frozenset(tuple(window) for window in found["decided"])
    return Outcome(tuple(found["wrong"]), decided, tuple(found.get("stale", ())))


def row(condition: Condition, outcome: Outcome, whole: Outcome) -> str:
    caught, opened = (*outcome.wrong, NOTHING)[0], len(outcome.decided - whole.decided)
    return f"| {condition.rule} | {condition.text} | {caught} | {opened} |"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", metavar="RULE", help="only the conditions of this rule")
    parser.add_argument("--lives", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write the page there")
    options = parser.parse_args(arguments)
    chosen = [c for c in conditions() if options.only is None or c.rule in options.only]
    rows = []
    with tempfile.TemporaryDirectory() as decoded, ThreadPoolExecutor(options.processes) as pool:
        try_one = partial(tried, lives=options.lives, decoded=decoded)
        whole = try_one(None)
        print(f"wrong with all conditions in place: {', '.join(whole.wrong) or NOTHING}", flush=True)
        try_one = partial(try_one, known=whole.wrong)
        for condition, outcome in zip(chosen, pool.map(try_one, chosen), strict=True):
            rows.append(row(condition, outcome, whole))
            print(rows[-1], flush=True)
    if options.out is not None:
        free = sum(f"| {NOTHING} |" in each for each in rows)
        known = f"\nWrong anyway, so not counted: {', '.join(whole.wrong)}." if whole.wrong else ""
        stale = f"\nCases of an earlier simulator, so not counted: {', '.join(whole.stale)}." if whole.stale else ""
        figures = {"lives": f"{options.lives:,}", "decided": len(whole.decided), "free": free, "all": len(rows)}
        page = PAGE.format(known=known, stale=stale, **figures)
        options.out.write_text(page + "\n".join(rows) + "\n", encoding="utf-8")
    return 1 if whole.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
