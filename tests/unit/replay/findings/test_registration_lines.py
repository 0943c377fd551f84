"""Lines about brokers' registrations compared with the metadata log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from replay.cluster.broker_sessions import broker_history, registrations, session_evidence
from replay.findings.registration_lines import LINES, REGISTRATION_KINDS, SESSIONS, registration_findings
from tests.support.paths import capture
from tests.support.pure import decode, replayed

Row = dict[str, Any]
AT_MS = 1_700_000_000_000


def line(node: int, kind: str, at_ms: int = AT_MS, **values: Any) -> Row:
    row: Row = dict.fromkeys(LINES) | {"node_id": node, "kind": kind, "logged_at_ms": at_ms, "position": at_ms}
    return {**row, "capture": "c", "path": f"logs/{node}.log", "sha256": f"{node}"} | values


def handled(count: int, **values: Any) -> Row:
    return line(3000, "unclean_shutdown_handled", count=count, **{"position": 1} | values)


def registered(count: int, **values: Any) -> Row:
    known = {"broker_id": 1, "incarnation_id": "i", "broker_epoch": 100, "position": 2}
    return line(3000, "incarnation_registered", count=count, **known | values)


def starting(**values: Any) -> Row:
    return line(1, "broker_starting", AT_MS - 300, broker_id=1, incarnation_id="i", **values)


def unread(**values: Any) -> Row:
    return line(1, "broker_epoch_unread", **{"at_ms": AT_MS - 320, "directory": "/d"} | values)


def session(restart_class: str = "unknown", proof: Sequence[int] = (), **values: Any) -> Row:
    """Broker 1 registers at offset 102, after two changes, with the broker epoch 100."""
    known = {"offset": 102, "timestamp_ms": AT_MS + 3, "broker_id": 1, "broker_epoch": 100, "incarnation_id": "i"}
    place = {"capture": "c", "path": "log", "sha256": "s", "position": 9, "origin": "log"}
    row: Row = dict.fromkeys(SESSIONS) | known | place
    return row | {"restart_class": restart_class, "restart_evidence": list(proof)} | values


def texts(lines: Sequence[Row], of: Row) -> list[str]:
    return [row["explanation"] for row in registration_findings(lines, [of], "c")]


def test_another_number_of_changes_than_the_controller_logged() -> None:
    (finding,) = registration_findings([handled(3), registered(3)], [session()], "c")
    assert (finding["kind"], finding["verdict"], finding["start_offset"]) == ("log_line_mismatch", "proven", 102)
    assert [(row["role"], row["source"]) for row in finding["evidence"]] == [
        ("logged", "unclean_shutdown_handled"),
        ("logged", "incarnation_registered"),
        ("replayed", "broker_history"),
    ]
    assert finding["explanation"] == (
        "Controller 3000 logged that it wrote 3 records before the registration of broker 1 with broker epoch 100; the "
        "metadata log has 2."
    )
    # An archive has it again; the wall clock's zone is unknown.
    kolkata = {"logged_at_ms": AT_MS + 19_800_000}
    again = [{**row, "path": "archive", **kolkata} for row in (handled(3), registered(3))]
    assert len(registration_findings([handled(3), registered(3), *again], [session()], "c")) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"broker_epoch": 98},
        {"incarnation_id": "j"},
        # It lost the leadership before it was committed: another controller wrote the record later.
        {"at_ms": AT_MS - 1_000},
        {"count": 2},
    ],
)
def test_a_registration_that_was_never_committed_or_is_recorded_as_logged(other: Row) -> None:
    values = {"count": 3} | other
    assert texts([handled(3), registered(**values)], session()) == []


def test_an_unclean_shutdown_where_the_log_shows_a_clean_one() -> None:
    clean = session("clean", [90])
    assert texts([handled(1), handled(1), registered(2)], clean) == [
        "Controller 3000 logged an unclean shutdown of broker 1 as it registered with broker epoch 100; in the "
        "metadata log it stays in an ELR (offset 90), as after a clean one."
    ]
    assert texts([handled(2), registered(2)], session("unclean", [100, 101])) == []
    assert texts([handled(2), registered(2)], session("clean")) == []  # a captured file says so, not the log
    # Lines are missing: it is of another broker's registration.
    assert texts([handled(1), registered(2)], clean) == []


def test_a_broker_without_an_epoch_where_the_log_shows_a_clean_restart() -> None:
    assert texts([unread(), starting()], session("clean", [90])) == [
        "Broker 1 logged that it read no broker epoch from its clean shutdown files when incarnation i started; in "
        "the metadata log it stays in an ELR (offset 90), as after a clean one."
    ]
    for known in (session("unclean", [101]), session("clean"), session()):
        assert texts([unread(), starting()], known) == []
    # Of an earlier process, whose other lines are missing.
    assert texts([unread(at_ms=AT_MS - 8_000), starting()], session("clean", [90])) == []


def test_a_directory_with_a_clean_shutdown_file_beside_one_without() -> None:
    clean = line(1, "clean_start", AT_MS - 310, directory="/e")
    assert texts([unread(), clean, starting()], session("unclean", [101])) == []


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
