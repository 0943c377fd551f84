"""What controllers and brokers log of registrations and of unclean elections: lines that are compared with the metadata
log. All controllers log an unclean election, the active one a registration.
"""

import random
from collections.abc import Sequence
from typing import Any

from replay.controller.partition_change_builder import RECOVERING
from tests.simulator.controller import State
from tests.simulator.node_logs import NO_LINE, TEXTS, ZONES_MS, Line, LogThinning
from tests.simulator.setup import Setup

Row = dict[str, Any]

ACTIVE, STANDBY = 3_000, 3_001


def elections(at_ms: int, before: State | None, state: State) -> list[Line]:
    """Of a state that was just written."""
    if before is None or state.recovery != RECOVERING or state.leader in (-1, before.leader):
        return []
    values = {
        "previous_isr": list(before.isr),
        "previous_leader": before.leader,
        "previous_leader_epoch": before.leader_epoch,
        "isr": list(state.isr),
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
    }
    return [Line(at_ms, node, "unclean_election", state.topic_id, values) for node in (ACTIVE, STANDBY)]


def text(line: Line, setup: Setup) -> str:
    words = {name: ", ".join(map(str, v)) if isinstance(v, list) else v for name, v in line.values.items()}
    words |= {"topic": setup.topic, "partition": setup.partition, "topic_id": line.topic_id}
    return str(TEXTS["of_sessions"][line.kind].format(**words, node=line.broker))


def rows(lines: Sequence[Line], first: int, setup: Setup, thinning: LogThinning) -> list[Row]:
    """The lines that are left, as BROKER_LOG_EVENTS rows. first: position of the first line."""
    rng = random.Random(f"sessions {thinning.seed}")
    place = {broker: number for number, broker in enumerate(setup.brokers)}
    zone = {node: rng.choice(ZONES_MS) for node in (ACTIVE, STANDBY, *setup.brokers)}
    silent = {node for node in zone if rng.random() < thinning.silent}
    result = []
    for position, line in enumerate(lines, first):
        if rng.random() < thinning.share or line.broker in silent:
            continue
        # Skews are of the active controller, of the capturer and of the brokers.
        skew_ms = setup.skew_ms(2 + place[line.broker] if line.broker in place else 0)
        name = (
            f"broker-{line.broker}/server.log" if line.broker in place else f"controller-{line.broker}/controller.log"
        )
        of_topic = line.kind == "unclean_election"
        values = {
            "node_id": line.broker,
            "logged_at_ms": line.at_ms + skew_ms + zone[line.broker],
            "kind": line.kind,
            "topic": setup.topic if of_topic else None,
            "partition": setup.partition if of_topic else None,
            "topic_id": line.topic_id if of_topic else None,
            "message": text(line, setup),
            "capture": "c",
            "path": f"{setup.topic}/{name}",
            "sha256": "00",
            "position": position,
        }
        result.append({**NO_LINE, **line.values, **values})
    return result
