"""Predict the PartitionChangeRecord that a controller writes, from a partition's state and the trigger.

Vectorised over cases; the rules are data (replay/controller/profiles.py). Sources: Kafka's PartitionChangeBuilder, in
the order of its steps, since the order matters; PartitionReassignmentReplicas.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np

from replay.arrow.ragged import INT64_MAX, PAD, Array
from replay.arrow.sets import (
    all_within,
    empty,
    first,
    has,
    is_empty,
    is_in,
    join,
    joined,
    keep,
    same,
    size,
    trim,
    where,
    without,
)
from replay.controller.profiles import Profile, Rules, rules_of

Some = TypeVar("Some")

ELECT_PREFERRED, ELECT_ONLINE, ELECT_UNCLEAN = 0, 1, 2
NO_LEADER, NO_CHANGE = -1, -2
RECOVERED, RECOVERING, KEEP_RECOVERY = 0, 1, -1
UNASSIGNED = 0
# Buckets of a Java HashSet with few members, and how many it holds at most before it grows.
LEAST_BUCKETS, MOST_IN_LEAST_BUCKETS = 16, 11

_PIECE_ROWS = 1 << 15
# An empty list, as a matrix of one row.
_NONE = np.full((1, 1), PAD)


@dataclass(frozen=True, slots=True)
class PartitionStates:
    """States of partitions, one element each. Lists are int64 matrices padded with PAD (ragged.to_matrix); directories:
    one number per id, 0 for UNASSIGNED."""

    replicas: Array
    isr: Array
    elr: Array
    last_known_elr: Array
    removing: Array
    adding: Array
    directories: Array
    leader: Array
    recovery: Array


@dataclass(frozen=True, slots=True)
class Cases(PartitionStates):
    """States and triggers, one element per case.

    The trigger: election, acceptable (ids of brokers that may lead), the target_ fields (equal to the state if nothing
    else is requested), unclean_shutdown (ids). The environment: min_isr (effective), elr_enabled, and what
    metadata.version enables.
    """

    election: Array
    acceptable: Array
    target_isr: Array
    target_replicas: Array
    target_removing: Array
    target_adding: Array
    target_recovery: Array
    unclean_shutdown: Array
    min_isr: Array
    elr_enabled: Array
    marks_recovery: Array
    bumps_leader_epoch_on_shrink: Array
    has_directories: Array


def at_rest(acceptable: Array, *, min_isr: Array, **of: Array) -> Cases:
    """Cases whose targets request nothing. of: PartitionStates, elr_enabled, and what metadata.version enables."""
    return Cases(
        **of,
        election=np.full(len(acceptable), ELECT_ONLINE),
        acceptable=acceptable,
        target_isr=of["isr"],
        target_replicas=of["replicas"],
        target_removing=of["removing"],
        target_adding=of["adding"],
        target_recovery=of["recovery"],
        unclean_shutdown=empty(of["replicas"][:, :1]),
        min_isr=min_isr,
    )


@dataclass(frozen=True, slots=True)
class Changes:
    """The records, one element per case. written: field name -> bool, whether the record holds that field.

    leader is NO_CHANGE and recovery is KEEP_RECOVERY where the record does not hold them.
    """

    leader: Array
    recovery: Array
    lists: dict[str, Array]
    written: dict[str, Array]

    @property
    def is_no_op(self) -> Array:
        """True where nothing changes, so that no record is written."""
        result: Array = (self.leader == NO_CHANGE) & (self.recovery == KEEP_RECOVERY)
        for given in self.written.values():
            result &= ~given
        return result


LISTS = ("replicas", "isr", "elr", "last_known_elr", "removing", "adding")


def state_after(cases: Cases, changes: Changes) -> PartitionStates:
    """The states after predicted changes, with the directories before."""
    lists = {name: where(changes.written[name], changes.lists[name], getattr(cases, name)) for name in LISTS}
    leader = np.where(changes.leader == NO_CHANGE, cases.leader, changes.leader)
    recovery = np.where(changes.recovery == KEEP_RECOVERY, cases.recovery, changes.recovery)
    return PartitionStates(**lists, directories=cases.directories, leader=leader, recovery=recovery)


def predict(cases: Cases, profile: Profile | Rules) -> Changes:
    """The changes that a controller with this profile writes, or one with each case's own rules."""
    rules = rules_of([profile], np.zeros(len(cases.leader), np.int64)) if isinstance(profile, Profile) else profile
    pieces = [_predict(*piece) for piece in zip(_pieces(cases), _pieces(rules), strict=True)]
    return joined(pieces)


def _pieces(values: Some) -> Iterator[Some]:
    """Split into pieces that fit the processor's cache, as column-major matrices, since the code loops over columns."""
    columns = [getattr(values, field.name) for field in fields(values)]  # type: ignore[arg-type]
    for begin in range(0, max(len(columns[0]), 1), _PIECE_ROWS):
        yield type(values)(*(np.asfortranarray(column[begin : begin + _PIECE_ROWS]) for column in columns))


def _predict(cases: Cases, rules: Rules) -> Changes:
    targets = _complete_reassignment(cases, rules)
    elr = _target_elr(targets)
    node, unclean = _elect(targets, elr, rules)
    moved = node != targets.leader
    from_elr = moved & has(elr, node)
    winner = node[:, None]
    elr = keep(elr, ~(from_elr[:, None] & (elr == winner)))
    uncleanly = moved & unclean
    isr = where(from_elr | uncleanly, winner, targets.target_isr)
    leader = np.where(moved, node, NO_CHANGE)
    marks = uncleanly & (targets.recovery != RECOVERING) & targets.marks_recovery
    recovery = np.where(marks, RECOVERING, KEEP_RECOVERY)
    # If a replica leaves the replica list, a leader epoch starts, even with the same leader.
    left = ~all_within(targets.replicas, targets.target_replicas)
    leader = np.where((leader == NO_CHANGE) & left, targets.leader, leader)
    elr = where(uncleanly | ~targets.elr_enabled, _NONE, elr)
    isr_written = uncleanly | ((~is_empty(isr) | targets.elr_enabled) & ~same(isr, targets.isr))
    bump = (leader == NO_CHANGE) & isr_written & targets.bumps_leader_epoch_on_shrink & ~all_within(targets.isr, isr)
    leader = np.where(bump, targets.leader, leader)
    last_known, last_known_written = _last_known_leader(targets, leader, isr, isr_written, rules)
    directories = _directories(targets)
    recovery = np.where(targets.target_recovery != targets.recovery, targets.target_recovery, recovery)
    lists = {
        "isr": isr,
        "elr": elr,
        "last_known_elr": last_known,
        "replicas": targets.target_replicas,
        "removing": targets.target_removing,
        "adding": targets.target_adding,
        "directories": directories,
    }
    assigned = ~is_empty(targets.target_replicas)
    written = {
        "isr": isr_written,
        "elr": ~same(elr, targets.elr),
        "last_known_elr": last_known_written,
        "replicas": assigned & ~same(targets.target_replicas, targets.replicas),
        "removing": ~same(targets.target_removing, targets.removing),
        "adding": ~same(targets.target_adding, targets.adding),
        "directories": assigned & targets.has_directories & ~same(directories, targets.directories),
    }
    return Changes(leader, recovery, lists, written)


def _complete_reassignment(cases: Cases, rules: Rules) -> Cases:
    """Complete the reassignments that can complete: their target fields afterwards."""
    removing, adding = cases.target_removing, cases.target_adding
    isr, replicas = (without(of, removing) for of in (cases.target_isr, cases.target_replicas))
    complete = all_within(replicas, isr)
    added = all_within(adding, isr) & (complete | (size(adding) >= size(removing)))
    ends = np.where(rules.reassignment_ends_with_adding, added, complete)
    ends &= np.where(is_empty(removing), ~is_empty(adding), ~is_empty(replicas))
    return replace(
        cases,
        target_isr=where(ends, isr, cases.target_isr),
        target_replicas=where(ends, replicas, cases.target_replicas),
        target_removing=where(ends, _NONE, removing),
        target_adding=where(ends, _NONE, adding),
    )


def _target_elr(cases: Cases) -> Array:
    """The target ELR. Below min ISR: members of ELR and ISR that are not in the new ISR and not back uncleanly."""
    below = cases.elr_enabled & (size(cases.target_isr) < cases.min_isr)
    both = _as_hash_set(join(cases.elr, cases.isr), size(cases.elr))
    kept = without(without(both, cases.target_isr), cases.unclean_shutdown)
    return where(below, trim(kept), where(cases.elr_enabled, _NONE, cases.elr))


def _as_hash_set(members: Array, first: Array) -> Array:
    """The members in iteration order of a Java HashSet<Integer> built from the first `first` members, then the rest;
    PAD last.

    The order is by bucket, then by insertion. It decides whether an ELR with the same members is written again.
    """
    count = size(members)
    wanted = np.maximum((first / 0.75).astype(np.int64) + 1, LEAST_BUCKETS)
    room = 1 << np.ceil(np.log2(wanted)).astype(np.int64)
    while (full := count > 0.75 * room).any():
        room = np.where(full, room * 2, room)
    order = np.argsort(np.where(members == PAD, INT64_MAX, hash_buckets(members, room[:, None])), axis=1, kind="stable")
    return np.take_along_axis(members, order, axis=1)


def hash_buckets(members: Array, buckets: int | Array = LEAST_BUCKETS) -> Array:
    """The bucket of each member in a Java HashSet<Integer> of so many buckets, a power of two."""
    return (members ^ ((members & 0xFFFFFFFF) >> 16)) & (buckets - 1)


def _elect(cases: Cases, elr: Array, rules: Rules) -> tuple[Array, Array]:
    """(leader or NO_LEADER, whether the election is unclean) of each case."""
    replicas, last_known = cases.target_replicas, cases.last_known_elr[:, 0]
    electable = where(is_empty(cases.target_isr), elr, cases.target_isr)
    may_lead = is_in(replicas, cases.acceptable)
    valid = may_lead & is_in(replicas, electable)
    stays = has(cases.acceptable, cases.leader) & has(electable, cases.leader)
    known = cases.elr_enabled & is_empty(electable) & (size(cases.last_known_elr) == 1)
    known &= ~rules.last_known_leader_must_be_acceptable | has(cases.acceptable, last_known)
    preferred = (cases.election == ELECT_PREFERRED) & valid[:, 0]
    any_replica = (cases.election == ELECT_UNCLEAN) & may_lead.any(axis=1)
    choices = [preferred, stays, valid.any(axis=1), known, any_replica]
    nodes = [replicas[:, 0], cases.leader, first(replicas, valid), last_known, first(replicas, may_lead)]
    clean = choices[0] | choices[1] | choices[2]
    return np.select(choices, nodes, default=NO_LEADER), ~clean & (known | any_replica)


def _last_known_leader(
    cases: Cases, leader: Array, isr: Array, isr_written: Array, rules: Rules
) -> tuple[Array, Array]:
    """(LastKnownElr, whether it is written) of each case."""
    stored = size(cases.last_known_elr)
    on_leaderless = rules.last_known_leader_on_leaderless
    other = (stored != 1) | (cases.last_known_elr[:, 0] != cases.leader)
    put = np.where(on_leaderless, (leader == NO_LEADER) & (stored == 0), isr_written & is_empty(isr) & other)
    led = (leader >= 0) | (~on_leaderless & (cases.leader != NO_LEADER) & (leader != NO_LEADER))
    clear = ~put & led & (stored > 0)
    return where(put, cases.leader[:, None], _NONE), cases.elr_enabled & (put | clear)


def _directories(cases: Cases) -> Array:
    """The directory of every target replica: its own, or UNASSIGNED for a new one."""
    targets, replicas, directories = cases.target_replicas, cases.replicas, cases.directories
    found = np.where(targets == PAD, PAD, UNASSIGNED)
    for j in range(min(replicas.shape[1], directories.shape[1])):
        found = np.where((targets == replicas[:, j, None]) & (targets != PAD), directories[:, j, None], found)
    return where(same(targets, replicas), directories, found)
