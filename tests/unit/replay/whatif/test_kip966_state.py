"""KIP-966's state rules: the KIP's invariants, and what no story has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.whatif.recovery_policies import BALANCED
from tests.support.kip966_state import (
    BEFORE_ELR,
    DELIVERIES,
    NOBODY,
    PHASE_1,
    PHASE_2,
    UNCLEAN,
    Delivery,
    Event,
    State,
    advance_high_watermark,
    choose,
    end_reassignment,
    lead,
    step,
)

BROKERS = st.frozensets(st.integers(0, 3))
EVENT = st.builds(
    Event,
    proposed_isr=st.one_of(st.none(), st.none(), BROKERS),
    fenced=BROKERS,
    unfenced=BROKERS,
    unclean_shutdown=BROKERS,
)


def partition(**given: Any) -> State:
    """Replicas 0, 1 and 2, all alive and in sync, min ISR 2, leader 0."""
    everybody = frozenset(range(3))
    healthy = State((0, 1, 2), everybody, NOBODY, NOBODY, everybody, 0, -1, 7, 2)
    return replace(healthy, **{n: frozenset(v) if isinstance(v, list) else v for n, v in given.items()})


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.lists(EVENT, max_size=12), st.sampled_from([PHASE_1, PHASE_2]))
def test_the_kips_invariants_hold(number: int, events: list[Event], delivery: Delivery) -> None:
    brokers = frozenset(range(4))
    before = State((0, 1, 2, 3), brokers, NOBODY, NOBODY, brokers, 0, -1, 0, number)
    for event in events:
        after = step(before, event, delivery)
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
        before = after


def test_effective_min_isr_is_the_lower_of_the_two() -> None:
    assert (partition().min_isr, partition(min_insync_replicas=5).min_isr) == (2, 3)


def test_acks_all_needs_min_isr_and_a_leader() -> None:
    cases: list[dict[str, Any]] = [{}, {"isr": [0, 1]}, {"isr": [0]}, {"leader": -1}]
    assert [partition(**case).accepts_acks_all for case in cases] == [True, True, False, False]


@pytest.mark.parametrize(
    ("case", "maximal_isr", "log_end", "delivery", "expected"),
    [
        ({}, [], [9, 8, 7], PHASE_2, 7),
        ({}, [], [9, 8, 3], PHASE_2, 5),
        ({"isr": [0, 1]}, [], [9, 8, 3], PHASE_2, 8),
        ({"isr": [0, 1]}, [0, 1, 2], [9, 8, 7], PHASE_2, 7),
        ({"isr": [0]}, [], [9, 8, 7], PHASE_2, 5),
        ({"isr": [0]}, [0, 1], [9, 8, 7], PHASE_2, 5),
        ({"isr": [0]}, [], [9, 8, 7], BEFORE_ELR, 9),
        ({"isr": [0]}, [0, 1], [9, 8, 7], BEFORE_ELR, 8),
        ({"leader": -1}, [], [9, 8, 7], PHASE_2, 5),
    ],
)
def test_the_high_watermark(
    case: dict[str, Any], maximal_isr: list[int], log_end: list[int], delivery: Delivery, expected: int
) -> None:
    ends = dict(enumerate(log_end))
    assert advance_high_watermark(partition(**case), 5, frozenset(maximal_isr), ends, delivery) == expected


def test_members_of_the_isr_that_all_fail_at_once_leave_the_leader_standing() -> None:
    all_fail = Event(fenced=frozenset({0, 1, 2}))
    assert step(partition(), all_fail, BEFORE_ELR).isr == {0}
    assert step(partition(leader=-1), all_fail, BEFORE_ELR).isr == {0}


def test_the_first_step_with_elr_takes_a_dead_last_member_into_it() -> None:
    after = step(partition(isr=[2], leader=-1, alive=[0, 1]), Event(), PHASE_1)
    assert (after.isr, after.elr, after.leader) == (set(), {2}, -1)


def test_an_unclean_winner_empties_the_elr_and_is_the_isr() -> None:
    state = partition(isr=[], elr=[1], last_known_elr=[2], alive=[0], leader=-1, last_known_leader=2)
    after = lead(state, choose(state, PHASE_1, UNCLEAN), PHASE_1)
    assert (after.isr, after.elr, after.last_known_elr) == ({0}, set(), {2})
    assert (after.leader, after.last_known_leader, after.leader_epoch) == (0, -1, 8)


def test_an_election_that_waits_changes_nothing() -> None:
    state = partition(isr=[], elr=[1], last_known_elr=[2], alive=[0], leader=-1, last_known_leader=2)
    assert lead(state, choose(state, PHASE_2, BALANCED), PHASE_2) == state


@pytest.mark.parametrize("name", sorted(DELIVERIES))
def test_a_reassignment_waits_for_those_that_must_be_in_sync(name: str) -> None:
    state = partition(isr=[0, 1])
    assert not end_reassignment(state, {0}, {2}, DELIVERIES[name])[1]
    assert not end_reassignment(state, {0, 1}, set(), DELIVERIES[name])[1]


def test_a_cancelled_reassignment_needs_min_isr_of_the_replicas_that_stay() -> None:
    state = partition(isr=[0, 1])
    ended, done = end_reassignment(state, {1, 2}, set(), PHASE_2)
    assert (done, ended.replicas, ended.isr) == (True, (0,), {0})
    assert end_reassignment(state, {1}, set(), PHASE_2) == (state, False)


def test_a_member_that_is_away_does_not_count_for_the_end_of_a_reassignment() -> None:
    state = partition(isr=[0, 1], alive=[0, 2])
    assert not end_reassignment(state, {2}, set(), PHASE_2)[1]
    assert end_reassignment(state, {2}, set(), BEFORE_ELR)[1]
