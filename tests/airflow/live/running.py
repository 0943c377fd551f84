"""What the tests know of the running Airflow: its REST API, its processes, and the folders that its DAGs use."""

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
STOP_S = 30
# In the environment of Airflow: a connection, a key for object stores, password and path of the webhook's URL.
CONNECTION_SECRETS = tuple(f"hunter-of-{name}-planted-secret" for name in ("connection", "store", "user", "path"))
# Longest wait for one event. All of them together take 3 minutes on two quiet cores.
WAIT_S = 900
BUSY = 503  # SQLite has one writer; this is Airflow's answer while it is another process


class Live:
    """The running Airflow."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.url = folder, f"http://127.0.0.1:{port}"
        self.captures, self.lakes, self.events = folder / "captures", folder / "lakes", folder / "events"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._token = ""

    def api(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """The answer to a request under /api/v2; a body is posted."""
        if not self._token:
            with urllib.request.urlopen(f"{self.url}/auth/token", timeout=60) as answer:
                self._token = json.load(answer)["access_token"]
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        until = time.monotonic() + WAIT_S
        while True:
            request = urllib.request.Request(f"{self.url}/api/v2/{path}", data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code != BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.3)

    def wait(self, what: str, found: Callable[[], Any]) -> Any:
        """The first true value of `found`. Fails when it takes too long, or a process of Airflow has ended."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            for name, process in self.processes.items():
                assert process.poll() is None, f"{name} has ended: {self.log(name)}"
            if value := found():
                return value
            time.sleep(0.3)
        pytest.fail(f"waited {WAIT_S} s for {what}\n{self.log('scheduler')}")

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def trigger(self, dag: str, run_id: str, conf: dict[str, Any]) -> None:
        self.api(f"dags/{dag}/dagRuns", {"dag_run_id": run_id, "logical_date": None, "conf": conf})

    def tasks(self, dag: str, run_id: str) -> dict[str, dict[str, Any]]:
        """task, with its index if it is mapped -> its instance in a run."""
        found = self.api(f"dags/{dag}/dagRuns/{run_id}/taskInstances?limit=100")["task_instances"]
        return {t["task_id"] + (f"[{t['map_index']}]" if t["map_index"] >= 0 else ""): t for t in found}

    def ended(self, dag: str, run_id: str) -> dict[str, dict[str, Any]]:
        """The task instances of a run, after its end. Fails if it failed."""
        place = f"dags/{dag}/dagRuns/{run_id}"
        run = self.wait(run_id, lambda: (r := self.api(place))["state"] in ("success", "failed") and r)
        tasks = self.tasks(dag, run_id)
        states = {name: (task["state"], task["try_number"]) for name, task in tasks.items()}
        assert run["state"] == "success", f"{states}\n{self.log('scheduler')}"
        return tasks

    def returned(self, dag: str, run_id: str, task_id: str, index: int = -1) -> Any:
        entry = f"dags/{dag}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        return self.api(f"{entry}?map_index={index}&deserialize=true")["value"]


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to one process of Airflow, then SIGKILL to all that is left of its group."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(STOP_S)
