"""Damage of the evidence is in findings and in quarantine: it is no defect of the tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.config.settings import load_settings
from jobs.pipeline import Pipeline
from jobs.quality.source import source_of
from jobs.replay.cluster_state import NEWEST_CHECKPOINT
from quality.check import Limits, checks
from quality.run import run
from tests.support.paths import capture, unpacked
from tests.support.small_captures import diverged


def unreadable_record(folder: Path) -> Path:
    return diverged(folder)[0]


def flipped_bytes(folder: Path) -> Path:
    """In the middle of the log, in every copy."""
    return changed(
        unpacked("elr", folder), lambda data: data[: len(data) // 2] + b"\xff" * 40 + data[len(data) // 2 + 40 :]
    )


def torn_tails(folder: Path) -> Path:
    return changed(unpacked("diverge", folder), lambda data: data[:-700])


def changed(capture: Path, change: Callable[[bytes], bytes]) -> Path:
    for segment in capture.rglob("__cluster_metadata-0/0*.log"):
        segment.write_bytes(change(segment.read_bytes()))
    return capture


@pytest.mark.parametrize("damaged", [unreadable_record, flipped_bytes, torn_tails])
def test_tables_of_a_damaged_capture_are_sound(tmp_path: Path, damaged: Callable[[Path], Path]) -> None:
    pipeline = Pipeline(tmp_path / "lake", [damaged(tmp_path)])
    pipeline.ingest()
    pipeline.replay()
    pipeline.detect()
    (cluster,) = pipeline.lake.clusters()
    assert pipeline.lake.count("quarantine", cluster) > 0
    found = run(checks(), source_of(pipeline.lake, cluster, checks(), load_settings()), Limits())
    failing = {check.full_name for check in checks() if not check.warns}
    assert {name: result.sample for name, result in found.items() if result.broken and name in failing} == {}


def test_a_history_that_begins_with_the_newest_snapshot_is_sound(tmp_path: Path) -> None:
    """Printed states of the time before it are no disagreement."""
    pipeline = Pipeline(tmp_path / "lake", [capture("unclean")])
    pipeline.ingest()
    pipeline.replay(NEWEST_CHECKPOINT)
    pipeline.detect()
    (cluster,) = pipeline.lake.clusters()
    assert pipeline.lake.count("described_partitions", cluster) > 0
    found = run(checks(), source_of(pipeline.lake, cluster, checks(), load_settings()), Limits())
    assert {name: result.sample for name, result in found.items() if result.broken} == {}
