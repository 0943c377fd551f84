"""The PartitionChangeRecord that a controller writes, one case at a time: the rules as they are to be read.

The measure of replay.controller.partition_change_builder. Each step is a paragraph of build(), in the order of Kafka's
PartitionChangeBuilder; where releases differ, the profile says how.
"""

from dataclasses import dataclass, fields, make_dataclass

from replay.controller.partition_change_builder import (
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    KEEP_RECOVERY,
    NO_CHANGE,
    NO_LEADER,
    RECOVERING,
    UNASSIGNED,
    Cases,
)
from replay.controller.profiles import ON_LEADERLESS, Profile

# One of Cases: a state, what triggers a change of it, and the surroundings, as numbers, flags and lists.
Case = make_dataclass("Case", [field.name for field in fields(Cases)], slots=True)


@dataclass(slots=True)
class Record:
    """A PartitionChangeRecord. None, NO_CHANGE and KEEP_RECOVERY: it does not hold the field, which stays as it is."""

    leader: int = NO_CHANGE
    recovery: int = KEEP_RECOVERY
    isr: list[int] | None = None
    elr: list[int] | None = None
    last_known_elr: list[int] | None = None
    replicas: list[int] | None = None
    removing: list[int] | None = None
    adding: list[int] | None = None
    directories: list[int] | None = None


@dataclass(slots=True)
class Targets:
    """What the partition is to have; a reassignment that ends and an election change it."""

    replicas: list[int]
    isr: list[int]
    removing: list[int]
    adding: list[int]
    elr: list[int]


def build(case: Case, profile: Profile) -> Record:
    """What a controller of the profile writes; Record() stands for no record at all."""
    target = Targets(case.target_replicas, case.target_isr, case.target_removing, case.target_adding, case.elr)
    record = Record()

    if reassignment_ends(target, profile):
        target.isr = without(target.isr, target.removing)
        target.replicas = without(target.replicas, target.removing)
        target.removing = target.adding = []

    # ELR is decided before the election replaces the ISR.
    if case.elr_enabled:
        target.elr = eligible_leader_replicas(case, target.isr)

    winner, clean = elect(case, target, profile)
    if winner == case.leader:
        clean = True
    elif clean:
        record.leader = winner
        if winner in target.elr:
            target.isr = [winner]
            target.elr = without(target.elr, [winner])
    else:
        record.leader = winner
        record.isr = target.isr = [winner]
        if case.marks_recovery and case.recovery != RECOVERING:
            record.recovery = RECOVERING

    # A replica that leaves the assignment begins a leader epoch, whoever leads.
    if record.leader == NO_CHANGE and without(case.replicas, target.replicas):
        record.leader = case.leader

    if not clean or not case.elr_enabled:
        target.elr = []
    if target.elr != case.elr:
        record.elr = target.elr

    # Without ELR the last member stays in the ISR: the last replica standing.
    if target.isr != case.isr and (target.isr or case.elr_enabled):
        record.isr = target.isr

    shrinks = record.isr is not None and without(case.isr, record.isr)
    if record.leader == NO_CHANGE and shrinks and case.bumps_leader_epoch_on_shrink:
        record.leader = case.leader

    if case.elr_enabled:
        record.last_known_elr = last_known_leader(case, record, profile)

    if target.replicas:
        own = dict(zip(case.replicas, case.directories, strict=True))
        directories = [own.get(replica, UNASSIGNED) for replica in target.replicas]
        if case.has_directories and directories != case.directories:
            record.directories = directories
        if target.replicas != case.replicas:
            record.replicas = target.replicas
    if target.removing != case.removing:
        record.removing = target.removing
    if target.adding != case.adding:
        record.adding = target.adding

    if case.target_recovery != case.recovery:
        record.recovery = case.target_recovery
    return record


def without(members: list[int], others: list[int]) -> list[int]:
    return [m for m in members if m not in others]


def reassignment_ends(target: Targets, profile: Profile) -> bool:
    """In sync without the removing replicas: the adding ones, or all that remain, as the profile has it."""
    isr = set(without(target.isr, target.removing))
    replicas = set(without(target.replicas, target.removing))
    if not target.removing and not target.adding:
        return False
    if target.removing and (not isr or not replicas):
        return False
    if profile.reassignment_ends_with_adding:
        return isr.issuperset(target.adding) and (len(target.adding) >= len(target.removing) or isr >= replicas)
    return isr >= replicas


def eligible_leader_replicas(case: Case, isr: list[int]) -> list[int]:
    """Below min ISR those stay eligible that were, or were in sync, unless their broker came back uncleanly."""
    if len(isr) >= case.min_isr:
        return []
    return without(without(in_hash_order(case.elr, case.isr), isr), case.unclean_shutdown)


def in_hash_order(first: list[int], more: list[int]) -> list[int]:
    """All members as java.util.HashSet, made of the first list, then given the others, goes over them.

    An ELR is written again when its order changes. Not shown: a bucket of nine, of which Java makes a tree.
    """
    members = first + without(more, first)
    buckets = 16
    while buckets < int(len(first) / 0.75) + 1 or len(members) > buckets * 0.75:
        buckets *= 2

    def bucket(broker_id: int) -> int:
        bits = broker_id & 0xFFFFFFFF
        return (bits ^ bits >> 16) % buckets

    return sorted(members, key=bucket)


def elect(case: Case, target: Targets, profile: Profile) -> tuple[int, bool]:
    """(leader or NO_LEADER, whether the election is clean)."""
    electable = target.isr or target.elr

    def valid(broker_id: int) -> bool:
        return broker_id in electable and broker_id in case.acceptable

    if case.election == ELECT_PREFERRED and target.replicas and valid(target.replicas[0]):
        return target.replicas[0], True
    for broker_id in (case.leader, *target.replicas):
        if valid(broker_id):
            return broker_id, True
    if case.elr_enabled and not electable and len(case.last_known_elr) == 1:
        known = case.last_known_elr[0]
        if known in case.acceptable or not profile.last_known_leader_must_be_acceptable:
            return known, False
    if case.election == ELECT_UNCLEAN:
        for broker_id in target.replicas:
            if broker_id in case.acceptable:
                return broker_id, False
    return NO_LEADER, True


def last_known_leader(case: Case, record: Record, profile: Profile) -> list[int] | None:
    """The field as it is written: the leader before the change, [] once there is a leader again, None as it was."""
    stored = case.last_known_elr
    if profile.last_known_leader_written == ON_LEADERLESS:
        put, led = record.leader == NO_LEADER and not stored, record.leader >= 0
    else:
        put = record.isr == [] and stored != [case.leader]
        led = record.leader >= 0 or NO_LEADER not in (case.leader, record.leader)
    if put:
        return [case.leader]
    return [] if led and stored else None
