"""The DAGs on a real Airflow, driving the real `kraft-forensics` over a real capture. Nothing of either is replaced."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

NIGHTLY, POSTMORTEM, MAINTENANCE, COLLECT, LIGHT = DAGS = [
    f"kraft_forensics_{n}" for n in ("nightly", "postmortem", "maintenance", "collect", "collect_light")
]
LOGGER = "kraft_forensics.dag"
# Settings (name, value, message) and conf of runs (DAG, conf) that are refused.
REFUSED = json.loads(Path(__file__).with_name("refused.json").read_text(encoding="utf-8"))


def load(name: str = NIGHTLY) -> Any:
    """A DAG as Airflow's own loader parses it from DAGS_FOLDER, under the environment of this moment."""
    bag = DagBag()
    assert bag.import_errors == {}
    assert set(bag.dags) == set(DAGS)
    return bag.dags[name]


def tasks_of(run: Any) -> dict[str, tuple[str, int]]:
    """task, with its index if it is mapped -> (final state, how often it was tried)."""
    return {
        ti.task_id + (f"[{ti.map_index}]" if ti.map_index >= 0 else ""): (str(ti.state), ti.try_number)
        for ti in run.get_task_instances()
    }


# Structure -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "following"),
    [
        (
            NIGHTLY,
            {"discover": {"cluster.run", "cluster.answer"}, "cluster.run": {"cluster.answer"}}
            | {"cluster.answer": {"summary"}, "summary": set()},
        ),
        (
            POSTMORTEM,
            {"prepare": {"run", "report", "result"}, "run": {"report"}, "report": {"result"}, "result": set()},
        ),
        (
            MAINTENANCE,
            {"discover": {"lake.forget", "lake.maintain", "lake.verify"}, "lake.forget": {"lake.maintain"}}
            | {"lake.maintain": {"lake.verify"}, "lake.verify": set()},
        ),
        (COLLECT, {"discover": {"collect"}, "collect": set()}),
        (LIGHT, {"discover": {"collect"}, "collect": set()}),
    ],
)
def test_tasks_and_their_order(name: str, following: dict[str, set[str]]) -> None:
    dag = load(name)
    assert {task.task_id: set(task.downstream_task_ids) for task in dag.tasks} == following
    assert dag.doc_md
    assert dag.tags == {"kafka", "kraft", "forensics"}


def test_runs_do_not_overlap_or_catch_up() -> None:
    crons = {NIGHTLY: "0 0 * * *", MAINTENANCE: "0 0 * * 0", COLLECT: "0 23 * * *", LIGHT: "30 * * * *"}
    for name, cron in crons.items():
        dag = load(name)
        assert (dag.catchup, dag.max_active_runs) == (False, 1)
        assert dag.timetable.expression == cron
    assert load(POSTMORTEM).schedule is None


@pytest.mark.parametrize("name", DAGS)
def test_every_task_retries_times_out_and_reports_its_failure(name: str) -> None:
    for task in load(name).tasks:
        assert (task.retries, task.retry_delay) == (1, timedelta(seconds=1))  # conftest.py's settings
        assert task.execution_timeout == timedelta(hours=6)
        assert task.on_failure_callback


def test_parsing_imports_neither_the_job_nor_a_provider_nor_spark(tmp_path: Path) -> None:
    code = (
        "import sys, runpy\n"
        f"for name in {DAGS[:-1]!r}: runpy.run_path(sys.argv[1] + '/' + name + '.py')\n"
        "heavy = ('pyspark', 'jobs', 'pandas', 'pyarrow', 'airflow.providers.apache.spark.operators', 'openlineage')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    folder = str(Path(__file__).parents[2] / "airflow_dags")
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, sys.argv[1])\n{code}", folder]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr


def test_environment_sets_schedule_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_SCHEDULE", "15 3 * * *")
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_CLUSTERS", '{"alpha": "/captures/a"}')
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_LAKES", "/elsewhere/lakes")
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_TIMEOUT_MINUTES", "5")
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_POOL", "spark")
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_PARALLEL", "2")
    dag = load()
    assert dag.timetable.expression == "15 3 * * *"
    assert dag.params["clusters"] == {"alpha": "/captures/a"}
    assert dag.params["lakes"] == "/elsewhere/lakes"
    task = dag.get_task("cluster.run")
    assert task.execution_timeout == timedelta(minutes=5)
    assert (task.pool, task.max_active_tis_per_dagrun) == ("spark", 2)
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_SCHEDULE", "none")
    assert load().schedule is None


def test_spark_submit_is_chosen_by_one_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_LAUNCHER", "spark-submit")
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_OPERATOR", '{"conn_id": "cluster", "conf": {"spark.x": "y"}}')
    for name, task_id in ((NIGHTLY, "cluster.run"), (POSTMORTEM, "run"), (MAINTENANCE, "lake.verify")):
        task = load(name).get_task(task_id)
        assert task.task_type == "SubmitCommand"
        assert (task._conn_id, task.conf) == ("cluster", {"spark.x": "y"})


@pytest.mark.parametrize(("name", "value", "message"), REFUSED["settings"])
def test_bad_setting_is_an_import_error(monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    monkeypatch.setenv(f"KRAFT_FORENSICS_DAG_{name}", value)
    errors = DagBag().import_errors.values()
    assert errors
    assert all(message in error for error in errors)


# A run's conf --------------------------------------------------------------------------------------------------------

INCIDENT = {"captures": ["/c"], "incident_from": "2026-11-21T00:39:00Z", "incident_to": "2026-11-21T00:42:00Z"}


@pytest.mark.parametrize(("name", "bad"), REFUSED["confs"], ids=str)
def test_bad_conf_never_becomes_a_run(name: str, bad: dict[str, Any]) -> None:
    """Of a postmortem: with what else it needs, unless nothing is given."""
    with pytest.raises(ParamValidationError):
        load(f"kraft_forensics_{name}").test(run_conf=INCIDENT | bad if name == "postmortem" and bad else bad)


def test_fail_on_takes_every_level_of_the_command() -> None:
    param = load().params.get_param("fail_on")
    levels = param.schema["enum"]
    assert [param.resolve(level) for level in levels] == levels


def test_unknown_key_fails_for_good(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = load().test(run_conf={"captures": str(tmp_path), "lake": "/misspelt"})
    assert tasks_of(run)["discover"] == ("failed", 1)
    assert run.state == "failed"
    assert "unknown key in the run's conf: ['lake']" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        ("no_such_module:post", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("kraft_forensics_dags.webhook:send", "AttributeError: "),
        ("kraft_forensics_dags.webhook:SECONDS", "is no function"),
    ],
)
def test_a_hook_that_the_worker_does_not_have_fails_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], hook: str, why: str
) -> None:
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_HOOK", hook)
    for name, first, conf in (
        (NIGHTLY, "discover", {}),
        (POSTMORTEM, "prepare", INCIDENT),
        (MAINTENANCE, "discover", {}),
        (COLLECT, "discover", {}),
    ):
        run = load(name).test(run_conf=conf)
        states = tasks_of(run)
        assert states.pop(first) == ("failed", 1)
        assert {state for state, _ in states.values()} == {"upstream_failed"}
        said = capfd.readouterr().out
        assert f"KRAFT_FORENSICS_DAG_HOOK: {hook}" in said
        assert why in said


def test_an_incident_that_ends_before_it_begins_fails_for_good() -> None:
    run = load(POSTMORTEM).test(run_conf=INCIDENT | {"incident_to": INCIDENT["incident_from"]})
    assert tasks_of(run)["prepare"] == ("failed", 1)


def test_no_two_runs_write_into_one_folder() -> None:
    from kraft_forensics_postmortem import folder_name  # makes the DAG, with the settings of this test

    assert folder_name("INC-4711") == "INC-4711"
    names = ["INC:1", "INC+1", "INC_1", "manual__2026-11-21T00:39:00+00:00", ".", "..", "../up", "/x", ":" * 250]
    folders = {folder_name(name) for name in names}
    assert len(folders) == len(names)
    assert not any("/" in folder or folder.startswith(".") or len(folder) > 255 for folder in folders)


# Runs ----------------------------------------------------------------------------------------------------------------


def test_a_missing_capture_fails_and_its_name_is_just_a_name(
    kraft_forensics: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The name would be an arithmetic result to Jinja and a command to a shell."""
    name = "{{ 7 * 7 }} $(touch pwned) ; touch pwned"
    conf = INCIDENT | {"captures": [str(tmp_path / name)], "folder": str(tmp_path / "out")}
    run = load(POSTMORTEM).test(run_conf=conf)
    assert {task: state for task, (state, _) in tasks_of(run).items()} == {
        "prepare": "success",
        "run": "failed",
        "report": "upstream_failed",
        "result": "upstream_failed",
    }
    said = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert any(name in line for line in said if not line.startswith(("running", "kraft-forensics run:")))
    assert not list(tmp_path.rglob("pwned"))
    assert not Path("pwned").exists()


def test_missing_program_fails_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KRAFT_FORENSICS_BIN", str(tmp_path / "no-such-program"))
    run = load(POSTMORTEM).test(run_conf=INCIDENT | {"folder": str(tmp_path)})
    assert tasks_of(run)["run"] == ("failed", 1)
    assert "set KRAFT_FORENSICS_BIN to the kraft-forensics" in capfd.readouterr().out


def test_no_captures_for_the_interval_is_a_good_run(tmp_path: Path) -> None:
    (tmp_path / "alpha").mkdir()
    run = load().test(run_conf={"captures": str(tmp_path), "lakes": str(tmp_path / "lakes")})
    assert run.state == "success"
    assert {state for task, (state, _) in tasks_of(run).items() if task != "discover"} == {"skipped"}


def test_a_cluster_whose_folder_is_missing_fails_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The other one has no captures, so it has no run."""
    (tmp_path / "alpha").mkdir()
    clusters = {name: str(tmp_path / name) for name in ("alpha", "beta")}
    states = tasks_of(load().test(run_conf={"clusters": clusters, "lakes": str(tmp_path / "lakes")}))
    assert (states["discover"][0], states["cluster.run[0]"]) == ("success", ("failed", 1))
    reason = f"beta: its captures cannot be listed: [Errno 2] No such file or directory: '{tmp_path / 'beta'}'"
    assert reason in caplog.text
    assert f"AirflowFailException: {reason}" in capfd.readouterr().out


def test_a_night_with_findings_by_spark_submit(
    kraft_forensics: str, capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spark-submit ends with exit code 3, and the task well. A template in a capture's name stays text."""
    programs = Path(kraft_forensics).parent
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_LAUNCHER", "spark-submit")
    own = {"conf": {"spark.pyspark.python": str(programs / "python")}}
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_OPERATOR", json.dumps(own))
    captures = tmp_path / "captures" / "alpha"
    captures.mkdir(parents=True)
    (captures / "2026-03-01 {{ 7 * 7 }}.tar.xz").write_bytes(capture.read_bytes())
    conf = {"captures": str(captures.parent), "lakes": str(tmp_path / "lakes"), "late_days": 10_000}
    run = load().test(run_conf=conf)
    assert run.state == "success"
    (instance,) = [task for task in run.get_task_instances() if task.task_id == "cluster.run"]
    found = instance.xcom_pull(task_ids="cluster.run", map_indexes=0)
    assert found == {"command": "run", "exit_code": 3, "findings": True}
    answer = instance.xcom_pull(task_ids="cluster.answer", map_indexes=0)
    assert (answer["cluster"], answer["valid"], answer["findings"]) == ("alpha", False, True)
    assert Path(answer["report"]).is_file()
