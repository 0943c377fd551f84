"""One Spark session per process, and one lake for all Spark tests: three real captures, ingested and judged once."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.config.settings import load_settings
from jobs.pipeline import Pipeline, RunOutcome
from jobs.spark.session import build_session
from tests.support.paths import capture
from tests.support.spark_lake import SparkLake

CAPTURES = ("unclean", "elr", "churn")


@dataclass(frozen=True)
class Job:
    """The finished job. clusters: capture name -> cluster id."""

    pipeline: Pipeline
    lake: SparkLake
    outcome: RunOutcome
    clusters: dict[str, str]
    report: Path


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session, for tests that need no lake or create their own."""
    session = build_session(load_settings().spark)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def job(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Job:
    base = tmp_path_factory.getbasetemp()
    root = base / "job"
    pipeline = Pipeline(root / "lake", [capture(name) for name in CAPTURES])
    if "PYTEST_XDIST_WORKER" in os.environ:
        outcome = _run_once(pipeline, root, base.parent / "job")
    else:
        outcome = pipeline.run(root / "report.html")
    lake = SparkLake(spark, root / "lake")
    clusters = {capture: cluster for cluster in lake.clusters() for capture in lake.captures(cluster)}
    return Job(pipeline, lake, outcome, clusters, root / "report.html")


def _run_once(pipeline: Pipeline, root: Path, first: Path) -> RunOutcome:
    """The outcome of the run, which only one process makes. Every process has a copy of its files in its own `root`."""
    with first.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcome_file = first / "outcome.pickle"
        if not outcome_file.exists():
            outcome = pipeline.run(root / "report.html")
            shutil.copytree(root, first)
            outcome_file.write_bytes(pickle.dumps((root, outcome)))
            return outcome
        first_root, outcome = pickle.loads(outcome_file.read_bytes())
    shutil.copytree(first, root)
    return replace(outcome, summary=[line.replace(str(first_root), str(root)) for line in outcome.summary])
