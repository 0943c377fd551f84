"""How KIP-966 as written elects a partition's leader. Hypothetical: no release has its unclean recovery.

Vectorised over cases; each rule is data. Sources: KIP-966's last revision, sections "Leader election", "Unclean
recovery", "Config changes", "kafka-leader-election.sh", "Delivery plan". Where the KIP leaves a tie, the first in
replica order is picked, and `Elections.tied` has all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.arrow.ragged import INT64_MAX, PAD, Array
from replay.arrow.sets import empty, first, has, is_in, join, keep, size, where, without
from replay.whatif.kip966_rules import (
    DESIGNATED,
    ELR,
    ISR,
    LAST_KNOWN_LEADER,
    PREFERRED,
    UNCLEAN_CHOICE,
    UNCLEAN_RECOVERY,
    UNCLEAN_RECOVERY_TIMEOUT_MS,
    Rule,
)

NO_LEADER = -1

# Outcomes of an election.
ELECTED, WAITS, UNDETERMINED, NOT_PERFORMED = "elected", "waits", "undetermined", "not_performed"


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to GetReplicaLogInfo: int64 matrices, one element for each of `RecoveryCases.replicas`.

    answered_ms: in ms from the start of the recovery; PAD: the replica did not answer. last_written_leader_epoch,
    log_end_offset: PAD if it answered with an unknown value, because its log was never seen. broker_epoch,
    current_leader_epoch: an answer counts only if they equal the controller's.
    """

    answered_ms: Array
    broker_epoch: Array
    current_leader_epoch: Array
    last_written_leader_epoch: Array
    log_end_offset: Array


@dataclass(frozen=True, slots=True)
class RecoveryCases:
    """Partitions that need a leader, one element per case; all int64.

    Lists (replicas, isr, elr, last_known_elr, alive) are matrices padded with PAD; alive: ids of brokers that may lead
    (unfenced, not shutting down, directory online). leader, last_known_leader, desired_leader (for DESIGNATION): ids,
    NO_LEADER for none. minimal_replicas: for LONGEST_LOG types, 0 if not requested. leader_epoch, broker_epoch (as wide
    as replicas): the controller's own. elapsed_ms: ms from the start of the recovery until now.
    """

    replicas: Array
    isr: Array
    elr: Array
    last_known_elr: Array
    alive: Array
    leader: Array
    last_known_leader: Array
    desired_leader: Array
    minimal_replicas: Array
    leader_epoch: Array
    broker_epoch: Array
    elapsed_ms: Array
    answers: Answers


@dataclass(frozen=True, slots=True)
class Elections:
    """The result of each case.

    outcome: str: ELECTED; WAITS; UNDETERMINED (a replica's answer is unknown and could decide); NOT_PERFORMED (the
    request does not apply). via: str, the way that decided, or by which the partition waits (ADMINISTRATOR: for a
    user). leader: int64, the elected one; the current one if NOT_PERFORMED; else NO_LEADER. tied: ids of equal rank, in
    replica order; the leader is the first. waited_for: ids, empty unless it waits. unseen: ids with an unknown log that
    could decide. last_written_leader_epoch, log_end_offset: int64, the elected one's answer, PAD if unknown.
    data_loss_possible: bool, the elected one, or one that may be elected (UNDETERMINED), is in neither ISR nor ELR.
    """

    outcome: Array
    via: Array
    leader: Array
    tied: Array
    waited_for: Array
    unseen: Array
    last_written_leader_epoch: Array
    log_end_offset: Array
    data_loss_possible: Array


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to elect a leader: candidates and best are bool masks over the replicas; the others have one element (bool,
    str or list) per case.

    candidates: replicas that could win; best: those that do, all tied; ready: it need not wait; waited_for: the
    replicas that it waits for if not ready.
    """

    via: Array
    candidates: Array
    best: Array
    ready: Array
    waited_for: Array


def elect(cases: RecoveryCases, rule: Rule, timeout_ms: int = UNCLEAN_RECOVERY_TIMEOUT_MS) -> Elections:
    """The result of a rule for each case (KIP-966, "Leader election": ISR, then ELR, then the strategy).

    timeout_ms: unclean.recovery.timeout.ms. All lists of `cases` must have the same number of rows; otherwise NumPy
    raises ValueError.
    """
    replicas = cases.replicas
    alive = is_in(replicas, cases.alive)
    in_isr, in_elr = is_in(replicas, cases.isr), is_in(replicas, cases.elr)
    counted = alive & _valid(cases)
    preferred = _simple(PREFERRED, _preferred(cases, alive, in_isr, in_elr, rule), empty(replicas))
    from_isr = _simple(ISR, alive & in_isr & rule.clean_first, cases.isr)
    from_elr = _simple(ELR, alive & in_elr & rule.clean_first, cases.elr)
    held = rule.waits_for_holders & ((size(cases.isr) > 0) | (size(cases.elr) > 0))
    way = _last_resort(cases, rule, alive, counted, timeout_ms)
    way = _choose(held, _holders(cases, np.zeros_like(alive)), way)
    for better in (from_elr, from_isr, preferred):
        way = _choose(better.ready, better, way)
    refused = _refused(cases, rule, preferred.ready)

    compared = (way.via == UNCLEAN_RECOVERY) & way.ready & (way.candidates.sum(axis=1) > 1)
    unseen = way.candidates & _unseen(cases.answers) & (compared & ~refused)[:, None]
    undetermined = _any(unseen)
    elected = way.ready & ~refused & ~undetermined
    best = way.best & elected[:, None]
    leader = np.where(elected, first(replicas, best), np.where(refused, cases.leader, NO_LEADER))
    winner = best & (replicas == leader[:, None])
    waits = ~(elected | refused | undetermined)
    return Elections(
        outcome=np.select([refused, undetermined, elected], [NOT_PERFORMED, UNDETERMINED, ELECTED], default=WAITS),
        via=np.where(refused, rule.last_resort, way.via),
        leader=leader,
        tied=keep(replicas, best),
        waited_for=where(waits, way.waited_for, empty(way.waited_for)),
        unseen=keep(replicas, unseen),
        last_written_leader_epoch=_answer(cases.answers.last_written_leader_epoch, winner & counted),
        log_end_offset=_answer(cases.answers.log_end_offset, winner & counted),
        data_loss_possible=_any((winner | (way.candidates & undetermined[:, None])) & ~in_isr & ~in_elr),
    )


def _valid(cases: RecoveryCases) -> Array:
    """Mask of the answers that have arrived and carry the current broker and leader epochs ("Unclean recovery")."""
    answers = cases.answers
    arrived = (answers.answered_ms != PAD) & (answers.answered_ms <= cases.elapsed_ms[:, None])
    same_broker = answers.broker_epoch == cases.broker_epoch
    valid: Array = arrived & same_broker & (answers.current_leader_epoch == cases.leader_epoch[:, None])
    return valid


def _unseen(answers: Answers) -> Array:
    unseen: Array = (answers.last_written_leader_epoch == PAD) | (answers.log_end_offset == PAD)
    return unseen


def _simple(via: str, candidates: Array, waited_for: Array) -> _Way:
    """A way in which any candidate is elected, all tied."""
    return _Way(np.full(len(candidates), via), candidates, candidates, _any(candidates), waited_for)


def _holders(cases: RecoveryCases, nobody: Array) -> _Way:
    """A way in which nobody is elected until a member of ISR or ELR is back."""
    via = np.where(size(cases.isr) > 0, ISR, ELR)
    return _Way(via, nobody, nobody, _any(nobody), join(cases.isr, cases.elr))


def _preferred(cases: RecoveryCases, alive: Array, in_isr: Array, in_elr: Array, rule: Rule) -> Array:
    """Mask of the first replica, where PREFERRED may elect it: from the ISR, or from the ELR if the ISR is empty."""
    is_first = np.arange(alive.shape[1]) == 0
    no_isr = (size(cases.isr) == 0)[:, None]
    electable: Array = (rule.last_resort == PREFERRED) & is_first & alive & (in_isr | (no_isr & in_elr))
    return electable


def _refused(cases: RecoveryCases, rule: Rule, preferred: Array) -> Array:
    """Mask of the requests that do not apply: there is a leader (for PREFERRED: and no better one), or the desired
    leader is not a replica."""
    led = cases.leader != NO_LEADER
    if rule.last_resort == PREFERRED:
        refused: Array = led & (~preferred | (cases.leader == cases.replicas[:, 0]))
    elif rule.last_resort == DESIGNATED:
        refused = led | ~has(cases.replicas, cases.desired_leader)
    else:
        refused = led & rule.requested
    return refused


def _last_resort(cases: RecoveryCases, rule: Rule, alive: Array, counted: Array, timeout_ms: int) -> _Way:
    replicas = cases.replicas
    if rule.last_resort == UNCLEAN_RECOVERY:
        return _recover(cases, rule, counted, timeout_ms)
    if rule.last_resort == UNCLEAN_CHOICE:
        return _simple(UNCLEAN_CHOICE, alive, replicas)
    if rule.last_resort == LAST_KNOWN_LEADER:
        return _named(LAST_KNOWN_LEADER, cases.last_known_leader, alive, replicas)
    if rule.last_resort == DESIGNATED:
        return _named(DESIGNATED, cases.desired_leader, alive, replicas)
    waited_for = replicas[:, :1] if rule.last_resort == PREFERRED else empty(replicas)
    return _simple(rule.last_resort, np.zeros_like(alive), waited_for)


def _named(via: str, broker: Array, alive: Array, replicas: Array) -> _Way:
    """A way in which only that broker is elected; NO_LEADER means none."""
    return _simple(via, alive & (replicas == broker[:, None]), np.where(broker == NO_LEADER, PAD, broker)[:, None])


def _recover(cases: RecoveryCases, rule: Rule, counted: Array, timeout_ms: int) -> _Way:
    """KIP-966's unclean recovery: of the answers, the highest last written leader epoch, then the longest log.

    It goes on until the timeout unless every replica has answered. Later answers count only from LastKnownELR, if that
    is waited for, and while there are too few answers.
    """
    replicas, answers = cases.replicas, cases.answers
    needed = np.maximum(rule.least_answers, cases.minimal_replicas if rule.requested else 0)
    deadline = np.maximum(timeout_ms, _time_of(np.where(counted, answers.answered_ms, INT64_MAX), needed))
    candidates = counted & (answers.answered_ms <= deadline[:, None])
    missing = empty(cases.last_known_elr)
    if rule.waits_for_last_known_elr:
        candidates |= counted & is_in(replicas, cases.last_known_elr)
        missing = without(cases.last_known_elr, keep(replicas, counted))
    enough = (candidates.sum(axis=1) >= needed) & _any(candidates)
    unanswered = (replicas != PAD) & ~counted
    over = (cases.elapsed_ms >= timeout_ms) | ~_any(unanswered)
    best = candidates
    for value in (answers.last_written_leader_epoch, answers.log_end_offset):
        best = best & (value == np.where(best, value, PAD).max(axis=1, initial=PAD)[:, None])
    waited_for = where(size(missing) > 0, missing, keep(replicas, unanswered))
    ready = (size(missing) == 0) & enough & over
    return _Way(np.full(len(replicas), UNCLEAN_RECOVERY), candidates, best, ready, waited_for)


def _time_of(times: Array, count: Array) -> Array:
    """When the count-th answer came: PAD for count 0, INT64_MAX where there are fewer."""
    padded = np.pad(np.sort(times, axis=1), ((0, 0), (1, 1)), constant_values=((0, 0), (PAD, INT64_MAX)))
    # Each row is now: no answer needed, the first answer, ..., the last one, more answers than there are.
    at = np.clip(count, 0, padded.shape[1] - 1)
    result: Array = np.take_along_axis(padded, np.broadcast_to(at, len(times))[:, None], axis=1)[:, 0]
    return result


def _choose(condition: Array, way: _Way, other: _Way) -> _Way:
    """For each case `way` where the condition is true, else `other`."""
    return _Way(
        via=np.where(condition, way.via, other.via),
        candidates=np.where(condition[:, None], way.candidates, other.candidates),
        best=np.where(condition[:, None], way.best, other.best),
        ready=np.where(condition, way.ready, other.ready),
        waited_for=where(condition, way.waited_for, other.waited_for),
    )


def _any(mask: Array) -> Array:
    return np.asarray(mask.any(axis=1))


def _answer(values: Array, known: Array) -> Array:
    """The value under the mask in each row; PAD where the mask is empty."""
    result: Array = np.where(known, values, PAD).max(axis=1, initial=PAD)
    return result
