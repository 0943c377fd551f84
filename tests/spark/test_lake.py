"""Spark reads the tables that the driver and its tasks write, and may rewrite them; tasks in Spark write the same."""

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evidence.broker_logs.read import read_broker_logs
from evidence.capture.files import open_capture
from jobs.config.settings import Settings, load_settings
from jobs.custody.maintain import adopt
from jobs.custody.tables import check_tables, rewritten
from jobs.detect.stage import run_detect
from jobs.ingest import stage
from jobs.lake.marks import ChangedTableError
from jobs.lake.tables import TABLES, Table
from jobs.pipeline import Pipeline
from jobs.replay.stage import replay
from tests.spark.conftest import Job
from tests.support.digests import digests
from tests.support.paths import CAPTURES
from tests.support.spark_lake import SparkLake


def kinds(table: Table) -> set[str]:
    """What Spark may read otherwise than the driver: types of columns, and properties."""
    return {str(field.type) for field in table.schema} | set(table.properties)


def of_every_kind() -> list[str]:
    """Tables that together have all kinds of columns; those with most of them first."""
    chosen: list[str] = []
    missing = set().union(*map(kinds, TABLES.values()))
    while missing:
        chosen.append(max(sorted(TABLES), key=lambda name: len(missing & kinds(TABLES[name]))))
        missing -= kinds(TABLES[chosen[-1]])
    return chosen


@pytest.mark.parametrize("name", of_every_kind())
def test_spark_reads_tables_of_every_kind(job: Job, name: str) -> None:
    """tests/slow/test_views.py opens all of them."""
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
    smaller = settings.replay.model_copy(update={"partitions_per_bucket": 4, "rows_per_bucket": 100})
    return settings.model_copy(update={"replay": smaller, "spark": settings.spark.model_copy(update=spark)})


def test_spark_tasks_write_what_the_driver_writes(job: Job, tmp_path: Path) -> None:
    """One bucket in the driver's process, and many buckets in Spark's tasks; of the capture with the fewest files."""
    elr = next(given for given in job.pipeline.captures if Path(str(given)).name == "elr")
    pipeline = Pipeline(tmp_path / "lake", [elr])
    pipeline.settings = with_many_buckets(pipeline.settings, from_rows=0)
    pipeline.run()
    cluster = job.clusters["elr"]
    assert len(pipeline.lake.files("partition_history", cluster)) > 2
    context = job.lake.spark.sparkContext
    engine = f"Spark {context.version}, local[{os.cpu_count()}]"
    assert (pipeline.record.engine, pipeline.summary[-1]) == (engine, f"tasks:     {engine}")
    assert pipeline.lake.made("findings", cluster)["engine"] == engine
    assert f"Tasks ran on {engine}." in (tmp_path / "lake" / "report.html").read_text(encoding="utf-8")
    jobs = context._jsc.sc().statusStore().jobsList(None)  # type: ignore[union-attr]
    names = {jobs.apply(n).description().get() for n in range(jobs.size()) if jobs.apply(n).description().isDefined()}
    assert {name.split(":")[0] for name in names if cluster in name} == {"replay", "detect", "quality"}
    assert "ingest: metadata log of elr" in names
    made = SparkLake(job.lake.spark, pipeline.root)
    assert digests(made, cluster) == digests(job.lake, cluster)


def test_evidence_that_spark_rewrote_is_adopted_and_a_history_is_made_again(job: Job, tmp_path: Path) -> None:
    cluster = job.clusters["unclean"]
    shutil.copytree(job.pipeline.root, tmp_path / "lake")
    lake = SparkLake(job.lake.spark, tmp_path / "lake")
    before = digests(lake, cluster)
    for name in ("partition_history", "metadata_records"):
        frame = lake.table(name).repartition(2)
        frame.write.format("delta").mode("overwrite").save(lake.storage.url(name))
    settings = with_many_buckets(job.pipeline.settings)
    with pytest.raises(ChangedTableError, match=r"metadata_records of .* was changed by another program"):
        replay(lake, cluster, settings, lambda _: None)
    assert rewritten(check_tables(lake, cluster)) == ["metadata_records", "partition_history"]
    adopt(lake, "metadata_records", cluster, None)
    with pytest.raises(ChangedTableError, match=r"partition_history of .* was changed by another program"):
        run_detect(lake, cluster, settings, lambda _: None)
    replay(lake, cluster, settings, lambda _: None)
    run_detect(lake, cluster, settings, lambda _: None)
    assert digests(lake, cluster) == before


def test_delta_rejects_a_file_whose_byte_counts_do_not_add_up(job: Job) -> None:
    rows = job.lake.table("evidence_files").limit(1).withColumn("parsed_bytes", F.col("parsed_bytes") + 1)
    with pytest.raises(Py4JJavaError, match="every_byte"):
        rows.write.format("delta").mode("append").save(job.lake.storage.url("evidence_files"))


def test_spark_tasks_read_logs_of_nodes_as_the_driver_does(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "_LARGE_BYTES", 4000)  # some of the capture's files are smaller
    with open_capture(CAPTURES / "logs-4.0.2.tar.xz") as capture:
        by_tasks = stage.read_logs(capture, load_settings())
        here = read_broker_logs(capture.name, capture.files, is_collected=capture.is_collected)
    assert by_tasks == here
