"""Time a stage in its own process: `python -m bench.measure STAGE INPUT RUNS FOLDER` prints JSON.

The first run is the cold one: nothing was compiled, loaded or warmed before it in that process.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.prepared import Prepared
from bench.stages import STAGES

# The folder that `bench` is imported from: a checkout, or site-packages.
ROOT = Path(__file__).resolve().parents[1]


def measure(stage: str, source: Path, runs: int, folder: Path) -> dict[str, Any]:
    """{"stage", "seconds": of each run, "rows": per run, "peak_mib": of this process}."""
    inputs = Prepared(source, folder)
    seconds, rows = [], 0
    for _ in range(runs):
        spent, rows = 0.0, 0
        for work in STAGES[stage].run(inputs):
            begin = time.perf_counter()
            found = work.call()
            spent += time.perf_counter() - begin
            rows += found if work.rows is None else work.rows
        seconds.append(spent)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {"stage": stage, "seconds": seconds, "rows": rows, "peak_mib": peak}


def in_own_process(stage: str, source: Path, runs: int, folder: Path) -> dict[str, Any]:
    """`measure` in a new process. folder: for files made from the input; existing ones are used again.

    Errors: CalledProcessError when the process fails; it prints the reason to stderr.
    """
    source, folder = source.resolve(), folder.resolve()
    if STAGES[stage].replays and not Prepared(source, folder).has_changes:
        _python("bench.prepared", source, folder)
    folder.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = json.loads(_python("bench.measure", stage, source, runs, folder).splitlines()[-1])
    return result


def _python(module: str, *arguments: object) -> str:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


if __name__ == "__main__":
    name, file, times, made = sys.argv[1:]
    print(json.dumps(measure(name, Path(file), int(times), Path(made))))
