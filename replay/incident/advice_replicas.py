"""Advice to move replicas away from brokers that are gone, with the exact plan of kafka-reassign-partitions.

Sources: Kafka's ReassignPartitionsCommand (format of the plan), KIP-455 (a plan replaces a reassignment that is under
way; a partition without a leader cannot be reassigned).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replay.incident.advice_piece import (
    EXPOSURE,
    MOST_PLACES,
    NOW,
    SERVER,
    Row,
    broker_state,
    count,
    groups,
    is_legal,
    listed,
    piece,
)

_LEAST_REPLICAS = 2


def reassignments(
    rows: Sequence[Row], placements: Mapping[tuple[str, int], Row], brokers: Mapping[int, Row]
) -> Iterator[Row]:
    """For each set of gone brokers: the plan that moves their replicas to active brokers, or removes them if no other
    broker is active.

    rows: findings last_replica_standing that had not ended. placements: states at the log's end, with `leader`,
    `replicas`, `adding_replicas`, `removing_replicas`. brokers: broker -> its BROKER_HISTORY row.
    """
    active = {broker for broker, row in brokers.items() if row["incarnation_id"] is not None and not row["fenced"]}
    found = {(row["topic_id"], row["partition"]): row for row in rows}
    standing = [(row, placements[key]) for key, row in found.items() if key in placements]
    movable = [pair for pair in standing if _is_movable(pair[1])]
    for gone, pairs in groups(movable, lambda pair: tuple(sorted(set(pair[1]["replicas"]) - active))).items():
        if not gone or not active:
            continue
        plan = _plan(pairs, gone, active)
        if plan is None:
            continue
        moves = any(set(entry["replicas"]) - set(state["replicas"]) for entry, (_, state) in plan)
        yield _piece([row for _, (row, _) in plan], [entry for entry, _ in plan], gone, moves, brokers)


def _is_movable(state: Row) -> bool:
    """Whether it has a leader, and no reassignment that a plan would replace."""
    return state["leader"] not in (None, -1) and not (state["adding_replicas"] or state["removing_replicas"])


def _plan(
    pairs: Sequence[tuple[Row, Row]], gone: Sequence[int], active: set[int]
) -> list[tuple[Row, tuple[Row, Row]]] | None:
    """(entry of the plan, (finding, state)) of each partition; None if no partition gets a copy more or one gone less.
    A gone replica's place goes to the active broker that has got the fewest so far."""
    taken = dict.fromkeys(sorted(active), 0)
    found = []
    for row, state in pairs:
        replicas = list(state["replicas"])
        for broker in gone:
            spare = [b for b in taken if b not in replicas]
            if spare:
                chosen = min(spare, key=lambda b: (taken[b], b))
                taken[chosen] += 1
                replicas[replicas.index(broker)] = chosen
            elif len(replicas) > _LEAST_REPLICAS:
                replicas.remove(broker)
        if replicas != state["replicas"]:
            entry = {"topic": row["topic"], "partition": row["partition"], "replicas": replicas}
            found.append((entry, (row, state)))
    return found or None


def _piece(
    rows: Sequence[Row], plan: Sequence[Row], gone: Sequence[int], moves: bool, brokers: Mapping[int, Row]
) -> Row:
    legal = [entry for entry in plan if is_legal(entry["topic"])][:MOST_PLACES]
    facts = [state for state in (broker_state(brokers, broker) for broker in gone) if state]
    if len(legal) < len(plan):
        facts.append(f"The plan has {len(legal)} of {count(len(plan), 'partition')}: make more like it.")
    named, number = listed(gone), count(len(rows), "partition")
    doing = "move its replicas" if moves else "remove its replicas"
    why = "so that a second copy exists" if moves else "since no other broker is active that could have them"
    then = (
        "Prediction: the new replicas copy from the leader, and the move ends when they are in the ISR."
        if moves
        else "Prediction: the partitions then wait for no replica that cannot come back."
    )
    return piece(
        "move_replicas" if moves else "remove_replicas",
        NOW,
        f"If broker {named} does not come back, {doing} of {number}, {why}.",
        "last_replica_standing",
        EXPOSURE,
        rows,
        brokers=tuple(gone),
        facts=tuple(facts),
        predictions=(then,),
        commands=_commands(legal, gone),
    )


def _commands(plan: Sequence[Mapping[str, Any]], gone: Sequence[int]) -> tuple[str, ...]:
    """Write the plan, start it, look whether it has ended."""
    if not plan:
        return ()
    file = f"replicas-of-{'-'.join(map(str, gone))}.json"
    text = json.dumps({"version": 1, "partitions": list(plan)}, separators=(",", ":"))
    tool = f"kafka-reassign-partitions.sh {SERVER} --reassignment-json-file {file}"
    return f"printf '%s\\n' {shlex.quote(text)} > {file}", f"{tool} --execute", f"{tool} --verify"
