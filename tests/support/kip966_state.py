"""Hypothetical: a partition's state under KIP-966 as written, changed a step at a time. Vectorised over partitions.

Unlike the released controllers, ELR and LastKnownELR are kept as the sets that the KIP describes, LastKnownLeader has a
field of its own, and a reassignment needs min ISR to end. Sources: KIP-966, sections "Additional High Watermark
advancement requirement", "Eligible Leader Replicas", "Leader election", "Compatibility"; and for the rules before it
"Motivation".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from replay.arrow.ragged import PAD, Array
from replay.arrow.sets import column, empty, first, has, is_in, join, keep, same_set, size, where, without
from replay.whatif.kip966_rules import NONE, PHASE_2, Delivery
from replay.whatif.unclean_recovery import ELECTED, NO_LEADER, Answers, Elections, RecoveryCases, elect

_FAR = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class States:
    """Partitions, an element each; all int64. Lists are matrices filled up with PAD; their order means nothing but for
    replicas.

    replicas, isr, elr, last_known_elr; alive: ids of brokers that are unfenced. leader, last_known_leader: ids,
    NO_LEADER for none. min_insync_replicas: as configured, at least 1.
    """

    replicas: Array
    isr: Array
    elr: Array
    last_known_elr: Array
    alive: Array
    leader: Array
    last_known_leader: Array
    leader_epoch: Array
    min_insync_replicas: Array


@dataclass(frozen=True, slots=True)
class Events:
    """What happens to each partition at once: lists of ids, as in States.

    proposed_isr: what the leader asks for by AlterPartition, the ISR itself for nothing. fenced, unfenced: brokers.
    unclean_shutdown: brokers that register after one; they count as fenced unless they are in unfenced as well.
    """

    proposed_isr: Array
    fenced: Array
    unfenced: Array
    unclean_shutdown: Array


def nothing_happens(states: States) -> Events:
    """The events of a step in which nothing happens; a base for `dataclasses.replace`."""
    none = empty(states.isr)
    return Events(states.isr, none, none, none)


def effective_min_isr(min_insync_replicas: Array, replication_factor: Array) -> Array:
    """The lower of the two ("Additional High Watermark advancement requirement"); int64."""
    lower: Array = np.minimum(min_insync_replicas, replication_factor)
    return lower


def min_isr(states: States) -> Array:
    """The effective min ISR of each partition; int64."""
    return effective_min_isr(states.min_insync_replicas, size(states.replicas))


def accepts_acks_all(states: States) -> Array:
    """Whether acks=all requests are accepted, bool: there is a leader and |ISR| >= effective min ISR. acks=0 and 1 only
    need the leader."""
    accepted: Array = (states.leader != NO_LEADER) & (size(states.isr) >= min_isr(states))
    return accepted


def advance_high_watermark(
    states: States, high_watermark: Array, maximal_isr: Array, log_end_offset: Array, delivery: Delivery
) -> Array:
    """The high watermark once the leader has looked at all log ends; int64, never lower than it was.

    It follows the shortest log of leader, ISR and maximal ISR (the ISR with those that the leader wants to add). By the
    KIP it stands still while the ISR that the controller committed is below min ISR. log_end_offset: int64, one for
    each of `States.replicas`, PAD where it is not known; then it is not known to advance.
    """
    in_sync = join(join(states.isr, maximal_isr), column(np.where(states.leader == NO_LEADER, PAD, states.leader)))
    reached = np.where(is_in(states.replicas, in_sync), log_end_offset, _FAR).min(axis=1, initial=_FAR)
    may = has(states.replicas, states.leader) & (states.leader != NO_LEADER)
    if delivery.high_watermark_needs_min_isr:
        may &= size(states.isr) >= min_isr(states)
    advanced: Array = np.where(may, np.maximum(high_watermark, reached), high_watermark)
    return advanced


def step(states: States, events: Events, delivery: Delivery) -> States:
    """The partitions after the events, and after the controller has elected where ISR or ELR has a member alive.

    With ELR ("Eligible Leader Replicas"): below min ISR, who leaves the ISR joins the ELR, and who shut down uncleanly
    leaves it for LastKnownELR; at min ISR both are emptied, also when only min.insync.replicas has changed. The last
    leader is kept while there is none. Without: the last member never leaves the ISR ("Motivation"); what an earlier
    delivery left of the ELR fields is ignored, and removed with the next change ("Compatibility", MV downgrade).
    """
    gone = join(events.fenced, events.unclean_shutdown)
    alive = join(without(states.alive, gone), events.unfenced)
    isr = without(events.proposed_isr, gone)
    isr = keep(isr, is_in(isr, alive))
    if not delivery.keeps_elr:
        isr = where(size(isr) > 0, isr, _last_standing(states))
    stays = has(isr, states.leader) & has(alive, states.leader) & ~has(gone, states.leader)
    lost = (states.leader != NO_LEADER) & ~stays
    below = size(isr) < min_isr(states)
    changed = replace(states, isr=isr, alive=alive, leader=np.where(stays, states.leader, NO_LEADER))
    if delivery.keeps_elr:
        holders = join(states.elr, states.isr)
        unclean = is_in(holders, events.unclean_shutdown)
        elr = without(keep(holders, ~unclean), isr)
        last_known_elr = join(states.last_known_elr, keep(holders, unclean))
        changed = replace(
            changed,
            elr=where(below, elr, empty(elr)),
            last_known_elr=where(below, last_known_elr, empty(last_known_elr)),
            last_known_leader=np.where(lost, states.leader, states.last_known_leader),
        )
    else:
        changed = _forget(changed, lost | ~same_set(isr, states.isr))
    result = _elect_cleanly(changed, delivery)
    moved = lost | (result.leader != states.leader)
    return _narrow(replace(result, leader_epoch=states.leader_epoch + moved))


def lead(states: States, elections: Elections, delivery: Delivery) -> States:
    """The partitions after elections (of leaderless partitions, or PREFERRED); those not ELECTED stay as they are.

    A winner of the ISR leaves the ISR as it is; one of the ELR alone is the ISR and leaves the ELR; of any other, the
    ELR is emptied besides, since its members follow another history (the KIP is silent; the releases do that).
    """
    elected = elections.outcome == ELECTED
    if not delivery.keeps_elr:
        states = _forget(states, elected)
    leader = np.where(elected, elections.leader, states.leader)
    of_isr, of_elr = elected & has(states.isr, leader), elected & has(states.elr, leader)
    isr = where(elected & ~of_isr, column(leader), states.isr)
    emptied = elected & ((size(isr) >= min_isr(states)) | ~(of_isr | of_elr))
    elr = where(of_elr, without(states.elr, column(leader)), states.elr)
    cleared = elected & (size(isr) >= min_isr(states))
    result = replace(
        states,
        isr=isr,
        elr=where(emptied, empty(elr), elr),
        last_known_elr=where(cleared, empty(states.last_known_elr), states.last_known_elr),
        leader=leader,
        last_known_leader=np.where(elected, NO_LEADER, states.last_known_leader),
        leader_epoch=states.leader_epoch + elected,
    )
    return _narrow(result)


def cases_of(states: States, delivery: Delivery, answers: Answers | None = None, elapsed_ms: int = 0) -> RecoveryCases:
    """Elections to ask for, with the states' own leader epoch, and broker epochs 0; nobody answers unless given.

    Without ELR, its fields are ignored.
    """
    if not delivery.keeps_elr:
        states = _forget(states, np.ones_like(states.leader, dtype=bool))
    number = np.zeros(len(states.leader), dtype=np.int64)
    silent = np.full_like(states.replicas, PAD)
    return RecoveryCases(
        replicas=states.replicas,
        isr=states.isr,
        elr=states.elr,
        last_known_elr=states.last_known_elr,
        alive=states.alive,
        leader=states.leader,
        last_known_leader=states.last_known_leader,
        desired_leader=np.full_like(number, NO_LEADER),
        minimal_replicas=number,
        leader_epoch=states.leader_epoch,
        broker_epoch=np.zeros_like(states.replicas),
        elapsed_ms=number + elapsed_ms,
        answers=Answers(silent, silent, silent, silent, silent) if answers is None else answers,
    )


def end_reassignment(states: States, leaving: Array, required: Array, delivery: Delivery) -> tuple[States, Array]:
    """Complete or cancel reassignments; returns the states and where it could be done, bool.

    leaving: the replicas that go, removing ones on completion, adding ones on cancelling. required: those that must be
    in the ISR, the adding ones on completion, none on cancelling. By the KIP ("Eligible Leader Replicas", "Other
    behaviors") the ISR without those that leave must be at least min ISR of the replicas that stay, in both cases;
    before it one member is enough. At min ISR the ELR is empty, so that none of it has left the replicas.
    """
    isr = without(states.isr, leaving)
    isr = keep(isr, is_in(isr, states.alive))
    final = replace(states, replicas=without(states.replicas, leaving))
    minimum = min_isr(final) if delivery.keeps_elr else np.ones_like(states.leader)
    done = (size(isr) >= minimum) & (size(without(required, isr)) == 0) & (size(final.replicas) > 0)
    ended = step(final, replace(nothing_happens(final), proposed_isr=isr), delivery)
    return _narrow(_merge(done, ended, states)), done


def _last_standing(states: States) -> Array:
    """The member that stays in the ISR when all fail: the leader, if it is one, else the first."""
    leads = has(states.isr, states.leader)
    member = np.where(leads, states.leader, first(states.isr, states.isr != PAD))
    return column(member)


def _elect_cleanly(states: States, delivery: Delivery) -> States:
    """A leader of ISR or ELR, in replica order, for those that have none."""
    elections = elect(cases_of(states, delivery), PHASE_2.strategies[NONE])
    return _merge(states.leader == NO_LEADER, lead(states, elections, delivery), states)


def _forget(states: States, condition: Array) -> States:
    """Those states without ELR fields."""
    return replace(
        states,
        elr=where(condition, empty(states.elr), states.elr),
        last_known_elr=where(condition, empty(states.last_known_elr), states.last_known_elr),
        last_known_leader=np.where(condition, NO_LEADER, states.last_known_leader),
    )


def _merge(condition: Array, states: States, others: States) -> States:
    """Partitions of the one or the other."""
    merged = {}
    for name in States.__dataclass_fields__:
        these, those = getattr(states, name), getattr(others, name)
        merged[name] = where(condition, these, those) if these.ndim == 2 else np.where(condition, these, those)
    return States(**merged)


def _narrow(states: States) -> States:
    """The same lists in matrices no wider than they need to be."""
    lists = {name: getattr(states, name) for name in ("replicas", "isr", "elr", "last_known_elr", "alive")}
    return replace(states, **{n: m[:, : max(1, int(size(m).max(initial=0)))] for n, m in lists.items()})
