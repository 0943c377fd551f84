"""Every stage as a process of its own: none may count on a session that another one started."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT, capture

STAGES = [["ingest", str(capture("unclean"))], ["replay"], ["detect"], ["quality"], ["report"]]


def run(lake: Path, *command: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "jobs.cli", *command, "--lake", str(lake)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made stage by stage."""
    made = tmp_path_factory.mktemp("alone") / "lake"
    for stage in STAGES:
        done = run(made, *stage)
        assert done.returncode == 0, done.stderr
    return made


def test_the_stages_find_what_a_run_finds(lake: Path) -> None:
    done = run(lake, "detect", "--fail-on", "proven")
    assert (done.returncode, done.stdout.count("proven")) == (3, 3)
    assert "findings are up to date" in done.stderr
    assert (lake / "report.html").exists()


def test_a_run_that_knows_the_capture_makes_what_is_missing(lake: Path) -> None:
    """As after a release that writes something else: the capture is known, so no session was started for it."""
    (newest,) = sorted((lake / "quorum_history" / "_delta_log").glob("*.json"))[-1:]
    newest.write_text(newest.read_text().replace("input_fingerprint", "another"))
    done = run(lake, "run", str(capture("unclean")))
    assert done.returncode == 0, done.stderr
    assert "added nothing" in done.stderr
    assert "partition_history was extended" in done.stderr or "partition_history has" in done.stderr
