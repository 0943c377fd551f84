"""Quality is imported wherever the job runs."""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT


def test_a_process_without_a_main_file_is_not_ended_by_the_import() -> None:
    """`python -c "from jobs.cli import main; main()"` ended in the middle of `run`, with exit code 0."""
    command = [sys.executable, "-c", "import quality.suites; print('imported')"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["imported"]), done.stdout + done.stderr
