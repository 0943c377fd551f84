"""A folder without a metadata log is an error: it must never read as 'no window was flagged'."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.queries.describe import outside_log
from tests.support.invoked import invoke


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    broker = tmp_path / "brokers" / "broker-1"
    broker.mkdir(parents=True)
    (broker / "replication-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    return broker.parent


def test_a_run_without_a_log_is_an_error(folder: Path, tmp_path: Path) -> None:
    result = invoke(["run", str(folder), "--lake", str(tmp_path / "lake")])
    assert result.exit_code == 1
    assert "brokers: cluster unknown-brokers has no metadata log" in str(result.exception)
    assert "__cluster_metadata-0" in str(result.exception)
    assert "no window was flagged" not in result.stdout


def test_detect_without_a_log_is_an_error_and_windows_does_not_say_that_all_is_well(
    folder: Path, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    assert invoke(["ingest", str(folder), "--lake", lake]).exit_code == 0
    assert invoke(["detect", "--lake", lake]).exit_code == 1
    shown = invoke(["windows", "--lake", lake]).stdout
    assert "no window could be judged, since nothing was replayed" in shown
    assert "no window was flagged" not in shown


def test_a_log_that_was_not_captured_has_no_end() -> None:
    log = {"first_offset": None, "last_offset": None, "from_ms": None, "until_ms": None}
    assert "no batch of the metadata log was captured" in str(outside_log(log, 5, None))
    assert outside_log(log, None, None) is None


def test_of_many_damaged_lines_the_terminal_shows_a_hundred(folder: Path, tmp_path: Path) -> None:
    lines = b"0\n150\n" + b"".join(b"orders %d x\n" % i for i in range(150))
    (folder / "broker-1" / "replication-offset-checkpoint").write_bytes(lines)
    result = invoke(["ingest", str(folder), "--lake", str(tmp_path / "lake"), "--engine", "local"])
    shown = [line for line in result.stderr.splitlines() if "quarantined" in line]
    assert len(shown) == 101
    assert "quarantined: 50 more, which `kraft-forensics sql" in shown[-1]
