"""Great Expectations in a process of its own: its answer, its errors, and its end, which is an error, too.

Data Docs that cannot be written are an error, which it alone would log and go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

_PROGRAM = """
import os, signal, sys
from pathlib import Path
from jobs.quality import library
from quality.check import checks
from quality.check import Outcome

check, docs = checks()[0], Path(sys.argv[1])
found = {check.full_name: Outcome(checked=3, broken=1, sample=["a key"])}
ask = lambda: library.run_suites([check], found, {check.full_name: False}, docs)
print(list(ask().values()), sorted(page.name for page in docs.glob("*.html")), "great_expectations" in sys.modules)
for name in ("expectations", "validations"):
    (docs / name).rename(docs / "given")
    (docs / name).write_text("no folder")
    try:
        ask()
    except OSError as error:
        print(type(error).__name__, name in str(error))
    (docs / name).unlink()
    (docs / "given").rename(docs / name)
os.kill(library.prepare()._processes[0].pid, signal.SIGKILL)
try:
    ask()
except ChildProcessError as error:
    print(error)
"""


def test_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "[False] ['index.html'] False",
        "FileExistsError True",
        "NotADirectoryError True",
        "the process of Great Expectations ended with exit status -9",
    ], done.stderr
    assert done.stderr == ""
