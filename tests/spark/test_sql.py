"""`sql` only reads: what would change something is refused before it runs; errors are one line; the prompt."""

import hashlib
import io
import json
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
from jobs.views.in_spark import define, definitions
from jobs.views.sql import NotReadOnlyError, ReadOnlySql, SqlError, tables_of
from tests.support.invoked import invoke, printed_by_main
from tests.support.report_rows import evidence_file, lake_of

CLUSTER = "c1"
# Statements, a line each; and queries with what they give for `n`.
REFUSED, ANSWERED = (
    Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines() for name in ("refused.sql", "answered.txt")
)
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


def filled(statement: str, lake: Lake) -> str:
    out = lake.root.parent / "out"
    return statement.format(out=out, delta=f"delta.`{lake.storage.url('findings')}`", delta_out=f"delta.`{out}`")


@pytest.mark.parametrize("statement", REFUSED)
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


@pytest.mark.parametrize("line", ANSWERED)
def test_queries_of_every_form_are_answered(line: str, sql: ReadOnlySql, lake: Lake) -> None:
    statement, _, expected = line.partition(" -> ")
    assert sql.run(filled(statement, lake)) == (["n"], [{"n": n} for n in json.loads(expected)])


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
        define(spark, definitions([lake], ["findings"]))
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
    with pytest.raises(SqlError, match=r"^the query failed: \[TABLE_OR_VIEW_NOT_FOUND[^\n]* Did you mean findings or "):
        sql.run("select * from finding")
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
