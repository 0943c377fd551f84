"""Where to move replicas of brokers that are gone: the plan of kafka-reassign-partitions.

Sources: Kafka's ReassignPartitionsCommand (the plan's format; verifyBrokerIds refuses all of a plan that names a broker
that is fenced or unknown, 3.9.1 to 4.3.1), KIP-455 (a plan replaces a reassignment that is under way; nobody is taken
into the ISR, so that it ends, without a leader that runs).
"""

import json
from collections.abc import Collection, Iterator, Sequence

from replay.arrow.runs import groups
from replay.plan.step import MOST_PLACES, Action, Row, What, is_legal

_LEAST_REPLICAS = 2


def reassignments(states: Sequence[Row], active: Collection[int]) -> Iterator[Action]:
    """For each set of gone brokers: move their replicas of at most MOST_PLACES partitions to active brokers, or remove
    them if no other broker is active.

    states: of partitions at the log's end, with `leader`, `replicas`, `adding_replicas`, `removing_replicas`."""
    led = (row for row in states if row["leader"] in active and is_legal(row["topic"]))
    # A plan would replace a reassignment that is under way.
    movable = [row for row in led if not (row["adding_replicas"] or row["removing_replicas"])]
    for gone, rows in groups(movable, lambda row: tuple(sorted(set(row["replicas"]) - set(active)))).items():
        if gone and active and (plan := _plan(rows[:MOST_PLACES], gone, active)):
            text = json.dumps({"version": 1, "partitions": plan}, separators=(",", ":"))
            name = f"replicas-of-{'-'.join(map(str, gone))}.json"
            yield Action(What.REASSIGN, name=name, value=text, more=len(rows[MOST_PLACES:]))


def _plan(rows: Sequence[Row], gone: Sequence[int], active: Collection[int]) -> list[Row]:
    """The entries of the plan: of each partition that is left without a gone replica. A gone replica's place goes to
    the active broker that has got the fewest so far."""
    taken = dict.fromkeys(sorted(active), 0)
    found: list[Row] = []
    for row in rows:
        replicas = list(row["replicas"])
        for broker in gone:
            spare = [b for b in taken if b not in replicas]
            if spare:
                chosen = min(spare, key=lambda b: (taken[b], b))
                taken[chosen] += 1
                replicas[replicas.index(broker)] = chosen
            elif len(replicas) > _LEAST_REPLICAS:
                replicas.remove(broker)
        if not {*gone}.intersection(replicas):
            found.append({"topic": row["topic"], "partition": row["partition"], "replicas": replicas})
    return found
