"""Time a stage in its own process: `python -m bench.measure MODULE STAGE INPUT RUNS FOLDER` prints JSON.

MODULE has the stage in its STAGES. The first run is the cold one: nothing was compiled, loaded or warmed before it in
that process.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from bench.prepared import Prepared
from bench.stages import Stage

Result = dict[str, Any]
# The folder that `bench` is imported from: a checkout, or site-packages.
ROOT = Path(__file__).resolve().parents[1]


def stage_of(module: str, name: str) -> Stage:
    """A stage by the module whose STAGES has it."""
    stage: Stage = import_module(module).STAGES[name]
    return stage


def measure(module: str, name: str, source: Path, runs: int, folder: Path) -> Result:
    """{"stage", "seconds": of each run, "rows": per run, "peak_mib": of this process}."""
    stage, inputs = stage_of(module, name), Prepared(source, folder)
    seconds, rows = [], 0
    for _ in range(runs):
        spent, rows = 0.0, 0
        for work in stage.run(inputs):
            begin = time.perf_counter()
            found = work.call()
            spent += time.perf_counter() - begin
            rows += found if work.rows is None else work.rows
        seconds.append(spent)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {"stage": name, "seconds": seconds, "rows": rows, "peak_mib": peak}


def in_own_process(module: str, name: str, source: Path, runs: int, folder: Path) -> Result:
    """`measure` in a new process. folder: for files made from the input; existing ones are used again.

    Errors: CalledProcessError when the process fails; it prints the reason to stderr.
    """
    source, folder = source.resolve(), folder.resolve()
    if stage_of(module, name).replays and not Prepared(source, folder).has_changes:
        _python("bench.prepared", source, folder)
    folder.mkdir(parents=True, exist_ok=True)
    result: Result = json.loads(_python("bench.measure", module, name, source, runs, folder).splitlines()[-1])
    return result


def _python(module: str, *arguments: object) -> str:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


def warm(result: Mapping[str, Any]) -> list[float]:
    """The seconds of all runs but the first; of the first if there is no other."""
    seconds: list[float] = result["seconds"]
    return seconds[1:] or seconds


def figures(result: Result, floor: Result | None, read_bytes: int | None) -> Result:
    """A result's figures, of its warm runs except cold_s; null if there is nothing to compare with.

    of_floor: time as a multiple of the floor's. read_bytes: what each run reads.
    """
    times = warm(result)
    middle = median(times)
    least = median(warm(floor)) if floor else 0
    return {
        "cold_s": result["seconds"][0],
        "median_s": middle,
        "min_s": min(times),
        "max_s": max(times),
        "rows_per_s": round(result["rows"] / middle) if result["rows"] and middle else None,
        "mb_per_s": round(read_bytes / 1e6 / middle, 1) if read_bytes is not None and middle else None,
        "floor": floor["stage"] if floor else None,
        "of_floor": round(middle / least, 2) if least else None,
    }


if __name__ == "__main__":
    of, stage_name, file, times, made = sys.argv[1:]
    print(json.dumps(measure(of, stage_name, Path(file), int(times), Path(made))))
