"""Faults by chance, from a seed. With the same seed the same is tried; how long a cluster takes for it differs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from drill.client import ClientError
from drill.nodes import BROKERS, knows_elr
from drill.scenario import Step, name_of

if TYPE_CHECKING:
    from drill.steps import Drill


def play_chance(drill: Drill, count: int) -> None:
    """Play so many faults, first a cascade, each followed by a pause of up to 6 s. What Kafka refuses is noted."""
    faults = _FAULTS | (_NETWORK_FAULTS if drill.scenario.cuts_network else {})
    if not drill.scenario.power_losses:
        del faults[_POWER_LOSS]
    for number in range(count):
        (fault,) = drill.rng.choices(list(faults), list(faults.values())) if number else (_cascade,)
        with drill.notes_refusals():
            fault(drill)
        pause_s = drill.rng.choice((0, 1, 3, 6))
        time.sleep(pause_s)
        if drill.rng.random() < 0.3:
            with contextlib.suppress(ClientError):
                drill.play([Step(describe=True)])


def play_outage(drill: Drill, count: int) -> None:
    """So many brokers go down by chance, each killed, stopped or by a power loss, some so fast after one another that
    the controllers see them go together; in the end all of them are fenced. Records are written in between."""
    rng = drill.rng
    up = drill.cluster.up
    for broker in rng.sample(up, min(count, len(up))):
        drill.play(_steps_down(broker, _way(drill), rng.randint(1, 25)))
        if rng.random() < 0.7:
            time.sleep(drill.scenario.fenced_s)
            if drill.cluster.up:
                _produce(drill)
    time.sleep(drill.scenario.fenced_s)


def _partition(drill: Drill) -> str:
    return drill.rng.choice(drill.scenario.partitions)


def _acks(drill: Drill) -> Literal["all", "1"]:
    return drill.rng.choice(("all", "all", "1"))


def _down(way: str) -> Callable[[Drill], None]:
    def play(drill: Drill) -> None:
        broker, up = drill.rng.choice(BROKERS), drill.cluster.up
        lost = drill.rng.randint(1, 25) if way == "power loss" else 0
        if broker in up and len(up) > 1:
            drill.play(_steps_down(broker, way, lost))

    return play


def _way(drill: Drill) -> str:
    return drill.rng.choice(("kill", "kill", "stop", *(["power loss"] if drill.scenario.power_losses else [])))


def _steps_down(broker: int, way: str, lost: int) -> list[Step]:
    """way: stop, kill or power loss, which takes so many records."""
    if way == "stop":
        return [Step(stop=broker)]
    return [Step(kill=broker), *([Step(cut=broker, count=lost)] if way == "power loss" else [])]


def _start(drill: Drill) -> None:
    down = [i for i in BROKERS if i not in drill.cluster.up]
    broker = drill.rng.choice(BROKERS)
    if down:
        drill.play([Step(start=[broker if broker in down else down[0]])])


def _cascade(drill: Drill) -> None:
    """The replicas of a partition go down one after the other, the leader last, with records in between; then some of
    them come back, the leader last or never."""
    partition, rng = _partition(drill), drill.rng
    ways = [_way(drill) for _ in range(3)]
    elects, keeps_leader_down = rng.random() < 0.4, rng.random() < 0.5
    state = drill.state(partition)
    replicas = sorted(state.get("replicas", []), key=lambda b: (b == state["leader"], b))
    went = [broker for broker, way in zip(replicas, ways, strict=False) if _goes_down(drill, broker, way, partition)]
    for broker in went[: -1 if keeps_leader_down else None]:
        drill.play([Step(start=[broker])])
    if elects and drill.state(partition)["leader"] < 0:
        drill.play([Step(elect=[partition])])
    write_led(drill, [partition], 6, "all")


def _goes_down(drill: Drill, broker: int, way: str, partition: str) -> bool:
    lost = drill.rng.randint(1, 25)
    if broker not in drill.cluster.up or len(drill.cluster.up) == 1:
        return False
    drill.play(_steps_down(broker, way, lost))
    if way != "stop":
        time.sleep(drill.scenario.fenced_s)
    write_led(drill, [partition], 12, _acks(drill))
    return True


def write_led(drill: Drill, partitions: Sequence[str], count: int, acks: Literal["all", "1"]) -> None:
    """Produce to those of the partitions that have a leader: to others it takes until the client gives up."""
    led = {name_of(row) for row in drill.partitions() if row["leader"] >= 0}
    if chosen := [name for name in partitions if name in led]:
        drill.play([Step(produce=chosen, count=count, acks=acks)])


def _produce(drill: Drill) -> None:
    partitions = sorted({_partition(drill) for _ in range(4)})
    write_led(drill, partitions, drill.rng.randint(3, 30), _acks(drill))


def _transact(drill: Drill) -> None:
    partition, commit = _partition(drill), drill.rng.random() < 0.7
    drill.play([Step(transact=[partition], count=drill.rng.randint(2, 8), commit=commit)])


def _freeze(drill: Drill) -> None:
    broker, seconds, up = drill.rng.choice(BROKERS), drill.rng.choice((2, 5, 9)), drill.cluster.up
    if broker in up and len(up) > 1:
        drill.play([Step(freeze=[broker]), Step(sleep=seconds), Step(thaw=[broker])])


def _disconnect(drill: Drill) -> None:
    """A broker has no link to others, to the controllers or to anybody, for a while in which records are written."""
    broker, seconds, partition = drill.rng.choice(BROKERS), drill.rng.choice((4, 8, 12)), _partition(drill)
    peers = drill.rng.choice(
        (["brokers"], ["controllers"], ["brokers", "controllers"], ["brokers", "controllers", "client"])
    )
    drill.play([Step(disconnect=[broker], peers=peers), Step(sleep=seconds)])
    write_led(drill, [partition], 8, _acks(drill))
    drill.play([Step(reconnect=[broker])])


def _min_isr(drill: Drill) -> None:
    topic, least = drill.rng.choice(list(drill.scenario.topics)), drill.rng.choice((1, 2))
    drill.play([Step(set=f"min.insync.replicas={least}", topic=topic)])


def _elect(drill: Drill) -> None:
    dead = [name_of(row) for row in drill.partitions() if row["leader"] < 0]
    if dead:
        drill.play([Step(elect=dead)])


def _reassign(drill: Drill) -> None:
    partition = _partition(drill)
    drill.play([Step(reassign=partition, to=drill.rng.sample(BROKERS, 3))])


def _controller(drill: Drill) -> None:
    active = drill.ids(["controller"])
    drill.play([Step(kill=active), Step(start=active)])


def _elr(drill: Drill) -> None:
    on = drill.rng.random() < 0.6
    if knows_elr(drill.cluster.jars):
        drill.play([Step(elr=on)])


_POWER_LOSS = _down("power loss")
# Each fault, and how likely it is among them.
_FAULTS: dict[Callable[[Drill], None], int] = {
    _cascade: 5,
    _down("kill"): 1,
    _POWER_LOSS: 1,
    _down("stop"): 1,
    _start: 2,
    _produce: 2,
    _transact: 1,
    _freeze: 1,
    _min_isr: 1,
    _elect: 1,
    _reassign: 1,
    _controller: 1,
    _elr: 1,
}
# And where links can be cut (`random` with `network = true`).
_NETWORK_FAULTS = {_disconnect: 6}
