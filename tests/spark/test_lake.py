"""Spark reads the tables that the driver and its tasks write, and may rewrite them; tasks in Spark write the same."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from delta.tables import DeltaTable
from deltalake import CommitProperties, write_deltalake

from jobs.config.settings import Settings
from jobs.detect.stage import run_detect
from jobs.lake.marks import ChangedTableError
from jobs.lake.tables import REPLAYED, TABLES
from jobs.pipeline import Pipeline
from jobs.replay.stage import replay
from tests.spark.conftest import Job
from tests.support.digests import digests
from tests.support.paths import capture
from tests.support.spark_lake import SparkLake


@pytest.mark.parametrize("name", sorted(TABLES))
def test_spark_reads_every_table(job: Job, name: str) -> None:
    cluster = job.clusters["unclean"]
    rows = job.lake.read(name, cluster)
    frame = job.lake.table(name, cluster)
    assert sorted(map(str, frame.toArrow().to_pylist())) == sorted(map(str, rows.select(frame.columns).to_pylist()))
    assert frame.columns == TABLES[name].schema.names


# With a constraint; append-only; neither.
@pytest.mark.parametrize("name", ["evidence_files", "quarantine", "findings"])
def test_delta_knows_the_tables_properties(job: Job, name: str) -> None:
    table = DeltaTable.forPath(job.lake.spark, job.lake.storage.url(name))
    (found,) = table.detail().select("name", "description", "partitionColumns", "properties").collect()
    assert (found["name"], found["description"]) == (name, TABLES[name].comment)
    assert found["partitionColumns"] == ["cluster_id"]
    assert found["properties"].items() >= TABLES[name].properties.items()
    comments = {field.name: field.metadata.get("comment") for field in table.toDF().schema}
    assert all(comments.values())


def test_spark_reads_the_newest_version_of_a_table_that_it_read_before(job: Job, tmp_path: Path) -> None:
    lake = SparkLake(job.lake.spark, tmp_path)
    lake.create()
    for number in range(3):
        row = {"capture": str(number), "sha256": "s", "path": "p", "position": 0}
        lake.append("captures", "c", pa.Table.from_pylist([row], schema=TABLES["captures"].file_schema))
        assert lake.table("captures").count() == number + 1


def with_many_buckets(settings: Settings, **spark: Any) -> Settings:
    smaller = settings.replay.model_copy(update={"partitions_per_bucket": 4, "rows_per_bucket": 20})
    return settings.model_copy(update={"replay": smaller, "spark": settings.spark.model_copy(update=spark)})


def test_spark_tasks_write_what_the_driver_writes(job: Job, tmp_path: Path) -> None:
    """One bucket in the driver's process, and many buckets in Spark's tasks."""
    pipeline = Pipeline(tmp_path / "lake", [capture("unclean")])
    pipeline.settings = with_many_buckets(pipeline.settings, from_rows=0)
    outcome = pipeline.run()
    cluster = job.clusters["unclean"]
    assert len(pipeline.lake.files("partition_history", cluster)) > 2
    context = job.lake.spark.sparkContext
    engine = f"Spark {context.version}, local[{os.cpu_count()}]"
    assert (pipeline.record.engine, outcome.summary[-1]) == (engine, f"tasks:     {engine}")
    assert pipeline.lake.made("findings", cluster)["engine"] == engine
    assert f"Tasks ran on {engine}." in (tmp_path / "lake" / "report.html").read_text(encoding="utf-8")
    jobs = context._jsc.sc().statusStore().jobsList(None)  # type: ignore[union-attr]
    names = {jobs.apply(n).description().get() for n in range(jobs.size()) if jobs.apply(n).description().isDefined()}
    assert {name.split(":")[0] for name in names if cluster in name} == {"replay", "detect", "quality"}
    assert "ingest: metadata log of unclean" in names
    made = SparkLake(job.lake.spark, pipeline.root)
    assert digests(made, cluster) == digests(job.lake, cluster)


def test_tables_that_spark_rewrote_are_read_all_the_same(job: Job, tmp_path: Path) -> None:
    """Files that another program wrote do not say which topics their row groups hold. Evidence with the same rows is
    used; a history is made again from it."""
    cluster = job.clusters["unclean"]
    shutil.copytree(job.pipeline.root, tmp_path / "lake")
    lake = SparkLake(job.lake.spark, tmp_path / "lake")
    before = digests(lake, cluster)
    for name in ("partition_history", "metadata_records"):
        frame = lake.table(name).repartition(2)
        frame.write.format("delta").mode("overwrite").save(lake.storage.url(name))
    settings = with_many_buckets(job.pipeline.settings)
    with pytest.raises(ChangedTableError, match=r"partition_history of .* was changed by another program"):
        run_detect(lake, cluster, settings, lambda _: None)
    replay(lake, cluster, settings, lambda _: None)
    run_detect(lake, cluster, settings, lambda _: None)
    assert digests(lake, cluster) == before


NEW_COLUMNS = {
    "evidence_files": ["uncertainty_ms", "last_timestamp_ms"],
    "log_end_offsets": ["in_sync_replicas_count", "under_min_isr", "process_start_ms"],
}


def _windows(findings: list[dict[str, Any]], verdict: str) -> set[str]:
    return {f["finding_id"] for f in findings if (f["kind"], f["verdict"]) == ("hwm_regression", verdict)}


def test_a_lake_whose_tables_lack_columns_can_be_judged_and_extended(job: Job, tmp_path: Path) -> None:
    cluster = job.clusters["unclean"]
    shutil.copytree(job.pipeline.root, tmp_path / "lake")
    lake = SparkLake(job.lake.spark, tmp_path / "lake")
    whole = {name: lake.read(name, cluster) for name in NEW_COLUMNS}
    for name, columns in NEW_COLUMNS.items():
        shutil.rmtree(tmp_path / "lake" / name)
        rows, made = whole[name].drop_columns(columns), {"userMetadata": json.dumps({"cluster_id": cluster})}
        earlier = CommitProperties(custom_metadata=made)
        write_deltalake(lake.storage.url(name), rows, partition_by=["cluster_id"], commit_properties=earlier)
    before = lake.rows("findings", cluster)
    # The histories do not name the tables that were here before.
    last = REPLAYED[-1]
    lake.put(last, cluster, lake.read(last, cluster).select(TABLES[last].file_schema.names))
    lake.put("findings", cluster, TABLES["findings"].file_schema.empty_table())
    run_detect(lake, cluster, job.pipeline.settings, lambda _: None)
    after = lake.rows("findings", cluster)
    # With less evidence, losses shown by checkpoint files are still proven, and no verdict is stronger.
    assert _windows(after, "proven") == _windows(before, "proven") != set()
    assert _windows(after, "excluded") <= _windows(before, "excluded")
    for name, columns in NEW_COLUMNS.items():
        assert lake.table(name).where(" or ".join(f"{c} is not null" for c in columns)).count() == 0
        (known,) = whole[name].select(TABLES[name].file_schema.names).slice(0, 1).to_pylist()
        more = {**known, **dict.fromkeys(columns), "sha256": "another"}
        assert lake.append(name, cluster, pa.Table.from_pylist([more], TABLES[name].file_schema)) == 1
        (row,) = lake.rows(name, cluster, where=pc.field("sha256") == "another")
        assert {**row, "cluster_id": None} == {**more, "cluster_id": None}
