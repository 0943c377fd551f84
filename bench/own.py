"""`kraft-forensics bench`: time the stages that need no JVM, on a log of the user."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.figures import with_figures
from bench.inputs import Input
from bench.measure import in_own_process
from bench.prepared import is_log
from evidence.errors import KraftForensicsError

_OF_BYTES = ("read", "sha256", "crc", "frame", "decode")
_OF_A_LOG = ("sort", "reduce")
COLUMNS = (
    *("stage", "rows", "cold_s", "median_s", "min_s", "max_s"),
    *("rows_per_s", "mb_per_s", "peak_mib", "of_floor", "floor"),
)


def measure_log(log: Path, runs: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row of COLUMNS for each stage; a snapshot is not replayed.

    Times are of the warm runs, except cold_s. of_floor: time as a multiple of that of the stage `floor`, which does
    only the unavoidable work.
    Errors: CaptureError if the file is not a log; KraftForensicsError when a stage fails.
    """
    stages = (*_OF_BYTES, *_OF_A_LOG) if is_log(log) else _OF_BYTES
    made = Input("log", log, 0)
    with TemporaryDirectory(prefix="kraft-forensics-bench-") as folder:
        results = []
        for stage in stages:
            progress(f"timing {stage}")
            try:
                found = in_own_process(stage, log, runs, Path(folder))
            except subprocess.CalledProcessError as error:
                raise KraftForensicsError(f"{log}: the stage {stage} failed; see its message above") from error
            results.append({"input": made.name, **found})
        figures = with_figures(results, {made.name: made})
    return [{name: round(v, 4) if isinstance(v := row[name], float) else v for name in COLUMNS} for row in figures]
