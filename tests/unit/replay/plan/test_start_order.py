"""No order of starts loses less than the plan's: thousands of random states, and the state of each real capture, played
by Kafka's election rules."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from jobs.incident.commands import commands_of
from jobs.incident.plan import WANTED, states_that_wait
from replay.controller.partition_change_builder import ELECT_ONLINE, ELECT_UNCLEAN, NO_LEADER, RECOVERED
from replay.controller.profiles import PROFILES, Profile
from replay.plan.inputs import PlanInput
from replay.plan.plan import make_plan
from replay.plan.start_order import (
    BY_LOG,
    ELR,
    ISR,
    LAST_KNOWN,
    NOBODY,
    OFF,
    ON,
    UNKNOWN,
    Copy,
    Waiting,
    start_order,
    to_elect,
)
from replay.plan.step import PlanStep, What
from tests.support.pure import replayed
from tests.support.scalar_builder import Case, build

BROKERS = (1, 2, 3, 4)
WHOLE, PART = 100, 50  # what a member that stopped cleanly has, and one that lost its end


def down(*ids: int) -> dict[int, dict[str, Any]]:
    row = {"incarnation_id": "i", "fenced": True, "in_controlled_shutdown": False, "offset": 9, "broker_epoch": 2}
    return dict.fromkeys(ids, row)


def waiting(members: list[int], replicas: list[int], by: str = ELR, unclean: str = ON, topic: str = "t") -> Waiting:
    layer = "assumed_default" if unclean == UNKNOWN else "topic"
    return Waiting(topic, topic, tuple(sorted(replicas)), tuple(sorted(members)), by, unclean, layer)


class Cluster:
    """Partitions without a leader and what their replicas have; brokers start one after the other."""

    def __init__(self, rows: list[Waiting], has: list[dict[int, int]], is_on: list[bool], profile: Profile) -> None:
        self.rows, self.has, self.profile = rows, has, profile
        self.is_on, self.alive = list(is_on), set[int]()
        self.isr = [list(row.members) if row.by == ISR else [] for row in rows]
        self.elr = [list(row.members) if row.by == ELR else [] for row in rows]
        self.known = [list(row.members) if row.by == LAST_KNOWN else [] for row in rows]
        self.leader = [NO_LEADER] * len(rows)

    def follow(self, step: PlanStep) -> None:
        """Carry out the configs of a step."""
        for action in step.actions:
            assert (action.what, action.value) == (What.SET_CONFIG, "false")
            for number, row in enumerate(self.rows):
                if action.topic in (None, row.topic) and (action.topic is not None or row.layer != "topic"):
                    self.is_on[number] = False

    def start(self, broker: int) -> None:
        """Register, after an unclean stop without the memberships, and unfence: leaderless partitions elect."""
        self.alive.add(broker)
        for number, row in enumerate(self.rows):
            if self.leader[number] != NO_LEADER:
                continue
            if self.has[number].get(broker) == PART and row.by == ELR and broker in self.elr[number]:
                self.elr[number].remove(broker)
            record = build(self._case(number), self.profile)
            if record.leader >= 0:
                self.leader[number] = record.leader

    def _case(self, number: int) -> Case:
        row, isr = self.rows[number], self.isr[number]
        lists: dict[str, Any] = {
            "replicas": list(row.replicas),
            "isr": isr,
            "elr": self.elr[number],
            "last_known_elr": self.known[number],
            "removing": [],
            "adding": [],
            "directories": [0] * 4,
            "target_replicas": list(row.replicas),
            "target_isr": isr,
            "target_removing": [],
            "target_adding": [],
        }
        return Case(
            **{**lists, "directories": [0] * len(row.replicas)},
            leader=NO_LEADER,
            recovery=RECOVERED,
            target_recovery=RECOVERED,
            election=ELECT_UNCLEAN if self.is_on[number] else ELECT_ONLINE,
            acceptable=sorted(self.alive),
            unclean_shutdown=[],
            min_isr=2,
            elr_enabled=row.by != ISR,
            marks_recovery=True,
            bumps_leader_epoch_on_shrink=False,
            has_directories=True,
        )

    def held(self) -> list[int | None]:
        """What each partition's leader has; None without a leader."""
        pairs = zip(self.leader, self.has, strict=True)
        return [None if leader == NO_LEADER else has[leader] for leader, has in pairs]


def random_cluster(random: Random) -> tuple[list[Waiting], list[dict[int, int]], list[bool], Profile]:
    rows, has, is_on = [], [], []
    for number in range(random.randint(1, 4)):
        replicas = random.sample(BROKERS, random.randint(2, 4))
        by = random.choice((ISR, ELR, ELR, ELR, LAST_KNOWN, NOBODY))
        most = {ISR: len(replicas), ELR: len(replicas), LAST_KNOWN: 1, NOBODY: 0}[by]
        members = random.sample(replicas, random.randint(min(most, 1), most))
        unclean = random.choice((ON, ON, OFF, UNKNOWN))
        row = waiting(members, replicas, by, unclean, f"t{number}")
        clean = {m: by != LAST_KNOWN and (by == ISR or random.random() < 0.8) for m in members}
        held = {b: (WHOLE if clean[b] else PART) if b in clean else random.randint(0, PART - 1) for b in replicas}
        rows.append(row)
        has.append(held)
        is_on.append(unclean == ON or (unclean == UNKNOWN and random.random() < 0.5))
    return rows, has, is_on, random.choice(list(PROFILES.values()))


def planned(rows: list[Waiting]) -> dict[str, PlanStep]:
    steps = make_plan(PlanInput(waiting=rows, brokers=down(*BROKERS)))
    assert len({step.code for step in steps}) == len(steps) <= 10
    return {step.code: step for step in steps}


def play(cluster: Cluster, plan: dict[str, PlanStep]) -> list[int | None]:
    for step in plan.values():
        if step.code == "turn_off_unclean":
            assert not cluster.alive
            cluster.follow(step)
        for broker in step.brokers if step.code == "start" else ():
            cluster.start(broker)
    return cluster.held()


def test_no_other_order_elects_a_replica_that_has_more() -> None:
    random, compared = Random(30), 0
    for _ in range(2000):
        rows, has, is_on, profile = random_cluster(random)
        plan = planned(rows)
        found = play(Cluster(rows, has, is_on, profile), plan)
        for row, held, each in zip(rows, has, found, strict=True):
            if row.by == NOBODY:
                assert each is None, "nobody is elected before the copies were compared"
            elif WHOLE in (held[m] for m in row.members):
                assert each == WHOLE, (row, held)
        replicas = sorted({b for row in rows for b in row.replicas})
        for order in random.sample(list(permutations(replicas)), 2):
            other = Cluster(rows, has, is_on, profile)
            for broker in order:
                other.start(broker)
            for mine, theirs in zip(found, other.held(), strict=True):
                compared += mine is not None and theirs is not None
                assert mine is None or theirs is None or mine >= theirs, (rows, has, order)
    assert compared > 2000


def test_brokers_start_once_and_members_before_outsiders_wherever_an_order_does_so() -> None:
    random = Random(31)
    for _ in range(500):
        rows, _, _, _ = random_cluster(random)
        plan = planned(rows)
        order, rest = (plan[code].brokers if code in plan else () for code in ("start", "elect"))
        assert len({*order, *rest}) == len(order) + len(rest)
        assert {*order, *rest} == {b for row in rows for b in row.replicas}
        best = min(early(rows, other) for other in permutations(order))
        assert (early(rows, order) == 0) == (best == 0)


def early(rows: list[Waiting], order: tuple[int, ...]) -> int:
    """How many outsiders start before a member of their partition."""
    at = {broker: place for place, broker in enumerate(order)}
    pairs = [(o, m) for row in rows for o in row.outsiders for m in row.members if o in at and m in at]
    return sum(at[o] < at[m] for o, m in pairs)


def test_the_config_comes_before_any_start_where_a_start_could_elect_an_outsider() -> None:
    random = Random(32)
    for _ in range(500):
        rows, _, _, _ = random_cluster(random)
        codes = list(planned(rows))
        if any(row.unclean != OFF for row in rows):
            assert codes[0] == "turn_off_unclean"
        else:
            assert "turn_off_unclean" not in codes


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
    plan = make_plan(
        PlanInput(
            waiting=[waiting([2], [2, 3], by=BY_LOG), waiting([3], [2, 3], by=BY_LOG, topic="u")], brokers=down(2, 3)
        )
    )
    elections = [commands_of(action) for step in plan if step.code == "start" for action in step.actions]
    run = 'kafka-leader-election.sh --bootstrap-server "$BOOTSTRAP" --election-type UNCLEAN --topic'
    assert elections == [
        (f"{run} t --partition 0  # once broker 2 has started, before the next",),
        (f"{run} u --partition 0  # once broker 3 has started, with broker 2 stopped, before the next",),
    ]


@pytest.mark.parametrize(
    ("value", "source", "unclean"),
    [("true", "topic", ON), ("true", "cluster", ON), ("false", "topic", OFF), ("false", "assumed_default", UNKNOWN)],
)
def test_a_config_that_was_set_while_there_was_no_leader_counts(value: str, source: str, unclean: str) -> None:
    """Drill plan_isr on 4.3.1: the state has the config of its begin, and the plan left out a topic that had been
    changed since."""
    name = "unclean_leader_election_enable"
    state = {"topic_id": "i", "topic": "t", "partition": 0, "leader": -1, "replicas": [1, 2], "isr": [1], "elr": []}
    state |= {"last_known_elr": [], name: value != "true", f"{name}_source": "topic"}
    config = {"resource_type": "topic", "resource_name": "t", "name": name.replace("_", ".")}
    config |= {"effective_value": value, "source": source}
    ((row,), _, _) = states_that_wait([pa.Table.from_pylist([state])], [config])
    assert (row.unclean, row.layer) == (unclean, source)
    ((row,), _, _) = states_that_wait([pa.Table.from_pylist([state])], [config | {"resource_name": "u"}])
    assert (row.unclean, row.layer) == (OFF if value == "true" else ON, "topic")


@pytest.mark.parametrize(
    ("lists", "by", "members"),
    [
        ({"elr": [1, 4]}, ELR, (1,)),
        ({"elr": [4], "last_known_elr": [1]}, NOBODY, ()),
        ({"last_known_elr": [1]}, LAST_KNOWN, (1,)),
        ({"last_known_elr": [4]}, NOBODY, ()),
        ({"last_known_elr": [1, 2]}, NOBODY, ()),
        ({"isr": [2, 1], "elr": [3]}, ISR, (1, 2)),
    ],
)
def test_nobody_waits_for_a_broker_that_is_no_replica_any_more(
    lists: dict[str, list[int]], by: str, members: tuple[int, ...]
) -> None:
    """Simulated lives with reassignments: the ELR kept a broker that was taken from the replicas."""
    name = "unclean_leader_election_enable"
    state = {"topic_id": "i", "topic": "t", "partition": 0, "leader": -1, "replicas": [1, 2, 3], name: False}
    state |= {"isr": [], "elr": [], "last_known_elr": [], f"{name}_source": "topic"} | lists
    ((row,), _, _) = states_that_wait([pa.Table.from_pylist([state])])
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
    lists: dict[str, list[int]], log_dirs: list[str] | None, passed_over: tuple[int, ...]
) -> None:
    """BrokerRegistration.hasOnlineDir. Not so one in a directory that failed, and one that Kafka does not elect."""
    name = "unclean_leader_election_enable"
    state = {"topic_id": "i", "topic": "t", "partition": 0, "leader": -1, "replicas": [3, 1], name: False}
    state |= {
        "isr": [],
        "elr": [],
        "last_known_elr": [],
        f"{name}_source": "topic",
        "directories": ["x", "new"],
    } | lists
    runs = {"broker_id": 1, "incarnation_id": "i", "fenced": False, "in_controlled_shutdown": False}
    brokers = {1: {**runs, "log_dirs": log_dirs}, 3: {**runs, "broker_id": 3, "fenced": True, "log_dirs": ["x"]}}
    ((row,), _, _) = states_that_wait([pa.Table.from_pylist([state])], brokers=brokers)
    assert row.passed_over == passed_over


@pytest.mark.parametrize("name", ["unclean", "unclean-4.4.0", "elr", "churn", "diverge", "logs-unclean"])
def test_the_plan_of_a_capture_elects_only_members(name: str) -> None:
    history, _ = replayed(name)
    rows, _, _ = states_that_wait([history.table.filter(WANTED)])
    assert rows
    plan = planned(rows)
    has = [{b: WHOLE if b in row.members else 0 for b in row.replicas} for row in rows]
    cluster = Cluster(rows, has, [row.unclean != OFF for row in rows], PROFILES["4.0"])
    assert set(play(cluster, plan)) == {WHOLE}
    careless = Cluster(rows, has, [row.unclean != OFF for row in rows], PROFILES["4.0"])
    for broker in BROKERS:
        careless.start(broker)
    loses = 0 in careless.held()
    assert loses == (name != "elr"), "all brokers at once, without the config, elect an outsider"
