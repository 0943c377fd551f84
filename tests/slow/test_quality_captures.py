"""Real captures break no expectation: those that differ in kind from what tests/unit/quality has."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.config.settings import load_settings
from jobs.pipeline import Pipeline
from jobs.quality.source import source_of
from quality.check import Limits, checks
from quality.run import run
from tests.support.paths import capture

CAPTURES = ("diverge", "logs-3.9.1", "logs-session", "logs-unclean", "unclean-4.4.0")


@pytest.mark.parametrize("name", CAPTURES)
def test_a_real_capture_breaks_no_expectation(tmp_path: Path, name: str) -> None:
    pipeline = Pipeline(tmp_path / "lake", [capture(name)])
    pipeline.ingest()
    pipeline.replay()
    pipeline.detect()
    (cluster,) = pipeline.lake.clusters()
    found = run(checks(), source_of(pipeline.lake, cluster, checks(), load_settings()), Limits())
    assert {check: result.sample for check, result in found.items() if result.broken} == {}
