"""The hook and its example, which posts to a real web server on loopback."""

import json
import threading
import traceback
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from kraft_forensics_dags import params, webhook


class Receiver(BaseHTTPRequestHandler):
    """Keeps each body in `server.events`, and the authorization in `server.users`; a path /refuse gets a 500."""

    server: Any

    def do_POST(self) -> None:
        self.server.users.append(self.headers["Authorization"])
        self.server.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(500 if self.path == "/refuse" else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Where the webhook posts to."""
    running: Any
    with HTTPServer(("127.0.0.1", 0), Receiver) as running:
        running.events, running.users = [], []
        monkeypatch.setenv("KRAFT_FORENSICS_DAG_HOOK", "kraft_forensics_dags.webhook:post")
        monkeypatch.setenv("KRAFT_FORENSICS_DAG_WEBHOOK_URL", f"http://127.0.0.1:{running.server_port}/hook")
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join(10)


CONTEXT = {
    "ti": SimpleNamespace(
        dag_id="d", run_id="r", task_id="cluster.run", map_index=2, rendered_map_index="beta", try_number=3
    ),
    "exception": ValueError("last words"),
}
PLACE = vars(CONTEXT["ti"])


def test_without_a_hook_nothing_happens() -> None:
    params.on_failure(CONTEXT)


def test_the_webhook_gets_a_failure_as_json(server: Any) -> None:
    params.on_failure(CONTEXT)
    assert server.events == [{"event": "failure", **PLACE, "text": "last words"}]


def test_a_refused_event_is_an_error(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the task that reports findings is tried again."""
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_WEBHOOK_URL", f"http://127.0.0.1:{server.server_port}/refuse")
    with pytest.raises(urllib.error.HTTPError):
        params.call_hook("findings", CONTEXT, cluster="alpha")


def test_the_user_of_a_url_is_sent_as_basic_authentication(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://kafka:pass%40word@127.0.0.1:{server.server_port}/hook"
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_WEBHOOK_URL", url)
    webhook.post({"event": "findings"})
    assert server.users == ["Basic a2Fma2E6cGFzc0B3b3Jk"]


# What the services accept, and no field besides. Facts of PagerDuty's Events API v2, Slack's incoming webhooks and
# Alertmanager's api/v2/openapi.yaml.
SCHEMAS = json.loads(Path(__file__).with_name("webhook_schemas.json").read_text(encoding="utf-8"))
ANSWER = {
    "cluster": "alpha",
    "valid": False,
    "text": ["LOST: at least 170 records of a<b.", "x" * 3000],
    "loss": {"acks_all_min": 170, "acks_all_max": None},
    "status": {"new": 1, "known": 0, "acknowledged": 0},
    "report": "https://web.example.com/alpha/report.html",
    "lake": "/lakes/alpha",
}


def sent(server: Any, name: str, monkeypatch: pytest.MonkeyPatch, event: str, **details: Any) -> list[Any]:
    """What one of the webhooks posts of an event: valid for its service."""
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_HOOK", f"kraft_forensics_dags.webhook:{name}")
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_WEBHOOK_KEY", "R0")
    server.events.clear()
    params.call_hook(event, CONTEXT, **details)
    bodies = [one for body in server.events for one in (body if isinstance(body, list) else [body])]
    schema = {"type": "object", "additionalProperties": False, **SCHEMAS[name]}
    for body in bodies:
        Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(body)
    return bodies


def test_slack_gets_the_sentences_and_a_link(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (message,) = sent(server, "slack", monkeypatch, "findings", **ANSWER)
    assert message["text"].startswith("*alpha*\nLOST: at least 170 records of a&lt;b.\nxxx")
    assert message["text"].endswith("\nhttps://web.example.com/alpha/report.html")
    (message,) = sent(server, "slack", monkeypatch, "failure", text="last words")
    assert message["text"] == "*d cluster.run beta*\nlast words"
    assert sent(server, "slack", monkeypatch, "clear", **ANSWER) == []


def test_pagerduty_resolves_what_was_acknowledged(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (opened,) = sent(server, "pagerduty", monkeypatch, "findings", **ANSWER)
    assert (opened["payload"]["severity"], opened["links"][0]["href"]) == ("critical", ANSWER["report"])
    (resolved,) = sent(server, "pagerduty", monkeypatch, "clear", **ANSWER)
    assert (resolved["event_action"], resolved["dedup_key"]) == ("resolve", opened["dedup_key"])
    unknown = ANSWER | {"loss": {"acks_all_min": 0, "acks_all_max": None}, "report": "/lakes/alpha/report.html"}
    (opened,) = sent(server, "pagerduty", monkeypatch, "findings", **unknown)
    assert (opened["payload"]["severity"], opened["links"]) == ("warning", [])
    (failed,) = sent(server, "pagerduty", monkeypatch, "failure", text="last words")
    assert (failed["payload"]["severity"], failed["payload"]["source"]) == ("error", "d")
    assert failed["dedup_key"] not in (opened["dedup_key"], "")
    # The next night beta has another index: its failure is the same incident, that of index 2 is not.
    for index, label, is_same in ((3, "beta", True), (2, "gamma", False), (2, None, False)):
        context = {**CONTEXT, "ti": SimpleNamespace(**PLACE | {"map_index": index, "rendered_map_index": label})}
        server.events.clear()
        params.call_hook("failure", context, text="last words")
        assert (server.events[0]["dedup_key"] == failed["dedup_key"]) == is_same


def test_alertmanager_ends_what_it_began(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (begun,) = sent(server, "alertmanager", monkeypatch, "findings", **ANSWER)
    assert begun["labels"] == {"alertname": "KraftForensicsFindings", "subject": "alpha", "severity": "critical"}
    ended = sent(server, "alertmanager", monkeypatch, "clear", **ANSWER)
    assert begun["labels"] in [alert["labels"] for alert in ended]
    assert all(alert["endsAt"] < begun["endsAt"] for alert in ended)
    (failed,) = sent(server, "alertmanager", monkeypatch, "failure", text="last words")
    assert failed["labels"]["alertname"] == "KraftForensicsFailure"


@pytest.mark.parametrize("name", ["slack", "pagerduty", "alertmanager"])
def test_an_alarm_of_a_watch_is_sent_as_it_is(server: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    alarm = {"cluster": "alpha", "lake": "watch", "kind": "unclean_election", "text": "broker 2 was elected"}
    (message,) = sent(server, name, monkeypatch, "alarm", **alarm)
    assert "broker 2 was elected" in str(message)
    assert "critical" in str(message) or name == "slack"
    (other,) = sent(server, name, monkeypatch, "alarm", **alarm | {"kind": "one_left"})
    assert "warning" in str(other) or name == "slack"


@pytest.mark.parametrize(
    "url",
    [
        *("http://user:hunter2@127.0.0.1:9/hook", "http://user:hunter2@host.invalid/hook"),
        *("http://127.0.0.1:hunter2/hook", "http://127.0.0.1:9/hunter2", "http://127.0.0.1:9/hunter2\n"),
        *("http://127.0.0.1:9/hunter2 x", "http://[hunter2/hook", "hunter2", "unknown://user:hunter2@host"),
    ],
)
def test_no_error_of_the_webhook_shows_its_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow logs the error and gives it to the callback of a failure."""
    monkeypatch.setenv("KRAFT_FORENSICS_DAG_WEBHOOK_URL", url)
    with pytest.raises((OSError, ValueError)) as raised:
        webhook.post({"event": "findings"})
    lines = traceback.format_exception(raised.value)
    assert [line for line in lines if "hunter2" in line and "File" not in line] == []
