"""Steps that `ahead` predicts before they are taken, compared with what Kafka's controller then writes.

First all brokers are restarted in the order that `ahead` gives, then the steps are by chance, such restarts among them.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from drill.chance import write_led
from drill.nodes import BROKERS, CLUSTER_ID, wait_for
from drill.scenario import Step, name_of
from drill.score import lake_of, states_of, wrong
from jobs.config.settings import load_settings
from jobs.lake.lake import Lake, Row
from jobs.queries.ahead import AheadAnswer, ahead
from replay.cluster.configs import MIN_ISR, UNCLEAN_LEADER_ELECTION
from replay.controller.profiles import profile_of
from replay.whatif.ahead import ELECT, SET, START, STOP, UNCLEAN, ClusterAction

if TYPE_CHECKING:
    from drill.steps import Drill

# Until the controller has written what follows from a step.
_WRITTEN_S, _SETTLE_S = 1.0, 30.0
# unclean.leader.election.interval.ms of a drill, and a little more.
_SWEPT_S = 7.0


def play_ahead(drill: Drill, steps: int) -> None:
    """Take so many steps. Each is asked about first: a row for each in drill.told. flagged: by partition that may lose
    records, how many at most; None: nobody knows."""
    predicted: list[Row] = drill.told.setdefault("ahead", [])
    unclean_stops: set[int] = set()
    flagged: dict[str, int | None] = {}
    restarts: list[ClusterAction] = []
    while len(predicted) < steps:
        _churn(drill, None if restarts or not predicted else unclean_stops)
        _wait_until_in_sync(drill)
        lake = _lake(drill)
        states = states_of(lake)
        # As likely as a step of another kind, while all brokers run.
        if not restarts and len(drill.cluster.up) == len(BROKERS) and (not predicted or drill.rng.random() < 0.2):
            restarts = _restarts(drill, lake)
        in_order = bool(restarts)
        step = restarts.pop(0) if restarts else _choose(drill, states)
        answer = ahead(lake, CLUSTER_ID, [step], False, load_settings())
        drill.note(f"ahead {step}: {'safe' if answer.safe else 'not safe'}")
        _take(drill, step)
        then = states_of(_lake(drill))
        rows = _rows_that_hold(answer, drill.cluster.jars.name, unclean_stops)
        differing = list(_differences(step, states, then, rows))
        if in_order and not answer.safe:
            differing.append("it is of a safe order, and not safe")
        if step.kind == START:
            unclean_stops.discard(step.broker)
        for name, row in rows.items():
            if UNCLEAN in row["effects"]:
                flagged[name] = row["loss_max"]
        lost = _lost(drill) if step.kind != STOP else {}
        for name, count in lost.items():
            if (most := flagged.get(name, 0)) is not None and count > most:
                differing.append(f"{name} lost {count} records, not at most {most}")
        for text in differing:
            drill.note(f"ahead was wrong: {text}")
            drill.wrong.append(wrong("wrong prediction", "-", f"{step}: {text}"))
        predicted.append(
            {
                "step": str(step),
                "in_order": in_order,
                "safe": answer.safe,
                "changed": len(rows),
                "unclean": sum(UNCLEAN in row["effects"] for row in rows.values()),
                "lost": lost,
                "wrong": differing,
            }
        )


def _lake(drill: Drill) -> Lake:
    """A lake of what all nodes have now; that of the step before is removed."""
    for folder in (capture := drill.out / "now", root := drill.out / "lake-now"):
        shutil.rmtree(folder, ignore_errors=True)
    drill.capture_to(capture)
    return lake_of(root, [capture], is_judged=False)


def _restarts(drill: Drill, lake: Lake) -> list[ClusterAction]:
    """The stops and starts of the order in which `ahead` would restart all brokers; none without an order."""
    answer = ahead(lake, CLUSTER_ID, [], True, load_settings())
    drill.note(f"ahead --restart-all: {answer.order}, {'safe' if answer.safe else 'not safe'}")
    return [ClusterAction(kind, broker) for broker in answer.order or () if answer.safe for kind in (STOP, START)]


def _churn(drill: Drill, unclean_stops: set[int] | None) -> None:
    """Records, and sometimes a broker that is killed. unclean_stops: gets it; None: none is killed."""
    chosen = [name for name in drill.scenario.partitions if drill.rng.random() < 0.5]
    with drill.notes_refusals():
        write_led(drill, chosen, 5, "all")
    if unclean_stops is not None and len(drill.cluster.up) > 2 and drill.rng.random() < 0.25:
        broker = drill.rng.choice(drill.cluster.up)
        drill.play([Step(kill=[broker])])
        unclean_stops.add(broker)
        time.sleep(drill.scenario.fenced_s)


def _wait_until_in_sync(drill: Drill) -> None:
    up = set(drill.cluster.up)

    def settled() -> bool:
        rows = drill.partitions()
        return bool(rows) and all(set(r["isr"]) == up & set(r["replicas"]) for r in rows if r["leader"] >= 0)

    wait_for("the replicas that run are in sync", settled, _SETTLE_S)


def _choose(drill: Drill, states: Mapping[str, Row]) -> ClusterAction:
    rng, up = drill.rng, drill.cluster.up
    down = [broker for broker in BROKERS if broker not in up]
    topic = rng.choice(sorted(drill.scenario.topics))
    dead = [row for row in states.values() if row["leader"] < 0]
    row = rng.choice(dead if dead and rng.random() < 0.7 else list(states.values()))
    able = [broker for broker in row["replicas"] if broker in up] or row["replicas"]
    elected = able[0] if row["leader"] < 0 else row["replicas"][0]
    choices: list[tuple[int, Callable[[], ClusterAction]]] = [
        (5 if len(up) > 1 else 0, lambda: ClusterAction(STOP, rng.choice(up))),
        (5 if down else 0, lambda: ClusterAction(START, rng.choice(down))),
        (2, lambda: ClusterAction(SET, topic=topic, key=MIN_ISR, value=str(rng.choice((1, 2, 3))))),
        (2, lambda: ClusterAction(SET, key=MIN_ISR, value=str(rng.choice((1, 2, 3))))),
        (1, lambda: ClusterAction(SET, topic=topic, key=UNCLEAN_LEADER_ELECTION, value=rng.choice(("true", "false")))),
        (3, lambda: ClusterAction(ELECT, elected, row["topic"], row["partition"])),
    ]
    (make,) = rng.choices([make for _, make in choices], [weight for weight, _ in choices])
    return make()


def _take(drill: Drill, step: ClusterAction) -> None:
    wait_s = _WRITTEN_S
    if step.kind in (STOP, START):
        drill.play([Step.model_validate({step.kind: step.broker})])
    elif step.kind == SET:
        drill.play([Step(set=f"{step.key}={step.value}", topic=step.topic)])
        wait_s = _SWEPT_S if step.key == UNCLEAN_LEADER_ELECTION else _WRITTEN_S
    else:
        name = f"{step.topic}-{step.partition}"
        leaderless = drill.state(name)["leader"] < 0
        with drill.notes_refusals():  # what it refuses changes nothing
            drill.play([Step(elect=name, type="UNCLEAN" if leaderless else "PREFERRED")])
    time.sleep(wait_s)


def _rows_that_hold(answer: AheadAnswer, release: str, unclean_stops: set[int]) -> dict[str, Row]:
    """The predictions by partition under the condition that is true: the drill knows the release and who was killed."""
    profile = profile_of(release)
    assert profile is not None
    kept = {}
    for row in answer.rows:
        words = (row["condition"] or "").split(", ")
        rules = [word for word in words if word.startswith("the rules of")]
        ways = [word for word in words if word.startswith("broker ")]
        true = [f"broker {b} stopped uncleanly" for b in unclean_stops]
        if rules and rules != [f"the rules of {profile.name}"]:
            continue
        if all(
            (way in true) if way.endswith("uncleanly") else way.replace("cleanly", "uncleanly") not in true
            for way in ways
        ):
            kept[name_of(row)] = row
    return kept


def _differences(
    step: ClusterAction, states: Mapping[str, Row], then: Mapping[str, Row], rows: Mapping[str, Row]
) -> Sequence[str]:
    """What of the states after a step is not as predicted: leaders; ISR and ELR, too, where no replica comes back."""
    found = []
    for name, state in then.items():
        wanted = rows.get(name, states[name])
        names = ("leader",) if step.kind == START else ("leader", "isr", "elr")
        seen, said = ({n: sorted(of[n]) if isinstance(of[n], list) else of[n] for n in names} for of in (state, wanted))
        if seen != said:
            found.append(f"{name} has {seen}, predicted was {said}")
    return found


def _lost(drill: Drill) -> dict[str, int]:
    """By partition, all records acknowledged with acks=all that are lost so far."""
    with drill.notes_refusals():  # with too few in sync a new leader knows no high watermark yet; read again later
        drill.read_topics(drill.scenario.topics)
    return {of.name: len(of.lost) for of in drill.ledger.lost().values()}
