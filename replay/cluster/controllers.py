"""Registrations of controllers, which list what a controller supports.

They are independent of votes (KRaftVotersRecord): an unregistered controller keeps its vote, if it has one, and
registers again when it notices.

Sources: Kafka's ClusterControlManager (replay of RegisterControllerRecord and UnregisterControllerRecord),
QuorumController.unregisterController (4.4.0: it refuses the active controller, and ids that are not registered).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from replay.cluster.log import Problem

Row = dict[str, Any]

REGISTER_CONTROLLER, UNREGISTER_CONTROLLER = "REGISTER_CONTROLLER_RECORD", "UNREGISTER_CONTROLLER_RECORD"
CONTROLLER_TYPES = frozenset({REGISTER_CONTROLLER, UNREGISTER_CONTROLLER})


@dataclass(frozen=True, slots=True)
class ControllerReleases:
    """The evidence of which release each active controller ran (replay/controller/releases.py).

    controllers: (offset, active controller's node id or None if unknown), ascending. registrations: (offset, data of a
    RegisterControllerRecord or an UnregisterControllerRecord), ascending. named: the releases that manifests name.
    """

    controllers: tuple[tuple[int, int | None], ...] = ()
    registrations: tuple[tuple[int, Row], ...] = ()
    named: tuple[str, ...] = ()


def registered_after(registered: Iterable[int], record: Row) -> set[int]:
    """The ids of the registered controllers after one record of CONTROLLER_TYPES."""
    node = record["data"]["controllerId"]
    return {*registered, node} if record["type"] == REGISTER_CONTROLLER else set(registered) - {node}


def controller_problems(records: Iterable[Row], controllers: Sequence[tuple[int, int | None]]) -> list[Problem]:
    """Report unregistrations that no Kafka controller writes. They are applied nevertheless.

    records: of CONTROLLER_TYPES that count, in offset order. controllers: (offset, active controller's node id or None
    if unknown), ascending.
    """
    problems = []
    begins = [offset for offset, _ in controllers]
    registered: set[int] = set()
    for record in records:
        node, offset = record["data"]["controllerId"], record["offset"]
        term = bisect_right(begins, offset) - 1
        if record["type"] == UNREGISTER_CONTROLLER and "place" not in record:
            if node not in registered:
                message = f"{UNREGISTER_CONTROLLER} for controller {node}, which is not registered"
                problems.append(Problem("unknown_controller", offset, message))
            elif term >= 0 and controllers[term][1] == node:
                message = f"{UNREGISTER_CONTROLLER} for controller {node}, which was the active controller"
                problems.append(Problem("active_controller_unregistered", offset, message))
        registered = registered_after(registered, record)
    return problems
