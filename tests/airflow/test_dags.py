"""The DAG on a real Airflow, driving the real `kraft-forensics` over a real capture. Nothing of either is replaced."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError

import kraft_forensics as dag_file

STAGES = ["ingest", "replay", "detect", "quality", "report", "summary"]
LOGGER = "kraft_forensics.dag"


def load() -> Any:
    """The DAG as Airflow's own loader parses it from DAGS_FOLDER, under the environment of this moment."""
    bag = DagBag()
    assert bag.import_errors == {}
    assert set(bag.dags) == {"kraft_forensics"}
    return bag.dags["kraft_forensics"]


def conf(folder: Path, *captures: Path | str, **more: Any) -> dict[str, Any]:
    """A run's conf with every output in `folder`."""
    names = [str(c) for c in captures]
    return {"captures": names, "lake": str(folder / "lake"), "report": str(folder / "report.html"), **more}


def states(run: Any) -> dict[str, str]:
    """Final state of every task of a run."""
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def attempts(run: Any, task_id: str) -> int:
    """How often a task was tried."""
    return int(run.get_task_instance(task_id).try_number)


def returned(run: Any, task_id: str) -> Any:
    """What a task returned, read back from Airflow's database."""
    return run.get_task_instance(task_id).xcom_pull(task_ids=task_id)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines the DAG's own tasks logged: what a person sees in Airflow's task log."""
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


# Structure -----------------------------------------------------------------------------------------------------------


def test_one_task_per_stage_in_order(airflow_db: None) -> None:
    dag = load()
    assert [task.task_id for task in dag.topological_sort()] == STAGES
    for task_id, following in zip(STAGES, [*STAGES[1:], None], strict=True):
        assert dag.get_task(task_id).downstream_task_ids == ({following} if following else set())


def test_runs_do_not_overlap_or_catch_up(airflow_db: None) -> None:
    dag = load()
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == ("@daily", False, 1)
    assert dag.doc_md
    assert dag.tags == {"kafka", "kraft", "forensics"}


def test_every_task_retries_and_times_out(airflow_db: None) -> None:
    for task in load().tasks:
        assert (task.retries, task.retry_delay) == (1, timedelta(seconds=1))  # conftest.py's settings
        assert task.execution_timeout == timedelta(hours=6)


def test_no_value_goes_through_jinja(airflow_db: None) -> None:
    for task in load().tasks:
        assert not any(getattr(task, field) for field in task.template_fields), task.task_id


def test_environment_sets_schedule_and_defaults(airflow_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_SCHEDULE", "15 3 * * *")
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_CAPTURES", '["/captures/a", "/captures/b"]')
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_LAKE", "/elsewhere/lake")
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_TIMEOUT_MINUTES", "5")
    dag = load()
    assert dag.schedule == "15 3 * * *"
    assert dag.params["captures"] == ["/captures/a", "/captures/b"]
    assert dag.params["lake"] == "/elsewhere/lake"
    assert dag.get_task("ingest").execution_timeout == timedelta(minutes=5)
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_SCHEDULE", "none")
    assert load().schedule is None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("CAPTURES", "/captures/a", "KRAFT_FORENSICS_DAG_CAPTURES must be a JSON array"),
        ("CAPTURES", '["--evil"]', "default values are not valid"),
        ("CAPTURES", "[]", "default values are not valid"),
        ("LAKE", "", "default values are not valid"),
        ("RETRIES", "often", "KRAFT_FORENSICS_DAG_RETRIES must be a whole number from 0, not 'often'"),
        ("TIMEOUT_MINUTES", "0", "KRAFT_FORENSICS_DAG_TIMEOUT_MINUTES must be a whole number from 1, not '0'"),
    ],
)
def test_bad_setting_is_an_import_error(
    airflow_db: None, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"KRAFT_FORENSICS_DAG_{name}", value)
    (error,) = DagBag().import_errors.values()
    assert message in error


# A run's conf --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"captures": ["--evil"]},
        {"captures": ["/fine", "-x"]},
        {"captures": [""]},
        {"captures": [5]},
        {"captures": ["nul\0byte"]},
        {"captures": []},
        {"captures": 5},
        {"captures": None},
        {"captures": "/not/an/array"},
        {"lake": "--evil"},
        {"lake": ""},
        {"lake": ["/lake"]},
        {"report": "-o"},
        {"report": 5},
        {"fail_on": "always"},
        {"fail_on": "--lake"},
    ],
    ids=json.dumps,
)
def test_bad_conf_never_becomes_a_run(airflow_db: None, tmp_path: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError):
        load().test(run_conf=conf(tmp_path, "/captures/a") | bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("level", ["none", "unknown", "proven", "critical", "info", "new-possible", "new-info"])
def test_fail_on_takes_every_level_of_the_command(level: str) -> None:
    assert dag_file.PARAMS["fail_on"].resolve(level) == level


def test_unknown_key_fails_for_good(
    airflow_db: None, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    run = load().test(run_conf=conf(tmp_path, "/captures/a", capture="/captures/b"))
    assert (run.state, attempts(run, "ingest")) == ("failed", 1)
    assert "unknown key in the run's conf: ['capture']" in capfd.readouterr().out
    assert not any(line.startswith("running") for line in logged(caplog))


# The real thing ------------------------------------------------------------------------------------------------------


def test_real_capture(airflow_db: None, kraft_forensics: str, capture: Path, tmp_path: Path) -> None:
    """Twice into the same lake: three proven regressions, and the second run changes nothing."""
    dag = load()
    summaries = []
    for _ in range(2):
        run = dag.test(run_conf=conf(tmp_path, capture))
        assert states(run) == dict.fromkeys(STAGES, "success")
        assert run.state == "success"
        assert {task_id: attempts(run, task_id) for task_id in STAGES} == dict.fromkeys(STAGES, 1)
        for stage in STAGES[:-1]:
            result = returned(run, stage)
            assert result["stage"] == stage
            assert result["exit_code"] == (3 if stage == "detect" else 0)
            assert result["seconds"] > 0
        assert returned(run, "detect")["findings"] is True
        summaries.append(sorted(returned(run, "summary"), key=lambda row: (row["kind"], row["verdict"])))
        report = tmp_path / "report.html"
        assert report.stat().st_size > 0
        report.unlink()
    assert {"kind": "hwm_regression", "verdict": "proven", "n": 3} in summaries[0]
    assert summaries[1] == summaries[0]


def test_missing_capture_fails_with_the_reason_in_the_log(
    airflow_db: None, kraft_forensics: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The name would be an arithmetic result to Jinja and a command to a shell; here it stays a name."""
    name = "{{ 7 * 7 }} $(touch pwned) ; touch pwned"
    run = load().test(run_conf=conf(tmp_path, tmp_path / name))
    assert run.state == "failed"
    assert states(run) == {"ingest": "failed"} | dict.fromkeys(STAGES[1:], "upstream_failed")
    said = [line for line in logged(caplog) if not line.startswith(("running", "kraft-forensics ingest:"))]
    assert any(name in line for line in said)  # the command's own words
    ends = [line.split(" after ")[0] for line in logged(caplog) if line.startswith("kraft-forensics ingest:")]
    once = "kraft-forensics ingest: exit code "
    assert ends in ([once + "1"] * 2, [once + "2"])  # an error is tried again, a usage error is not
    assert attempts(run, "ingest") == len(ends)
    assert not list(tmp_path.rglob("pwned"))
    assert not Path("pwned").exists()
    assert not (tmp_path / "report.html").exists()


def test_missing_program_fails_for_good(
    airflow_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KRAFT_FORENSICS_BIN", str(tmp_path / "no-such-program"))
    run = load().test(run_conf=conf(tmp_path, "/captures/a"))
    assert (run.state, attempts(run, "ingest")) == ("failed", 1)
    assert "set KRAFT_FORENSICS_BIN to the kraft-forensics" in capfd.readouterr().out


# The functions below the tasks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "code", "error"),
    [
        ("ingest", 0, None),
        ("detect", 3, None),
        ("ingest", 1, dag_file.StageError),
        ("detect", 1, dag_file.StageError),
        ("ingest", 2, AirflowFailException),
        ("replay", 3, AirflowFailException),
        ("quality", 4, AirflowFailException),
        ("replay", -9, dag_file.StageError),
        ("report", 77, dag_file.StageError),
    ],
)
def test_exit_codes(stage: str, code: int, error: type[Exception] | None) -> None:
    if error is None:
        dag_file.check(stage, code, [])
        return
    with pytest.raises(error, match=rf"kraft-forensics {stage}: exit code {code} \(.*\)\nlast words") as caught:
        dag_file.check(stage, code, ["last words"])
    assert type(caught.value) is error


def test_execute_keeps_the_streams_apart(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", LOGGER)
    program = r"import sys; print('[1]'); sys.stderr.buffer.write(b'h\xc3\xa9\x1b[31m\n\xff\n'); sys.exit(7)"
    code, stdout, tail = dag_file.execute([sys.executable, "-c", program])
    assert (code, stdout.strip(), tail) == (7, "[1]", [r"hé\x1b[31m", r"\xff"])
    assert logged(caplog)[1:] == tail


def test_execute_keeps_airflows_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", "postgres://user:password@host/db")
    monkeypatch.setenv("PYTHONPATH", "/airflow/plugins")
    monkeypatch.setenv("KRAFT_FORENSICS_OTHER", "kept")
    _, stdout, _ = dag_file.execute([sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"])
    environment = json.loads(stdout)
    assert environment["KRAFT_FORENSICS_OTHER"] == "kept"
    assert not [name for name in environment if name.startswith(("AIRFLOW_", "PYTHONPATH"))]
    assert "AIRFLOW_HOME" in os.environ


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("s3://bucket/tuesday.tar.xz", "s3://bucket/tuesday.tar.xz"),
        ("s3a://key:secret@bucket/a/b.zip", "s3a://bucket/a/b.zip"),
        ("https://host/x.zip?X-Amz-Signature=secret&a=b", "https://host/x.zip"),
        ("https://user:secret@host/x.zip?sig=secret\n?secret", "https://host/x.zip"),
        ("/captures/what?.zip", "/captures/what?.zip"),
        ("--lake", "--lake"),
    ],
)
def test_the_log_shows_no_secret_of_a_url(argument: str, shown: str) -> None:
    assert dag_file.without_secrets(argument) == shown


def test_the_log_shows_a_command_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", LOGGER)
    dag_file.execute([sys.executable, "-c", "", "https://user:secret@host/x.zip?sig=secret"])
    assert "secret" not in logged(caplog)[0]
    assert "https://host/x.zip" in logged(caplog)[0]


def test_execute_stops_the_program_when_time_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Airflow's execution_timeout does it: an alarm that raises. The program ignores SIGTERM, so it is killed."""

    def alarm(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(dag_file, "STOP_SECONDS", 1)
    pid_file = tmp_path / "pid"
    program = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(120)"
    )
    previous = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, 2)
    start = time.monotonic()
    try:
        with pytest.raises(TimeoutError):
            dag_file.execute([sys.executable, "-c", program, str(pid_file)])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert time.monotonic() - start < 30
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
