"""All faults, two at a time, and the figures."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.faults import clocks, disks, kills, races, releases, sizes, stops, stores, table
from tests.faults.ground import Ground, NotHereError, Trial, prepared
from tests.support import s3
from tests.support.paths import ROOT

_AT_ONCE = 2
_SHARE = 20  # of each kind of disk error, one for so many kills

Name = tuple[str, str]


def trials(seed: int, moments: int, running: s3.Store, home: Path) -> Iterator[tuple[str, str, Trial]]:
    """(fault, where, trial) of the whole matrix, in the order of the table."""
    some = max(1, moments // _SHARE)
    yield from kills.trials(seed, moments)
    yield from disks.trials(seed, some)
    yield from stores.trials(running, home)
    yield from races.trials()
    yield from clocks.trials()
    yield from releases.trials()
    yield from sizes.trials()
    yield from stops.trials()


def run(moments: int, seed: int, rows: str = "", resume: bool = False) -> int:
    """Try them, and write the record and the page whenever a row is done; returns the exit code: 1 if one was lost.
    rows: a text in `fault | where`. resume: leave out rows that the record gives for this commit, whole and with
    nothing lost."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        ground = prepared(folder)
        running = stack.enter_context(stores.store(folder / "moto"))
        every = list(trials(seed, moments, running, folder))
        commit = _commit()
        made = f"{datetime.now(UTC).date()}, {commit}, SEED={seed}"
        sizes_of = Counter((fault, where) for fault, where, _ in every)
        wanted = {name: size for name, size in sizes_of.items() if rows in " | ".join(name)}
        if resume and not commit.endswith("+"):
            wanted = {name: size for name, size in wanted.items() if not _is_done(name, size, f", {commit}, ")}
        about = (
            "[faults.csv](faults.csv) has each place with the date, the commit (`+`: with changes) and the seed. "
            f"Of the newest, FAULTS={moments}."
        )
        board = Board(made, about, list(sizes_of), dict(wanted))
        with ThreadPoolExecutor(int(os.environ.get("FAULTS_AT_ONCE", _AT_ONCE))) as pool:
            tried = [(name, trial) for *name, trial in every if tuple(name) in wanted]
            list(pool.map(lambda each: board.attempt(ground, (each[0][0], each[0][1]), each[1]), tried))
    sys.stdout.write(table.markdown(board.lines, about) + "\n")
    return int(any(line.lost for line in board.lines.values()))


def _is_done(name: Name, size: int, mark: str) -> bool:
    line = table.read().get(name, table.Line())
    return mark in line.run and line.tried >= size and not line.lost


def _commit() -> str:
    """The commit of this tree, with `+` if files other than the page and its record differ from it."""
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    written = [f":!{file.relative_to(ROOT)}" for file in (table.PAGE, table.record_of())]
    differ = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ".", *written], capture_output=True).returncode
    return (found.stdout.strip() or "no git") + "+" * bool(differ)


@dataclass
class Board:
    """The rows that are tried. made: date, commit and seed. names: all rows, in order. left: trials of each row that
    have not ended. page: which has the sums."""

    made: str
    about: str
    names: list[Name]
    left: dict[Name, int]
    page: Path = table.PAGE
    lines: table.Lines = field(default_factory=dict)
    begun_s: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def attempt(self, ground: Ground, name: Name, trial: Trial) -> None:
        begun, tried, problem, reason = time.monotonic(), 1, "", ""
        try:
            tried = trial(ground)
        except NotHereError as error:
            tried, reason = 0, str(error)
        except Exception as error:  # noqa: BLE001 what a fault did is counted and shown, whatever it was
            problem = f"{type(error).__name__}: {error}"
        with self._lock:
            line = self.lines.setdefault(name, table.Line(run=self.made))
            line.tried += tried
            line.lost += bool(problem)
            if name in ground.said:
                line.run = f"{self.made}: {ground.said[name]}"
            if reason:
                line.run = f"not tried: {reason}"
            self.left[name] -= 1
            if not self.left[name]:
                if not line.tried and not reason:
                    line.run = "not tried: each run ended before the fault"
                done = {each: line for each, line in self.lines.items() if not self.left[each]}
                table.write(self.names, done, self.about, self.page)
            said = f"LOST: {problem}" if problem else reason or f"{tried}"
            seconds, minutes = time.monotonic() - begun, (time.monotonic() - self.begun_s) / 60
            left = sum(self.left.values())
            sys.stderr.write(f"{minutes:5.1f} min, {left} left: {seconds:5.1f} s {' | '.join(name)} | {said}\n")
            sys.stderr.flush()
