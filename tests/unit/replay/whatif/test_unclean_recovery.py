"""KIP-966's elections: each rule by an example, and all of them against the scalar version on random cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.arrow.ragged import PAD, Array, to_matrix
from replay.whatif.kip966_rules import (
    BEFORE_ELR,
    DELIVERIES,
    ELECTION_TYPES,
    PHASE_1,
    PHASE_2,
    UNCLEAN_RECOVERY_TIMEOUT_MS,
    Rule,
    election_type,
    strategy,
    strategy_of,
)
from replay.whatif.unclean_recovery import Answers, RecoveryCases, elect
from tests.support import scalar_recovery
from tests.support.scalar_recovery import Answer, Case, Result

RULES: dict[str, Rule] = {
    **PHASE_2.strategies,
    "disabled": PHASE_1.strategies["balanced"],
    "enabled": PHASE_1.strategies["aggressive"],
    **ELECTION_TYPES,
}
LISTS = ("replicas", "isr", "elr", "last_known_elr", "alive")
NUMBERS = ("leader", "last_known_leader", "desired_leader", "minimal_replicas", "leader_epoch", "elapsed_ms")
OVER = UNCLEAN_RECOVERY_TIMEOUT_MS


def matrix(lists: Sequence[Sequence[int]]) -> Array:
    return to_matrix(pa.array(lists, type=pa.list_(pa.int64())))


def as_cases(cases: Sequence[Case]) -> RecoveryCases:
    def of_replicas(value: Any) -> Array:
        rows = [[value(case, r) for r in case.replicas] for case in cases]
        return matrix([[PAD if v is None else v for v in row] for row in rows])

    def answered(name: str) -> Array:
        return of_replicas(lambda case, r: getattr(case.answers.get(r), name, None))

    return RecoveryCases(
        **{name: matrix([getattr(case, name) for case in cases]) for name in LISTS},
        **{name: np.array([getattr(case, name) for case in cases], dtype=np.int64) for name in NUMBERS},
        broker_epoch=of_replicas(lambda case, r: case.broker_epochs[r]),
        answers=Answers(*(answered(n) for n in ("at_ms", "broker_epoch", "leader_epoch", "last_epoch", "log_end"))),
    )


def results(cases: Sequence[Case], rule: Rule) -> list[Result]:
    """The vectorised answers, in the scalar form."""
    found = elect(as_cases(cases), rule)

    def ids(lists: Array, row: int) -> tuple[int, ...]:
        return tuple(int(b) for b in lists[row] if b != PAD)

    def number(values: Array, row: int) -> int | None:
        return None if values[row] == PAD else int(values[row])

    return [
        Result(
            outcome=str(found.outcome[i]),
            via=str(found.via[i]),
            leader=int(found.leader[i]),
            tied=ids(found.tied, i),
            waited_for=frozenset(ids(found.waited_for, i)),
            unseen=frozenset(ids(found.unseen, i)),
            last_epoch=number(found.last_written_leader_epoch, i),
            log_end=number(found.log_end_offset, i),
            data_loss_possible=bool(found.data_loss_possible[i]),
        )
        for i in range(len(cases))
    ]


# Few ids, so that lists meet; among them the ends of int32 and those that mean "no leader" and "no change" elsewhere.
IDS = st.sampled_from([-(2**31), -2, -1, 0, 1, 2, 7, 2**31 - 1])
SETS = st.lists(IDS, unique=True, max_size=6)
EPOCHS = st.integers(0, 1)
TIMES = st.sampled_from([0, 1, OVER - 1, OVER, OVER + 1, OVER + 2])


@st.composite
def any_case(draw: st.DrawFn) -> Case:
    replicas = draw(SETS)
    known = st.one_of(st.none(), st.integers(0, 2))
    answer = st.builds(Answer, at_ms=TIMES, broker_epoch=EPOCHS, leader_epoch=EPOCHS, last_epoch=known, log_end=known)
    good = st.builds(
        Answer,
        at_ms=TIMES,
        broker_epoch=st.just(0),
        leader_epoch=st.just(0),
        last_epoch=st.integers(0, 1),
        log_end=st.integers(0, 2),
    )
    answers = {r: draw(st.one_of(st.none(), good, good, answer)) for r in replicas}
    holders = st.one_of(st.just([]), SETS)
    return Case(
        replicas=replicas,
        isr=draw(holders),
        elr=draw(holders),
        last_known_elr=draw(st.one_of(SETS, st.lists(st.sampled_from(replicas), unique=True) if replicas else SETS)),
        alive=draw(st.one_of(st.just(replicas), SETS)),
        leader=draw(st.one_of(st.just(-1), IDS)),
        last_known_leader=draw(IDS),
        desired_leader=draw(IDS),
        minimal_replicas=draw(st.integers(0, 4)),
        leader_epoch=0,
        broker_epochs={r: draw(st.sampled_from([0, 0, 0, 1])) for r in replicas},
        elapsed_ms=draw(TIMES),
        answers={r: a for r, a in answers.items() if a is not None},
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(any_case(), max_size=8))
def test_it_gives_the_scalar_versions_answers(cases: list[Case]) -> None:
    for name, rule in RULES.items():
        assert results(cases, rule) == [scalar_recovery.elect(case, name) for case in cases], name


def said(last_epoch: int | None, log_end: int | None, at_ms: int = 0, **epochs: int) -> Answer:
    return Answer(at_ms, epochs.get("broker_epoch", 0), epochs.get("leader_epoch", 0), last_epoch, log_end)


def one(rule: str, **given: Any) -> Result:
    """Replicas 1, 2 and 3, all alive and leaderless, five minutes after the recovery began."""
    replicas = given.get("replicas", [1, 2, 3])
    around = {"replicas": replicas, "alive": replicas, "broker_epochs": dict.fromkeys(replicas, 0)}
    return results([Case(**{**around, **given})], RULES[rule])[0]


ANSWERS = {1: said(4, 100), 2: said(5, 80), 3: said(5, 90)}


def waits(via: str, *brokers: int) -> Result:
    return Result("waits", via, waited_for=frozenset(brokers))


@pytest.mark.parametrize("rule", ["none", "balanced", "aggressive", "enabled", "disabled", "UNCLEAN"])
def test_isr_then_elr_come_before_every_strategy(rule: str) -> None:
    assert one(rule, isr=[3, 2], elr=[1]) == Result("elected", "isr", 2, (2, 3))
    assert one(rule, isr=[2], elr=[3], alive=[1, 3]) == Result("elected", "elr", 3, (3,))


@pytest.mark.parametrize("rule", ["none", "balanced", "disabled"])
def test_a_fenced_holder_is_waited_for(rule: str) -> None:
    given = {"alive": [1], "answers": ANSWERS, "last_known_elr": [1], "last_known_leader": 1}
    assert one(rule, elr=[2, 3], **given) == waits("elr", 2, 3)
    assert one(rule, isr=[2], **given) == waits("isr", 2)


def test_aggressive_does_not_wait_for_a_fenced_holder() -> None:
    expected = Result("elected", "unclean_recovery", 1, (1,), last_epoch=4, log_end=100, data_loss_possible=True)
    assert one("aggressive", elr=[2, 3], alive=[1], answers=ANSWERS) == expected


def test_none_waits_for_an_administrator() -> None:
    assert one("none", answers=ANSWERS) == waits("administrator")


@pytest.mark.parametrize("rule", ["aggressive", "balanced", "LONGEST_LOG_AGGRESSIVE", "LONGEST_LOG_BALANCED"])
def test_the_highest_last_epoch_wins_then_the_longest_log(rule: str) -> None:
    expected = Result("elected", "unclean_recovery", 3, (3,), last_epoch=5, log_end=90, data_loss_possible=True)
    assert one(rule, answers=ANSWERS) == expected


def test_a_tie_is_told() -> None:
    found = one("aggressive", answers={**ANSWERS, 2: said(5, 90)})
    assert (found.outcome, found.leader, found.tied) == ("elected", 2, (2, 3))


@pytest.mark.parametrize("stale", [said(9, 999, broker_epoch=1), said(9, 999, leader_epoch=1)])
def test_an_answer_of_another_epoch_is_dropped(stale: Answer) -> None:
    assert one("aggressive", answers={**ANSWERS, 1: stale}).leader == 3
    assert one("balanced", answers={**ANSWERS, 1: stale}, last_known_elr=[1, 3]) == waits("unclean_recovery", 1)


def test_a_fenced_replicas_answer_does_not_count() -> None:
    assert one("aggressive", answers=ANSWERS, alive=[1, 2]).leader == 2


def test_aggressive_goes_on_until_the_timeout_unless_all_have_answered() -> None:
    some = {1: said(4, 100, at_ms=10), 2: said(5, 80, at_ms=20)}
    assert one("aggressive", answers=some, elapsed_ms=OVER - 1) == waits("unclean_recovery", 3)
    assert one("aggressive", answers=some, elapsed_ms=OVER).leader == 2
    assert one("aggressive", answers={**some, 3: said(5, 90, at_ms=30)}, elapsed_ms=30).leader == 3
    assert one("aggressive", answers={**some, 3: said(5, 90, at_ms=30)}, elapsed_ms=29) == waits("unclean_recovery", 3)


def test_after_the_timeout_aggressive_takes_the_first_answer() -> None:
    late = {1: said(4, 100, at_ms=OVER + 1), 2: said(5, 80, at_ms=OVER + 2)}
    assert one("aggressive", answers=late, elapsed_ms=OVER) == waits("unclean_recovery", 1, 2, 3)
    assert one("aggressive", answers=late, elapsed_ms=OVER + 1).leader == 1
    assert one("aggressive", answers=late, elapsed_ms=OVER + 9).leader == 1
    assert one("aggressive", answers={**late, 3: said(0, 0, at_ms=OVER)}, elapsed_ms=OVER + 9).leader == 3


def test_balanced_waits_for_every_last_known_elr_member_however_long() -> None:
    given = {"last_known_elr": [1, 2], "answers": {1: ANSWERS[1], 3: ANSWERS[3]}, "elapsed_ms": 100 * OVER}
    assert one("balanced", **given) == waits("unclean_recovery", 2)
    given["answers"] = {**given["answers"], 2: said(5, 95, at_ms=99 * OVER)}
    assert one("balanced", **given).leader == 2
    assert one("balanced", **given, alive=[1, 3]) == waits("unclean_recovery", 2)


def test_balanced_takes_other_answers_until_the_timeout_only() -> None:
    given = {"last_known_elr": [1], "answers": {1: said(4, 100), 2: said(5, 80, at_ms=OVER + 1)}}
    assert one("balanced", **given, elapsed_ms=OVER - 1) == waits("unclean_recovery", 2, 3)
    assert one("balanced", **given, elapsed_ms=OVER + 9).leader == 1


def test_balanced_waits_for_a_last_known_elr_member_that_is_no_replica_any_more() -> None:
    assert one("balanced", last_known_elr=[9], answers=ANSWERS) == waits("unclean_recovery", 9)


def test_balanced_with_no_last_known_elr_takes_who_answered_in_time() -> None:
    assert one("balanced", answers={1: said(4, 100)}).leader == 1
    assert one("balanced", answers={1: said(4, 100, at_ms=OVER + 1)}, elapsed_ms=OVER + 1) == waits(
        "unclean_recovery", 2, 3
    )


@pytest.mark.parametrize("unknown", [said(None, 80), said(5, None), said(None, None)])
def test_a_log_that_nobody_saw_is_not_one_that_did_not_answer(unknown: Answer) -> None:
    found = one("aggressive", answers={**ANSWERS, 2: unknown})
    assert found == Result("undetermined", "unclean_recovery", unseen=frozenset({2}), data_loss_possible=True)
    assert one("aggressive", answers={1: ANSWERS[1], 3: ANSWERS[3]}).leader == 3


def test_an_unknown_log_that_is_alone_needs_no_comparison() -> None:
    expected = Result("elected", "unclean_recovery", 2, (2,), data_loss_possible=True)
    assert one("aggressive", answers={2: said(None, None)}) == expected


def test_phase_1_elects_the_last_known_leader_or_any_replica() -> None:
    last_known = Result("elected", "last_known_leader", 2, (2,), data_loss_possible=True)
    assert one("disabled", last_known_leader=2) == last_known
    assert one("disabled", last_known_leader=2, alive=[1, 3]) == waits("last_known_leader", 2)
    assert one("disabled") == waits("last_known_leader")
    assert one("enabled", alive=[2, 3]) == Result("elected", "unclean", 2, (2, 3), data_loss_possible=True)
    assert one("enabled", alive=[]) == waits("unclean", 1, 2, 3)


@pytest.mark.parametrize(
    "rule", ["UNCLEAN", "LONGEST_LOG_AGGRESSIVE", "LONGEST_LOG_BALANCED", "DESIGNATION", "PREFERRED"]
)
def test_a_request_leaves_a_leader_that_there_is(rule: str) -> None:
    found = one(rule, leader=2, isr=[2], desired_leader=1, answers=ANSWERS)
    assert (found.outcome, found.leader) == ("not_performed", 2)


def test_preferred_moves_the_leader_to_the_first_replica_of_the_isr() -> None:
    assert one("PREFERRED", leader=2, isr=[1, 2]) == Result("elected", "preferred", 1, (1,))
    assert one("PREFERRED", leader=1, isr=[1, 2]) == Result("not_performed", "preferred", 1)
    assert one("PREFERRED", leader=2, isr=[2], elr=[1]) == Result("not_performed", "preferred", 2)
    assert one("PREFERRED", elr=[1]) == Result("elected", "preferred", 1, (1,))
    assert one("PREFERRED", isr=[3]) == Result("elected", "isr", 3, (3,))
    assert one("PREFERRED") == waits("preferred", 1)


def test_unclean_takes_the_first_replica_alive() -> None:
    expected = Result("elected", "unclean", 1, (1, 2, 3), last_epoch=4, log_end=100, data_loss_possible=True)
    assert one("UNCLEAN", answers=ANSWERS) == expected


def test_a_designated_leader_must_be_a_replica_and_alive() -> None:
    assert one("DESIGNATION", desired_leader=2) == Result("elected", "designated", 2, (2,), data_loss_possible=True)
    assert one("DESIGNATION", desired_leader=2, elr=[2]) == Result("elected", "designated", 2, (2,))
    assert one("DESIGNATION", desired_leader=2, alive=[1, 3]) == waits("designated", 2)
    assert one("DESIGNATION", desired_leader=9) == Result("not_performed", "designated", -1)


@pytest.mark.parametrize("rule", ["LONGEST_LOG_AGGRESSIVE", "LONGEST_LOG_BALANCED"])
def test_minimal_replicas_must_have_answered(rule: str) -> None:
    some = {1: said(4, 100), 2: said(5, 80, at_ms=OVER + 5)}
    assert one(rule, answers=some, minimal_replicas=1, elapsed_ms=OVER + 9).leader == 1
    assert one(rule, answers=some, minimal_replicas=2, elapsed_ms=OVER + 9).leader == 2
    assert one(rule, answers=some, minimal_replicas=2, elapsed_ms=OVER) == waits("unclean_recovery", 2, 3)
    assert one(rule, answers=some, minimal_replicas=3, elapsed_ms=OVER + 9) == waits("unclean_recovery", 3)


def test_minimal_replicas_do_not_stand_in_for_the_last_known_elr() -> None:
    given = {"last_known_elr": [3], "minimal_replicas": 2, "answers": {1: ANSWERS[1], 2: ANSWERS[2]}}
    assert one("LONGEST_LOG_BALANCED", **given) == waits("unclean_recovery", 3)
    assert one("LONGEST_LOG_AGGRESSIVE", **given).leader == 2


def test_the_timeout_can_be_set() -> None:
    case = Case([1, 2], alive=[1, 2], broker_epochs={1: 0, 2: 0}, answers={1: said(1, 1)}, elapsed_ms=70)
    cases = as_cases([case, case])
    assert elect(cases, PHASE_2.strategies["aggressive"]).leader.tolist() == [-1, -1]
    assert elect(cases, PHASE_2.strategies["aggressive"], timeout_ms=70).leader.tolist() == [1, 1]


def test_the_names_of_strategies_and_types() -> None:
    assert strategy("Manual") == strategy("None") == PHASE_2.strategies["none"]
    assert strategy("Proactive") == strategy("AGGRESSIVE") == PHASE_2.strategies["aggressive"]
    assert strategy("Balanced").waits_for_last_known_elr
    assert strategy(strategy_of(True)) == strategy("aggressive")
    assert strategy(strategy_of(False)) == strategy("balanced")
    assert election_type("longest_log_proactive") == ELECTION_TYPES["LONGEST_LOG_AGGRESSIVE"]
    assert list(DELIVERIES) == ["before_elr", "phase_1", "phase_2"]
    assert [d.strategies is not None and d.keeps_elr for d in DELIVERIES.values()] == [False, True, True]


@pytest.mark.parametrize(("name", "delivery"), [("none", PHASE_1), ("none", BEFORE_ELR), ("random", PHASE_2)])
def test_a_strategy_that_a_delivery_does_not_have(name: str, delivery: Any) -> None:
    with pytest.raises(ValueError, match=f"'{name}' is not a strategy of {delivery.name}"):
        strategy(name, delivery)


def test_an_election_type_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="not an election type"):
        election_type("LONGEST")
