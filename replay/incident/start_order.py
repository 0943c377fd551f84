"""The order in which to start brokers, so that partitions without a leader get one that has every acknowledged record.

With unclean.leader.election.enable the controller elects the first replica that comes back, whatever it holds
(ReplicationControlManager.handleBrokerUnfenced, PartitionChangeBuilder.electLeader). So whoever holds a partition's
records starts before its other replicas. No order does so for all partitions if two of them wait for each other's
outsiders; then only the config protects them, and the plan sets it before any start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

ISR, ELR, LAST_KNOWN, NOBODY = "isr", "elr", "last_known", "nobody"
ON, OFF, UNKNOWN = "on", "off", "unknown"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Partitions of a topic without a leader that wait for the same brokers.

    replicas: ids, sorted; members: those whose return Kafka answers with an election while unclean election is off:
    the ISR, else the ELR, else the last known leader, as `by` says; none for NOBODY. unclean: ON, OFF, or UNKNOWN if no
    config in the evidence sets unclean.leader.election.enable; layer: where it is set. partitions: the first ones;
    count: how many there are.
    """

    topic_id: str
    topic: str | None
    replicas: tuple[int, ...]
    members: tuple[int, ...]
    by: str
    unclean: str
    layer: str
    partitions: tuple[int, ...] = (0,)
    count: int = 1

    @property
    def outsiders(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.members)


def start_order(waiting: Sequence[Waiting], down: Collection[int]) -> tuple[int, ...]:
    """All brokers of `down`, in the order in which to start them.

    Every member of a partition comes before its other replicas, if any order does that for all partitions; else few
    partitions are left to the config. Then those come first that give most partitions a leader."""
    alike = Counter[tuple[tuple[int, ...], tuple[int, ...]]]()
    for each in waiting:
        alike[each.members, each.outsiders] += each.count
    left, order = set(down), list[int]()

    def cost(broker: int) -> tuple[int, int, int]:
        early = sum(n for (members, others), n in alike.items() if broker in others and not left.isdisjoint(members))
        helped = sum(n for (members, _), n in alike.items() if broker in members and set(order).isdisjoint(members))
        return early, -helped, broker

    while left:
        order.append(min(left, key=cost))
        left.remove(order[-1])
    return tuple(order)
