"""One Spark session, and one lake for all Spark tests: three real captures (of two of them fewer rounds of copying),
ingested and judged once."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.config.settings import load_settings
from jobs.console.run_log import discard
from jobs.pipeline import Pipeline
from jobs.spark.session import build_context, build_session
from jobs.spark.tasks import engine
from tests.support.paths import capture
from tests.support.small_captures import with_rounds
from tests.support.spark_lake import SparkLake

CAPTURES = ("unclean", "elr", "churn")
# Of 26,000 files of churn, those of the rounds that prove the loss of t2-6, and some.
PROVE_T2_6 = [f"snapshots/{at}" for at in (1795221142436, 1795221186815, 1795221189541, 1795221194965, 1795221210038)]


@dataclass(frozen=True)
class Job:
    """The finished job. clusters: capture name -> cluster id."""

    pipeline: Pipeline
    lake: SparkLake
    clusters: dict[str, str]
    report: Path


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """The session, for tests that need no lake or create their own; it ends after them, as tests without Spark may
    follow. While another thread starts Spark, a stage that ends asks what runs its tasks."""
    settings = load_settings("spark")
    with ThreadPoolExecutor(1) as pool:
        start, first = pool.submit(build_context, settings.spark), engine(settings)
        while not start.done():
            engine(settings)
            time.sleep(0.0005)
        start.result()
    found = str(engine(settings))
    assert (first in (None, found), found[:12]) == (True, "Spark 4.2.0,")  # it may have run before
    session = build_session(settings.spark)
    yield session
    session.stop()
    discard()


@pytest.fixture(scope="package")
def job(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Job:
    root, captures = tmp_path_factory.mktemp("job"), tmp_path_factory.mktemp("captures")
    thinned = with_rounds("elr", captures, 8), with_rounds("churn", captures, 10, *PROVE_T2_6)
    pipeline = Pipeline(root / "lake", [capture("unclean"), *thinned])
    pipeline.run(root / "report.html")
    lake = SparkLake(spark, root / "lake")
    clusters = {capture: cluster for cluster in lake.clusters() for capture in lake.captures(cluster)}
    return Job(pipeline, lake, clusters, root / "report.html")
