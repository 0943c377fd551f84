"""Predicted: the PartitionChangeRecord that a controller writes, from a partition's state and what triggers it.

Vectorised over cases; the rules are data (replay/profiles.py). Source: Kafka's PartitionChangeBuilder, whose steps
stand here in its order, since the order matters; PartitionReassignmentReplicas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from replay.lists import PAD, Array
from replay.profiles import ON_LEADERLESS, Profile

PREFERRED, ONLINE, UNCLEAN = 0, 1, 2
NO_LEADER, NO_CHANGE = -1, -2
RECOVERED, RECOVERING, KEEP_RECOVERY = 0, 1, -1
UNASSIGNED = 0


@dataclass(frozen=True, slots=True)
class Cases:
    """States and triggers, an element a case. Lists are int64 matrices filled up with PAD (lists.to_matrix).

    The state: replicas, isr, elr, last_known_elr, removing, adding, directories (a number for each directory id,
    UNASSIGNED for that one), leader, recovery. The trigger: election, acceptable (ids of brokers that may lead), the
    target_ fields (the state's own where nothing else is asked for), unclean_shutdown (ids). The surroundings: min_isr
    (effective), elr_enabled, and the switches of metadata.version.
    """

    replicas: Array
    isr: Array
    elr: Array
    last_known_elr: Array
    removing: Array
    adding: Array
    directories: Array
    leader: Array
    recovery: Array
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


@dataclass(frozen=True, slots=True)
class Changes:
    """The records, an element a case; `written` names the fields that a record holds, a bool array each.

    leader is NO_CHANGE, recovery KEEP_RECOVERY where the record does not hold them.
    """

    leader: Array
    recovery: Array
    lists: dict[str, Array]
    written: dict[str, Array]

    @property
    def is_no_op(self) -> Array:
        """Nothing changes: no record is written."""
        result: Array = (self.leader == NO_CHANGE) & (self.recovery == KEEP_RECOVERY)
        for given in self.written.values():
            result &= ~given
        return result


def predict(cases: Cases, profile: Profile) -> Changes:
    """What the controller of a profile writes."""
    targets = _complete_reassignment(cases, profile)
    elr = _target_elr(targets)
    node, unclean = _elect(targets, elr, profile)
    moved = node != targets.leader
    from_elr = moved & _has(elr, node)
    winner = _column(node)
    target_isr = _where(from_elr, winner, targets.target_isr)
    elr = _where(from_elr, _keep(elr, elr != winner), elr)
    leader = np.where(moved, node, NO_CHANGE)
    uncleanly = moved & unclean
    marks = uncleanly & (targets.recovery != RECOVERING) & targets.marks_recovery
    recovery = np.where(marks, RECOVERING, KEEP_RECOVERY)
    # A replica that leaves the list: whoever leads begins an epoch.
    left = ~_within(targets.replicas, targets.target_replicas).all(axis=1)
    leader = np.where((leader == NO_CHANGE) & left, targets.leader, leader)
    elr = _where(uncleanly | ~targets.elr_enabled, _empty(elr), elr)
    isr = _where(uncleanly, winner, target_isr)
    isr_written = uncleanly | (((_size(isr) > 0) | targets.elr_enabled) & ~_same(isr, targets.isr))
    shrunk = isr_written & ~_within(targets.isr, isr).all(axis=1)
    bump = (leader == NO_CHANGE) & shrunk & targets.bumps_leader_epoch_on_shrink
    leader = np.where(bump, targets.leader, leader)
    last_known, last_known_written = _last_known_leader(targets, leader, isr, isr_written, profile)
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
    assigned = _size(targets.target_replicas) > 0
    written = {
        "isr": isr_written,
        "elr": ~_same(elr, targets.elr),
        "last_known_elr": last_known_written,
        "replicas": assigned & ~_same(targets.target_replicas, targets.replicas),
        "removing": ~_same(targets.target_removing, targets.removing),
        "adding": ~_same(targets.target_adding, targets.adding),
        "directories": assigned & targets.has_directories & ~_same(directories, targets.directories),
    }
    return Changes(leader, recovery, lists, written)


def _complete_reassignment(cases: Cases, profile: Profile) -> Cases:
    """The targets once a reassignment that can end has ended."""
    removing, adding = cases.target_removing, cases.target_adding
    isr = _keep(cases.target_isr, ~_in(cases.target_isr, removing))
    replicas = _keep(cases.target_replicas, ~_in(cases.target_replicas, removing))
    under_way = (_size(removing) > 0) | (_size(adding) > 0)
    something_left = (_size(removing) == 0) | ((_size(isr) > 0) & (_size(replicas) > 0))
    complete = _within(replicas, isr).all(axis=1)
    if profile.reassignment_ends_with_adding:
        early = (_size(adding) > 0) & (_size(adding) >= _size(removing))
        complete = np.where(early, (_size(isr) > 0) & _within(adding, isr).all(axis=1), complete)
    ends = under_way & something_left & complete
    return replace(
        cases,
        target_isr=_where(ends, isr, cases.target_isr),
        target_replicas=_where(ends, replicas, cases.target_replicas),
        target_removing=_where(ends, _empty(removing), removing),
        target_adding=_where(ends, _empty(adding), adding),
    )


def _target_elr(cases: Cases) -> Array:
    """The ELR below min ISR: who was in it or in the ISR, and is in neither the new ISR nor back uncleanly."""
    both = np.concatenate([cases.elr, _keep(cases.isr, ~_in(cases.isr, cases.elr))], axis=1)
    both = _as_hash_set(_keep(both, both != PAD), _size(cases.elr))
    kept = _keep(both, ~_in(both, cases.target_isr) & ~_in(both, cases.unclean_shutdown))
    kept = _where(_size(cases.target_isr) >= cases.min_isr, _empty(kept), kept)
    return _where(cases.elr_enabled, kept, cases.elr)


def _as_hash_set(members: Array, first: Array) -> Array:
    """The members in the order in which Java's HashSet<Integer> has them, made of a list of `first` of them and then
    the others: by bucket, in a bucket by arrival. It shows in whether an ELR of the same members is written again."""
    count = _size(members)
    wanted = np.maximum((first / 0.75).astype(np.int64) + 1, 16)
    room = 1 << np.ceil(np.log2(wanted)).astype(np.int64)
    while (full := count > 0.75 * room).any():
        room = np.where(full, room * 2, room)
    spread = (members ^ ((members & 0xFFFFFFFF) >> 16)) & (room[:, None] - 1)
    order = np.argsort(np.where(members == PAD, np.iinfo(np.int64).max, spread), axis=1, kind="stable")
    return np.take_along_axis(members, order, axis=1)


def _elect(cases: Cases, elr: Array, profile: Profile) -> tuple[Array, Array]:
    """(leader or NO_LEADER, whether the election is unclean)."""
    replicas, isr = cases.target_replicas, cases.target_isr
    no_isr = _size(isr) == 0
    may_lead = _in(replicas, cases.acceptable)
    valid = may_lead & (_in(replicas, isr) | (no_isr[:, None] & _in(replicas, elr)))
    stays = _has(cases.acceptable, cases.leader) & (_has(isr, cases.leader) | (no_isr & _has(elr, cases.leader)))
    last_known = cases.last_known_elr[:, 0]
    known = cases.elr_enabled & no_isr & (_size(elr) == 0) & (_size(cases.last_known_elr) == 1)
    if profile.last_known_leader_must_be_acceptable:
        known &= _has(cases.acceptable, last_known)
    preferred = (cases.election == PREFERRED) & valid[:, 0]
    any_replica = (cases.election == UNCLEAN) & may_lead.any(axis=1)
    choices = [preferred, stays, valid.any(axis=1), known, any_replica]
    nodes = [replicas[:, 0], cases.leader, _first(replicas, valid), last_known, _first(replicas, may_lead)]
    chosen = np.select(choices, list(range(len(choices))), default=len(choices))
    return np.select(choices, nodes, default=NO_LEADER), (chosen == 3) | (chosen == 4)


def _last_known_leader(
    cases: Cases, leader: Array, isr: Array, isr_written: Array, profile: Profile
) -> tuple[Array, Array]:
    """(the field, whether it is written)."""
    stored = _size(cases.last_known_elr)
    if profile.last_known_leader_written == ON_LEADERLESS:
        put = (leader == NO_LEADER) & (stored == 0)
    else:
        put = isr_written & (_size(isr) == 0) & ((stored != 1) | (cases.last_known_elr[:, 0] != cases.leader))
    led = (leader >= 0) | ((cases.leader != NO_LEADER) & (leader != NO_LEADER))
    clear = ~put & led & (stored > 0)
    field = _where(put, _column(cases.leader), _empty(cases.last_known_elr))
    return field, cases.elr_enabled & (put | clear)


def _directories(cases: Cases) -> Array:
    """The directory of every target replica: its own, or UNASSIGNED for a new one."""
    targets = cases.target_replicas
    result = np.where(targets == PAD, PAD, UNASSIGNED)
    for j in range(cases.replicas.shape[1]):
        replica, directory = cases.replicas[:, j, None], cases.directories[:, j, None]
        result = np.where((targets == replica) & (targets != PAD), directory, result)
    return result


def _column(values: Array) -> Array:
    return values[:, None]


def _empty(lists: Array) -> Array:
    return np.full_like(lists, PAD)


def _size(lists: Array) -> Array:
    size: Array = (lists != PAD).sum(axis=1)
    return size


def _in(members: Array, lists: Array) -> Array:
    """For each member of each row whether the other list has it; false where there is no member."""
    found: Array = (members[:, :, None] == lists[:, None, :]).any(axis=2) & (members != PAD)
    return found


def _within(members: Array, lists: Array) -> Array:
    """As `_in`, but true where there is no member."""
    found: Array = (members == PAD) | _in(members, lists)
    return found


def _has(lists: Array, member: Array) -> Array:
    found: Array = (lists == member[:, None]).any(axis=1) & (member != PAD)
    return found


def _first(lists: Array, mask: Array) -> Array:
    """The first element that the mask has in each row; anything where it has none."""
    found: Array = np.take_along_axis(lists, np.argmax(mask, axis=1)[:, None], axis=1)[:, 0]
    return found


def _keep(lists: Array, mask: Array) -> Array:
    """The elements that the mask has, in order."""
    mask = mask & (lists != PAD)
    order = np.argsort(~mask, axis=1, kind="stable")
    kept: Array = np.take_along_axis(np.where(mask, lists, PAD), order, axis=1)
    return kept


def _fit(lists: Array, width: int) -> Array:
    return np.pad(lists, ((0, 0), (0, width - lists.shape[1])), constant_values=PAD)


def _where(condition: Array, lists: Array, others: Array) -> Array:
    """Rows of one or the other matrix."""
    width = max(lists.shape[1], others.shape[1])
    return np.where(condition[:, None], _fit(lists, width), _fit(others, width))


def _same(lists: Array, others: Array) -> Array:
    width = max(lists.shape[1], others.shape[1])
    same: Array = (_fit(lists, width) == _fit(others, width)).all(axis=1)
    return same
