"""All faults, two at a time, and the figures."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from tests.faults import clocks, disks, kills, races, releases, stores, table
from tests.faults.ground import Ground, Trial, prepared
from tests.support import s3

_AT_ONCE = 2
_SHARE = 20  # of each kind of disk error and upgrade, one for so many kills


def trials(seed: int, moments: int, running: s3.Store, home: Path) -> Iterator[tuple[str, str, Trial]]:
    """(fault, where, trial) of the whole matrix, in the order of the table."""
    some = max(1, moments // _SHARE)
    yield from kills.trials(seed, moments)
    yield from disks.trials(seed, some)
    yield from stores.trials(running, home)
    yield from races.trials()
    yield from clocks.trials()
    yield from releases.trials(seed, some)


def run(moments: int, seed: int, only: str = "") -> int:
    """Try them all; returns the exit code: 1 if one was lost. only: faults whose name has this text."""
    begun = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        ground = prepared(folder)
        running = stack.enter_context(stores.store(folder / "moto"))
        wanted = [each for each in trials(seed, moments, running, folder) if only in each[0]]
        lines = {(fault, where): table.Line() for fault, where, _ in wanted}
        _try_all(ground, wanted, lines)
    made = datetime.now(UTC).date()
    of = f" of the faults named `{only}`" if only else ""
    minutes = (time.monotonic() - begun) / 60
    about = f"Last run: {made},{of} with FAULTS={moments} and SEED={seed}, {minutes:.0f} minutes."
    sys.stdout.write(table.markdown(lines, about) + "\n")
    table.write(lines, about, is_all=not only)
    return int(any(line.lost for line in lines.values()))


def _try_all(ground: Ground, wanted: list[tuple[str, str, Trial]], lines: dict[tuple[str, str], table.Line]) -> None:
    lock = threading.Lock()

    def attempt(each: tuple[str, str, Trial]) -> None:
        fault, where, trial = each
        begun, tried, problem = time.monotonic(), 1, ""
        try:
            tried = trial(ground)
        except Exception as error:  # noqa: BLE001 what a fault did is counted and shown, whatever it was
            problem = f"{type(error).__name__}: {error}"
        with lock:
            lines[fault, where].tried += tried
            lines[fault, where].lost += bool(problem)
            seconds = time.monotonic() - begun
            sys.stderr.write(f"{seconds:5.1f} s {fault} | {where} | {'LOST: ' + problem if problem else tried}\n")
            sys.stderr.flush()

    with ThreadPoolExecutor(int(os.environ.get("FAULTS_AT_ONCE", _AT_ONCE))) as pool:
        list(pool.map(attempt, wanted))
