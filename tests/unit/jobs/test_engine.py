"""What runs the tasks: the setting `engine`, and --engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from jobs.cli import app
from jobs.config.settings import SettingsError, default_values, load_settings
from jobs.spark.session import SessionError
from jobs.spark.tasks import engine, run_tasks, runs_here
from tests.support.paths import capture


def test_by_default_spark_runs_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KRAFT_FORENSICS_ENGINE")
    assert (default_values()["engine"], load_settings().engine) == ("spark", "spark")
    assert not runs_here(1, load_settings())


@pytest.mark.parametrize(
    ("name", "rows", "here"),
    [("spark", 0, False), ("local", 10**12, True), ("auto", 99_999, True), ("auto", 100_000, False)],
)
def test_where_tasks_run(name: str, rows: int, here: bool) -> None:
    assert runs_here(rows, load_settings(name)) == here


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


def test_without_java_one_line_names_the_other_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    words = ["run", str(capture("unclean")), "--lake", str(tmp_path / "lake"), "--engine", "spark"]
    done = CliRunner().invoke(app, words)
    text = "Spark needs Java 17 or newer: set JAVA_HOME or PATH. `--engine local` runs without Spark."
    assert (type(done.exception), str(done.exception)) == (SessionError, text)
