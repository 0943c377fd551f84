"""What no expectation is broken by: real captures that differ in kind from what tests/unit/quality has, and damage of
the evidence, which is in findings and in quarantine, and no defect of the tables."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.config.settings import load_settings
from jobs.lake.lake import Lake
from jobs.pipeline import Pipeline
from jobs.quality.source import source_of
from jobs.replay.cluster_state import EARLIEST, NEWEST_CHECKPOINT
from quality.check import checks
from quality.run import run
from tests.support.paths import capture
from tests.support.planting import LIMITS
from tests.support.small_captures import diverged, with_rounds

CAPTURES = ("diverge", "logs-3.9.1", "logs-session", "logs-unclean", "unclean-4.4.0")


def checked(root: Path, given: Path, start: str = EARLIEST) -> tuple[Lake, dict[str, list[str]]]:
    """A lake after ingest, replay and detect, and the first violations of each check that is broken, by its name."""
    pipeline = Pipeline(root, [given])
    pipeline.ingest()
    pipeline.replay(start)
    pipeline.detect()
    (cluster,) = pipeline.lake.clusters()
    found = run(checks(), source_of(pipeline.lake, cluster, checks(), load_settings()), LIMITS)
    return pipeline.lake, {check: result.sample for check, result in found.items() if result.broken}


@pytest.mark.parametrize("name", CAPTURES)
def test_a_real_capture_breaks_no_expectation(tmp_path: Path, name: str) -> None:
    assert checked(tmp_path / "lake", capture(name))[1] == {}


def changed(capture: Path, change: Callable[[bytes], bytes]) -> Path:
    for segment in capture.rglob("__cluster_metadata-0/0*.log"):
        segment.write_bytes(change(segment.read_bytes()))
    return capture


def overwritten(data: bytes) -> bytes:
    """In the middle."""
    return data[: len(data) // 2] + b"\xff" * 40 + data[len(data) // 2 + 40 :]


# In every copy of the log.
DAMAGED: dict[str, Callable[[Path], Path]] = {
    "an unreadable record": lambda folder: diverged(folder)[0],
    "other bytes": lambda folder: changed(with_rounds("elr", folder, 4), overwritten),
    "torn ends": lambda folder: changed(with_rounds("diverge", folder, 4), lambda data: data[:-700]),
}


@pytest.mark.parametrize("damaged", DAMAGED)
def test_tables_of_a_damaged_capture_are_sound(tmp_path: Path, damaged: str) -> None:
    lake, broken = checked(tmp_path / "lake", DAMAGED[damaged](tmp_path))
    assert lake.count("quarantine", lake.clusters()[0]) > 0
    failing = {check.full_name for check in checks() if not check.warns}
    assert {name: sample for name, sample in broken.items() if name in failing} == {}


def test_a_history_that_begins_with_the_newest_snapshot_is_sound(tmp_path: Path) -> None:
    """Printed states of the time before it are no disagreement."""
    lake, broken = checked(tmp_path / "lake", capture("unclean"), NEWEST_CHECKPOINT)
    assert lake.count("described_partitions", lake.clusters()[0]) > 0
    assert broken == {}
