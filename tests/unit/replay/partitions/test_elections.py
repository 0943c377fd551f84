"""What kind of election a leader change was, read off the states before and after it."""

from collections import Counter
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from replay.arrow import schemas
from replay.cluster.brokers import BROKER_TYPES, BrokerTimeline
from replay.partitions.elections import RISKY, build_elections, states_of
from tests.support.pure import replayed
from tests.support.scenario import SESSION, facts_with, running, sessions, states, together, up
from tests.support.window_table import beside, lines_of


def elections(*lines: str, brokers: BrokerTimeline | None = None) -> list[dict[str, Any]]:
    return of_table(states(*lines), brokers)


def of_table(history: pa.Table, brokers: BrokerTimeline | None = None) -> list[dict[str, Any]]:
    return build_elections(history, states_of(history), facts_with(brokers or running(1, 2, 3))).to_pylist()


def last_cause(*lines: str) -> str:
    return str(elections(*lines)[-1]["cause"])


@pytest.mark.parametrize(("lines", "cause"), lines_of(beside(__file__, "causes")))
def test_cause(lines: list[str], cause: str) -> None:
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


@pytest.mark.parametrize(("lines", "answer"), lines_of(beside(__file__, "actors")))
def test_actor(lines: list[str], answer: str) -> None:
    of_brokers = [line for line in lines if SESSION.match(line)]
    history = [line for line in lines if line not in of_brokers]
    row = elections(*history, brokers=sessions(*START, *of_brokers))[-1]
    who = "nobody known" if row["actor"] is None else f"{row['actor']} at {row['actor_offset']}"
    assert f"{row['cause']} by {who}" == answer


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
