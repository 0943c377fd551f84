"""`sql` only reads: what would change something is refused before it runs; errors are one line; the prompt."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from jobs.console.run_log import discard, one_line
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.views.catalogue import views
from jobs.views.in_spark import define_views
from jobs.views.sql import NotReadOnlyError, ReadOnlySql, SqlError, tables_of
from tests.support.invoked import invoke, printed_by_main
from tests.support.report_rows import evidence_file, lake_of

CLUSTER = "c1"
OTHER_CATALOG = {
    "": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
    ".url": "jdbc:derby:memory:other;create=true",
    ".driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    rows = [{"finding_id": f"f{n}", "kind": "leaderless", "partition": n, "loss_min": n} for n in range(3)]
    election = {"topic_id": "t", "partition": 1, "offset": 5}
    return lake_of(tmp_path_factory.mktemp("sql") / "lake", CLUSTER, findings=rows, elections=[election])


@pytest.fixture
def sql(spark: SparkSession, lake: Lake) -> Iterator[ReadOnlySql]:
    """After all statements the lake is what it was."""
    before = digest(lake.root.parent)
    yield ReadOnlySql(lake.root)
    assert digest(lake.root.parent) == before


def digest(root: Path) -> dict[str, str]:
    files = (file for file in root.rglob("*") if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


WRITES = [
    "delete from findings",
    "delete from findings where partition = 1",
    "update findings set kind = 'a'",
    "insert into findings select * from findings",
    "insert into findings (finding_id) values ('x')",
    "insert overwrite findings select * from findings",
    "insert into identifier('findings') select * from findings",
    "insert into findings replace where partition = 1 select * from findings",
    "with gone as (select * from findings) insert into findings select * from gone",
    "from findings insert into findings select * insert into elections select *",
    "merge into findings using elections e on findings.partition = e.partition when matched then delete",
    "insert overwrite directory '{out}' using parquet select * from findings",
    "insert overwrite local directory '{out}' select partition from findings",
    "truncate table findings",
    "drop table findings",
    "drop table if exists identifier('findings')",
    "drop view findings",
    "drop database default cascade",
    "alter table findings add columns (x int)",
    "alter table {delta} drop column kind",
    "alter table findings rename to lost",
    "alter view findings as select 1",
    "create table {delta_out} as select * from findings",
    "create table t using parquet location '{out}' as select 1 as a",
    "create or replace table findings as select 1 as a",
    "create temporary view mine as select 1",
    "create database d location '{out}'",
    "create function f as 'a.B'",
    "vacuum findings",
    "vacuum {delta} retain 0 hours",
    "optimize findings",
    "optimize {delta} zorder by (partition)",
    "restore table {delta} to version as of 0",
    "reorg table {delta} apply (purge)",
    "convert to delta parquet.`{out}`",
    "delete from {delta}",
    "comment on table findings is 'x'",
    "analyze table findings compute statistics",
    "cache table findings",
    "uncache table findings",
    "refresh table findings",
    "set",
    "set spark.sql.ansi.enabled = false",
    "set time zone 'UTC'",
    "set var x = 1",
    "declare variable x int",
    "reset",
    "use default",
    "add jar '{out}'",
    "msck repair table findings",
    "load data inpath '{out}' into table findings",
    "execute immediate 'delete from findings'",
    "begin delete from findings; end",
    "begin select 1; end",
    "call sys.vacuum()",
    "select transform(kind) using 'touch {out}' as (x) from findings",
    "explain delete from findings",
    "explain extended with x as (select 1) insert into findings select * from x",
    "explain formatted create table t as select 1",
    "explain codegen truncate table findings",
]


def filled(statement: str, lake: Lake) -> str:
    out = lake.root.parent / "out"
    return statement.format(out=out, delta=f"delta.`{lake.storage.url('findings')}`", delta_out=f"delta.`{out}`")


@pytest.mark.parametrize("statement", WRITES)
def test_a_statement_that_would_change_something_is_refused(statement: str, sql: ReadOnlySql, lake: Lake) -> None:
    with pytest.raises(NotReadOnlyError) as caught:
        sql.run(filled(statement, lake))
    assert re.fullmatch(r"sql only reads, and \w+ is refused\. Allowed are .*", str(caught.value))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "statement", ["explain analyze delete from findings", "select 1; delete from findings", "copy into t from 'x'", ""]
)
def test_what_spark_cannot_parse_runs_nothing(statement: str, sql: ReadOnlySql) -> None:
    """Several statements are not run in turn: they are an error, and none of them runs."""
    with pytest.raises(SqlError) as caught:
        sql.run(statement)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("name", ["reflect", "java_method", "try_reflect", "builtin.reflect", "`Reflect`"])
@pytest.mark.parametrize("query", ["select {}", "select rank() over w from findings window w as (order by {})"])
def test_no_function_calls_java(name: str, query: str, sql: ReadOnlySql) -> None:
    with pytest.raises(SqlError, match="Cannot resolve routine"):
        sql.run(query.format(f"{name}('java.lang.System', 'getProperty', 'user.dir')"))


READS = {
    "select count(*) as n from windows": [{"n": 0}],
    "select count(*) as n from leader_changes c join findings f on f.partition = c.partition": [{"n": 1}],
    "select count(*) as n from findings": [{"n": 3}],
    "select count(*) as n from FINDINGS;": [{"n": 3}],
    "with f as (select * from findings where partition > 0) select sum(loss_min) as n from f": [{"n": 3}],
    "select count(*) as n from findings f join elections e on f.partition = e.partition": [{"n": 1}],
    "select partition as n from findings where partition in (select partition from elections)": [{"n": 1}],
    "select (select max(partition) from findings) as n": [{"n": 2}],
    "select count(*) as n from findings where exists (select 1 from elections where offset = 5)": [{"n": 3}],
    "select kind as n from findings group by kind having count(*) > 2 order by 1 limit 5": [{"n": "leaderless"}],
    "select partition as n from findings union select 9 except select 1 order by n": [{"n": 0}, {"n": 2}, {"n": 9}],
    "from findings |> where partition = 2 |> select partition as n": [{"n": 2}],
    "select n from range(2) as t(n)": [{"n": 0}, {"n": 1}],
    "select n from (values (1), (2)) as t(n)": [{"n": 1}, {"n": 2}],
    "select x as n from findings lateral view explode(array(partition)) as x where partition = 1": [{"n": 1}],
    "select partition as n from findings qualify row_number() over (order by partition desc) = 1": [{"n": 2}],
    "select max(rank() over w) over () as n from findings window w as (order by kind) limit 1": [{"n": 1}],
    "select n from findings unpivot (n for c in (loss_min)) order by n desc limit 1": [{"n": 2}],
    "select n from findings pivot (count(1) for kind in ('leaderless' as n)) limit 1": [{"n": 1}],
    "select count(*) as n from identifier('findings')": [{"n": 3}],
    "select count(*) as n from {delta}": [{"n": 3}],
    "select count(*) as n from {delta} version as of 0": [{"n": 0}],
    "select n from findings, lateral (select partition + 1 as n) where partition = 2": [{"n": 3}],
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 3) select max(n) as n from r": [{"n": 3}],
}


@pytest.mark.parametrize("statement", READS)
def test_queries_of_every_form_are_answered(statement: str, sql: ReadOnlySql, lake: Lake) -> None:
    assert sql.run(filled(statement, lake)) == (["n"], READS[statement])


def test_tables_are_shown_and_described(sql: ReadOnlySql, lake: Lake) -> None:
    assert {row["tableName"] for row in sql.run("show tables")[1]} >= TABLES.keys() | views().keys()
    assert [row["tableName"] for row in sql.run("show tables like 'elect*'")[1]] == ["elections"]
    described = {row["col_name"]: row["data_type"] for row in sql.run("describe findings")[1]}
    assert described["partition"] == "int"
    assert len(sql.run("show columns in findings")[1]) == len(TABLES["findings"].schema)
    comments = [
        row["data_type"] for row in sql.run("describe table extended findings")[1] if row["col_name"] == "Comment"
    ]
    assert comments == [TABLES["findings"].comment]
    assert "LocalTableScan" in sql.run("explain select * from (values (1)) as t(a)")[1][0]["plan"]
    assert len(sql.run(filled("describe history {delta}", lake))[1]) == 2
    for statement in ("describe select 1 as a", "describe function abs", "show functions like 'abs'", "show schemas"):
        assert sql.run(statement)[1]


def test_only_tables_that_a_statement_names_are_opened(spark: SparkSession) -> None:
    assert tables_of(spark, "select 'elections' as findings -- quarantine") == set()
    assert tables_of(spark, "select * from Findings f where exists (select 1 from `elections`)") == {
        "findings",
        "elections",
    }
    assert tables_of(spark, "explain select * from findings") == {"findings"}
    assert tables_of(spark, "describe findings") == {"findings"}
    assert tables_of(spark, "select * from delta.`/findings`") == set()
    assert tables_of(spark, "show tables") is None


def test_a_table_that_grew_is_read_anew(spark: SparkSession, tmp_path: Path) -> None:
    sql = ReadOnlySql(lake_of(tmp_path / "lake", CLUSTER).root)
    counts = []
    for n in (1, 2):
        lake_of(tmp_path / "lake", CLUSTER, findings=[{"finding_id": f"f{i}"} for i in range(n)])
        counts += sql.run("select count(*) as n from findings")[1]
    assert counts == [{"n": 1}, {"n": 2}]


def test_a_session_whose_catalog_has_no_current_database_gets_its_views(spark: SparkSession, lake: Lake) -> None:
    for key, value in OTHER_CATALOG.items():
        spark.conf.set(f"spark.sql.catalog.other{key}", value)
    spark.catalog.setCurrentCatalog("other")
    try:
        assert spark.catalog.currentDatabase() == ""
        define_views(spark, [lake], ["findings"])
        assert spark.table("findings").count() == 3
        assert spark.catalog.currentCatalog() == "other"
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")
        spark.catalog.dropTempView("findings")


def test_an_error_while_a_query_runs_is_one_line_and_a_log_file(
    sql: ReadOnlySql, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    discard()  # the next error makes a new file
    with pytest.raises(SqlError) as caught:
        sql.run("select 1 / (partition - partition) from findings")
    message = str(caught.value)
    assert re.fullmatch(r"the query failed: \[DIVIDE_BY_ZERO\] .{,300} \(all of it: .*\.log\)", message)
    (log,) = tmp_path.glob("kraft-forensics-*.log")
    assert str(log) in message
    assert "DIVIDE_BY_ZERO" in log.read_text()
    with pytest.raises(SqlError, match=r"^the query failed: \[UNRESOLVED_COLUMN[^\n]*$"):
        sql.run("select nothing from findings")
    assert list(tmp_path.glob("*.log")) == [log]
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "Exception" not in printed.err


def test_a_long_error_of_a_library_is_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    discard()  # the next error makes a new file
    line = one_line(RuntimeError("x" * 5000 + "\nJVM stacktrace: ..."))
    assert line.startswith("x" * 300 + "... (all of it: ")
    assert len(line) < 300 + 50 + len(str(tmp_path)) + 50


def cli(lake: Lake, *arguments: str, stdin: str | None = None) -> Result:
    return invoke(["sql", *arguments, "--lake", str(lake.root), "--format", "csv"], input=stdin)


def test_statements_may_come_from_a_script(sql: ReadOnlySql, lake: Lake) -> None:
    script = "select 1 as a;\n\nselect count(*) as n\n from findings\n where kind <> ';';\nselect 3 as c"
    result = cli(lake, stdin=script)
    assert (result.exit_code, result.stdout) == (0, "a\n1\nn\n3\nc\n3\n")
    assert cli(lake, stdin="select 1 as a;\nquit\nselect 2 as b;").stdout == "a\n1\n"
    assert cli(lake, stdin="").stdout == ""


def test_of_several_clusters_one_can_be_named(sql: ReadOnlySql, lake: Lake, tmp_path: Path) -> None:
    for cluster, losses in (("one", [5]), ("two", [30, 40])):
        rows = [{"finding_id": str(lost), "kind": "hwm_regression", "loss_min": lost} for lost in losses]
        several = lake_of(tmp_path / "several", cluster, findings=rows, evidence_files=[evidence_file()])
    query = "select sum(loss_min) as lost from windows"
    of_all, of_one = cli(several, query), cli(several, query, "--cluster", "two")
    assert (of_all.stdout, "rows of 2 clusters: --cluster names one" in of_all.stderr) == ("lost\n75\n", True)
    assert (of_one.stdout, "clusters" in of_one.stderr) == ("lost\n70\n", False)
    assert "this lake has one, two" in str(cli(several, query, "--cluster", "three").exception)


def test_an_error_ends_a_script(sql: ReadOnlySql, lake: Lake) -> None:
    result = cli(lake, stdin="select 1 as a;\ndelete from findings;\nselect 2 as b;")
    assert result.stdout == "a\n1\n"
    assert isinstance(result.exception, NotReadOnlyError)


def test_the_prompt_goes_on_after_an_error(sql: ReadOnlySql, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("drop table findings;\nselect 2\n as b;\nexit;\n"))
    code, out, err = printed_by_main("sql", "--lake", lake.root, "--format", "csv")
    assert (code, out.replace("sql> ", "").replace("...> ", "")) == (0, "b\n2\n")
    assert "error: sql only reads, and DropTable is refused." in err


def test_a_refusal_is_one_line_and_exit_code_2(sql: ReadOnlySql, lake: Lake) -> None:
    code, _, err = printed_by_main("sql", "delete from findings", "--lake", lake.root)
    assert (code, err.count("\n")) == (2, 1)
