"""Over many simulated lives in which all replicas went down in the end: whoever follows the plan loses no more than by
any other order of starts, by the simulator's own elections, logs and high watermarks. In every second life machines
lose power, and the logs were captured; in the others nobody has seen a log."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from itertools import permutations

import pyarrow as pa

from jobs.incident.plan import states_that_wait
from replay.arrow.schemas import PARTITION_HISTORY
from replay.controller.partition_change_builder import NO_LEADER
from replay.plan.inputs import PlanInput
from replay.plan.plan import make_plan
from replay.plan.start_order import Copy
from replay.plan.step import UNCLEAN, PlanStep
from tests.simulator import setup
from tests.simulator.controller import State
from tests.simulator.faults import life
from tests.simulator.life import history_row
from tests.simulator.logs import Log
from tests.simulator.world import World
from tests.support.detection import spread

LIVES, CHUNK, ORDERS = 1_500, 125, 4
FAULTS = ("clean stops", "unclean restarts", "cut-off leaders", "min ISR changes", "ELR switched", "reassignments")
# Who starts by itself is no order. A directory that is lost is no log that is read.
LEFT_OUT = ("restart", "bounce", "lose_directory")
# Longer than a start and an election take, and than a session.
ELECTED_MS, FENCED_MS = 15_000, 20_000


def all_down(fault: str, seed: int) -> World | None:
    """A life that was cut off, and all brokers went down one after the other; None if it has a leader or no topic."""
    rng, base = random.Random(f"{fault} {seed}"), life(fault, seed)
    left_out, ends = LEFT_OUT, ["kill", "kill", "power_loss", "stop"]
    if not logs_were_read(seed):  # then a disk that lost its end may be that of the one member, which nothing tells
        left_out, ends = (*LEFT_OUT, "power_loss"), ["kill", "kill", "stop"]
    steps = [step for step in base.steps if step.name not in left_out]
    world = World(replace(base.setup, fail_overs=()), steps[: rng.randint(3, len(steps))])
    world.heal()
    for place in rng.sample(range(len(world.brokers)), len(world.brokers)):
        world.step(setup.Step("produce", place, rng.randrange(10)))
        wait(world, rng.choice((0, 300, 3_000)))
        world.step(setup.Step(rng.choice(ends), place, rng.randrange(12)))
        wait(world, rng.choice((0, 300, 3_000, FENCED_MS)))
    wait(world, 2 * FENCED_MS)
    if rng.random() < 0.3:  # that empties ELR and last known leader: then nobody's return helps
        world.step(setup.Step("min_isr", 0, rng.randrange(3)))
    state = world.controller.live
    assert not any(broker.process for broker in world.brokers.values())
    return world if state is not None and state.leader == NO_LEADER else None


def logs_were_read(seed: int) -> bool:
    return seed % 2 == 0


def wait(world: World, ms: int) -> None:
    world.events.run_until(world.events.now + ms)


def live(world: World) -> State:
    assert world.controller.live is not None
    return world.controller.live


def copy_of(log: Log, mark: int | None) -> Copy:
    """What the heads of its batches and the broker's checkpoint show."""
    opened = max((epoch for epoch, begin in log.entries if begin <= log.end), default=-1)
    written = max((epoch for epoch, begin in log.entries if begin < log.end), default=-1)
    return Copy(opened, log.end, written, -1 if mark is None else mark)


def planned(world: World, with_logs: bool) -> list[PlanStep]:
    state, unclean = live(world), str(world.controller.unclean).lower()
    table = pa.Table.from_pylist([history_row(state, setup.Setup())], schema=PARTITION_HISTORY)
    config = {"resource_type": "topic", "resource_name": "t", "name": UNCLEAN}
    copies = {b: copy_of(log, world.brokers[b].disk.marks) for b, log in world.logs(state).items() if with_logs}
    config |= {"effective_value": unclean, "source": "topic"}
    waiting, alone, alone_count = states_that_wait([table], {(state.topic_id, 0): copies})
    down = {"incarnation_id": "i", "fenced": True, "in_controlled_shutdown": False, "offset": 9, "broker_epoch": 2}
    brokers = dict.fromkeys(world.brokers, down)
    of = {"waiting": waiting, "alone": alone, "alone_count": alone_count, "configs": [config]}
    return make_plan(PlanInput(**of, brokers=brokers))


def of_members(world: World) -> set[int]:
    """The records of those that may lead: what an unclean election lost before is on other disks, which nobody saw."""
    state = live(world)
    members = state.isr or state.elr or state.lke or state.replicas
    return {record for broker, log in world.logs(state).items() if broker in members for record in log.records}


def follow(world: World, steps: list[PlanStep]) -> None:
    for step in steps:
        if step.code == "turn_off_unclean":
            assert not any(broker.process for broker in world.brokers.values())
            world.controller.set_unclean(False)
        elif step.code == "start":
            for broker in step.brokers:
                start(world, [broker], ELECTED_MS)
                if any(action.broker == broker for action in step.actions):
                    world.controller.elect_uncleanly()
                    wait(world, ELECTED_MS)
        elif step.code == "elect":
            logs = world.logs(live(world))
            best = max(logs, key=lambda broker: (logs[broker].last_epoch, logs[broker].end))
            start(world, [best], ELECTED_MS)
            world.controller.elect_uncleanly()
            wait(world, ELECTED_MS)
            start(world, step.brokers, ELECTED_MS)


def start(world: World, brokers: Iterable[int], wait_ms: int) -> None:
    for broker in brokers:
        world.start(world.brokers[broker])
        wait(world, wait_ms)


def lost(world: World, promised: set[int], play: Callable[[World], None]) -> int | None:
    """How many of the promised records the leader lacks in the end; None without a leader."""
    played = deepcopy(world)
    played.controller.elected, played.controller.wrote = played._elected, played._wrote  # not those of the first
    play(played)
    wait(played, FENCED_MS)
    leader = live(played).leader
    return None if leader == NO_LEADER else len(promised.difference(played.brokers[leader].log.records))


def compare(chunk: tuple[str, int]) -> tuple[Counter[str], list[str]]:
    """(what happened how often, orders that lost less than the plan)."""
    fault, first = chunk
    counts, worse = Counter[str](), list[str]()
    for seed in range(first, first + CHUNK):
        world = all_down(fault, seed)
        if world is None:
            continue
        rng, steps = random.Random(seed), planned(world, logs_were_read(seed))
        promised = set(world.ledger(live(world).topic_id).pending)
        if not logs_were_read(seed):
            promised &= of_members(world)
        mine = lost(world, promised, lambda w, steps=steps: follow(w, steps))  # type: ignore[misc]
        counts["lives"] += 1
        counts["by hand"] += any(action.broker is not None for step in steps for action in step.actions)
        counts += Counter(step.code for step in steps)
        counts["led" if mine is not None else "not led"] += 1
        counts["lost by the plan"] += mine or 0
        orders = list(permutations(live(world).replicas))
        for order in rng.sample(orders, min(ORDERS, len(orders))):
            wait_ms = rng.choice((0, 500, ELECTED_MS))
            other = lost(world, promised, lambda w, o=order, ms=wait_ms: start(w, o, ms))  # type: ignore[misc]
            counts["lost by others"] += other or 0
            if other is not None and (mine is None or mine > other):
                worse.append(f"{fault} {seed}: {order} every {wait_ms} ms lost {other}, the plan {mine}")
    return counts, worse


def test_no_other_order_loses_less_than_the_plan() -> None:
    each = LIVES // len(FAULTS)
    todo = [(fault, first) for fault in FAULTS for first in range(0, each, CHUNK)]
    counts, worse = Counter[str](), list[str]()
    for found, orders in spread(compare, todo):
        counts += found
        worse += orders
    print(counts)
    assert not worse, "\n".join(worse[:30])
    assert counts["lives"] >= LIVES // 2
    assert counts["led"] > 0.97 * counts["lives"], "where no order gives a leader, the plan does not either"
    assert min(counts[code] for code in ("turn_off_unclean", "start", "elect", "by hand")) > 50
    assert counts["lost by others"] > 500
