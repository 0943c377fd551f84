"""Page one: a cause only as far as a loss is proven, windows of one cause together, what happened in words."""

from __future__ import annotations

from typing import Any

import pytest

from replay.incident.page_one import page_one
from replay.plan.inputs import PlanInput
from tests.support.report_rows import START_MS, TOPIC_ID, answered, finding

ELECTED_MS = START_MS + 20_000


def window(finding_id: str, partition: int = 0, **values: Any) -> dict[str, Any]:
    """A window in which broker 1 was elected uncleanly after broker 3."""
    given = finding(finding_id, partition=partition, loss_max=None)
    election = {"cause": "unclean_by_config", "previous_leader": 3, "isr_before": [], "elr_before": [3], "cut": False}
    return given | election | {"elected_ms": ELECTED_MS} | values


def session(broker: int, second: int, **values: Any) -> dict[str, Any]:
    up = {"incarnation_id": "i", "fenced": False, "in_controlled_shutdown": False, "broker_epoch": 1}
    at = {"broker_id": broker, "offset": second, "timestamp_ms": START_MS + second * 1000, "restart_class": "first"}
    return up | at | values


def words(*windows: dict[str, Any], sessions: Any = (), leaderless: Any = (), **given: Any) -> dict[str, Any]:
    return page_one(answered([_finding(row) for row in windows]), windows, sessions, leaderless, PlanInput(**given))


def _finding(row: dict[str, Any]) -> dict[str, Any]:
    extra = ("cause", "previous_leader", "isr_before", "elr_before", "cut", "elected_ms")
    return {name: value for name, value in row.items() if name not in extra}


def test_windows_of_one_cause_are_one_incident_and_proven_ones_come_first() -> None:
    by_hand = {"cause": "unclean_by_administrator", "recorded_leader": 2, "elected_ms": ELECTED_MS + 90_000}
    found = words(
        window("early", 7, verdict="possible", loss_min=0, recorded_leader=4, elected_ms=ELECTED_MS - 5000),
        window("a", 0),
        window("b", 2, elected_ms=ELECTED_MS + 1000),
        window("hand", 1, loss_min=30, loss_max=30, **by_hand),
    )
    assert found["cause"] == (
        "unclean.leader.election.enable let broker 1 lead ledger-0 and ledger-2; an administrator forced broker 2 to "
        "lead ledger-1."
    )
    assert [(each["text"], each["finding_ids"]) for each in found["incidents"]] == [
        (
            "unclean.leader.election.enable let broker 1 lead ledger-0 and ledger-2: at least 140 records lost.",
            ["a", "b"],
        ),
        ("An administrator forced broker 2 to lead ledger-1: 30 records lost.", ["hand"]),
        ("unclean.leader.election.enable let broker 4 lead ledger-7: a loss is possible.", ["early"]),
    ]


def test_elections_far_apart_are_two_incidents() -> None:
    assert words(window("a"), window("b", 1, elected_ms=ELECTED_MS + 61_000))["incident_count"] == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cause": "elr"}, "Broker 1, in the ELR, came to lead ledger-0 with a log that lacked records."),
        ({"cause": None}, "Broker 1 came to lead ledger-0 with a log that lacked records."),
        (
            {"cut": True},
            "unclean.leader.election.enable let broker 1 lead ledger-0, whose log lost its end around then.",
        ),
    ],
)
def test_a_cause_says_what_the_evidence_shows(change: dict[str, Any], text: str) -> None:
    assert words(window("a", **change))["cause"] == text


def test_what_is_not_proven_has_no_cause_and_predicts_nothing() -> None:
    found = words(window("a", verdict="possible", loss_min=0))
    assert found["cause"].startswith("No loss is proven. One is possible where unclean.leader.election.enable let ")
    assert found["prevention"] == []
    assert words()["cause"] == ""


def test_predictions_name_whom_the_partitions_would_have_waited_for() -> None:
    assert words(window("a"), window("b", 1, cause="elr"))["prevention"] == [
        "with unclean.leader.election.enable=false, ledger-0 would have waited for broker 3"
    ]


def test_what_happened_is_a_line_for_each_second() -> None:
    sessions = [
        session(3, 0),
        session(5, 0),
        session(3, 10, fenced=True),
        session(5, 12, fenced=True),  # not a replica of the window
        session(3, 40, broker_epoch=9, restart_class="unclean"),
    ]
    gone = {"topic_id": TOPIC_ID, "topic": "ledger", "partition": 0, "offset": 110, "timestamp_ms": START_MS + 10_000}
    found = words(window("a"), sessions=sessions, leaderless=[gone | {"offset": 105}, gone])
    assert [(row["at_ms"] - START_MS, row["text"], row["proven"]) for row in found["timeline"]] == [
        (10_000, "broker 3 is gone (not a clean stop); no leader: ledger-0", True),
        (20_000, "broker 1 elected uncleanly for ledger-0: at least 70 records lost", True),
        (30_000, "enough replicas in sync again: ledger-0", True),
    ]


def test_how_the_cluster_stood_when_the_log_ended() -> None:
    up, down = session(1, 0), session(2, 0, fenced=True)
    assert words(brokers={1: up, 2: down})["now"] == ["Broker 2 is down."]
    assert words(brokers={1: down, 2: down})["now"] == ["All brokers are down."]
    assert words(brokers={1: up})["now"] == [
        "Every broker is up; every partition has a leader, and with several replicas more than one safe copy."
    ]
    assert words(brokers={1: up}, alone_count={1: 3})["now"] == ["3 partitions have one safe copy left."]
