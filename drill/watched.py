"""A `watch` beside a drill: it follows the three controllers' own logs, or copies that it makes of them, is killed at
random and started again.

In the end its tables are compared with those of a watch that reads the same logs in one go, and with a run's
partition_history.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from drill.errors import DIES_WITH_THIS, DrillError, call, spawn
from drill.nodes import CLUSTER_ID, CONTROLLERS
from drill.score import wrong
from drill.steps import Drill
from jobs.lake.lake import Lake, Row
from jobs.watch.follower import ALARMS, STATES, WatchTables
from replay.live import PLAN_CHANGED

# What must be 0.
FAULTS = ("missed", "false", "twice", "states_differ", "history_lacks")
WATCHED, ANEW = "watch", "watch-anew"
_KILL = "kill the watch"
_LEAST_S, _MOST_S, _DOWN_S, _END_S = 60.0, 120.0, 5.0, 300.0
_COMPARED = ("topic_id", "partition", "offset", "leader", "leader_epoch", "partition_epoch", "isr", "elr", "min_isr")


@contextlib.contextmanager
def watching(drill: Drill) -> Iterator[None]:
    """Watch while something is played. Errors: DrillError if the watch ends by itself."""
    done = threading.Event()
    pauses = [drill.rng.uniform(_LEAST_S, _MOST_S) for _ in range(100)]
    with ThreadPoolExecutor(1) as beside:
        kept = beside.submit(_keep, drill, done, pauses)
        try:
            yield
        finally:
            done.set()
    kept.result()


def _keep(drill: Drill, done: threading.Event, pauses: Sequence[float]) -> None:
    log = drill.out / "watch.log"
    for pause_s in pauses:
        process = spawn(_command(drill, WATCHED), log)
        ended = done.wait(pause_s)
        if process.poll() is not None:
            raise DrillError(f"watch ended by itself: {log.read_text(errors='replace').strip().splitlines()[-1]}")
        process.send_signal(signal.SIGTERM if ended else signal.SIGKILL)
        process.wait(_END_S)
        if ended:
            return
        drill.note(_KILL)
        done.wait(_DOWN_S)


def _command(drill: Drill, into: str, *more: str) -> list[str]:
    homes = {node: drill.cluster.nodes[node].home for node in CONTROLLERS}
    if drill.scenario.watch == "nodes" and into == WATCHED:
        places = [word for node, home in homes.items() for word in ("--node", f"{node}=local:{home}")]
    else:
        places = [str(home / "data" / "__cluster_metadata-0") for home in homes.values()]
    command = [sys.executable, "-m", "jobs.cli", "watch", *places]
    return [*command, "--into", str(drill.out / into), "--format", "json", *more]


def compare(drill: Drill) -> None:
    """Once all nodes have ended: let the watch catch up, and another one read everything in one go. What the first one
    told, and how it differs from the other and from the run: `watch` and `alarms` of drill.told. Errors: DrillError."""
    for into in (WATCHED, ANEW):
        call(*DIES_WITH_THIS, *_command(drill, into, "--once"))
    out = drill.out
    watched, anew = (WatchTables(out / name) for name in (WATCHED, ANEW))
    alarms = sorted(watched.rows(ALARMS), key=lambda a: a["seen_ms"])
    ids = [
        {(a["alarm_id"], a["kind"]) for a in of if a["kind"] != PLAN_CHANGED and a["status"] == "stands"}
        for of in (alarms, anew.rows(ALARMS))
    ]
    gone = {(a["alarm_id"], a["kind"]) for a in alarms if a["status"] == "withdrawn"}
    states = [_states(tables.rows(STATES)) for tables in (watched, anew)]
    history = _states(Lake(out / "lake").rows("partition_history", CLUSTER_ID, _COMPARED))
    delays = [a["seen_ms"] - a["timestamp_ms"] for a in alarms if a["timestamp_ms"] is not None]
    told = drill.told["watch"] = {
        "kills": sum(text == _KILL for _, text in drill.journal),
        "alarms": len(alarms),
        "withdrawn": len(gone),
        "missed": len(ids[1] - ids[0]),
        "false": len(ids[0] - ids[1] - gone),
        "twice": len(alarms) - len({(a["alarm_id"], a["status"]) for a in alarms}),
        "states": len(states[0]),
        "states_differ": len(set(states[0]) ^ set(states[1])) + abs(len(states[0]) - len(states[1])),
        "history_lacks": len(set(history) - set(states[0])),
        "median_delay_ms": round(median(delays)) if delays else None,
        "longest_delay_ms": max(delays, default=None),
    }
    shown = ("seen_ms", "timestamp_ms", "kind", "topic", "partition", "text")
    drill.told["alarms"] = [{name: alarm[name] for name in shown} for alarm in alarms]
    drill.wrong += [wrong("wrong watch", "-", f"{name}: {told[name]}") for name in FAULTS if told[name]]


def _states(rows: Sequence[Row]) -> list[str]:
    return [repr([row[name] for name in _COMPARED]) for row in rows]
