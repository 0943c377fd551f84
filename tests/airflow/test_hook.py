"""The hook and its example, which posts to a real web server on loopback."""

from __future__ import annotations

import json
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from kraft_forensics_dags import hook


class Receiver(BaseHTTPRequestHandler):
    """Keeps each body in `server.events`; a path /refuse gets a 500."""

    def do_POST(self) -> None:
        self.server.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))  # type: ignore[attr-defined]
        self.send_response(500 if self.path == "/refuse" else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Receiver) as running:
        running.events = []  # type: ignore[attr-defined]
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


def test_a_hook_that_is_no_function_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_HOOK", "https://example.com")
    with pytest.raises(ValueError, match="KRAFT_FORENSICS_DAG_HOOK must be module:function"):
        hook.on_failure(CONTEXT)
