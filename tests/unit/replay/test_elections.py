"""What kind of election a leader change was, read off the states before and after it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from replay.brokers import BrokerTimeline
from replay.elections import build_elections, states_of
from tests.support.scenario import running, sessions, states, together


def elections(*lines: str, brokers: BrokerTimeline | None = None) -> list[dict[str, Any]]:
    return of_table(states(*lines), brokers)


def of_table(history: pa.Table, brokers: BrokerTimeline | None = None) -> list[dict[str, Any]]:
    return build_elections(history, states_of(history), brokers or running(1, 2, 3)).to_pylist()


def last_cause(*lines: str) -> str:
    return str(elections(*lines)[-1]["cause"])


CAUSES = {
    "the leader went": ("leaderless", ["1 isr=1", "2 isr= elr=1 leader=-1"]),
    "next in the ISR": ("isr", ["1 isr=1,2,3", "2 isr=2,3 leader=2"]),
    "the only ISR member came back": ("isr", ["1 isr=1", "2 leader=-1", "3 leader=1"]),
    "the same leader, newly appointed": ("isr", ["1 isr=1,2,3", "2 isr=1,2 leader=1 epoch=1"]),
    "back to the first replica": ("preferred", ["1 isr=2,3 leader=2", "2 isr=1,2,3", "3 leader=1"]),
    "the first replica, but the leader before it failed": ("isr", ["1 isr=1,2 leader=2", "2 isr=1 leader=1"]),
    "an ELR member": ("elr", ["1 isr=1 elr=2,3", "2 isr= elr=1,2,3 leader=-1", "3 isr=2 elr=1,3 leader=2"]),
    "the last known leader": (
        "last_known_leader",
        ["1 isr=1", "2 isr= elr= lke=1 leader=-1", "3 isr=1 lke= leader=1 recovering"],
    ),
    "a stranger": ("unclean", ["1 isr=1", "2 isr= elr=1 lke=1 leader=-1", "3 isr=2 elr= lke= leader=2 recovering"]),
    "a stranger that is called recovered": ("unclean", ["1 isr=1,2", "2 isr=3 leader=3"]),
    "the old leader left the replicas": (
        "reassignment",
        ["1 replicas=1,2,3,4 isr=1,2,3,4 removing=1 adding=4", "2 replicas=2,3,4 isr=2,3,4 removing= adding= leader=2"],
    ),
    "a cancelled reassignment left nobody in sync": (
        "unclean",
        ["1 replicas=1,2,3 isr=3 adding=3 leader=3", "2 replicas=1,2 isr=1 adding= leader=1"],
    ),
    "an ELR member although another one was last known": (
        "elr",
        ["1 isr= elr=2 lke=1 leader=-1", "2 isr=2 elr= lke= leader=2"],
    ),
}


@pytest.mark.parametrize("name", CAUSES)
def test_cause(name: str) -> None:
    cause, lines = CAUSES[name]
    assert last_cause(*lines) == cause


def test_a_hidden_unclean_election_shows_both_what_it_is_and_what_it_is_called() -> None:
    (row,) = elections("1 isr=1,2", "2 isr=3 leader=3")
    assert (row["cause"], row["leader_recovery_state"]) == ("unclean", "RECOVERED")


def test_the_previous_leader_is_seen_through_leaderless_states() -> None:
    rows = elections("1 isr=1,2", "2 isr=2 leader=-1", "3 leader=-1 epoch=2", "4 leader=2")
    assert [(r["previous_leader"], r["leader"]) for r in rows] == [(1, -1), (1, -1), (1, 2)]


def test_creation_snapshots_and_removals_are_no_elections() -> None:
    assert elections("1 isr=1,2", "2 isr=1", "3 checkpoint leader=2 isr=2 epoch=7", "4 removed") == []


def test_nothing_is_seen_through_a_snapshot_or_another_partition() -> None:
    rows = elections("1 isr=1,2", "5 checkpoint isr=2 leader=-1 epoch=4", "6 leader=2")
    assert [(r["offset"], r["previous_leader"]) for r in rows] == [(6, -1)]
    two = together(states("1 leader=2"), states("2 leader=-1 epoch=3 isr=", "4 leader=1 isr=1", partition=1))
    assert [(r["partition"], r["previous_leader"]) for r in of_table(two)] == [(1, -1)]


def test_candidates_are_the_replicas_on_active_brokers() -> None:
    brokers = sessions(
        *(f"0 {what} {b} i{b}" for b in (1, 2, 3) for what in ("register", "unfence")), "2 fence 1", "3 shutdown 3"
    )
    rows = elections("1 isr=1,2", "2 isr=2 leader=-1", "4 leader=2", brokers=brokers)
    assert [r["candidates"] for r in rows] == [[2, 3], [2]]


def test_lists_are_those_before_the_change() -> None:
    (row,) = elections("1 isr=1,2 elr=3 lke=9", "2 isr=2 elr= lke= leader=2")
    assert (row["isr_before"], row["elr_before"], row["last_known_elr_before"]) == ([1, 2], [3], [9])
    assert (row["leader_epoch"], row["leader"], row["offset"], row["position"]) == (1, 2, 2, 2)


def test_more_than_64_replicas() -> None:
    many = ",".join(str(b) for b in range(1, 71))
    start = f"1 replicas={many} isr={many}"
    assert last_cause(start, "2 isr=70 leader=70") == "isr"
    assert last_cause(start, "2 isr=1", "3 isr=70 leader=70") == "unclean"


def test_no_history_no_elections() -> None:
    assert of_table(states()) == []
