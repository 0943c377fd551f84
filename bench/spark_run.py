"""Run the whole job as a user does: its time, the time between its messages, the memory of its processes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.measure import ROOT
from bench.memory import Sampler

RUN, AGAIN = "run", "run again"
# Lines of Spark's launcher and log4j among the job's own messages.
_NOISE = re.compile(r"\d\d/\d\d/\d\d |WARNING: |Using Spark's |Setting (Spark|default) log level|To adjust |\s|$")
# The cluster or capture at the start of a message.
_ABOUT = re.compile(r"^\S+: (?=\S)")
_BEFORE = "before its first message"


def whole(source: Path, folder: Path, runs: int) -> list[dict[str, Any]]:
    """`run` into a new lake, and again on the same log; `runs` times each."""
    done = [(_once(source, folder / "lake", is_new), is_new) for _ in range(runs) for is_new in (True, False)]
    return [_result(RUN, [r for r, is_new in done if is_new]), _result(AGAIN, [r for r, is_new in done if not is_new])]


def _result(stage: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    peak = max(run["peak_mib"]["all"] for run in runs)
    return {"stage": stage, "seconds": [run["seconds"] for run in runs], "rows": 0, "peak_mib": peak, "runs": runs}


def _once(source: Path, lake: Path, is_new: bool) -> dict[str, Any]:
    """{"seconds", "messages", "peak_mib": by role, "memory": PSS or RSS}. Errors: CalledProcessError when the job
    fails."""
    if is_new:
        shutil.rmtree(lake, ignore_errors=True)
    command = [sys.executable, "-m", "jobs.cli", "run", str(source.resolve()), "--lake", str(lake.resolve())]
    begin = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf-8", cwd=ROOT
    ) as job:
        assert job.stderr is not None
        with Sampler(job.pid) as memory:
            lines = [(time.perf_counter() - begin, line.rstrip("\n")) for line in job.stderr]
            job.wait()
    seconds = time.perf_counter() - begin
    if job.returncode:
        sys.stderr.write("".join(f"{line}\n" for _, line in lines))
        raise subprocess.CalledProcessError(job.returncode, command)
    messages = between(lines, seconds)
    return {"seconds": seconds, "messages": messages, "peak_mib": memory.mib(), "memory": memory.kind}


def between(lines: Iterable[tuple[float, str]], end: float) -> list[dict[str, Any]]:
    """The seconds from each message to the next. lines: (seconds since the start, line of stderr)."""
    kept = [(at, _ABOUT.sub("", line)) for at, line in lines if not _NOISE.match(line)]
    begins = [(0.0, _BEFORE), *kept]
    ends = [*(at for at, _ in kept), end]
    return [{"message": m, "seconds": after - at} for (at, m), after in zip(begins, ends, strict=True)]
