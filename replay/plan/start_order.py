"""Who should lead a partition without a leader, and the order in which to start brokers, so that such partitions get a
leader that has every acknowledged record.

With unclean.leader.election.enable the controller elects the first replica that comes back, whatever it holds
(ReplicationControlManager.handleBrokerUnfenced, PartitionChangeBuilder.electLeader). So whoever holds a partition's
records starts before its other replicas. No order does so for all partitions if two of them wait for each other's
outsiders; then only the config protects them, and the plan sets it before any start.

No config protects a partition from a member whose machine lost the end of its log. Kafka takes a member for whole if it
stopped cleanly, and elects the last known leader whatever it holds (drills plan_random of seed 2, 4.0.2 and 4.3.1: all
members had been killed, the last known leader lost power, and 6 to 12 records that other disks still had were gone).
Where the captured logs show it, the plan has the replica elected that holds most.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

ISR, ELR, LAST_KNOWN, BY_LOG, NOBODY = "isr", "elr", "last_known", "by_log", "nobody"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Partitions of a topic without a leader that wait for the same brokers.

    replicas: ids, sorted; members: those whose return Kafka answers with an election while unclean election is off:
    the ISR, else the ELR, else the last known leader, as `by` says; none for NOBODY. BY_LOG: the one replica that is to
    be elected by hand, as the captured logs have it (`to_elect`). passed_over: those whom Kafka may elect that were
    active, in a directory that was online, and did not lead: it was assigned after the last election, in place of the
    one that had their log. last_known: the one last known leader, -1 for none. partitions: the first ones, of BY_LOG
    all; count: how many there are.
    """

    topic_id: str
    topic: str | None
    replicas: tuple[int, ...]
    members: tuple[int, ...]
    by: str
    passed_over: tuple[int, ...] = ()
    last_known: int = -1
    partitions: tuple[int, ...] = (0,)
    count: int = 1

    @property
    def outsiders(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.members)

    @property
    def left_out(self) -> int:
        return self.count - len(self.partitions)

    @property
    def leader_left(self) -> bool:
        """Whether the last known leader left the ELR, by an unclean stop. It is elected, whatever it holds, once the
        last member leaves it, too (PartitionChangeBuilder.canElectLastKnownLeader, 3.9.1 to 4.3.1)."""
        return self.by == ELR and self.last_known not in (-1, *self.members)


@dataclass(frozen=True, slots=True, order=True)
class Copy:
    """A replica's log as it was read while the partition had no leader: it cannot have grown since.

    Ordered by who should lead. leader_epoch: the highest that it led, or has records of, -1 for none: of an old leader
    that was cut off the log may be longer, but only an election says so. last_written_leader_epoch: of its last record.
    high_watermark: as the replica last wrote it; -1: not known."""

    leader_epoch: int
    log_end_offset: int
    last_written_leader_epoch: int
    high_watermark: int = -1

    def holds_more_than(self, other: "Copy") -> bool:
        end, other_end = ((c.last_written_leader_epoch, c.log_end_offset) for c in (self, other))
        return self > other and end != other_end

    def goes_on_after(self, other: "Copy") -> bool:
        """Whether all of the other log is the begin of this one: both end in records of one leader epoch."""
        return self > other and self.last_written_leader_epoch == other.last_written_leader_epoch


def to_elect(replicas: Collection[int], may_lead: Collection[int], copies: Mapping[int, Copy]) -> int | None:
    """The replica that holds most, if it is to be elected by hand: nobody may lead, or one of those that may lead holds
    less. None if all of them hold the same, or if a log that decides it is not known.

    may_lead: whom Kafka's rules may elect, the members and the last known leader. copies: of replicas. One that may not
    lead counts if its log goes on where that of one that may ends, or if a high watermark shows that such a log lacks
    committed records."""
    electable = set(may_lead or replicas)
    if not electable or not electable <= copies.keys():
        return None
    worst = min(copies[broker] for broker in electable)
    better = {broker: copy for broker, copy in copies.items() if copy.holds_more_than(worst) or not may_lead}
    committed = max(copy.high_watermark for copy in (worst, *better.values()))
    if worst.log_end_offset >= committed:
        better = {b: copy for b, copy in better.items() if b in electable or copy.goes_on_after(worst)}
    return max(better, key=lambda broker: (better[broker], broker in electable, -broker), default=None)


def start_order(waiting: Sequence[Waiting], down: Collection[int]) -> tuple[int, ...]:
    """All brokers of `down`, in the order in which to start them.

    Every member of a partition comes before its other replicas, if any order does that for all partitions; else few
    partitions are left to the config, and of BY_LOG, which no config protects, still fewer. Then those come first that
    give most partitions a leader."""
    alike = Counter[tuple[tuple[int, ...], tuple[int, ...], bool]]()
    for each in waiting:
        alike[each.members, each.outsiders, each.by == BY_LOG] += each.count
    left, order = set(down), list[int]()

    def cost(broker: int) -> tuple[int, int, int, int]:
        early = [
            (n, by_log) for (members, others, by_log), n in alike.items() if broker in others and left & {*members}
        ]
        helped = sum(n for (members, _, _), n in alike.items() if broker in members and set(order).isdisjoint(members))
        return sum(n for n, by_log in early if by_log), sum(n for n, _ in early), -helped, broker

    while left:
        order.append(min(left, key=cost))
        left.remove(order[-1])
    return tuple(order)
