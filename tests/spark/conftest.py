"""One Spark session and one lake for all Spark tests: three real captures, ingested and judged once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobs.lake import Lake
from jobs.pipeline import Outcome, Pipeline
from tests.support.paths import capture

CAPTURES = ("unclean", "elr", "churn")


@dataclass(frozen=True)
class Job:
    """The finished job. clusters: capture name -> cluster id."""

    pipeline: Pipeline
    outcome: Outcome
    clusters: dict[str, str]
    report: Path

    @property
    def lake(self) -> Lake:
        return self.pipeline.lake


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    root = tmp_path_factory.mktemp("job")
    pipeline = Pipeline(root / "lake", [capture(name) for name in CAPTURES])
    outcome = pipeline.run(root / "report.html")
    rows = pipeline.lake.table("evidence_files").select("capture", "cluster_id").distinct().collect()
    yield Job(pipeline, outcome, {r["capture"]: r["cluster_id"] for r in rows}, root / "report.html")
    pipeline.lake.spark.stop()
