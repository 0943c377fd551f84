"""What runs the tasks: the setting `engine`, and --engine. While Spark starts: tests/spark/conftest.py."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest

from jobs.config.settings import SettingsError, default_values, load_settings
from jobs.lake.runs import Jobs, Size, measured
from jobs.spark.session import SessionError, _configuration
from jobs.spark.tasks import engine, is_local, run_tasks
from tests.support import writer
from tests.support.invoked import invoke
from tests.support.small_captures import SEGMENT, write_files


def test_by_default_spark_runs_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KRAFT_FORENSICS_ENGINE")
    assert (default_values()["engine"], load_settings().engine) == ("spark", "spark")
    assert not is_local(1, load_settings())


@pytest.mark.parametrize(
    ("name", "rows", "here"),
    [("spark", 0, False), ("local", 10**12, True), ("auto", 99_999, True), ("auto", 100_000, False)],
)
def test_where_tasks_run(name: str, rows: int, here: bool) -> None:
    assert is_local(rows, load_settings(name)) == here


def test_an_option_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_FORENSICS_ENGINE", "local")
    assert (load_settings().engine, load_settings("auto").engine) == ("local", "auto")
    monkeypatch.setenv("KRAFT_FORENSICS_ENGINE", "dask")
    with pytest.raises(SettingsError, match=r"setting engine: .*'spark', 'local' or 'auto'"):
        load_settings()


def test_without_tasks_spark_does_not_start() -> None:
    assert run_tasks(str, [], 0, load_settings("spark"), "nothing") == []
    assert engine(load_settings("spark")) is None
    assert engine(load_settings("local")) == "local"


_MIB = 1 << 20


def took(mib: int) -> int:
    return len(bytearray(b"x" * (mib * _MIB)))


def test_a_run_knows_the_slowest_and_the_largest_task_of_each_job() -> None:
    jobs = Jobs("r1")
    with measured(jobs):
        found = run_tasks(took, [1, 200, 3], 3, load_settings("local"), "take", lambda mib: Size(10 * mib, mib))
        run_tasks(took, [1], 1, load_settings("local"), "take again")
    assert found == [_MIB, 200 * _MIB, 3 * _MIB]
    taken, again = jobs.taken()["take"], jobs.taken()
    assert (taken["tasks"], taken["largest"]["rows"], taken["largest"]["bytes"]) == (3, 2000, 200)
    assert taken["slowest"]["seconds"] >= 0
    # Of its own: what the process took before does not count.
    assert 200 * _MIB < taken["peak_memory_bytes"] == taken["largest"]["peak_memory_bytes"]
    assert again == {}
    run_tasks(took, [1], 1, load_settings("local"), "take")
    assert jobs.taken() == {}


def test_the_largest_task_begins_first(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def noted(number: int) -> int:
        with begun.open("a") as file:
            file.write(f"{number} ")
        return number

    given = [3, 1, 9, 2]
    assert run_tasks(noted, given, 4, load_settings("local"), "note", lambda n: Size(None, n)) == given
    assert begun.read_text().split() == ["9", "3", "2", "1"]


@pytest.mark.parametrize(
    ("error", "fails", "tries"), [(OSError, 2, 3), (OSError, 3, 3), (FileNotFoundError, 1, 1), (ValueError, 1, 1)]
)
def test_a_task_begins_again_if_the_storage_fails(
    tmp_path: Path, error: type[Exception], fails: int, tries: int
) -> None:
    """Twice, and not for a file that is missing."""
    tried = tmp_path / "tried"

    def read(number: int) -> int:
        with tried.open("a") as file:
            file.write(".")
        if len(tried.read_text()) <= fails:
            raise error("no answer")
        return number

    with nullcontext() if fails < tries else pytest.raises(error, match="no answer"):
        assert run_tasks(read, [7], 1, load_settings("local"), "read") == [7]
    assert len(tried.read_text()) == tries


@pytest.mark.parametrize("name", ["pyspark", "pyspark.sql.connect.session"])
def test_the_engine_while_another_thread_imports_spark(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, ModuleType(name))  # as it is before its first line has run
    assert engine(load_settings("spark")) is None


def test_without_java_one_line_names_the_other_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    given = write_files(tmp_path / "capture", {SEGMENT: b"".join(writer.log())})
    words = ["run", str(given), "--lake", str(tmp_path / "lake"), "--engine", "spark"]
    done = invoke(words)
    text = "Spark needs Java 17 or newer: set JAVA_HOME or PATH. `--engine local` runs without Spark."
    assert (type(done.exception), str(done.exception)) == (SessionError, text)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("sc://127.0.0.1:1", "SPARK_REMOTE: nobody answers at 127.0.0.1:1 (Connection refused)."),
        ("spark://127.0.0.1:1", "SPARK_REMOTE: [INVALID_CONNECT_URL]"),
    ],
)
def test_a_connect_server_that_cannot_be_had_is_one_line(
    address: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", address)
    with pytest.raises(SessionError) as refused:
        run_tasks(str, [1], 1, load_settings("spark"), "nothing")
    assert str(refused.value).startswith(text)
    assert str(refused.value).endswith("`--engine local` runs without Spark.")


def test_sql_refuses_a_server_whose_parser_it_cannot_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    done = invoke(["sql", "select 1", "--lake", str(tmp_path)])
    assert "Unset SPARK_REMOTE for this command" in str(done.exception)


def test_an_empty_address_is_none_for_java_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`SPARK_REMOTE= kraft-forensics sql`: spark-submit refuses a master beside it, whatever it is."""
    for name in ("SPARK_REMOTE", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
    assert str(_configuration(load_settings("spark").spark).get("spark.master")).startswith("local[")
    assert "SPARK_REMOTE" not in os.environ
