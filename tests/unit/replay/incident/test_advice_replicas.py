"""Which replicas to move or remove, as kafka-reassign-partitions takes it."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from replay.findings.statements import statement
from replay.incident.advice_replicas import reassignments
from tests.support.report_rows import TOPIC_ID, exposure


def last_replica(partition: int = 0, topic: str = "ledger") -> dict[str, Any]:
    reason = [statement("last_replica", [3], offset=9), statement("exposed_at_log_end")]
    return exposure(f"r{partition}", kind="last_replica_standing", reason=reason, partition=partition, topic=topic)


def state(replicas: list[int], leader: int = 3, **more: Any) -> dict[str, Any]:
    return {"leader": leader, "replicas": replicas, "adding_replicas": [], "removing_replicas": [], **more}


def broker(up: bool, registered: bool = True) -> dict[str, Any]:
    given = {"in_controlled_shutdown": False, "offset": 98, "broker_epoch": 20}
    return {"fenced": not up, "incarnation_id": "i" if registered else None, **given}


def brokers(*up: int, down: tuple[int, ...] = ()) -> dict[int, dict[str, Any]]:
    return {**{each: broker(True) for each in up}, **{each: broker(False) for each in down}}


def plan(command: str) -> list[dict[str, Any]]:
    """What the shell writes into the file."""
    words = shlex.split(command)
    assert words[:2] == ["printf", "%s\\n"]
    found = json.loads(words[2])
    assert found["version"] == 1
    partitions: list[dict[str, Any]] = found["partitions"]
    return partitions


def test_the_replicas_of_a_broker_that_is_gone_are_moved() -> None:
    rows = [last_replica(0), last_replica(1), last_replica(2)]
    placements = {(TOPIC_ID, n): state([3, 1]) for n in range(3)}
    (found,) = reassignments(rows, placements, brokers(2, 3, 4, down=(1,)))
    assert (found["code"], found["when"], found["brokers"]) == ("move_replicas", "now", [1])
    assert found["advice"].startswith("If broker 1 does not come back, move its replicas of 3 partitions, so that")
    assert found["facts"] == [
        "Broker 1 was fenced when the log ended, without a controlled shutdown (metadata offset 98)."
    ]
    write, execute, verify = found["commands"]
    assert plan(write) == [
        {"topic": "ledger", "partition": 0, "replicas": [3, 2]},
        {"topic": "ledger", "partition": 1, "replicas": [3, 4]},
        {"topic": "ledger", "partition": 2, "replicas": [3, 2]},
    ]
    assert write.endswith(" > replicas-of-1.json")
    tool = 'kafka-reassign-partitions.sh --bootstrap-server "$BOOTSTRAP" --reassignment-json-file replicas-of-1.json'
    assert (execute, verify) == (f"{tool} --execute", f"{tool} --verify")


def test_where_no_other_broker_is_active_a_replica_is_removed_but_never_the_second() -> None:
    placements = {(TOPIC_ID, 0): state([3, 1, 2]), (TOPIC_ID, 1): state([3, 1])}
    (found,) = reassignments([last_replica(0)], placements, brokers(2, 3, down=(1,)))
    assert found["code"] == "remove_replicas"
    assert plan(found["commands"][0]) == [{"topic": "ledger", "partition": 0, "replicas": [3, 2]}]
    assert list(reassignments([last_replica(1)], placements, brokers(3, down=(1,)))) == []


def test_one_plan_never_names_a_broker_twice_for_a_partition() -> None:
    placements = {(TOPIC_ID, 0): state([3, 1, 5])}
    (found,) = reassignments([last_replica(0)], placements, brokers(2, 3, 4, down=(1, 5)))
    assert plan(found["commands"][0]) == [{"topic": "ledger", "partition": 0, "replicas": [3, 2, 4]}]


@pytest.mark.parametrize(
    "placed",
    [state([3, 1], leader=-1), state([3, 1], adding_replicas=[4]), state([3, 1], removing_replicas=[1]), state([3, 2])],
    ids=["no leader", "adding", "removing", "nobody gone"],
)
def test_what_cannot_or_need_not_move(placed: dict[str, Any]) -> None:
    assert list(reassignments([last_replica()], {(TOPIC_ID, 0): placed}, brokers(2, 3, 4, down=(1,)))) == []


def test_an_unknown_state_gives_no_plan() -> None:
    assert list(reassignments([last_replica()], {}, brokers(2, 3, down=(1,)))) == []


def test_a_name_that_kafka_refuses_is_in_no_plan_and_the_plan_is_bounded() -> None:
    rows = [last_replica(n, "a;b" if n == 0 else "ledger") for n in range(30)]
    placements = {(TOPIC_ID, n): state([3, 1]) for n in range(30)}
    (found,) = reassignments(rows, placements, brokers(2, 3, down=(1,)))
    assert {entry["topic"] for entry in plan(found["commands"][0])} == {"ledger"}
    assert "The plan has 20 of 30 partitions: make more like it." in found["facts"]
