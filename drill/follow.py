"""The product's plan, followed on the real cluster while things are still broken, and beside it the careless order: all
brokers at once, from a copy of the same disks.

A record is lost by an order if it was acknowledged with acks=all, was on the disk of a replica that Kafka's rules let
lead when the plan was made, and cannot be read afterwards from a partition that has a leader again.
"""

import contextlib
import copy
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drill.client import ClientError
from drill.disks import DiskCopy, read_copy
from drill.errors import DrillError, call
from drill.ledger import Ledger
from drill.network import CLIENT
from drill.nodes import BROKERS, CLUSTER_ID, CONTROLLERS, fetch, java, wait_for
from drill.scenario import Step, name_of
from drill.score import lake_of, states_of, wrong
from drill.steps import Drill
from jobs.incident import plan

Row = dict[str, Any]
Records = dict[int, str]  # offset -> value
# So long a partition may take to get a leader after the start of a broker that it waits for.
_ELECTED_S = 15.0
# kafka-configs.sh, which a plan's first commands call, as in a release that has it: in 4.4.0 it moved to kafka-tools,
# which is not published for each release.
_CONFIGS_TOOL, _TOOLS_RELEASE = "kafka.admin.ConfigCommand", "4.3.1"
_BY_HAND = re.compile(r"--topic (\S+) --partition (\d+)  # (?:first stop (.*?), then )?once broker (\d+) ")


@dataclass
class Followed:
    """states: of all partitions, by name, when the plan was made. held: by partition, what must not be lost. copy: of
    all disks; None if a broker ran: then the same state cannot be started twice."""

    states: dict[str, Row]
    held: dict[str, Records]
    copy: Path | None


def follow(drill: Drill) -> Followed:
    """Capture, make the plan, and do what it says: `plan` of drill.told."""
    with contextlib.suppress(ClientError):
        drill.client.ask("unload")
    time.sleep(6)  # brokers write their checkpoints every five seconds
    drill.capture()
    lake = lake_of(drill.out / "lake-plan", drill.captures)
    states = states_of(lake)
    held = {name: held_by(state, copies_of(drill, name)) for name, state in states.items()}
    steps = plan.load_plan(lake, CLUSTER_ID)["steps"]
    followed = Followed(states, held, _copy_all(drill))
    for step in steps:
        drill.note(f"plan: {step['phase']}: {step['text']}")
        if done := _STEPS.get(step["code"]):
            done(drill, followed, step)
    ended = _ended(drill, followed)
    for name, count in ended["lost"].items():
        text = f"{count} records that were there before the plan was followed are gone"
        drill.wrong.append(wrong("plan lost records", name, text))
    for row in drill.partitions():
        if row["leader"] < 0 and (able := sorted({*drill.cluster.up} & {*row["isr"], *(row["elr"] or ())})):
            text = f"it has no leader, and {able} may lead"
            drill.wrong.append(wrong("plan left a partition without a leader", name_of(row), text))
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
            shutil.copytree(followed.copy / node.home.name / data.name, data)
    drill.cluster.start(CONTROLLERS)
    order = drill.rng.sample(BROKERS, len(BROKERS))
    drill.note("the disks are as before the plan: start all at once")
    drill.play([Step(start=order)])
    drill.told["plan"]["careless"] = _ended(drill, followed)


def copies_of(drill: Drill, partition: str) -> dict[int, DiskCopy]:
    """Broker -> what is on its disk of a partition."""
    folders = ((b, log_dir / partition) for b in BROKERS for log_dir in drill.cluster.nodes[b].log_dirs)
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


def _copy_all(drill: Drill) -> Path | None:
    """Copy all disks at one moment, if only controllers run: what a broker that runs has in memory is in no copy."""
    if drill.cluster.up:
        return None
    nodes = drill.cluster.nodes.values()
    running = [node for node in nodes if node.runs]
    for node in running:
        node.freeze()
    for node in nodes:
        copies = node.home.parent / "copies"
        for data in node.log_dirs:
            shutil.copytree(data, copies / node.home.name / data.name)
    for node in running:
        node.thaw()
    return copies


def _run_commands(drill: Drill, followed: Followed, step: Row) -> None:
    """As they are printed, by Kafka's tool."""
    places, jars = drill.cluster.places, fetch(_TOOLS_RELEASE, drill.cluster.jars.parent)
    addresses = {
        plan.BOOTSTRAP: ",".join(map(places.address, drill.cluster.up)),
        plan.CONTROLLERS: ",".join(map(places.quorum_address, CONTROLLERS)),
    }
    for command in step["commands"]:
        drill.note(f"plan: {command}")
        words = [addresses.get(word, word) for word in shlex.split(command)[1:]]
        call(*places.inside(CLIENT), *java(jars), _CONFIGS_TOOL, *words)


def _start(drill: Drill, followed: Followed, step: Row) -> None:
    """One after the other, with the elections by hand that a command's comment names."""
    by_hand = [
        (f"{topic}-{number}", {int(b) for b in re.findall(r"\d+", stopped)}, int(broker))
        for topic, number, stopped, broker in _BY_HAND.findall(str(step["commands"]))
    ]
    for broker in [*sorted({best for *_, best in by_hand} - {*step["brokers"]}), *step["brokers"]]:
        own = {name: stopped for name, stopped, best in by_hand if best == broker}
        _lead(drill, followed, broker, own, set().union(*own.values()))


def _elect(drill: Drill, followed: Followed, step: Row) -> None:
    """Of each partition the replica that holds most is elected while no other one runs; then the others start."""
    for name, state in followed.states.items():
        for broker in best_of(state, copies_of(drill, name)) if name in step["places"] else ():
            _lead(drill, followed, broker, [name], {*state["replicas"]} - {broker})
    drill.cluster.start([b for b in step["brokers"] if not drill.cluster.nodes[b].runs])


def _lead(drill: Drill, followed: Followed, best: int, names: Iterable[str], others: set[int]) -> None:
    """Start a broker while others do not run, and elect it by hand for those partitions that get no leader by it."""
    stopped = sorted(others & {*drill.cluster.up})
    drill.play([Step(stop=stopped)] if stopped else [])
    drill.play([] if best in drill.cluster.up else [Step(start=best)])
    dead = {name: state for name, state in followed.states.items() if state["leader"] < 0}
    _wait_for_leaders(drill, [name for name, state in dead.items() if best in (state["isr"] or state["elr"])])
    for name in sorted({*names} & {*_leaderless(drill)}):
        drill.note(f"plan: elect {best}, which holds most of {name}, alone")
        drill.play([Step(elect=name)])
        _wait_for_leaders(drill, [name])
    drill.play([Step(start=stopped)] if stopped else [])


def _leaderless(drill: Drill) -> list[str]:
    return [name_of(row) for row in drill.partitions() if row["leader"] < 0]


def _wait_for_leaders(drill: Drill, names: Iterable[str]) -> None:
    """Until these partitions have leaders, or no longer than _ELECTED_S."""
    wanted = set(names)

    def led() -> bool:
        rows = drill.partitions()
        return bool(rows) and all(row["leader"] >= 0 for row in rows if name_of(row) in wanted)

    with contextlib.suppress(DrillError):
        wait_for("leaders", led, _ELECTED_S)


def _ended(drill: Drill, followed: Followed) -> Row:
    """How an order of starts ended. lost: by partition, the records that it lost; leaderless: partitions."""
    _wait_for_leaders(drill, followed.states)
    leaderless, ledger = _leaderless(drill), copy.deepcopy(drill.ledger)
    for record in (r for of in ledger.partitions.values() for r in of.records):
        record.lost = False
    replace(drill, ledger=ledger).read_topics(drill.scenario.topics)
    return {"lost": lost_of(ledger, followed.held), "leaderless": leaderless}


def lost_of(ledger: Ledger, held: Mapping[str, Records]) -> dict[str, int]:
    """By partition: the records acknowledged with acks=all that were held and are lost."""
    counts = {
        of.name: sum((r.offset, r.value) in held.get(of.name, {}).items() for r in of.lost)
        for of in ledger.lost().values()
    }
    return {name: count for name, count in counts.items() if count}


# What is done at the steps of a plan that say to do something. All disks are copied in any case.
_STEPS: dict[str, Callable[[Drill, Followed, Row], None]] = {
    "turn_off_unclean": _run_commands,
    "start": _start,
    "elect": _elect,
}
