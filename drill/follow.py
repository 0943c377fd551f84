"""The product's plan, followed on the real cluster while things are still broken, and beside it the careless order: all
brokers at once, from a copy of the same disks.

A record is lost by an order if it was acknowledged with acks=all, was on the disk of a replica that Kafka's rules let
lead when the plan was made, and cannot be read afterwards from a partition that has a leader again.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from signal import Signals
from typing import Any
from zipfile import ZipFile

from drill.client import ClientError
from drill.disks import DiskCopy, read_copy
from drill.errors import call
from drill.jars import fetch
from drill.ledger import Ledger
from drill.network import CLIENT
from drill.nodes import BROKERS, CLUSTER_ID, CONTROLLERS, java
from drill.scenario import name_of
from drill.score import PLAN_LEADERLESS, PLAN_LOST, Wrong, lake_of, states_of
from drill.steps import Drill
from jobs.incident import commands
from jobs.incident.plan import load_plan

Row = dict[str, Any]
Records = dict[int, str]  # offset -> value
# So long a partition may take to get a leader after the start of a broker that it waits for.
_ELECTED_S = 15.0
_STOP_S = 60.0
# The class of each tool that a plan's first commands name. A release whose server lacks it (4.4.0: it moved to
# kafka-tools, which is not published for each release) is asked by the tools of another one.
_TOOLS = {"kafka-configs.sh": "kafka.admin.ConfigCommand"}
_TOOLS_RELEASE = "4.3.1"

_BY_HAND = re.compile(r"--topic (\S+) --partition (\d+)  # once broker (\d+) ")


@dataclass
class Followed:
    """states: of all partitions when the plan was made. held: by partition, what must not be lost. copy: of all disks;
    None if a broker ran: then the same state cannot be started twice."""

    states: list[Row]
    held: dict[str, Records]
    copy: Path | None


def follow(drill: Drill, folder: Path, lake: Path) -> Followed:
    """Capture, make the plan, and do what it says: `plan` of drill.told. folder: of the nodes; lake: a new one."""
    with contextlib.suppress(ClientError):
        drill.client.ask("unload")
    time.sleep(6)  # brokers write their checkpoints every five seconds
    drill.capture()
    made = lake_of(lake, drill.captures)
    states = list(states_of(made).values())
    copies = {name_of(row): copies_of(drill, row) for row in states}
    held = {name_of(row): held_by(row, copies[name_of(row)]) for row in states}
    steps = load_plan(made, CLUSTER_ID)["steps"]
    followed = Followed(states, held, _copy_all(drill, folder / "copies"))
    for step in steps:
        drill.note(f"plan: {step['phase']}: {step['text']}")
        if done := _STEPS.get(step["code"]):
            done(drill, followed, step)
    ended = _ended(drill, followed)
    drill.wrong += _wrong(drill, ended["lost"])
    drill.told["plan"] = {
        "steps": [step["code"] for step in steps],
        "brokers": list(next((step["brokers"] for step in steps if step["code"] == "start"), ())),
        "held": sum(len(records) for records in held.values()),
        **ended,
        "careless": None,
    }
    return followed


def follow_carelessly(drill: Drill, followed: Followed) -> None:
    """Start all brokers at once on a copy of what the plan was followed on."""
    if followed.copy is None:
        return
    drill.cluster.end()
    for node in drill.cluster.nodes.values():
        for data in node.log_dirs:
            shutil.rmtree(data)
            shutil.copytree(followed.copy / str(node.id) / data.name, data)
    drill.cluster.start(CONTROLLERS)
    order = drill.rng.sample(BROKERS, len(BROKERS))
    drill.note(f"the disks are as before the plan: start {', '.join(map(str, order))} at once")
    drill.cluster.start(order)
    drill.told["plan"]["careless"] = _ended(drill, followed)


def copies_of(drill: Drill, state: Mapping[str, Any]) -> dict[int, DiskCopy]:
    """Broker -> what is on its disk of a partition."""
    folders = ((b, log_dir / name_of(dict(state))) for b in BROKERS for log_dir in drill.cluster.nodes[b].log_dirs)
    return {broker: read_copy(folder) for broker, folder in folders if folder.is_dir()}


def held_by(state: Mapping[str, Any], copies: Mapping[int, DiskCopy]) -> Records:
    """What is on the disk of the leader, or else of those whom Kafka's rules let lead, or else of the replica that
    holds most: what no order of starts needs to lose."""
    known = [broker for broker in state["last_known_elr"] or () if broker >= 0]
    last = known if len(known) == 1 else []
    led = [state["leader"]] if state["leader"] >= 0 else state["isr"] or state["elr"] or last or best_of(state, copies)
    found: Records = {}
    for broker in led:
        found |= copies[broker].records if broker in copies else {}
    return found


def best_of(state: Mapping[str, Any], copies: Mapping[int, DiskCopy]) -> list[int]:
    """The replica whose copy has the highest (last leader epoch, log end)."""
    there = [broker for broker in state["replicas"] if broker in copies]
    return [max(there, key=lambda broker: copies[broker].end)] if there else []


def _copy_all(drill: Drill, folder: Path) -> Path | None:
    """Copy all disks at one moment, if only controllers run: what a broker that runs has in memory is in no copy."""
    nodes = drill.cluster.nodes.values()
    if drill.cluster.up:
        return None
    running = [node for node in nodes if node.runs]
    for node in running:
        node.freeze()
    for node in nodes:
        for data in node.log_dirs:
            shutil.copytree(data, folder / str(node.id) / data.name)
    for node in running:
        node.thaw()
    return folder


def _run_commands(drill: Drill, followed: Followed, step: Row) -> None:
    """As they are printed, by Kafka's tools."""
    places = drill.cluster.places
    addresses = {
        commands.BOOTSTRAP: ",".join(map(places.address, drill.cluster.up)),
        commands.CONTROLLERS: ",".join(map(places.quorum_address, CONTROLLERS)),
    }
    for command in step["commands"]:
        tool, *words = shlex.split(command)
        drill.note(f"plan: {command}")
        filled = [addresses.get(word, word) for word in words]
        name = _TOOLS[tool]
        call(*places.inside(CLIENT), *java(_having(name, drill.cluster.jars)), name, *filled)


def _having(name: str, jars: Path) -> Path:
    """The folder of jars that has a class: the release's own one, if it does."""
    (server,) = jars.glob("kafka_2.*.jar")
    with ZipFile(server) as archive:
        has = f"{name.replace('.', '/')}.class" in archive.namelist()
    return jars if has else fetch(_TOOLS_RELEASE, jars.parent)


def _start(drill: Drill, followed: Followed, step: Row) -> None:
    """One after the other, with the elections by hand that a command's comment names."""
    by_hand = [(f"{topic}-{number}", int(broker)) for topic, number, broker in _BY_HAND.findall(str(step["commands"]))]
    _elect_by_hand(drill, followed, [pair for pair in by_hand if pair[1] not in step["brokers"]])
    for broker in step["brokers"]:
        drill.note(f"plan: start node {broker}")
        drill.cluster.start([broker])
        waits = {name_of(row) for row in followed.states if row["leader"] < 0 and broker in (row["isr"] or row["elr"])}
        _wait_for_leaders(drill, waits)
        _elect_by_hand(drill, followed, [pair for pair in by_hand if pair[1] == broker])


def _elect_by_hand(drill: Drill, followed: Followed, pairs: Iterable[tuple[str, int]]) -> None:
    for name, broker in pairs:
        state = next(state for state in followed.states if name_of(state) == name)
        if any(name_of(row) == name and row["leader"] < 0 for row in drill.partitions()):
            _elect_alone(drill, state, broker)


def _wait_for_leaders(drill: Drill, names: Iterable[str] | None = None) -> list[Row]:
    """Until these partitions have leaders, by default all, or no longer than _ELECTED_S. Returns all partitions."""
    deadline, wanted = time.monotonic() + _ELECTED_S, None if names is None else set(names)
    while True:
        rows = drill.partitions()
        dead = [row for row in rows if row["leader"] < 0 and (wanted is None or name_of(row) in wanted)]
        if (rows and not dead) or time.monotonic() > deadline:
            return rows
        time.sleep(0.5)


def _elect(drill: Drill, followed: Followed, step: Row) -> None:
    """Of each partition the replica that holds most is elected while no other one runs; then the others start."""
    nodes = drill.cluster.nodes
    for state in followed.states:
        name = name_of(state)
        if name not in step["places"]:
            continue
        for broker in best_of(state, copies_of(drill, state)):
            _elect_alone(drill, state, broker)
    drill.cluster.start([b for b in step["brokers"] if not nodes[b].runs])


def _elect_alone(drill: Drill, state: Row, best: int) -> None:
    """An unclean election while no other replica runs."""
    name, nodes = name_of(state), drill.cluster.nodes
    others = [broker for broker in state["replicas"] if broker != best and nodes[broker].runs]
    for broker in others:
        drill.note(f"plan: stop node {broker}, which does not hold most of {name}")
        nodes[broker].end(Signals.SIGTERM, _STOP_S)
    drill.cluster.start([] if nodes[best].runs else [best])
    drill.note(f"plan: unclean election of {name}: {best}")
    drill.client.ask("elect", "UNCLEAN", name)
    _wait_for_leaders(drill, [name])
    drill.cluster.start(others)


def _ended(drill: Drill, followed: Followed) -> Row:
    """How an order of starts ended. lost: by partition, the records that it lost; leaderless: partitions."""
    rows = _wait_for_leaders(drill)
    ledger = Ledger.from_json(drill.ledger.as_json())
    for record in (r for records in ledger.records.values() for r in records):
        record.lost = False
    replace(drill, ledger=ledger).read_topics(drill.scenario.topics)
    leaderless = [name_of(row) for row in rows if row["leader"] < 0]
    return {"lost": lost_of(ledger, followed.held), "leaderless": leaderless}


def lost_of(ledger: Ledger, held: Mapping[str, Records]) -> dict[str, int]:
    """By partition: the records acknowledged with acks=all that were held and are lost."""
    counts = {
        ledger.name(place): sum(
            r.offset is not None and held.get(ledger.name(place), {}).get(r.offset) == r.value for r in records
        )
        for place, records in ledger.lost().items()
    }
    return {name: count for name, count in counts.items() if count}


def _wrong(drill: Drill, lost: Mapping[str, int]) -> Iterator[Wrong]:
    for name, count in lost.items():
        yield Wrong(PLAN_LOST, name, f"{count} records that were there before the plan was followed are gone")
    up = set(drill.cluster.up)
    for row in drill.partitions():
        able = sorted(up & {*row["isr"], *(row["elr"] or ())})
        if row["leader"] < 0 and able:
            yield Wrong(PLAN_LEADERLESS, name_of(row), f"it has no leader, and {able} may lead")


# What is done at the steps of a plan that say to do something. All disks are copied in any case.
_STEPS: dict[str, Callable[[Drill, Followed, Row], None]] = {
    "turn_off_unclean": _run_commands,
    "start": _start,
    "elect": _elect,
}
