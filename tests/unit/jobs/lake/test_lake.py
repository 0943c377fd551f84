"""`Lake` without Spark: a fake factory stands for the session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

SCRIPT = """
import sys
from pathlib import Path
from jobs.lake.lake import Lake

calls = []
lake = Lake(lambda: calls.append("started"), Path(sys.argv[1]))
print(calls)
lake.start()
lake.start()
print(calls)
"""


def test_start_calls_the_session_factory_once_also_when_python_removes_asserts(tmp_path: Path) -> None:
    command = [sys.executable, "-O", "-c", SCRIPT, tmp_path / "lake"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['started']"]
