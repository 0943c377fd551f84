"""Which replicas to move or remove, as kafka-reassign-partitions takes it."""

import json
from typing import Any

import pytest

from replay.plan.replicas import reassignments


def state(replicas: list[int], partition: int = 0, leader: int = 3, **more: Any) -> dict[str, Any]:
    named = {"topic": "ledger", "partition": partition, "leader": leader, "replicas": replicas}
    return {**named, "adding_replicas": [], "removing_replicas": [], **more}


def plan(value: str | None) -> list[dict[str, Any]]:
    found = json.loads(value or "")
    assert found["version"] == 1
    partitions: list[dict[str, Any]] = found["partitions"]
    return partitions


def test_the_replicas_of_a_broker_that_is_gone_are_moved() -> None:
    (found,) = reassignments([state([3, 1], n) for n in range(3)], [2, 3, 4])
    assert found.name == "replicas-of-1.json"
    assert plan(found.value) == [
        {"topic": "ledger", "partition": 0, "replicas": [3, 2]},
        {"topic": "ledger", "partition": 1, "replicas": [3, 4]},
        {"topic": "ledger", "partition": 2, "replicas": [3, 2]},
    ]


def test_where_no_other_broker_is_active_a_replica_is_removed_but_never_the_second() -> None:
    (found,) = reassignments([state([3, 1, 2])], [2, 3])
    assert plan(found.value) == [{"topic": "ledger", "partition": 0, "replicas": [3, 2]}]
    assert list(reassignments([state([3, 1]), state([3, 1, 5])], [3])) == [], "the tool refuses a broker that is gone"


def test_one_plan_never_names_a_broker_twice_for_a_partition() -> None:
    (found,) = reassignments([state([3, 1, 5])], [2, 3, 4])
    assert plan(found.value) == [{"topic": "ledger", "partition": 0, "replicas": [3, 2, 4]}]


@pytest.mark.parametrize(
    "placed",
    [
        state([3, 1], leader=-1),
        state([5, 1], leader=5),
        state([3, 1], adding_replicas=[4]),
        state([3, 1], removing_replicas=[1]),
        state([3, 2]),
        state([3, 1], topic="a;b"),
    ],
    ids=["no leader", "a leader that is down", "adding", "removing", "nobody gone", "a name that kafka refuses"],
)
def test_what_cannot_or_need_not_move(placed: dict[str, Any]) -> None:
    assert list(reassignments([placed], [2, 3, 4])) == []


def test_the_plan_is_bounded() -> None:
    (found,) = reassignments([state([3, 1], n) for n in range(30)], [2, 3])
    assert (len(plan(found.value)), found.more) == (20, 10)
