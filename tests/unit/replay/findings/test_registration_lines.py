"""Lines about brokers' registrations compared with the metadata log."""

from collections.abc import Iterator
from typing import Any

import pytest

from replay.cluster.broker_sessions import broker_history, registrations, session_evidence
from replay.findings.registration_lines import LINES, REGISTRATION_KINDS, SESSIONS, registration_findings
from tests.support.paths import capture
from tests.support.pure import decode, replayed
from tests.support.window_table import stories

Row = dict[str, Any]
AT_MS = 1_700_000_000_000


def line(node: int, kind: str, at_ms: int = AT_MS, **values: Any) -> Row:
    row: Row = dict.fromkeys(LINES) | {"node_id": node, "kind": kind, "logged_at_ms": at_ms, "position": at_ms}
    return {**row, "capture": "c", "path": f"logs/{node}.log", "sha256": f"{node}"} | values


# The lines of the text file beside this module: node, kind, ms from AT_MS on, and what they say.
WORDS: dict[str, tuple[int, str, int, Row]] = {
    "handled": (3000, "unclean_shutdown_handled", 0, {"position": 1}),
    "registered": (
        3000,
        "incarnation_registered",
        0,
        {"broker_id": 1, "incarnation_id": "i", "broker_epoch": 100, "position": 2},
    ),
    "starting": (1, "broker_starting", -300, {"broker_id": 1, "incarnation_id": "i"}),
    "unread": (1, "broker_epoch_unread", -320, {"directory": "/d"}),
    "clean": (1, "clean_start", -310, {"directory": "/e"}),
}


def line_of(item: str) -> Row:
    word, *more = item.split()
    node, kind, after_ms, known = WORDS[word]
    values = {name: int(v) if v.lstrip("-").isdigit() else v for name, v in (w.split("=") for w in more if "=" in w)}
    count = {"count": int(more[0])} if more and more[0].isdigit() else {}
    found = line(node, kind, AT_MS + values.pop("at", after_ms), **known | count | values)
    return found | ({"path": "archive", "logged_at_ms": AT_MS + 19_800_000} if "again" in more else {})


def session(restart_class: str = "unknown", proof: str = "") -> Row:
    """Broker 1 registers at offset 102, after two changes, with the broker epoch 100."""
    known = {"offset": 102, "timestamp_ms": AT_MS + 3, "broker_id": 1, "broker_epoch": 100, "incarnation_id": "i"}
    place = {"capture": "c", "path": "log", "sha256": "s", "position": 9, "origin": "log"}
    proven = [int(offset) for offset in proof.split(",") if offset]
    return dict.fromkeys(SESSIONS) | known | place | {"restart_class": restart_class, "restart_evidence": proven}


def printed(items: list[str]) -> Iterator[str]:
    recorded = next((item.split()[1:] for item in items if item.startswith("recorded")), [])
    lines = [line_of(item) for item in items if not item.startswith("recorded")]
    found = registration_findings(lines, [session(*recorded)], "c")
    yield "->" if found else "-> nothing"
    for row in found:
        yield f"{row['kind']} {row['verdict']} at {row['start_offset']}: {row['explanation']}"
        yield from (f"    {each['role']} {each['source']} {each['path']}" for each in row["evidence"])


@pytest.mark.parametrize(("items", "shown", "expected"), stories(__file__))
def test_the_findings_of(items: list[str], shown: set[str], expected: list[str]) -> None:
    assert list(printed(items)) == expected


@pytest.mark.parametrize(
    "name", ["logs-3.9.1", "logs-4.0.2", "logs-4.1.1", "logs-unclean", "logs-churn", "logs-session"]
)
def test_a_log_that_is_as_it_was_written(name: str) -> None:
    decoded = decode(capture(name))
    history, state = replayed(name)
    evidence = session_evidence(history.table, registrations(state.records))
    sessions = broker_history(state.records, evidence, []).to_pylist()
    lines = [row for row in decoded.events.to_pylist() if row["kind"] in REGISTRATION_KINDS]
    assert registration_findings(lines, sessions, "c") == []
    # Each line of a registration is compared: with another count, each is a finding.
    more = [{**row, "count": row["count"] + 1} if row["kind"] == "incarnation_registered" else row for row in lines]
    known = {row["incarnation_id"] for row in more if row["kind"] == "incarnation_registered"}
    assert len(registration_findings(more, sessions, "c")) == len(known) > 0
