"""What a plan follows from (replay/plan/plan.py)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replay.plan.start_order import NOBODY, Waiting
from replay.plan.step import Row, about, is_active, some, visible


@dataclass(frozen=True, slots=True)
class PlanInput:
    """What a plan follows from, as it was at the log's end.

    waiting: partitions without a leader; alone: STATES of partitions with several replicas and one member of ISR and
    ELR together, the first ones; alone_count: how many there are, by that member. lost: windows (hwm_regression) that
    are not excluded, with previous_leader, isr_before, elr_before and candidates of their election, joined_again:
    whether previous_leader came into the ISR of another leader after it; longest: findings last_replica_standing,
    longest first; known_bugs: rule_mismatch with a known bug. left_out: how many windows were not read. current: topic
    name -> id of the topic that has it; partition_counts: topic id -> number of partitions, of the internal topics;
    single: topics with one replica. configs: CONFIG_HISTORY in force; features: name -> level, empty if not known;
    voters: of the metadata quorum, empty if not known; brokers: broker -> its BROKER_HISTORY row; active: broker ->
    (highest broker epoch with which it could lead, metadata offset of the last change after which it could), absent if
    it never could. last_seen: (topic_id, partition) -> broker -> {log_end_offset, high_watermark}, as last read since
    it has no leader; null where not read. sizes: (topic name, partition) -> broker -> {size_bytes, source,
    captured_at_ms} of its segments, as last read. finding_ids: (topic_id, partition) -> finding, of `waiting`.
    """

    waiting: Sequence[Waiting] = ()
    alone: Sequence[Row] = ()
    alone_count: Mapping[int, int] = field(default_factory=dict)
    lost: Sequence[Row] = ()
    longest: Sequence[Row] = ()
    known_bugs: Sequence[Row] = ()
    left_out: int = 0
    current: Mapping[str, str] = field(default_factory=dict)
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    single: frozenset[str] = frozenset()
    configs: Sequence[Row] = ()
    features: Mapping[str, int] = field(default_factory=dict)
    voters: frozenset[int] = frozenset()
    brokers: Mapping[int, Row] = field(default_factory=dict)
    active: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    last_seen: Mapping[tuple[str, int], Mapping[int, Row]] = field(default_factory=dict)
    sizes: Mapping[tuple[str, int], Mapping[int, Row]] = field(default_factory=dict)
    finding_ids: Mapping[tuple[str, int], str] = field(default_factory=dict)

    @property
    def down(self) -> frozenset[int]:
        """Brokers that could not lead, and have replicas of partitions that lack a leader or a second copy."""
        replicas = {b for each in self.waiting for b in each.replicas} | {b for s in self.alone for b in s["replicas"]}
        return frozenset(b for b in replicas if not is_active(self.brokers, b))

    @property
    def combined(self) -> frozenset[int]:
        """Voters that are brokers, too: both are one process."""
        return self.voters & {b for b, row in self.brokers.items() if row["incarnation_id"] is not None}

    def takes_majority(self, brokers: Collection[int]) -> bool:
        """Whether no majority of the voters runs while these brokers do not."""
        return bool(self.voters) and 2 * len(self.combined & {*brokers}) >= len(self.voters)

    @property
    def has_no_majority(self) -> bool:
        """Whether no majority of the voters ran when the log ended, by the brokers that are voters."""
        return self.takes_majority([b for b in self.brokers if not is_active(self.brokers, b)])

    @property
    def candidates(self) -> frozenset[int]:
        """Those of them that only start once the copies of partitions that nobody's return helps were compared."""
        members = {b for each in self.waiting for b in each.members}
        replicas = {b for each in self.waiting if each.by == NOBODY for b in each.replicas}
        return self.down & replicas - members


def about_waiting(given: PlanInput, waiting: Sequence[Waiting]) -> dict[str, Any]:
    """The fields of a Step that say which findings and partitions it is about."""
    found = about(places_of(given, waiting))
    return {**found, "place_count": sum(each.count for each in waiting)}


def places_of(given: PlanInput, waiting: Sequence[Waiting]) -> list[Row]:
    """A row for each partition that `waiting` names, with its finding_id."""
    ids = given.finding_ids
    return [
        {"topic_id": w.topic_id, "topic": w.topic, "partition": p, "finding_id": ids.get((w.topic_id, p))}
        for w in waiting
        for p in w.partitions
    ]


def named(waiting: Sequence[Waiting], most: int = 5) -> str:
    """The first partitions, as text."""
    return some([f"{visible(w.topic, w.topic_id)}-{p}" for w in waiting for p in w.partitions], most)


def logs_of(given: PlanInput, waiting: Sequence[Waiting]) -> Iterator[tuple[Waiting, str, Mapping[int, Row]]]:
    """(its class, its name, broker -> what was last seen of its log) of each partition that `waiting` names."""
    for each in waiting:
        for partition in each.partitions:
            name = f"{visible(each.topic, each.topic_id)}-{partition}"
            yield each, name, given.last_seen.get((each.topic_id, partition), {})


def members_of(waiting: Sequence[Waiting]) -> list[int]:
    """The brokers that some of them wait for, sorted."""
    return sorted({broker for each in waiting for broker in each.members})
