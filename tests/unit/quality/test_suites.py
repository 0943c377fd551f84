"""Data Docs that cannot be written are an error: Great Expectations alone would log it and go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from quality.check import checks
from quality.run import Outcome
from quality.suites import run_suites


def test_pages_that_cannot_be_written_are_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    check = checks()[0]
    (tmp_path / "validations").write_text("no folder")
    with pytest.raises(OSError, match="validations"):
        run_suites([check], {check.full_name: Outcome()}, {check.full_name: False}, tmp_path)
    assert capfd.readouterr().err == ""
