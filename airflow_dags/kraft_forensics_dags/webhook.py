"""Hooks that post each event to a URL: as it is, or as Slack, PagerDuty or Alertmanager want it.

`KRAFT_FORENSICS_DAG_HOOK=kraft_forensics_dags.webhook:slack`

Sources: Slack's incoming webhooks; PagerDuty's Events API v2; Alertmanager's api/v2/openapi.yaml (0.28), POST /alerts.
"""

import json
import os
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from html import escape
from http.client import InvalidURL
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

URL_VARIABLE = "KRAFT_FORENSICS_DAG_WEBHOOK_URL"
KEY_VARIABLE = "KRAFT_FORENSICS_DAG_WEBHOOK_KEY"
SECONDS = 10
# PagerDuty cuts longer summaries, and refuses longer keys.
_MOST_SUMMARY, _MOST_KEY = 1024, 255
# An alert that is not sent again ends by itself, some hours after the next night would have sent it.
_LASTS = timedelta(hours=30)
_OF_FINDINGS = ("critical", "warning")  # severities: a loss is proven; anything else

Event = dict[str, Any]


def post(event: Event) -> None:
    """POST the event, unless it is `clear`. A user and password in the URL are sent as basic authentication.

    Errors, of all hooks here: KeyError without the variable; ValueError for no URL; OSError, also for an answer of 400
    and above. None of them shows the URL or the key: they are secrets, and Airflow logs and stores errors.
    """
    if event["event"] != "clear":
        _send(event)


def slack(event: Event) -> None:
    """POST a message to an incoming webhook, unless the event is `clear`."""
    if event["event"] != "clear":
        link = [event["report"]] if _has_page(event) else []
        lines = [escape(line, quote=False) for line in (f"*{_subject(event)}*", *_lines(event), *link)]
        _send({"text": "\n".join(lines)})


def pagerduty(event: Event) -> None:
    """POST to PagerDuty's Events API: one incident for each cluster, resolved by `clear`; one for each failing task.
    KRAFT_FORENSICS_DAG_WEBHOOK_KEY: the integration's routing key."""
    about = {"routing_key": os.environ[KEY_VARIABLE], "dedup_key": f"kraft-forensics {_subject(event)}"[:_MOST_KEY]}
    if event["event"] == "clear":
        _send({**about, "event_action": "resolve"})
        return
    payload = {
        "summary": f"{_subject(event)}: {_lines(event)[0]}"[:_MOST_SUMMARY],
        "source": event.get("lake") or event["dag_id"],
        "severity": _severity(event),
        "custom_details": event,
    }
    links = [{"href": event["report"], "text": "report"}] if _has_page(event) else []
    _send({**about, "event_action": "trigger", "payload": payload, "links": links})


def alertmanager(event: Event) -> None:
    """POST to Alertmanager (URL: .../api/v2/alerts): the labels alertname, subject and severity; `clear` ends them."""
    now, is_clear = datetime.now(UTC), event["event"] == "clear"
    name = "KraftForensics" + {"failure": "Failure", "alarm": "Alarm"}.get(event["event"], "Findings")
    alert: Event = {"endsAt": (now if is_clear else now + _LASTS).isoformat()}
    if not is_clear:
        alert["annotations"] = {"summary": _lines(event)[0], "description": "\n".join(_lines(event))}
    if _has_page(event):
        alert["generatorURL"] = event["report"]
    severities = _OF_FINDINGS if is_clear else (_severity(event),)  # with another label it is another alert
    _send([{"labels": {"alertname": name, "subject": _subject(event), "severity": s}, **alert} for s in severities])


def _subject(event: Event) -> str:
    """The cluster, or the task that failed, with its cluster: a map index is of another one in the next run."""
    if "cluster" in event:
        return str(event["cluster"])
    index = event.get("map_index")
    label = event.get("rendered_map_index") or (index if isinstance(index, int) and index >= 0 else "")
    return f"{event['dag_id']} {event['task_id']} {label}".rstrip()


def _lines(event: Event) -> list[str]:
    text = event.get("text") or event["event"]
    return [text] if isinstance(text, str) else list(text)


def _severity(event: Event) -> str:
    if event["event"] == "failure":
        return "error"
    if event["event"] == "alarm":
        return _OF_FINDINGS[0 if event["kind"] == "unclean_election" else 1]
    return _OF_FINDINGS[0 if event["loss"]["acks_all_min"] else 1]


def _has_page(event: Event) -> bool:
    return urlsplit(str(event.get("report", ""))).scheme in ("http", "https")


def _send(body: object) -> None:
    url, headers = os.environ[URL_VARIABLE], {"Content-Type": "application/json"}
    try:
        parts = urlsplit(url)
        user, at, place = parts.netloc.rpartition("@")
        if at:
            headers["Authorization"] = f"Basic {b64encode(unquote(user).encode()).decode()}"
        bare = parts._replace(netloc=place).geturl()
        with urlopen(Request(bare, json.dumps(body).encode(), headers), timeout=SECONDS):
            pass
    except (ValueError, InvalidURL):
        raise ValueError(f"{URL_VARIABLE} is not a valid URL") from None
