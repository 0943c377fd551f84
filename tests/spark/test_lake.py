"""Spark and the driver read and write the same tables."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake
from pyspark.sql import functions as F

from jobs.detect.stage import run_detect
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.pipeline import Pipeline
from jobs.spark.buckets import bucket_count
from tests.spark.conftest import Job
from tests.support.digests import digests


@pytest.fixture
def lake(job: Job, tmp_path: Path) -> Lake:
    made = Lake(job.lake.spark, tmp_path)
    made.create()
    return made


@pytest.mark.parametrize("name", sorted(set(TABLES) - {"evidence_files"}))
def test_rows_of_every_table_survive_a_round_trip(job: Job, lake: Lake, name: str) -> None:
    """Spark writes and the driver reads, and the other way round."""
    cluster = job.clusters["unclean"]
    kept = [f.name for f in TABLES[name].schema if f.name != "cluster_id"]
    rows = job.lake.read(name, cluster).select(kept)
    put = lake.put if not TABLES[name].append_only else lake.append
    put(name, cluster, rows)
    again = lake.table(name).toArrow()
    assert again.column_names == ["cluster_id", *kept]
    assert sorted(map(str, again.select(kept).to_pylist())) == sorted(map(str, rows.to_pylist()))
    assert set(again["cluster_id"].to_pylist()) <= {cluster}


def test_each_replaces_rows_that_the_other_wrote(job: Job, lake: Lake) -> None:
    cluster = job.clusters["unclean"]
    columns = [f.name for f in TABLES["findings"].schema if f.name != "cluster_id"]
    rows = job.lake.read("findings", cluster).select(columns)
    lake.put("findings", cluster, rows, {"input_fingerprint": "driver"})
    half = lake.table("findings").where("kind = 'leaderless'").withColumn("cluster_id", F.lit(cluster))
    leaderless = half.count()
    assert 0 < leaderless < len(rows)
    assert lake.replace("findings", cluster, half, {"input_fingerprint": "spark"}) == leaderless
    assert (lake.count("findings", cluster), lake.input_fingerprint("findings", cluster)) == (leaderless, "spark")
    assert lake.put("findings", cluster, rows, {"input_fingerprint": "driver"}) == len(rows)
    assert (lake.table("findings").count(), lake.input_fingerprint("findings", cluster)) == (len(rows), "driver")


def test_spark_reads_the_newest_version_of_a_table_that_it_read_before(lake: Lake) -> None:
    schema = pa.schema([f for f in TABLES["captures"].schema if f.name != "cluster_id"])
    for number in range(3):
        row = {"capture": str(number), "sha256": "s", "path": "p", "position": 0}
        lake.append("captures", "c", pa.Table.from_pylist([row], schema=schema))
        assert lake.table("captures").count() == number + 1


def test_a_session_starts_when_it_is_needed(job: Job) -> None:
    pipeline = Pipeline(job.pipeline.root)
    assert pipeline.levels()
    assert "spark" not in vars(pipeline.lake)


def test_many_buckets_give_the_same_results_as_one(job: Job, tmp_path: Path) -> None:
    """The driver fetches and writes the results of one bucket; Spark writes those of several."""
    cluster = job.clusters["unclean"]
    shutil.copytree(job.pipeline.root, tmp_path / "lake")
    lake = Lake(job.lake.spark, tmp_path / "lake")
    settings = job.pipeline.settings
    smaller = settings.replay.model_copy(update={"partitions_per_bucket": 4, "rows_per_bucket": 20})
    history = lake.table("partition_history", cluster)
    assert bucket_count(history, settings) == 1
    assert bucket_count(history, settings.model_copy(update={"replay": smaller})) > 2
    before = digests(lake)
    lake.put("findings", cluster, TABLES["findings"].schema.empty_table())
    run_detect(lake, cluster, settings.model_copy(update={"replay": smaller}), lambda _: None)
    assert digests(lake) == before


NEW_COLUMNS = {
    "evidence_files": ["uncertainty_ms", "last_timestamp_ms"],
    "log_end_offsets": ["in_sync_replicas_count", "under_min_isr", "process_start_ms"],
}


def _windows(findings: list[dict[str, Any]], verdict: str) -> set[str]:
    return {f["finding_id"] for f in findings if (f["kind"], f["verdict"]) == ("hwm_regression", verdict)}


def test_a_lake_of_an_earlier_release_can_be_judged_and_extended(job: Job, tmp_path: Path) -> None:
    cluster = job.clusters["unclean"]
    shutil.copytree(job.pipeline.root, tmp_path / "lake")
    lake = Lake(job.lake.spark, tmp_path / "lake")
    whole = {name: lake.read(name, cluster) for name in NEW_COLUMNS}
    for name, columns in NEW_COLUMNS.items():
        shutil.rmtree(tmp_path / "lake" / name)
        write_deltalake(lake.path(name), whole[name].drop_columns(columns))
    before = lake.rows("findings", cluster)
    lake.put("findings", cluster, TABLES["findings"].schema.empty_table())
    run_detect(lake, cluster, job.pipeline.settings, lambda _: None)
    after = lake.rows("findings", cluster)
    # With less evidence, losses shown by checkpoint files are still proven, and no verdict is stronger.
    assert _windows(after, "proven") == _windows(before, "proven") != set()
    assert _windows(after, "excluded") <= _windows(before, "excluded")
    for name, columns in NEW_COLUMNS.items():
        assert lake.table(name).where(" or ".join(f"{c} is not null" for c in columns)).count() == 0
        more = whole[name].slice(0, 1).drop_columns(["cluster_id"])
        more = more.set_column(more.column_names.index("sha256"), "sha256", pa.array(["another"]))
        assert lake.append(name, cluster, more) == 1
        (row,) = lake.rows(name, cluster, where=pc.field("sha256") == "another")
        assert {**row, "cluster_id": None} == {**more.to_pylist()[0], "cluster_id": None}
