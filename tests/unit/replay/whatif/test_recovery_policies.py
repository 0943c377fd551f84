"""What KIP-966's unclean recovery would have picked."""

from __future__ import annotations

from typing import Any

import pytest

from replay.loss.judged_windows import Situation
from replay.offsets.evidence import Replica
from replay.whatif.recovery_policies import AGGRESSIVE, ALL_REPLICAS, BALANCED, LAST_LEADER, NONE, RULES, elect, pick

RECOVERING = [AGGRESSIVE, BALANCED, ALL_REPLICAS]


def situation(**given: Any) -> Situation:
    """Replicas 1, 2 and 3; seen as broker -> (last written epoch, log end)."""
    seen = {b: Replica(b, end, epoch, {}) for b, (epoch, end) in given.pop("seen", {}).items()}
    around = {"replicas": [1, 2, 3], "isr": [], "elr": [], "alive": [1, 2, 3], "waited_for": None, "recorded": 1}
    return Situation(**{**around, **given}, last_seen=seen)


SEEN = {1: (4, 100), 2: (5, 80), 3: (5, 90)}


def picked(policy: str, **given: Any) -> tuple[str, int | None]:
    answer = pick(policy, situation(**given))
    assert answer.explanation
    return answer.outcome, answer.leader


@pytest.mark.parametrize("policy", [AGGRESSIVE, BALANCED, NONE, LAST_LEADER])
def test_an_isr_member_that_is_alive_comes_first_then_an_elr_member(policy: str) -> None:
    assert picked(policy, isr=[2], elr=[3], seen=SEEN) == ("elected", 2)
    assert picked(policy, isr=[2], elr=[3], alive=[1, 3], seen=SEEN) == ("elected", 3)
    assert picked(policy, elr=[3, 2], recorded=1) == ("elected", 2)
    assert picked(policy, elr=[3, 2], recorded=3) == ("elected", 3)


def test_the_highest_epoch_wins_then_the_longest_log() -> None:
    assert picked(AGGRESSIVE, seen=SEEN) == ("elected", 3)
    assert picked(AGGRESSIVE, seen=SEEN, alive=[1, 2]) == ("elected", 2)


def test_aggressive_asks_only_who_is_alive() -> None:
    assert picked(AGGRESSIVE, seen={1: (4, 100), 2: (5, 80)}, alive=[1]) == ("elected", 1)
    assert picked(AGGRESSIVE, seen=SEEN, waited_for=3, alive=[1, 2]) == ("elected", 2)


def test_all_replicas_asks_the_dead_too_whatever_isr_and_elr_say() -> None:
    assert picked(ALL_REPLICAS, isr=[1], alive=[1], seen=SEEN) == ("elected", 3)


def test_balanced_waits_for_the_last_known_leader() -> None:
    assert picked(BALANCED, seen=SEEN, waited_for=3, alive=[1, 2]) == ("waits", None)
    assert picked(BALANCED, seen=SEEN, waited_for=None, alive=[1, 2]) == ("waits", None)
    assert picked(BALANCED, seen=SEEN, waited_for=2, alive=[1, 2]) == ("elected", 2)


@pytest.mark.parametrize("held", [{"isr": [3]}, {"elr": [3]}])
def test_balanced_waits_for_a_fenced_member_of_isr_or_elr_and_aggressive_does_not(held: dict[str, list[int]]) -> None:
    around = {"seen": SEEN, "waited_for": 2, "alive": [1, 2], **held}
    assert picked(BALANCED, **around) == ("waits", None)
    assert "broker(s) 3" in pick(BALANCED, situation(**around)).explanation
    assert picked(AGGRESSIVE, **around) == ("elected", 2)
    assert picked(ALL_REPLICAS, **around) == ("elected", 3)


@pytest.mark.parametrize("policy", [AGGRESSIVE, BALANCED, NONE, LAST_LEADER])
def test_nobody_alive(policy: str) -> None:
    assert picked(policy, seen=SEEN, alive=[], waited_for=1) == ("waits", None)


@pytest.mark.parametrize("policy", RECOVERING)
def test_a_tie_keeps_the_recorded_leader(policy: str) -> None:
    tied = {1: (5, 90), 2: (5, 90), 3: (5, 90)}
    assert picked(policy, seen=tied, waited_for=1, recorded=2) == ("elected", 2)
    assert picked(policy, seen={**tied, 2: (5, 89)}, waited_for=1, recorded=2) == ("elected", 1)


@pytest.mark.parametrize("policy", RECOVERING)
def test_a_replica_that_was_not_seen_could_be_any_length(policy: str) -> None:
    assert picked(policy, seen={1: (5, 90), 2: (5, 80)}, waited_for=1) == ("undetermined", None)
    assert picked(policy, seen={**SEEN, 3: (None, 900)}, waited_for=1) == ("undetermined", None)


@pytest.mark.parametrize("policy", RECOVERING)
def test_a_single_candidate_needs_no_comparison(policy: str) -> None:
    assert picked(policy, replicas=[2], alive=[2], waited_for=2, recorded=2) == ("elected", 2)


def test_none_waits_for_an_administrator() -> None:
    assert picked(NONE, seen=SEEN, waited_for=3) == ("waits", None)
    assert pick(NONE, situation(seen=SEEN)).explanation == "waits for an administrator"
    assert "broker(s) 3" in pick(NONE, situation(elr=[3], alive=[1, 2])).explanation
    assert elect(RULES[NONE], [1, 2, 3], [1, 2], [], [3], [], {}).via == "elr"


def test_the_last_known_leader_leads_or_is_waited_for() -> None:
    assert picked(LAST_LEADER, seen=SEEN, waited_for=1) == ("elected", 1)
    assert picked(LAST_LEADER, seen=SEEN, waited_for=1, alive=[2, 3]) == ("waits", None)
    assert picked(LAST_LEADER, seen=SEEN, waited_for=1, elr=[3], alive=[1, 2]) == ("waits", None)
    said = {w: pick(LAST_LEADER, situation(seen=SEEN, waited_for=w)).explanation for w in (None, 1, 9)}
    assert said[None] == "no last leader is known"
    assert said[1] == "broker 1 is the last known leader and is alive"
    assert said[9] == "waits for broker 9, the last known leader, to answer"


def test_the_answer_says_who_is_missing() -> None:
    answer = pick(ALL_REPLICAS, situation(seen={1: (5, 90)}))
    assert "broker(s) 2, 3" in answer.explanation
    assert "broker 7" in pick(BALANCED, situation(waited_for=7)).explanation


def test_balanced_waits_for_every_member_of_the_last_known_elr() -> None:
    logs = {1: (4, 100), 2: (5, 95), 3: (5, 90)}
    assert elect(RULES[BALANCED], [1, 2, 3], [1, 3], [], [], [1, 2], logs).waited_for == [2]
    assert elect(RULES[BALANCED], [1, 2, 3], [1, 2, 3], [], [], [1, 2], logs).tied == [2]
    # A member that is no replica any more cannot answer.
    assert elect(RULES[BALANCED], [1, 2, 3], [1, 2, 3], [], [], [9], logs).waited_for == [9]


def test_the_explanations() -> None:
    said = {policy: pick(policy, situation(seen=SEEN, waited_for=3)).explanation for policy in RECOVERING}
    best = "broker 3 has the highest last epoch 5 and log end 90"
    alive = best + " of the replicas alive"
    assert said == {AGGRESSIVE: alive, BALANCED: alive, ALL_REPLICAS: best + ", had every replica answered"}
    assert pick(AGGRESSIVE, situation(isr=[2])).explanation == (
        "broker 2 of the ISR is alive: no unclean recovery is needed"
    )
    assert pick(AGGRESSIVE, situation(alive=[2])).explanation == "broker 2 is the only candidate of the replicas alive"
    assert pick(AGGRESSIVE, situation(alive=[])).explanation == "no replica is alive"
    assert pick(BALANCED, situation()).explanation == "waits for the last known leader to answer"
    assert pick(BALANCED, situation(waited_for=7)).explanation == (
        "waits for broker 7, the last known leader, to answer"
    )
