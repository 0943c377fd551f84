"""KIP-966's state rules: steps against the scalar version, the KIP's invariants, and what no story tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.arrow.ragged import PAD, Array, to_matrix
from replay.whatif.kip966_rules import BEFORE_ELR, DELIVERIES, PHASE_1, PHASE_2, Delivery, strategy
from replay.whatif.unclean_recovery import elect
from tests.support import scalar_recovery
from tests.support.kip966_state import (
    Events,
    States,
    accepts_acks_all,
    advance_high_watermark,
    cases_of,
    effective_min_isr,
    end_reassignment,
    lead,
    min_isr,
    nothing_happens,
    step,
)
from tests.support.scalar_recovery import Event, State

LISTS = ("replicas", "isr", "elr", "last_known_elr", "alive")
NUMBERS = ("leader", "last_known_leader", "leader_epoch", "min_insync_replicas")
EVENTS = ("proposed_isr", "fenced", "unfenced", "unclean_shutdown")

BROKERS = st.frozensets(st.integers(0, 3))
EVENT = st.builds(
    Event,
    proposed_isr=st.one_of(st.none(), st.none(), BROKERS),
    fenced=BROKERS,
    unfenced=BROKERS,
    unclean_shutdown=BROKERS,
)


def matrix(lists: list[Any]) -> Array:
    return to_matrix(pa.array([list(members) for members in lists], type=pa.list_(pa.int64())))


def members(lists: Array, row: int) -> list[int]:
    return [int(b) for b in lists[row] if b != PAD]


def as_states(states: list[State]) -> States:
    return States(
        **{name: matrix([getattr(s, name) for s in states]) for name in LISTS},
        **{name: np.array([getattr(s, name) for s in states], dtype=np.int64) for name in NUMBERS},
    )


def as_scalar(states: States) -> list[State]:
    rows = range(len(states.leader))
    sets = [{n: frozenset(members(getattr(states, n), i)) for n in LISTS[1:]} for i in rows]
    numbers = [{n: int(getattr(states, n)[i]) for n in NUMBERS} for i in rows]
    return [State(tuple(members(states.replicas, i)), **sets[i], **numbers[i]) for i in rows]


def as_events(states: States, events: list[Event]) -> Events:
    lists = {name: matrix([getattr(e, name) or () for e in events]) for name in EVENTS[1:]}
    proposed = [
        members(states.isr, i) if e.proposed_isr is None else sorted(e.proposed_isr) for i, e in enumerate(events)
    ]
    return Events(matrix(proposed), **lists)


def healthy(min_insync_replicas: int) -> State:
    brokers = frozenset(range(4))
    none: frozenset[int] = frozenset()
    return State((0, 1, 2, 3), brokers, none, none, brokers, 0, -1, 0, min_insync_replicas)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.lists(EVENT, min_size=6, max_size=6)), min_size=1, max_size=4),
    st.lists(st.sampled_from(sorted(DELIVERIES)), min_size=6, max_size=6),
)
def test_steps_are_those_of_the_scalar_version(partitions: list[tuple[int, list[Event]]], names: list[str]) -> None:
    scalar = [healthy(number) for number, _ in partitions]
    states = as_states(scalar)
    for k, name in enumerate(names):
        events = [course[k] for _, course in partitions]
        delivery = DELIVERIES[name]
        scalar = [scalar_recovery.step(s, e, keeps_elr=delivery.keeps_elr) for s, e in zip(scalar, events, strict=True)]
        states = step(states, as_events(states, events), delivery)
        assert as_scalar(states) == scalar


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.lists(EVENT, max_size=12), st.sampled_from([PHASE_1, PHASE_2]))
def test_the_kips_invariants_hold(number: int, events: list[Event], delivery: Delivery) -> None:
    states = as_states([healthy(number)])
    for event in events:
        [before] = as_scalar(states)
        states = step(states, as_events(states, [event]), delivery)
        [after] = as_scalar(states)
        assert not after.isr & after.elr
        assert not after.elr or len(after.isr) < after.min_isr
        assert not after.last_known_elr or len(after.isr) < after.min_isr
        assert after.leader == -1 or (after.leader in after.isr and after.last_known_leader == -1)
        enough = len(before.isr | before.elr) >= before.min_isr
        if enough and not event.unclean_shutdown & (before.isr | before.elr):
            assert len(after.isr | after.elr) >= after.min_isr
        led = event.proposed_isr is None or before.leader in event.proposed_isr
        if led and before.leader == after.leader and before.leader not in event.fenced | event.unclean_shutdown:
            assert after.leader_epoch == before.leader_epoch


def one(**given: Any) -> States:
    """Replicas 0, 1 and 2, all alive and in sync, min ISR 2, leader 0."""
    lists = {"replicas": [0, 1, 2], "isr": [0, 1, 2], "elr": [], "last_known_elr": [], "alive": [0, 1, 2]}
    numbers = {"leader": 0, "last_known_leader": -1, "leader_epoch": 7, "min_insync_replicas": 2}
    lists |= {name: value for name, value in given.items() if name in lists}
    numbers |= {name: value for name, value in given.items() if name in numbers}
    return States(
        **{name: matrix([value]) for name, value in lists.items()},
        **{name: np.array([value]) for name, value in numbers.items()},
    )


def test_effective_min_isr_is_the_lower_of_the_two() -> None:
    assert effective_min_isr(np.array([2, 5]), np.array([3, 3])).tolist() == [2, 3]
    assert min_isr(one(min_insync_replicas=5)).tolist() == [3]


def test_acks_all_needs_min_isr_and_a_leader() -> None:
    given: list[dict[str, Any]] = [{}, {"isr": [0, 1]}, {"isr": [0]}, {"leader": -1}]
    assert [accepts_acks_all(one(**g)).tolist() for g in given] == [[True], [True], [False], [False]]


@pytest.mark.parametrize(
    ("given", "maximal_isr", "log_end", "delivery", "expected"),
    [
        ({}, [], [9, 8, 7], PHASE_2, 7),
        ({}, [], [9, 8, 3], PHASE_2, 5),
        ({"isr": [0, 1]}, [], [9, 8, 3], PHASE_2, 8),
        ({"isr": [0, 1]}, [0, 1, 2], [9, 8, 7], PHASE_2, 7),
        ({"isr": [0]}, [], [9, 8, 7], PHASE_2, 5),
        ({"isr": [0]}, [0, 1], [9, 8, 7], PHASE_2, 5),
        ({"isr": [0]}, [], [9, 8, 7], BEFORE_ELR, 9),
        ({"isr": [0]}, [0, 1], [9, 8, 7], BEFORE_ELR, 8),
        ({}, [], [9, PAD, 7], PHASE_2, 5),
        ({"leader": -1}, [], [9, 8, 7], PHASE_2, 5),
    ],
)
def test_the_high_watermark(
    given: dict[str, Any], maximal_isr: list[int], log_end: list[int], delivery: Delivery, expected: int
) -> None:
    found = advance_high_watermark(one(**given), np.array([5]), matrix([maximal_isr]), np.array([log_end]), delivery)
    assert found.tolist() == [expected]


def test_members_of_the_isr_that_all_fail_at_once_leave_the_leader_standing() -> None:
    states = one()
    events = replace(nothing_happens(states), fenced=matrix([[0, 1, 2]]))
    assert as_scalar(step(states, events, BEFORE_ELR))[0].isr == {0}
    states = one(leader=-1)
    assert as_scalar(step(states, replace(events, proposed_isr=states.isr), BEFORE_ELR))[0].isr == {0}


def test_the_first_step_with_elr_takes_a_dead_last_member_into_it() -> None:
    states = one(isr=[2], leader=-1, alive=[0, 1])
    [after] = as_scalar(step(states, nothing_happens(states), PHASE_1))
    assert (after.isr, after.elr, after.leader) == (set(), {2}, -1)


def test_an_unclean_winner_empties_the_elr_and_is_the_isr() -> None:
    states = one(isr=[], elr=[1], last_known_elr=[2], alive=[0], leader=-1, last_known_leader=2)
    found = elect(cases_of(states, PHASE_1), strategy("aggressive", PHASE_1))
    [after] = as_scalar(lead(states, found, PHASE_1))
    assert (after.isr, after.elr, after.last_known_elr) == ({0}, set(), {2})
    assert (after.leader, after.last_known_leader, after.leader_epoch) == (0, -1, 8)


def test_an_election_that_waits_changes_nothing() -> None:
    states = one(isr=[], elr=[1], last_known_elr=[2], alive=[0], leader=-1, last_known_leader=2)
    found = elect(cases_of(states, PHASE_2), strategy("balanced"))
    assert as_scalar(lead(states, found, PHASE_2)) == as_scalar(states)


@pytest.mark.parametrize("delivery", [BEFORE_ELR, PHASE_2])
def test_a_reassignment_waits_for_those_that_must_be_in_sync(delivery: Delivery) -> None:
    states = one(isr=[0, 1])
    assert end_reassignment(states, matrix([[0]]), matrix([[2]]), delivery)[1].tolist() == [False]
    assert end_reassignment(states, matrix([[0, 1]]), matrix([[]]), delivery)[1].tolist() == [False]


def test_a_cancelled_reassignment_needs_min_isr_of_the_replicas_that_stay() -> None:
    states = one(isr=[0, 1], min_insync_replicas=2)
    ended, done = end_reassignment(states, matrix([[1, 2]]), matrix([[]]), PHASE_2)
    assert (done.tolist(), members(ended.replicas, 0), members(ended.isr, 0)) == ([True], [0], [0])
    kept, done = end_reassignment(states, matrix([[1]]), matrix([[]]), PHASE_2)
    assert (done.tolist(), as_scalar(kept)) == ([False], as_scalar(states))


def test_a_member_that_is_away_does_not_count_for_the_end_of_a_reassignment() -> None:
    states = one(isr=[0, 1], alive=[0, 2])
    assert end_reassignment(states, matrix([[2]]), matrix([[]]), PHASE_2)[1].tolist() == [False]
    assert end_reassignment(states, matrix([[2]]), matrix([[]]), BEFORE_ELR)[1].tolist() == [True]
