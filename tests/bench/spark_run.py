"""Run the whole job as a user does: its time, and the memory of its processes."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.measure import ROOT

RUN, AGAIN = "run", "run again"
_EVERY_S = 0.2
_PROC = Path("/proc")


def whole(source: Path, folder: Path, runs: int) -> list[dict[str, Any]]:
    """`run` into a new lake, and again on the same log; `runs` times each."""
    done: dict[str, list[tuple[float, int]]] = {RUN: [], AGAIN: []}
    for _ in range(runs):
        shutil.rmtree(folder / "lake", ignore_errors=True)
        for results in done.values():
            results.append(_once(source, folder / "lake"))
    return [
        {"stage": stage, "seconds": [s for s, _ in results], "rows": 0, "peak_mib": max(peak for _, peak in results)}
        for stage, results in done.items()
    ]


def _once(source: Path, lake: Path) -> tuple[float, int]:
    """The seconds that a run takes, and the peak of its memory in MiB. Errors: CalledProcessError when it fails."""
    command = [sys.executable, "-m", "jobs.cli", "run", str(source.resolve()), "--lake", str(lake.resolve())]
    begin, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile() as errors:
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, cwd=ROOT)
        while job.poll() is None:
            peak = max(peak, tree_bytes(job.pid))
            with suppress(subprocess.TimeoutExpired):
                job.wait(_EVERY_S)
        seconds = time.perf_counter() - begin
        if job.returncode:
            errors.seek(0)
            sys.stderr.buffer.write(errors.read())
            raise subprocess.CalledProcessError(job.returncode, command)
    return seconds, peak >> 20


def tree_bytes(pid: int) -> int:
    """The memory of a process and its descendants: PSS, which divides a page among the processes that share it, or RSS
    where the kernel does not show that."""
    parents: dict[int, int] = {}
    for stat in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            # The name, in brackets, may hold blanks and brackets; the state and the parent follow.
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    tree = [pid]
    for each in tree:
        tree += [child for child, parent in parents.items() if parent == each]
    return sum(map(_size_bytes, tree))


def _size_bytes(pid: int) -> int:
    """Of one process; 0 if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        try:
            lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
            return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
        except PermissionError:
            return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
