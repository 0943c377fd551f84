"""A running Airflow on loopback: scheduler with LocalExecutor, DAG processor, API server, a SQLite database."""

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from running import CONNECTION_SECRETS, Live, stop

DAGS = 5
# It keeps each event; of the cluster `secrets`, whose run fails, it also posts it to a URL with secrets, in vain.
_HOOK = """
import json


def keep(event):
    open({events!r}, "a").write(json.dumps(event) + "\\n")
    if event["run_id"] == "secrets":
        from kraft_forensics_dags.webhook import post

        post(event)
"""


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture(scope="session")
def live(kraft_forensics: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Airflow, started once for all tests, ended by process groups that this fixture made."""
    folder, port = tmp_path_factory.mktemp("live"), _free_port()
    airflow = Live(folder, port)
    for each in (airflow.captures, airflow.lakes):
        each.mkdir()
    (folder / "plugins").mkdir()
    hook = _HOOK.format(events=str(airflow.events))
    (folder / "tmp").mkdir()
    (folder / "plugins" / "live_hook.py").write_text(hook)
    environment = os.environ | {
        "AIRFLOW__API__BASE_URL": airflow.url,
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{airflow.url}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "3",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder / "plugins"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        "AIRFLOW_CONN_AWS_DEFAULT": f"aws://key:{CONNECTION_SECRETS[0]}@",
        "AWS_SECRET_ACCESS_KEY": CONNECTION_SECRETS[1],
        "TMPDIR": str(folder / "tmp"),
        "KRAFT_FORENSICS_DAG_WEBHOOK_URL": "http://user:{}@127.0.0.1:9/{}".format(*CONNECTION_SECRETS[2:]),
        "KRAFT_FORENSICS_BIN": kraft_forensics,
        "KRAFT_FORENSICS_DAG_CAPTURES": str(airflow.captures),
        "KRAFT_FORENSICS_DAG_LAKES": str(airflow.lakes),
        "KRAFT_FORENSICS_DAG_POSTMORTEMS": str(folder / "postmortems"),
        "KRAFT_FORENSICS_DAG_HOOK": "live_hook:keep",
        "KRAFT_FORENSICS_DAG_MAINTENANCE_SCHEDULE": "none",
        "KRAFT_FORENSICS_DAG_PARALLEL": "2",
        "KRAFT_FORENSICS_DAG_RUNS": "3",
    }
    commands = {
        "api-server": ["api-server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"],
        "dag-processor": ["dag-processor"],
        "scheduler": ["scheduler", "--skip-serve-logs"],
    }
    try:
        for name, arguments in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                airflow.processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "airflow", *arguments],
                    env=environment,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        airflow.wait("the API server and the DAGs", lambda: _knows_dags(airflow))
        yield airflow
    finally:
        for process in airflow.processes.values():
            stop(process)


def _knows_dags(airflow: Live) -> bool:
    try:
        return int(airflow.api("dags?limit=10")["total_entries"]) == DAGS
    except OSError:
        return False
