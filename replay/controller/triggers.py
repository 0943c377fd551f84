"""Possible triggers of partition changes: hypotheses, each with the builder's input that follows from it.

The log shows a broker's event next to the partition changes that it causes, but a request only through its effect. A
hypothesis turns the previous state, and what the trigger requests, into input of `partition_change_builder.predict`.
Sources: Kafka's ReplicationControlManager (generateLeaderAndIsrUpdates and its callers, alterPartition, electLeaders,
changePartitionReassignment, cancelPartitionReassignment, handleAssignReplicasToDirs), PartitionReassignmentRevert.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from replay.arrow.ragged import PAD, Array
from replay.arrow.sets import (
    all_within,
    empty,
    first,
    fit,
    has,
    is_in,
    join,
    keep,
    resize,
    same,
    size,
    take,
    where,
    without,
)
from replay.cluster import broker_events as events
from replay.cluster.broker_events import BrokerEvents, nearest
from replay.controller.partition_change_builder import (
    ELECT_ONLINE,
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    RECOVERED,
    Cases,
    PartitionStates,
)
from replay.partitions.election_actors import Change, aimed

UNCLEAN_RESTART, CLEAN_RESTART = "unclean_restart", "clean_restart"
ALTER_PARTITION, PREFERRED_ELECTION, UNCLEAN_ELECTION = "alter_partition", "preferred_election", "unclean_election"
REASSIGNMENT, CANCELLED_REASSIGNMENT = "reassignment", "cancelled_reassignment"
DIRECTORY_ASSIGNMENT, OFFLINE_DIRECTORY_ASSIGNMENT = "directory_assignment", "offline_directory_assignment"
# What of_broker takes.
OF_BROKERS = (
    *(events.FENCE, events.CONTROLLED_SHUTDOWN, events.UNFENCE, events.UNREGISTER),
    *(UNCLEAN_RESTART, CLEAN_RESTART),
)
SHOWN_BY_ITSELF, SHOWN_BY_FOLLOWING, SHOWN_BY_PRECEDING = range(3)


@dataclass(frozen=True, slots=True)
class RecordedStates(PartitionStates):
    """The states that partition changes made. leader_epochs: by how much the leader epoch rose."""

    leader_epochs: Array


@dataclass(frozen=True, slots=True)
class Transitions:
    """Partition changes, one element each.

    before: the previous state with targets that request nothing, and the environment. again: bool, the event may have
    written the previous record, too. start: `before`, or, if again, the same of the state before that record.
    unclean_allowed: the effective unclean.leader.election.enable. lost: if again, the replicas whose
    directory is not online, a matrix.
    """

    change: Change
    before: Cases
    start: Cases
    again: Array
    after: RecordedStates
    unclean_allowed: Array
    lost: Array


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One trigger: `cases` for the transitions numbered in `rows`.

    shown_by: which record shows the trigger: the next broker record of the batch, the one before the change, or only
    the change. from_start: the cases are of Transitions.start.
    """

    trigger: str
    rows: Array
    cases: Cases
    shown_by: int
    from_start: bool = False


def hypotheses(transitions: Transitions, timeline: BrokerEvents) -> Iterator[Hypothesis]:
    """Every trigger that the log allows, likelier ones first."""
    change, before, after = transitions.change, transitions.before, transitions.after
    following, preceding = nearest(timeline, *change.place)
    usual = replace(before, election=np.where(transitions.unclean_allowed, ELECT_UNCLEAN, ELECT_ONLINE))
    start = replace(transitions.start, election=usual.election)
    in_isr, in_elr = has(before.isr, following.broker), has(before.elr, following.broker)
    led = before.leader >= 0
    preferred, unclean_election = (
        partial(with_election, election=ELECT_PREFERRED),
        partial(with_election, election=ELECT_UNCLEAN),
    )

    def found(
        trigger: str, mask: Array, cases: Cases, build: Callable[..., Cases], *more: Any, by: int = SHOWN_BY_ITSELF
    ) -> Iterator[Hypothesis]:
        """A hypothesis for the rows where the mask is true, if there are any."""
        rows = np.flatnonzero(mask)
        if len(rows):
            built = build(take(cases, rows), *(take(m, rows) for m in more))
            yield Hypothesis(trigger, rows, built, by, cases is start)

    yield from found(CANCELLED_REASSIGNMENT, change.cancelled, usual, cancelled)
    # The same replicas in another order: done at once, or the order of a reassignment that is under way changes.
    reordered = change.same_replicas & ~same(after.replicas, before.replicas)
    reordered &= change.before.under_way == change.after.under_way
    yield from found(REASSIGNMENT, aimed(change) | reordered, before, reassigned, after)
    placed = change.same_replicas & ~reordered & ~same(after.directories, before.directories)
    yield from found(DIRECTORY_ASSIGNMENT, placed, before, _assigned, after)
    for kind, mask in (
        (events.FENCE, in_isr),
        (events.UNREGISTER, in_isr | in_elr),
        (events.DIRECTORY_OFFLINE, in_isr),
    ):
        mine = mask & following.are(kind)
        yield from found(kind, mine, usual, removed, following.broker, by=SHOWN_BY_FOLLOWING)
    registered = following.are(events.REGISTRATION)
    unclean = registered & (in_isr | in_elr) & before.elr_enabled
    yield from found(UNCLEAN_RESTART, unclean, usual, restarted, following.broker, by=SHOWN_BY_FOLLOWING)
    yield from found(CLEAN_RESTART, registered & in_isr, usual, removed, following.broker, by=SHOWN_BY_FOLLOWING)
    leaving = preceding.are(events.CONTROLLED_SHUTDOWN) & has(before.isr, preceding.broker)
    yield from found(events.CONTROLLED_SHUTDOWN, leaving, usual, removed, preceding.broker, by=SHOWN_BY_PRECEDING)
    coming = preceding.are(events.UNFENCE) & ~led
    yield from found(events.UNFENCE, coming, usual, added, preceding.broker, by=SHOWN_BY_PRECEDING)
    for lost in transitions.lost.T:
        yield from found(OFFLINE_DIRECTORY_ASSIGNMENT, lost != PAD, start, removed, lost)
    vouched = has(after.isr, before.leader) | has(before.removing, before.leader)
    yield from found(ALTER_PARTITION, led & vouched, usual, altered, after)
    yield from found(PREFERRED_ELECTION, led & (after.leader != before.leader), before, preferred)
    yield from found(UNCLEAN_ELECTION, ~led, before, unclean_election)
    redirected = change.before.under_way & ~change.after.under_way & ~change.same_replicas
    yield from found(REASSIGNMENT, redirected, before, reassigned, after)
    # The same directory again: before 4.3 it empties the ELR all the same, and elects as if ELR were off.
    showing = (size(before.elr) > 0) & (size(after.elr) == 0) | (after.leader != before.leader)
    same_again = change.same_replicas & ~placed & showing & ~registered
    yield from found(DIRECTORY_ASSIGNMENT, same_again, before, _assigned, after)
    # BrokersToElrs keeps what a ClearElrRecord emptied: the same record for the ISR and the ELR, or often for the ELR.
    for kind, trigger, build in (
        (events.UNREGISTER, events.UNREGISTER, removed),
        (events.REGISTRATION, UNCLEAN_RESTART, restarted),
    ):
        mine = following.are(kind) & before.elr_enabled
        for cases, rows in ((usual, mine), (start, mine & transitions.again)):
            yield from found(trigger, rows, cases, build, following.broker, by=SHOWN_BY_FOLLOWING)
    # Whoever of the directory's partitions is in the ISR; after what the same heartbeat did otherwise.
    offline = following.are(events.DIRECTORY_OFFLINE) & has(before.replicas, following.broker)
    for cases, rows in ((usual, offline), (start, offline & transitions.again)):
        yield from found(events.DIRECTORY_OFFLINE, rows, cases, removed, following.broker, by=SHOWN_BY_FOLLOWING)
    # Any change ends a reassignment that can end: one that an older release began, or that was redirected.
    ends = redirected & all_within(after.replicas, before.replicas)
    yield from found(DIRECTORY_ASSIGNMENT, ends, before, _assigned, after)


def unshown(transitions: Transitions) -> list[Hypothesis]:
    """Hypotheses that something the log does not show removed the broker that left the ISR or stopped leading."""
    before, after = transitions.before, transitions.after
    usual = replace(before, election=np.where(transitions.unclean_allowed, ELECT_UNCLEAN, ELECT_ONLINE))
    left = ~is_in(before.isr, after.isr) & (before.isr != PAD)
    gone = np.where(left.any(axis=1), first(before.isr, left), before.leader)
    rows = np.arange(len(gone))
    return [Hypothesis("unshown", rows, cases(usual, gone), SHOWN_BY_ITSELF) for cases in (removed, restarted)]


def where_cases(condition: Array, cases: Cases, others: Cases) -> Cases:
    """Each case from `cases` where the condition is true, else from `others`."""
    return Cases(**{f.name: where(condition, getattr(cases, f.name), getattr(others, f.name)) for f in fields(Cases)})


def removed(cases: Cases, broker: Array) -> Cases:
    """Each case's broker leaves the ISR and may not lead."""
    gone = broker[:, None]
    return replace(cases, target_isr=without(cases.isr, gone), acceptable=without(cases.acceptable, gone))


def restarted(cases: Cases, broker: Array) -> Cases:
    """As `removed`, and the broker is kept out of the ELR: its log may have lost its end."""
    return replace(removed(cases, broker), unclean_shutdown=broker[:, None])


def added(cases: Cases, broker: Array) -> Cases:
    """Each case's broker may lead from now on."""
    return replace(cases, acceptable=join(cases.acceptable, broker[:, None]))


def of_broker(trigger: str, cases: Cases, broker: Array) -> tuple[Cases, Array]:
    """(input of PartitionChangeBuilder, mask of the partitions that are concerned) for an event of each case's broker:
    a fence, controlled shutdown, restart, unfence or unregistration."""
    in_isr, in_elr = has(cases.isr, broker), has(cases.elr, broker)
    if trigger == UNCLEAN_RESTART:
        # Without ELR the controller treats every restart alike.
        inputs = where_cases(cases.elr_enabled, restarted(cases, broker), removed(cases, broker))
        return inputs, in_isr | (in_elr & cases.elr_enabled)
    if trigger == events.UNFENCE:
        return added(cases, broker), cases.leader < 0
    return removed(cases, broker), in_isr | in_elr if trigger == events.UNREGISTER else in_isr


def with_election(cases: Cases, election: int) -> Cases:
    """An election of that kind, and nothing else."""
    return replace(cases, election=np.full(len(cases.leader), election))


def _assigned(cases: Cases, after: RecordedStates) -> Cases:
    """A broker reported the directory of its replica: the input already has the new directories."""
    directories = fit(cases.directories, cases.replicas.shape[1])
    for replica, directory in zip(after.replicas.T, after.directories.T, strict=False):
        mine = resize((cases.replicas == replica[:, None]) & (cases.replicas != PAD), directories.shape[1]) == 1
        directories = np.where(mine, directory[:, None], directories)
    return replace(cases, directories=where(same(cases.replicas, after.replicas), after.directories, directories))


def altered(cases: Cases, after: RecordedStates) -> Cases:
    """The leader requested the recorded ISR; if that completed a reassignment, with the replicas that left."""
    completed = (size(cases.removing) > 0) & (size(after.removing) == 0)
    left = keep(cases.isr, is_in(cases.isr, cases.removing))
    isr = where(completed, join(after.isr, left), after.isr)
    # A leader can only report that it has recovered.
    recovery = np.where(cases.recovery == RECOVERED, RECOVERED, after.recovery)
    return replace(cases, target_isr=isr, target_recovery=recovery)


def cancelled(cases: Cases) -> Cases:
    """The replicas return to those without the adding ones; an ISR that would become empty gets the first of them."""
    replicas, isr = without(cases.replicas, cases.adding), without(cases.isr, cases.adding)
    alone = where(size(isr) == 0, first(replicas, replicas != PAD)[:, None], isr)
    nothing = empty(cases.adding)
    return replace(
        cases, target_isr=alone, target_replicas=replicas, target_removing=nothing, target_adding=empty(cases.removing)
    )


def reassigned(cases: Cases, after: RecordedStates) -> Cases:
    """The targets are as recorded; if reached at once, removing and adding are the difference of the replicas. Of
    these the controller sets only what is not empty: the rest is as it was (changePartitionReassignment, 3.9.1 to
    4.3.1)."""
    at_once = (size(after.adding) == 0) & (size(after.removing) == 0)
    leaves = without(cases.replicas, after.replicas)
    comes = without(after.replicas, cases.replicas)
    removing = where(size(leaves) > 0, leaves, cases.removing)
    adding = where(size(comes) > 0, comes, cases.adding)
    return replace(
        cases,
        target_replicas=where(at_once, join(after.replicas, leaves), after.replicas),
        target_removing=where(at_once, removing, after.removing),
        target_adding=where(at_once, adding, after.adding),
    )
