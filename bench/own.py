"""`kraft-forensics bench`: time the stages that need no JVM, on a log of the user."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.measure import Result, figures, in_own_process
from bench.prepared import is_log
from bench.stages import STAGES
from evidence.errors import KraftForensicsError

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
    replays = is_log(log)
    found: dict[str, Result] = {}
    with TemporaryDirectory(prefix="kraft-forensics-bench-") as folder:
        for name, stage in STAGES.items():
            if stage.replays and not replays:
                continue
            progress(f"timing {name}")
            try:
                result = in_own_process("bench.stages", name, log, runs, Path(folder))
            except subprocess.CalledProcessError as error:
                raise KraftForensicsError(f"{log}: the stage {name} failed; see its message above") from error
            read_bytes = None if stage.replays else log.stat().st_size
            found[name] = result | figures(result, found.get(stage.floor or ""), read_bytes)
    rows = ({name: row[name] for name in COLUMNS} for row in found.values())
    return [{name: round(v, 4) if isinstance(v, float) else v for name, v in row.items()} for row in rows]
