"""What kind of election a leader change was, read off the states before and after it."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from replay.arrow import schemas
from replay.cluster.brokers import BROKER_TYPES, BrokerTimeline
from replay.partitions.elections import LOST, RISKY, build_elections, states_of
from replay.partitions.reducer import MIGRATING
from tests.support.pure import replayed
from tests.support.scenario import facts_with, running, sessions, states, together, up


def elections(*lines: str, brokers: BrokerTimeline | None = None) -> list[dict[str, Any]]:
    return of_table(states(*lines), brokers)


def of_table(history: pa.Table, brokers: BrokerTimeline | None = None) -> list[dict[str, Any]]:
    return build_elections(history, states_of(history), facts_with(brokers or running(1, 2, 3))).to_pylist()


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
    "a stranger": (
        "unclean_by_administrator",
        ["1 isr=1", "2 isr= elr=1 lke=1 leader=-1", "3 isr=2 elr= lke= leader=2 recovering"],
    ),
    "a stranger that is called recovered": ("unclean", ["1 isr=1,2", "2 isr=3 leader=3"]),
    "the old leader left the replicas": (
        "reassignment",
        ["1 replicas=1,2,3,4 isr=1,2,3,4 removing=1 adding=4", "2 replicas=2,3,4 isr=2,3,4 removing= adding= leader=2"],
    ),
    "a cancelled reassignment left nobody in sync": (
        "cancelled_reassignment",
        ["1 replicas=1,2,3 isr=3 adding=3 leader=3", "2 replicas=1,2 isr=1 adding= leader=1"],
    ),
    "an ELR member although another one was last known": (
        "elr",
        ["1 isr= elr=2 lke=1 leader=-1", "2 isr=2 elr= lke= leader=2"],
    ),
    "an ELR member, but marked: the ISR was not empty, and nobody in it would do": (
        "unclean_by_config",
        ["1 isr=1 elr=2 leader=-1 unclean=true@topic", "2 isr=2 elr= leader=2 recovering"],
    ),
    "the first replica of a partition that nobody led": ("isr", ["1 isr=1,2 leader=2", "2 leader=-1", "3 leader=1"]),
    "the only replica was moved": (
        "reassignment",
        ["1 replicas=4,1 isr=1 removing=1 adding=4", "2 replicas=4 isr=4 removing= adding= leader=4"],
    ),
    "the only replica was moved, to one that has to recover": (
        "unclean",
        ["1 replicas=4,1 isr=1 removing=1 adding=4", "2 replicas=4 isr=4 removing= adding= leader=4 recovering"],
    ),
    "a reassignment that only removes was cancelled": (
        "cancelled_reassignment",
        ["1 replicas=1,2,3 isr=2,3 removing=2 leader=2", "2 isr=3 removing= leader=3"],
    ),
    "a cancelled reassignment whose first replica was down, too": (
        "unclean_by_config",
        [
            "1 replicas=1,2,3 isr=3 adding=3 leader=3 unclean=true@topic",
            "2 replicas=1,2 isr=2 adding= leader=2 recovering",
        ],
    ),
    "another aim for a reassignment": (
        "reassignment",
        ["1 replicas=1,2,3 isr=1,2 removing=1 adding=3 leader=1", "2 replicas=2,4 isr=2 removing= adding=4 leader=2"],
    ),
    "a stranger, by a topic that allows it": (
        "unclean_by_config",
        ["1 isr=1 unclean=true@topic", "2 isr=2 leader=2 recovering"],
    ),
    "a stranger, and what was in force is a guess": (
        "unclean",
        ["1 isr=1 unclean=false@assumed_default", "2 leader=-1", "3 isr=2 leader=2 recovering"],
    ),
    "a reassignment was cancelled, its leader among the new": (
        "cancelled_reassignment",
        [
            "1 replicas=1,2,4 isr=1,2,4 removing=2 adding=4 leader=4",
            "2 replicas=1,2 isr=1,2 removing= adding= leader=1",
        ],
    ),
    "a reassignment that was completed is none that was cancelled": (
        "reassignment",
        [
            "1 replicas=1,2,4 isr=1,2,4 removing=1 adding=4 leader=1",
            "2 replicas=2,4 isr=2,4 removing= adding= leader=2",
        ],
    ),
}


@pytest.mark.parametrize("name", CAUSES)
def test_cause(name: str) -> None:
    cause, lines = CAUSES[name]
    assert last_cause(*lines) == cause


def test_a_hidden_unclean_election_shows_both_what_it_is_and_what_it_is_called() -> None:
    (row,) = elections("1 isr=1,2", "2 isr=3 leader=3")
    assert (row["cause"], row["leader_recovery_state"], row["hidden_unclean"]) == ("unclean", "RECOVERED", True)
    (marked,) = elections("1 isr=1,2", "2 isr=3 leader=3 recovering")
    assert (marked["cause"], marked["hidden_unclean"]) == ("unclean", False)
    (cancelled,) = elections("1 replicas=1,2,3 isr=3 adding=3 leader=3", "2 replicas=1,2 isr=1 adding= leader=1")
    assert (cancelled["cause"], cancelled["hidden_unclean"]) == ("cancelled_reassignment", True)


@pytest.mark.parametrize(
    ("why", "lines"),
    [
        (
            "it was eligible",
            ["1 replicas=1,2,3 isr=3 elr=1 adding=3 leader=3", "2 replicas=1,2 isr=1 elr= adding= leader=1"],
        ),
        ("it led last", ["1 isr= lke=1 leader=-1", "2 isr=1 lke= leader=1"]),
        (
            "its leader vouched for it",
            ["1 replicas=4,1 isr=1 removing=1 adding=4", "2 replicas=4 isr=4 removing= adding= leader=4"],
        ),
        ("nobody won", ["1 isr=1", "2 leader=-1"]),
    ],
)
def test_what_is_no_hidden_unclean_election(why: str, lines: list[str]) -> None:
    assert not elections(*lines)[-1]["hidden_unclean"], why


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
    brokers = sessions(*up(1, 2, 3, at=0), "2 fence 1", "3 shutdown 3")
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


START = up(1, 2, 3, at=0)
TAKEN_OVER = ["1 isr=1,2", "11 isr=2 leader=2 batch=11"]
SHRUNK = ["1 isr=1", "11 isr= leader=-1 batch=11"]
ACTORS = {
    "fenced": ("fence", 12, "isr", TAKEN_OVER, ["12 fence 1 batch=11"]),
    "fenced in another batch": (None, None, "isr", TAKEN_OVER, ["12 fence 1"]),
    "another broker was fenced": (None, None, "isr", TAKEN_OVER, ["12 fence 3 batch=11"]),
    "shut down": ("controlled_shutdown", 11, "isr", ["1 isr=1,2", "12 isr=2 leader=2 batch=11"], ["11 shutdown 1"]),
    "came back": (
        "unfence",
        21,
        "isr",
        ["1 isr=1", "11 leader=-1", "22 leader=1 batch=21"],
        ["15 fence 1", "21 unfence 1"],
    ),
    "restarted": (
        "registration",
        12,
        "leaderless",
        ["1 isr=1", "11 isr= leader=-1 batch=11"],
        ["12 register 1 z batch=11"],
    ),
    "unregistered": ("unregister", 12, "isr", TAKEN_OVER, ["12 unregister 1 batch=11"]),
    "lost its directory": ("directory_offline", 12, "directory_failure", TAKEN_OVER, ["12 offline 1 other batch=11"]),
    "lost another directory": ("directory_offline", 12, "isr", TAKEN_OVER, ["12 offline 1 d1 batch=11"]),
    "asked to be first": ("preferred_election", 11, "preferred", ["1 isr=1,2 leader=2", "11 leader=1"], []),
    "an administrator's unclean election": (
        "elect_leaders",
        12,
        "unclean_by_administrator",
        ["1 isr=1", "11 leader=-1", "12 isr=2 leader=2 recovering"],
        [],
    ),
    "a reassignment was completed": (
        "alter_partition",
        11,
        "reassignment",
        ["1 replicas=1,2,4 isr=1,2 removing=1 adding=4", "11 replicas=2,4 isr=2,4 removing= adding= leader=2"],
        [],
    ),
    "a reassignment was completed, and nobody joined the ISR": (
        None,
        None,
        "reassignment",
        ["1 replicas=1,2,4 isr=1,2,4 removing=1 adding=4", "11 replicas=2,4 isr=2,4 removing= adding= leader=2"],
        [],
    ),
    "a reassignment that was complete at once": (
        "reassignment",
        11,
        "reassignment",
        ["1 isr=1,2,3", "11 replicas=2,3 isr=2,3 leader=2"],
        [],
    ),
    "a reassignment was begun, and its first replica left": (
        "reassignment",
        11,
        "reassignment",
        ["1 isr=1,2,3 adding=3", "11 replicas=2,3,4 isr=2,3 removing=3 adding=4 leader=2"],
        [],
    ),
    "asked to be first, right before the old leader was fenced": (
        "preferred_election",
        11,
        "preferred",
        ["1 isr=1,2 leader=2", "11 leader=1 batch=11", "12 isr=1 batch=11"],
        ["13 fence 2 batch=11"],
    ),
    "a follower left the ISR in another way, and then was fenced": (
        None,
        None,
        "leaderless",
        ["1 isr=1,2", "5 isr=1", "11 isr= leader=-1 batch=11"],
        ["12 fence 2 batch=11"],
    ),
    "fenced without ELR": ("fence", 12, "leaderless", ["1 isr=1", "11 leader=-1 batch=11"], ["12 fence 1 batch=11"]),
    "an administrator's unclean election, right behind an unfencing": (
        "elect_leaders",
        22,
        "unclean_by_administrator",
        ["1 isr=1", "11 leader=-1", "22 isr=2 leader=2 recovering batch=21"],
        ["15 fence 3", "21 unfence 3 batch=21"],
    ),
    "a broker's record stands between": (
        None,
        None,
        "isr",
        ["1 isr=1", "11 leader=-1", "23 leader=1 batch=21"],
        ["15 fence 1", "21 unfence 1 batch=21", "22 fence 3 batch=21"],
    ),
    "taken off the ELR by its own restart": (
        "registration",
        23,
        "unclean_by_config",
        ["1 isr=1 unclean=true@topic", "11 isr= elr=1 leader=-1", "22 isr=2 elr= leader=2 recovering batch=22"],
        ["15 fence 1", "23 register 1 z batch=22"],
    ),
    "lost the directory nobody knew yet": (
        "directory_offline",
        11,
        "directory_failure",
        [
            f"1 isr=1,2 dirs={LOST},d2,d3",
            f"11 dirs={LOST},d2,d3 batch=11",
            f"12 isr=2 leader=2 batch=11 dirs={LOST},d2,d3",
        ],
        [],
    ),
    "had lost that directory before": (
        None,
        None,
        "isr",
        [f"1 isr=1,2 dirs={LOST},d2,d3", f"12 isr=2 leader=2 dirs={LOST},d2,d3"],
        [],
    ),
    "a follower lost its directory": (
        None,
        None,
        "isr",
        ["1 isr=1,2", f"11 batch=11 dirs=d1,{LOST},d3", f"12 isr=2 leader=2 batch=11 dirs=d1,{LOST},d3"],
        [],
    ),
    "its directory was never named": (
        "directory_offline",
        12,
        "isr",
        [f"1 isr=1,2 dirs={MIGRATING},d2,d3", "11 isr=2 leader=2 batch=11"],
        ["12 offline 1 other batch=11"],
    ),
    "lost its directory, and nobody was there to take over": (
        "directory_offline",
        12,
        "leaderless",
        SHRUNK,
        ["12 offline 1 other batch=11"],
    ),
    "a reassignment was cancelled": (
        "reassignment",
        11,
        "cancelled_reassignment",
        ["1 replicas=1,2,4 isr=1,2,4 adding=4 leader=4", "11 replicas=1,2 isr=1,2 adding= leader=1"],
        [],
    ),
}


@pytest.mark.parametrize("name", ACTORS)
def test_actor(name: str) -> None:
    actor, offset, cause, lines, events = ACTORS[name]
    row = elections(*lines, brokers=sessions(*START, *events))[-1]
    assert (row["actor"], row["actor_offset"], row["cause"]) == (actor, offset, cause)


@cache
def real(name: str) -> tuple[list[dict[str, Any]], dict[int, dict[str, Any]]]:
    """The elections of a real capture, and its broker records by offset."""
    history, state = replayed(name)
    table = schemas.sorted_history(history.table)
    about_brokers = {r["offset"]: r for r in state.records if r["type"] in BROKER_TYPES}
    return build_elections(table, states_of(table), facts_with(state.brokers)).to_pylist(), about_brokers


# Counted by hand in the records. Brokers were stopped and killed; a killed one is fenced when its session is over.
REAL = {
    "unclean": {
        ("isr", "controlled_shutdown"): 20,
        ("isr", "fence"): 9,
        ("leaderless", "controlled_shutdown"): 13,
        ("leaderless", "fence"): 10,
        ("elr", "unfence"): 2,
        ("last_known_leader", "unfence"): 3,
        ("unclean_by_config", "unfence"): 5,
        ("unclean_by_administrator", "elect_leaders"): 1,
    },
    "elr": {
        ("isr", "controlled_shutdown"): 17,
        ("leaderless", "controlled_shutdown"): 15,
        ("elr", "unfence"): 3,
        ("reassignment", "alter_partition"): 1,
    },
    "churn": {
        ("isr", "controlled_shutdown"): 52,
        ("isr", "fence"): 6,
        ("leaderless", "controlled_shutdown"): 55,
        ("leaderless", "fence"): 2,
        ("elr", "unfence"): 3,
        ("last_known_leader", "unfence"): 1,
        ("unclean_by_config", "unfence"): 1,
    },
    "diverge": {("isr", "controlled_shutdown"): 18, ("isr", "fence"): 2, ("leaderless", "controlled_shutdown"): 16},
}


@pytest.mark.parametrize("name", REAL)
def test_causes_and_actors_of_real_clusters(name: str) -> None:
    rows, about_brokers = real(name)
    assert Counter((r["cause"], r["actor"]) for r in rows) == REAL[name]
    assert not any(r["hidden_unclean"] for r in rows)
    for row in rows:
        if row["actor"] in ("fence", "unfence", "controlled_shutdown"):
            data = about_brokers[row["actor_offset"]]["data"]
            said = {
                "fence": ("fenced", 1),
                "unfence": ("fenced", -1),
                "controlled_shutdown": ("inControlledShutdown", 1),
            }
            field, value = said[row["actor"]]
            assert data[field] == value
            assert row["actor"] == "unfence" or data["brokerId"] == row["previous_leader"]
        else:
            assert row["actor_offset"] == row["offset"]


def test_the_elections_of_a_real_cluster_that_was_broken_on_purpose() -> None:
    rows, _ = real("unclean")
    asked = [r for r in rows if r["cause"] == "unclean_by_administrator"]
    # kafka-leader-election was run at this time.
    assert [(r["topic"], r["partition"], r["actor"]) for r in asked] == [("audit", 1, "elect_leaders")]
    assert abs(asked[0]["timestamp_ms"] - 1795221658375) < 10_000
    uncleanly = {(r["topic"], r["partition"]) for r in rows if r["cause"] == "unclean_by_config"}
    assert uncleanly == {("ledger", 0), ("ledger", 1), ("ledger", 2), ("legacy", 0), ("legacy", 1)}
    assert {r["leader_recovery_state"] for r in rows if r["cause"] in RISKY} == {"RECOVERING"}
    lost = [r for r in rows if r["cause"] == "leaderless"]
    assert {r["actor"] for r in lost} == {"fence", "controlled_shutdown"}
    assert all(r["actor_offset"] != r["offset"] for r in lost)
    assert not any(r["hidden_unclean"] for r in rows)


def test_two_events_that_would_both_explain_it_are_no_actor() -> None:
    events = sessions(*START, "10 shutdown 1", "12 fence 2 batch=10")
    (row,) = elections("1 isr=1,2,3", "11 isr=3 leader=3 batch=10", brokers=events)
    assert (row["actor"], row["actor_offset"]) == (None, None)


def test_no_history_no_elections() -> None:
    assert of_table(states()) == []
