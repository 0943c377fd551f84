"""Great Expectations is imported in any process; Data Docs that cannot be written are an error, which it alone would
log and go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from quality.check import Outcome, checks
from tests.support.paths import ROOT


def test_pages_that_cannot_be_written_are_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from quality.suites import run_suites  # Great Expectations is slow to import

    check = checks()[0]
    (tmp_path / "validations").write_text("no folder")
    with pytest.raises(OSError, match="validations"):
        run_suites([check], {check.full_name: Outcome()}, {check.full_name: False}, tmp_path)
    assert capfd.readouterr().err == ""


def test_a_process_without_a_main_file_is_not_ended_by_the_import() -> None:
    """`python -c "from jobs.cli import main; main()"` ended in the middle of `run`, with exit code 0."""
    command = [sys.executable, "-c", "import quality.suites; print('imported')"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["imported"]), done.stdout + done.stderr
