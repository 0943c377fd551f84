"""The hook and its example, which posts to a real web server on loopback."""

from __future__ import annotations

import json
import threading
import traceback
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from kraft_forensics_dags import hook, webhook


class Receiver(BaseHTTPRequestHandler):
    """Keeps each body in `server.events`, and the authorization in `server.users`; a path /refuse gets a 500."""

    def do_POST(self) -> None:
        self.server.users.append(self.headers["Authorization"])  # type: ignore[attr-defined]
        self.server.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))  # type: ignore[attr-defined]
        self.send_response(500 if self.path == "/refuse" else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Receiver) as running:
        running.events, running.users = [], []  # type: ignore[attr-defined]
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join(10)


CONTEXT = {
    "ti": SimpleNamespace(dag_id="d", run_id="r", task_id="cluster.run", map_index=2, try_number=3),
    "exception": ValueError("last words"),
}
PLACE = {"dag_id": "d", "run_id": "r", "task_id": "cluster.run", "map_index": 2, "try_number": 3}


def test_without_a_hook_nothing_happens() -> None:
    hook.on_failure(CONTEXT)


def test_the_webhook_gets_a_failure_as_json(server: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_HOOK", "kraft_forensics_dags.webhook:post")
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_WEBHOOK_URL", f"http://127.0.0.1:{server.server_port}/hook")
    hook.on_failure(CONTEXT)
    assert server.events == [{"event": "failure", **PLACE, "text": "last words"}]  # type: ignore[attr-defined]


def test_a_refused_event_is_an_error(server: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the task that reports findings is tried again."""
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_HOOK", "kraft_forensics_dags.webhook:post")
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_WEBHOOK_URL", f"http://127.0.0.1:{server.server_port}/refuse")
    with pytest.raises(urllib.error.HTTPError):
        hook.call_hook("findings", CONTEXT, cluster="alpha")


def test_the_user_of_a_url_is_sent_as_basic_authentication(server: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://kafka:pass%40word@127.0.0.1:{server.server_port}/hook"
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_WEBHOOK_URL", url)
    webhook.post({"event": "findings"})
    assert server.users == ["Basic a2Fma2E6cGFzc0B3b3Jk"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@127.0.0.1:9/hook",
        "http://user:hunter2@host.invalid/hook",
        "http://127.0.0.1:hunter2/hook",
        "http://127.0.0.1:9/hunter2",
        "http://127.0.0.1:9/hunter2\n",
        "http://127.0.0.1:9/hunter2 x",
        "http://[hunter2/hook",
        "hunter2",
        "unknown://user:hunter2@host",
    ],
)
def test_no_error_of_the_webhook_shows_its_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow logs the error and gives it to the callback of a failure."""
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_WEBHOOK_URL", url)
    with pytest.raises((OSError, ValueError)) as raised:
        webhook.post({"event": "findings"})
    lines = traceback.format_exception(raised.value)
    assert [line for line in lines if "hunter2" in line and "File" not in line] == []


def test_a_hook_that_is_no_function_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_HOOK", "https://example.com")
    with pytest.raises(ValueError, match="KRAFT_FORENSICS_DAG_HOOK must be module:function"):
        hook.on_failure(CONTEXT)
