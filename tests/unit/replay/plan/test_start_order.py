"""Properties of the order of starts on random states, and what waits for whom. tests/alone/test_plans.py plays orders
in simulated clusters: no other one loses less."""

from itertools import permutations
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from jobs.incident.plan import states_that_wait
from replay.plan.inputs import PlanInput
from replay.plan.plan import make_plan
from replay.plan.start_order import (
    BY_LOG,
    ELR,
    ISR,
    LAST_KNOWN,
    NOBODY,
    Copy,
    Waiting,
    start_order,
    to_elect,
)
from replay.plan.step import UNCLEAN, PlanStep

BROKERS = (1, 2, 3, 4)


def down(*ids: int) -> dict[int, dict[str, Any]]:
    row = {"incarnation_id": "i", "fenced": True, "in_controlled_shutdown": False, "offset": 9, "broker_epoch": 2}
    return dict.fromkeys(ids, row)


def waiting(members: list[int], replicas: list[int], by: str = ELR, topic: str = "t") -> Waiting:
    return Waiting(topic, topic, tuple(sorted(replicas)), tuple(sorted(members)), by)


def config(topic: str | None, value: str, source: str = "topic") -> dict[str, Any]:
    row = {"resource_type": "topic", "resource_name": topic, "name": UNCLEAN}
    return {**row, "effective_value": value, "value": value, "source": source}


def random_rows(random: Random) -> list[Waiting]:
    rows = []
    for number in range(random.randint(1, 4)):
        replicas = random.sample(BROKERS, random.randint(2, 4))
        by = random.choice((ISR, ELR, ELR, ELR, LAST_KNOWN, NOBODY))
        most = {ISR: len(replicas), ELR: len(replicas), LAST_KNOWN: 1, NOBODY: 0}[by]
        members = random.sample(replicas, random.randint(min(most, 1), most))
        rows.append(waiting(members, replicas, by, f"t{number}"))
    return rows


def planned(rows: list[Waiting], configs: list[dict[str, Any]]) -> dict[str, PlanStep]:
    steps = make_plan(PlanInput(waiting=rows, configs=configs, brokers=down(*BROKERS)))
    assert len({step.code for step in steps}) == len(steps) <= 10
    return {step.code: step for step in steps}


def test_brokers_start_once_and_members_before_outsiders_wherever_an_order_does_so() -> None:
    random = Random(31)
    for _ in range(500):
        rows = random_rows(random)
        is_on = [random.choice(("true", "true", "false", None)) for _ in rows]
        plan = planned(rows, [config(row.topic, on) for row, on in zip(rows, is_on, strict=True) if on])
        order, rest = (plan[code].brokers if code in plan else () for code in ("start", "elect"))
        assert len({*order, *rest}) == len(order) + len(rest)
        assert {*order, *rest} == {b for row in rows for b in row.replicas}
        assert (early(rows, order) == 0) == (min(early(rows, other) for other in permutations(order)) == 0)
        # The config comes before any start where a start could elect an outsider.
        assert ("turn_off_unclean" in plan) == any(on != "false" for on in is_on)
        assert next(iter(plan)) == "turn_off_unclean" or "turn_off_unclean" not in plan


def early(rows: list[Waiting], order: tuple[int, ...]) -> int:
    """How many outsiders start before a member of their partition."""
    at = {broker: place for place, broker in enumerate(order)}
    pairs = [(o, m) for row in rows for o in row.outsiders for m in row.members if o in at and m in at]
    return sum(at[o] < at[m] for o, m in pairs)


def test_an_outsider_of_one_partition_that_another_waits_for() -> None:
    rows = [waiting([3], [2, 3, 4]), waiting([4], [2, 3, 4], topic="u"), waiting([2], [1, 2], topic="v")]
    assert start_order(rows, BROKERS) == (3, 4, 2, 1)


@pytest.mark.parametrize(
    ("may_lead", "copies", "elected"),
    [
        ([2, 3], {1: Copy(4, 50, 2, 50), 2: Copy(4, 50, 2, 50), 3: Copy(2, 38, 0, 50)}, 2),
        ([3], {2: Copy(1, 20, 1, 20), 3: Copy(1, 8, 1, 20)}, 2),
        ([3], {2: Copy(0, 25, 0, 22), 3: Copy(0, 23, 0, 22)}, 2),
        ([3], {2: Copy(1, 60, 1, 8), 3: Copy(2, 8, 1, 8)}, None),
        ([3], {2: Copy(1, 60, 1, 90), 3: Copy(2, 20, 2, 20)}, None),
        ([2, 3], {2: Copy(1, 20, 1, 20), 3: Copy(3, 20, 1, 20)}, None),
        ([2, 3], {2: Copy(1, 20, 1, 20)}, None),
        ([2, 3], {1: Copy(1, 30, 1, 30), 2: Copy(1, 20, 1, 20), 3: Copy(-1, 0, -1)}, 1),
        ([], {1: Copy(2, 28, 2, 21), 2: Copy(0, 17, 0, 26), 3: Copy(3, 23, 0, 20)}, 3),
        ([], {1: Copy(2, 28, 2, 21), 3: Copy(3, 23, 0, 20)}, None),
    ],
    ids=[
        "the last known leader lost its end (drill plan_random, seed 2, safe-0)",
        "the only member lost committed records (fast-3)",
        "an outsider's log goes on where the member's ends (life 'ELR switched' 2410)",
        "what an outsider has more was never committed: the member led after it",
        "an old leader's log",
        "all members hold the same",
        "a member's log is not known",
        "a member's log is empty",
        "nobody may lead: an old leader's log is longer (life 'cut-off leaders' 42)",
        "nobody may lead, and a log is not known",
    ],
)
def test_who_is_elected_by_hand(may_lead: list[int], copies: dict[int, Copy], elected: int | None) -> None:
    assert to_elect([1, 2, 3] if 1 in copies else [2, 3], may_lead, copies) == elected


def test_a_replica_that_is_elected_by_hand_starts_first_even_if_it_is_an_outsider_elsewhere() -> None:
    rows = [waiting([2], [2, 3], by=BY_LOG), *(waiting([3], [2, 3], topic=f"t{n}") for n in range(9))]
    assert start_order(rows, (2, 3)) == (2, 3)


def waits(*brokers: Any, copies: Any = None, count: int = 1, **values: Any) -> Waiting:
    """The row of partitions of replicas 1, 2 and 3 without a leader. copies: broker -> log of each."""
    state = {"topic_id": "i", "topic": "t", "leader": -1, "replicas": [1, 2, 3]}
    state |= {"isr": [], "elr": [], "last_known_elr": [], **values}
    states = [{"partition": number, **state} for number in range(count)]
    of_all = {("i", number): copies or {} for number in range(count)}
    ((row,), _, _) = states_that_wait([pa.Table.from_pylist(states)], of_all, *brokers)
    return row


def test_each_partition_that_is_elected_by_hand_has_its_command() -> None:
    """Those that had none got the leader that holds less, with the start of the next broker."""
    logs = {2: Copy(1, 20, 1, 20), 3: Copy(1, 8, 1, 20)}
    assert [len(waits(isr=[3], copies=of, count=25).partitions) for of in (logs, {})] == [25, 20]
    assert (waits(isr=[3], copies=logs).by, waits(count=25).left_out) == (BY_LOG, 5)


@pytest.mark.parametrize(
    ("lists", "by", "members"),
    [
        ({"elr": [1, 4]}, ELR, (1,)),
        ({"elr": [4], "last_known_elr": [1]}, NOBODY, ()),
        ({"last_known_elr": [1]}, LAST_KNOWN, (1,)),
        ({"last_known_elr": [4]}, NOBODY, ()),
        ({"last_known_elr": [1, 2]}, NOBODY, ()),
        ({"isr": [2, 1], "elr": [3]}, ISR, (1, 2)),
        ({"isr": [2], "replicas": []}, NOBODY, ()),
    ],
)
def test_nobody_waits_for_a_broker_that_is_no_replica_any_more(lists: Any, by: str, members: tuple[int, ...]) -> None:
    """Simulated lives with reassignments: the ELR kept a broker that was taken from the replicas."""
    row = waits(**lists)
    assert (row.by, row.members) == (by, members)


@pytest.mark.parametrize(
    ("lists", "log_dirs", "passed_over"),
    [
        ({"elr": [1]}, ["old", "new"], (1,)),
        ({"last_known_elr": [1]}, ["new"], (1,)),
        ({"isr": [1]}, None, (1,)),
        ({"elr": [1]}, ["old"], ()),
        ({"elr": [3], "last_known_elr": [1]}, ["new"], ()),
    ],
)
def test_a_member_that_ran_in_an_online_directory_and_did_not_lead_was_passed_over(
    lists: Any, log_dirs: list[str] | None, passed_over: tuple[int, ...]
) -> None:
    """BrokerRegistration.hasOnlineDir. Not so one in a directory that failed, and one that Kafka does not elect."""
    runs = {"broker_id": 1, "incarnation_id": "i", "fenced": False, "in_controlled_shutdown": False}
    brokers = {1: {**runs, "log_dirs": log_dirs}, 3: {**runs, "broker_id": 3, "fenced": True, "log_dirs": ["x"]}}
    assert waits(brokers, replicas=[3, 1], directories=["x", "new"], **lists).passed_over == passed_over
