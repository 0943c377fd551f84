"""The views on real captures: the same rows in Spark and in DuckDB, and the sums that other code works out."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from duckdb import DuckDBPyConnection
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import kraft_forensics
from jobs.cli.commands import app
from jobs.lake.lake import Lake
from jobs.lake.storage import LakeError
from jobs.lake.tables import TABLES
from jobs.queries.flagged_windows import flagged_windows
from jobs.report.load import policy_totals
from jobs.views.catalogue import views
from jobs.views.in_spark import ExternalTableError
from tests.spark.conftest import Job

DATABASE = "forensics"


@pytest.fixture(scope="module")
def duckdb(job: Job) -> Iterator[DuckDBPyConnection]:
    with kraft_forensics.duckdb(job.pipeline.root) as connection:
        yield connection


@pytest.fixture(scope="module")
def opened(spark: SparkSession, job: Job) -> SparkSession:
    """The names in a database, after temporary ones in the same session, which come before them."""
    session = spark.newSession()
    kraft_forensics.open(session, job.pipeline.root)
    kraft_forensics.open(session, job.pipeline.root, database=DATABASE)
    return session


@pytest.fixture(scope="module")
def outside(spark: SparkSession, job: Job) -> str:
    """The name of a database whose tables are external ones."""
    kraft_forensics.open(spark, job.pipeline.root, database="outside", external_tables=True)
    return "outside"


@pytest.mark.parametrize("name", views())
def test_spark_and_duckdb_give_the_same_rows(name: str, opened: SparkSession, duckdb: DuckDBPyConnection) -> None:
    in_spark = opened.table(f"{DATABASE}.{name}").toArrow()
    in_duckdb = duckdb.sql(f"select * from {name}").to_arrow_table()
    assert in_spark.schema.names == in_duckdb.schema.names
    assert [str(f.type) for f in in_spark.schema] == [_type(f.type) for f in in_duckdb.schema]
    assert sorted(map(repr, in_spark.to_pylist())) == sorted(map(repr, in_duckdb.to_pylist()))
    assert len(in_spark)


def _type(found: Any) -> str:
    """DuckDB calls the element of a list otherwise than Spark, and gives times the zone of the session."""
    return str(found).replace("<l: ", "<element: ").replace("large_", "")


def test_names_have_comments(opened: SparkSession) -> None:
    listed = {row.tableName for row in opened.sql(f"show tables in {DATABASE}").collect()}
    assert listed == TABLES.keys() | views().keys()
    for name, comment in (("windows", views()["windows"].comment), ("findings", TABLES["findings"].comment)):
        described = opened.sql(f"describe table extended {DATABASE}.{name}").collect()
        assert ("Comment", comment) in [(row.col_name, row.data_type) for row in described]
        assert all(row.comment for row in described[:20])


def test_external_tables_are_the_lakes(spark: SparkSession, outside: str, opened: SparkSession) -> None:
    kinds = {row.tableType for name in TABLES for row in [spark.catalog.getTable(f"{outside}.{name}")]}
    assert kinds == {"EXTERNAL"}
    for name in ("findings", "loss_by_policy"):
        rows = spark.table(f"{outside}.{name}").toArrow().to_pylist()
        assert sorted(map(repr, rows)) == sorted(map(repr, opened.table(f"{DATABASE}.{name}").toArrow().to_pylist()))


def test_the_printed_statements_need_nothing_but_delta(spark: SparkSession, job: Job) -> None:
    done = CliRunner().invoke(app, ["sql", "--ddl", "printed", "--lake", str(job.pipeline.root)])
    assert done.exit_code == 0, done.output
    for statement in done.output.split(";\n"):
        if statement.strip():
            spark.sql(statement)
    assert {row.tableName for row in spark.sql("show tables in printed").collect()} == TABLES.keys() | views().keys()
    count = "select count(*) from {}.unclean_elections"
    assert spark.sql(count.format("printed")).first()[0] > 0  # type: ignore[index]


def test_a_table_at_another_place_is_not_taken_for_the_lakes(
    spark: SparkSession, outside: str, job: Job, tmp_path: Path
) -> None:
    """Nor is one that is there replaced."""
    copy = shutil.copytree(job.pipeline.root, tmp_path / "lake")
    with pytest.raises(
        ExternalTableError, match=r"the database has a table of this name, at .*Choose another database"
    ):
        kraft_forensics.open(spark, copy, database=outside, external_tables=True)
    with pytest.raises(ValueError, match="external tables need a database"):
        kraft_forensics.open(spark, copy, external_tables=True)


def test_several_lakes_are_asked_together(spark: SparkSession, job: Job, tmp_path: Path) -> None:
    other = Lake(tmp_path / "other")
    other.create()
    for name in ("evidence_files", "findings"):
        other.put(name, "other", job.pipeline.lake.read(name, None).drop_columns("cluster_id"))
    rows = other.count("findings", "other")
    session = spark.newSession()
    kraft_forensics.open(session, [job.pipeline.root, other.root])
    query = "select cluster_id, count(*) as n from findings group by 1 order by 1"
    in_spark = [tuple(row) for row in session.sql(query).collect()]
    assert dict(in_spark)["other"] == rows == sum(n for _, n in in_spark) - rows
    with kraft_forensics.duckdb([job.pipeline.root, other.root]) as connection:
        assert connection.sql(query).fetchall() == in_spark
    with pytest.raises(LakeError, match=r"cluster other is in .* and in .*: its rows would count twice"):
        kraft_forensics.open(session, [other.root, other.root])
    with pytest.raises(ValueError, match="of one lake"):
        kraft_forensics.open(session, [job.pipeline.root, other.root], database="many", external_tables=True)


def test_temporary_names_end_with_the_session(spark: SparkSession, job: Job) -> None:
    session = spark.newSession()
    kraft_forensics.open(session, job.pipeline.root)
    assert session.sql("select count(*) as n from unclean_elections").first()
    assert _temporary(session) == TABLES.keys() | views().keys()
    assert "windows" not in _temporary(spark)


def _temporary(session: SparkSession) -> set[str]:
    """The temporary names; `sql` in an earlier test of this process may have left others in the catalog's database."""
    return {row.tableName for row in session.sql("show tables").collect() if row.isTemporary}


def test_time_under_min_isr_is_that_of_the_metric(duckdb: DuckDBPyConnection) -> None:
    exposed = "select cluster_id, sum(under_min_isr_ms) from partition_exposure group by 1 order by 1"
    metric = """
        select cluster_id, sum(value * (coalesce(m.end_timestamp_ms, l.until_ms) - m.timestamp_ms))
        from cluster_metrics m join captured_log l using (cluster_id)
        where metric = 'global_under_min_isr_partition_count' group by 1 order by 1
    """
    found = duckdb.sql(exposed).fetchall()
    assert found == duckdb.sql(metric).fetchall()
    assert len(found) == 3


def test_losses_by_policy_are_those_of_the_report(job: Job, duckdb: DuckDBPyConnection) -> None:
    for cluster in job.clusters.values():
        of_report = policy_totals(job.lake.read("counterfactuals", cluster))
        query = "select * exclude (cluster_id) from loss_by_policy where cluster_id = ?"
        found = duckdb.sql(query, params=[cluster]).to_arrow_table().to_pylist()
        assert sorted(found, key=repr) == sorted(of_report, key=repr)


def test_windows_are_those_that_commands_list(job: Job, duckdb: DuckDBPyConnection) -> None:
    listed = {(row["finding_id"], row["verdict"], row["loss_min"]) for row in flagged_windows(job.lake, every=True)}
    assert set(duckdb.sql("select finding_id, verdict, loss_min from windows").fetchall()) == listed


def test_losses_are_those_of_the_captures(duckdb: DuckDBPyConnection) -> None:
    lost = "select topic, partitions_lost, loss_min from loss_by_topic where proven > 0 order by topic"
    assert duckdb.sql(lost).fetchall() == [("audit", 1, 30), ("ledger", 2, 140), ("t2", 1, 6)]
    unclean = "select topic, sum(loss_min) from unclean_elections where verdict = 'proven' group by 1 order by 1"
    assert duckdb.sql(unclean).fetchall() == [("audit", 30), ("ledger", 140), ("t2", 6)]


def test_failovers_are_those_of_the_capture(job: Job, duckdb: DuckDBPyConnection) -> None:
    query = "select controller from controller_failovers where cluster_id = ? order by metadata_offset"
    found = duckdb.sql(query, params=[job.clusters["churn"]]).fetchall()
    assert found == [(3001,), (3002,), (3000,), (3001,), (3000,), (3001,), (3002,)]


def test_every_stretch_of_downtime_is_cut_into_two(duckdb: DuckDBPyConnection) -> None:
    assert duckdb.sql("from broker_downtime where down_ms + starting_ms <> out_ms or down_ms < 0").fetchall() == []
