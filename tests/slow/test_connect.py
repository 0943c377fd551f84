"""Tasks by each runner, and a run on a real Spark Connect server: the tables are those of a run without Spark."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession as RemoteSession

import kraft_forensics
from evidence.errors import KraftForensicsError
from jobs.config.settings import load_settings
from jobs.datasource import register
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.spark.session import build_context, build_session
from jobs.spark.tasks import ContextRunner, LocalRunner, Runner, SessionRunner
from jobs.views.catalogue import views
from jobs.views.sql import NotReadOnlyError, ReadOnlySql, SqlError
from tests.spark.test_sql import ANSWERED, REFUSED, digest, filled
from tests.support.digests import digests
from tests.support.paths import ORACLE, ROOT, capture
from tests.support.report_rows import lake_of
from tests.support.standalone import connect_server
from tests.support.stopping import PROGRAM, stopped

CALL_JAVA = ("reflect", "java_method", "try_reflect", "`Reflect`", "identifier('ref' || 'lect')")
RUN = ["run", str(capture("unclean")), "--lake"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect"), ROOT, load_settings().spark.jars_path()) as address:
        yield address
        # What a failed test has left open: Python would end only after ten minutes of calls to a server that is gone.
        RemoteSession.builder.remote(address).getOrCreate().stop()


@pytest.fixture(scope="module")
def remote(server: str) -> Iterator[RemoteSession]:
    session = RemoteSession.builder.remote(server).create()
    yield session
    session.stop()


@pytest.fixture(params=["local", "processes", "context", "session", "connect"])
def runner(request: pytest.FixtureRequest) -> Runner:
    if request.param in ("local", "processes"):
        return LocalRunner(1 if request.param == "local" else 2)
    if request.param == "context":
        return ContextRunner(build_context(load_settings().spark))
    if request.param == "session":
        return SessionRunner(build_session(load_settings().spark))
    return SessionRunner(request.getfixturevalue("remote"))


class OddError(KraftForensicsError):
    """An odd number came."""


def halved(number: int) -> int:
    if number % 2:
        raise OddError(f"{number} is odd")
    return number // 2


def divided(number: int) -> int:
    return 10 // number


def test_results_come_in_order(runner: Runner) -> None:
    assert runner.cores >= 1
    assert runner.run(halved, [8, 2, 40, 6, 0], "halve, five times", None) == [4, 1, 20, 3, 0]


def zeros(count: int) -> bytes:
    return bytes(count)


def test_a_result_may_be_larger_than_a_message_of_spark_connect(runner: Runner) -> None:
    assert runner.run(zeros, [140 << 20, 3], "zeros", None) == [bytes(140 << 20), bytes(3)]


def test_an_error_for_the_user_keeps_its_type_and_text(runner: Runner) -> None:
    if isinstance(runner, LocalRunner) and runner.cores == 1:
        with pytest.raises(OddError, match="3 is odd"):
            runner.run(halved, [2, 3], "halve", None)
    else:
        one, two = runner.run(halved, [2, 3], "halve", None)
        assert (one, type(two), str(two)) == (1, OddError, "3 is odd")


def test_any_other_error_ends_the_job(runner: Runner) -> None:
    with pytest.raises((ZeroDivisionError, PySparkException, Py4JError), match="by zero"):
        runner.run(divided, [1, 0], "divide", None)


def test_a_run_over_connect_gives_the_tables_of_a_run_without_spark(
    server: str, without_spark: Path, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    own = {**os.environ, "SPARK_REMOTE": server, "KRAFT_FORENSICS_ENGINE": "spark", "JAVA_HOME": str(tmp_path)}
    done = subprocess.run([*PROGRAM, *RUN, str(over)], cwd=ROOT, env=own, capture_output=True, text=True)
    assert "tasks:     Spark 4.2.0, Connect" in done.stderr, done.stderr
    assert digests(Lake(over)) == digests(Lake(without_spark))
    assert Lake(over).read("runs", None, ("engine",))["engine"].to_pylist() == ["Spark 4.2.0, Connect"]


def test_a_notebook_on_connect_reads_lakes_and_raw_logs(remote: RemoteSession, without_spark: Path) -> None:
    kraft_forensics.open(remote, str(without_spark))
    lost = remote.sql("select topic, partition, loss_min from windows where verdict = 'proven' order by 1, 2").collect()
    assert [tuple(row) for row in lost] == [("audit", 1, 30), ("ledger", 0, 70), ("ledger", 2, 70)]
    register(remote)
    assert remote.read.format("kraft").load(str(ORACLE / "every-record.log")).where("offset < 10").count() == 10


def test_sql_over_connect_answers_what_only_reads(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a parser at hand (tests/spark/test_sql.py), but for names that a function puts together."""
    rows = [{"finding_id": f"f{n}", "kind": "leaderless", "partition": n, "loss_min": n} for n in range(3)]
    election = {"topic_id": "t", "partition": 1, "offset": 5}
    lake = lake_of(tmp_path / "lake", "c1", findings=rows, elections=[election])
    before = digest(tmp_path)
    monkeypatch.setenv("SPARK_REMOTE", server)
    sql = ReadOnlySql(lake.root)
    for line in ANSWERED:
        statement, _, expected = line.partition(" -> ")
        if "identifier(" not in statement:
            assert sql.run(filled(statement, lake)) == (["n"], [{"n": n} for n in json.loads(expected)]), line
    assert {row["tableName"] for row in sql.run("show tables")[1]} >= TABLES.keys() | views().keys()
    assert sql.run("describe findings")[1][0]["col_name"] == "cluster_id"
    assert "LocalTableScan" in sql.run("-- a plan\nexplain select * from (values (1)) as t(a)")[1][0]["plan"]
    for statement in [*REFUSED, *(f"select {f}('java.lang.System', 'getProperty', 'user.dir')" for f in CALL_JAVA)]:
        with pytest.raises((NotReadOnlyError, SqlError)) as refused:
            sql.run(filled(statement, lake))
        assert refused.type is NotReadOnlyError or "PARSE_SYNTAX_ERROR" in str(refused.value), statement
    sql.spark.stop()
    assert digest(tmp_path) == before
    words = [*PROGRAM, "sql", "select max(loss_min) as n from findings", "--lake", str(lake.root), "--format", "json"]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "JAVA_HOME": str(tmp_path)}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ('[{"n": 2}]\n', "")


def test_threads_of_a_run_may_build_a_session_at_once(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", server)
    for _ in range(6):
        with ThreadPoolExecutor(2) as threads:
            one, two = threads.map(build_session, [load_settings().spark] * 2)
        assert one is two
        one.stop()


def test_a_run_over_connect_stops(server: str, tmp_path: Path) -> None:
    own = {"SPARK_REMOTE": server, "KRAFT_FORENSICS_ENGINE": "spark"}
    stopped([*RUN, str(tmp_path / "lake")], signal.SIGINT, tmp_path, "decoding", 1.0, own).check(signal.SIGINT)
