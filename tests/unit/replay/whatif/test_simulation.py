"""What would have been: with the recorded rules it is what was; other rules differ where they should."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.arrow.ragged import PAD
from replay.arrow.sets import joined
from replay.cluster.facts import ClusterFacts
from replay.controller.predictions import Compared, predict_all
from replay.controller.profiles import PROFILES
from replay.controller.transitions import Bucket
from replay.controller.triggers import UNCLEAN_RESTART
from replay.loss.judged_windows import Situation, judged_windows
from replay.partitions.elections import States
from replay.whatif.comparison import compare, recorded_course
from replay.whatif.policies import POLICIES, designated, policy_of_strategy, recovery
from replay.whatif.scenario import Course, Scenario, loss_with_min_isr
from replay.whatif.simulation import simulate
from replay.whatif.steps import Subjects, steps_of, subjects_of
from tests.support.detection import cluster_of, with_topic_ids
from tests.support.pure import history_of
from tests.support.scenario import evidence, ms, offsets_table, running, sessions, states, up
from tests.unit.replay.controller.test_predictions import around
from tests.unit.test_oracle import decoded

END = 1 << 40
RECORDED = Scenario()


@dataclass(frozen=True)
class Simulated:
    """A bucket and the log end offsets beside it."""

    bucket: Bucket
    offsets: pa.Table

    @property
    def history(self) -> pa.Table:
        return self.bucket.history

    @cached_property
    def changes(self) -> Compared:
        return predict_all(self.bucket, self.bucket.changed_rows)

    @cached_property
    def judged(self) -> Any:
        return list(judged_windows(self.bucket, self.offsets))

    @property
    def states(self) -> States:
        return self.bucket.states

    def subjects(self, begin: int, end: int) -> Subjects:
        found = subjects_of(self.history, self.states, begin, end)
        assert found is not None
        return found

    def course(self, scenario: Scenario, begin: int = 0, end: int = END, rebalanced: Sequence[int] = ()) -> Course:
        subjects = self.subjects(begin, end)
        steps = steps_of(self.bucket, self.changes, subjects, rebalanced)
        return simulate(self.bucket, subjects.start, steps, [scenario])

    def compared(self, scenario: Scenario, begin: int = 0, end: int = END, rebalanced: Sequence[int] = ()) -> list[Any]:
        subjects = self.subjects(begin, end)
        course = self.course(scenario, begin, end, rebalanced)
        missing = getattr(scenario.recover, "undetermined", {})
        by_subject = {s: missing[row] for s, row in enumerate(subjects.start.tolist()) if row in missing}
        end_ms = int(self.bucket.facts.log_end_ms or 0)
        return compare(self.history, self.states, subjects, course, self.judged, end_ms, by_subject).to_pylist()

    def by_policy(self, policy: str) -> Scenario:
        return Scenario(recover=recovery(policy, self.history, self.states, self.offsets, self.bucket.facts.clock))


@cache
def real(name: str) -> Simulated:
    capture = decoded(name)
    history, state = history_of(capture)
    facts = cluster_of(capture, state)
    first = Bucket(history.table, facts)
    shown = predict_all(first, first.changed_rows)
    restarts = sorted(set(shown.shown_at[shown.trigger(slice(None)) == UNCLEAN_RESTART].tolist()))
    known = with_topic_ids(capture.offsets, history.table)
    return Simulated(Bucket(history.table, replace(facts, unclean_restarts=restarts)), known)


def simulated(history: pa.Table, facts: ClusterFacts, restarts: Sequence[int] = (), *lines: str) -> Simulated:
    last = int(history["offset"].to_numpy().max())
    facts = replace(facts, log_end_ms=ms(last + 10), unclean_restarts=restarts)
    return Simulated(Bucket(history, facts), offsets_table(evidence(*lines)))


def steps_through(course: Course, subject: int) -> list[tuple[int, tuple[int, ...], frozenset[int]]]:
    """Leader, ISR and ELR, wherever one of them changes."""
    found: list[tuple[int, tuple[int, ...], frozenset[int]]] = []
    for row in np.flatnonzero(course.subject == subject):
        isr, elr = ([int(b) for b in lists[row] if b != PAD] for lists in (course.isr, course.elr))
        state = (int(course.leader[row]), tuple(isr), frozenset(elr))
        if not found or found[-1] != state:
            found.append(state)
    return found


@pytest.mark.parametrize("name", ["unclean", "elr", "churn", "diverge", "jbod-4.0.2", "jbod-4.1.1"])
@pytest.mark.parametrize("span", [(0, END), (57, 133)])
def test_with_the_recorded_rules_it_is_what_was(name: str, span: tuple[int, int]) -> None:
    """Every partition, every state: leader, ISR in its order, ELR."""
    known = real(name)
    subjects = known.subjects(*span)
    simulated, recorded = known.course(RECORDED, *span), recorded_course(known.history, known.states, subjects)
    assert len(subjects.start) > 6
    for subject in range(len(subjects.start)):
        assert steps_through(simulated, subject) == steps_through(recorded, subject)
    assert simulated.unclean.sum() == recorded.unclean.sum()
    rows = known.compared(RECORDED, *span)
    assert {row["first_difference_offset"] for row in rows} == {None}
    for row in rows:
        assert all(row[f"{n}_recorded"] == row[f"{n}_would_be"] for n in ("elections", "leaderless_ms", "loss_min"))


@settings(max_examples=12)
@given(st.data())
def test_a_simulation_can_begin_and_end_anywhere(data: st.DataObject) -> None:
    known = real(data.draw(st.sampled_from(["unclean", "elr"])))
    last = int(known.history["offset"].to_numpy().max())
    begin = data.draw(st.integers(0, last))
    end = data.draw(st.integers(begin, last + 5))
    if subjects_of(known.history, known.states, begin, end) is None:
        assert end < known.history["batch_base_offset"].to_numpy().min()
        return
    assert {row["first_difference_offset"] for row in known.compared(RECORDED, begin, end)} == {None}


def total(rows: list[dict[str, Any]], name: str) -> tuple[int, int]:
    return tuple(sum(row[f"{name}_{side}"] for row in rows) for side in ("recorded", "would_be"))  # type: ignore[return-value]


def test_without_unclean_election_partitions_wait_longer() -> None:
    rows = real("unclean").compared(Scenario(unclean=False))
    recorded, would_be = total(rows, "leaderless_ms")
    assert would_be > recorded
    recorded, would_be = total(rows, "unclean_elections")
    assert would_be < recorded


def test_without_elr_the_last_replica_stands_alone() -> None:
    """ELR off: whoever left the ISR cannot lead, so a partition is one failure from loss for longer."""
    rows = real("unclean").compared(Scenario(elr=False))
    recorded, would_be = total(rows, "one_left_ms")
    assert would_be > recorded
    course = real("unclean").course(Scenario(elr=False))
    # From its first change on; states before are the recorded ones.
    assert {frozenset()} == {elr for s in range(12) for _, _, elr in steps_through(course, s)}


def test_4_0_elects_the_last_known_leader_while_it_is_fenced() -> None:
    rows = real("unclean").compared(Scenario(profile=PROFILES["4.0"]))
    differing = {(r["topic"], r["partition"]): r for r in rows if r["first_difference_offset"] is not None}
    assert sorted(differing) == [("__consumer_offsets", 0), ("__consumer_offsets", 2), ("legacy", 1)]
    assert {(r["recorded_leader"], r["would_be_leader"]) for r in differing.values()} == {(-1, 4), (-1, 3)}


LOST = (
    *("1 register 1 a", "2 register 2 b", "3 register 3 c", "4 unfence 1", "5 unfence 2", "6 unfence 3"),
    *("21 fence 1 batch=20", "31 fence 2 batch=30"),
    *("50 register 2 b2 batch=49", "51 unfence 2 batch=51", "60 register 1 a2 batch=59", "61 unfence 1 batch=61"),
)
# ISR 1,2 and broker 3 behind; 1 goes, then 2, which comes back first, uncleanly.
STANDING = (
    "10 isr=1,2 elr= leader=1",
    "20 isr=2 elr=1 leader=2 batch=20",
    "30 isr= elr=1,2 leader=-1 lke=2 batch=30",
    "49 elr=1 batch=49",
    "62 isr=1 elr= leader=1 lke= batch=61",
)


def test_a_story_by_hand() -> None:
    """The ELR brings broker 1 back with everything; other rules would have elected somebody who lacks the end."""
    facts = around(sessions(*LOST))
    known = simulated(states(*STANDING), facts, [50])
    assert steps_through(known.course(RECORDED), 0) == [
        (1, (1, 2), frozenset()),
        (2, (2,), frozenset({1})),
        (-1, (), frozenset({1, 2})),
        (-1, (), frozenset({1})),
        (1, (1,), frozenset()),
    ]
    # Unclean election allowed: the ELR goes first even then, but broker 3 is alive when nobody of it is.
    (row,) = known.compared(Scenario(unclean=True))
    assert (row["first_difference_offset"], row["recorded_leader"], row["would_be_leader"]) == (31, -1, 3)
    assert (row["unclean_elections_recorded"], row["unclean_elections_would_be"]) == (0, 1)
    assert (row["leaderless_ms_recorded"], row["leaderless_ms_would_be"]) == (ms(32), 0)


def test_without_elr_the_last_of_the_isr_has_to_come_back() -> None:
    known = simulated(states(*STANDING), around(sessions(*LOST)), [50])
    course = known.course(Scenario(elr=False))
    # Broker 2 stays in the ISR, alone, and leads when it is back: without what its disk lost.
    assert steps_through(course, 0) == [
        (1, (1, 2), frozenset()),
        (2, (2,), frozenset()),
        (-1, (2,), frozenset()),
        (2, (2,), frozenset()),
    ]


def test_deprioritized_brokers_are_elected_last_and_preferred_leaders_move_off_them() -> None:
    history = states("10 isr=1,2,3 leader=1", "20 isr=2,3 leader=2 batch=20")
    brokers = sessions(*up(1, 2, 3), "21 fence 1 batch=20")
    known = simulated(history, around(brokers))
    last = Scenario(deprioritized=((2, 0, END),))
    assert steps_through(known.course(last), 0)[-1] == (3, (2, 3), frozenset())
    # Broker 1 leads and is not on the list: nothing moves before it fails.
    assert steps_through(known.course(last, rebalanced=[0]), 0)[0] == (1, (1, 2, 3), frozenset())
    moved = known.course(Scenario(deprioritized=((1, 0, END),)), rebalanced=[0])
    assert steps_through(moved, 0)[:2] == [(1, (1, 2, 3), frozenset()), (2, (1, 2, 3), frozenset())]
    # All of them: the assignment decides again. And the list holds only for its time.
    every = Scenario(deprioritized=tuple((b, 0, END) for b in (1, 2, 3)))
    assert steps_through(known.course(every), 0) == steps_through(known.course(RECORDED), 0)
    over = Scenario(deprioritized=((2, 0, 15),))
    assert steps_through(known.course(over), 0) == steps_through(known.course(RECORDED), 0)


def test_another_min_isr_moves_what_counts_as_below_it() -> None:
    rows = real("elr").compared(Scenario(min_isr=1))
    recorded, would_be = total(rows, "under_min_isr_ms")
    assert would_be < recorded
    (row,) = simulated(states("10 isr=1,2 leader=1"), around(running(1, 2, 3))).compared(Scenario(min_isr=9))
    # Capped by the replicas, as the controller does.
    assert row["first_difference_offset"] is None


SEEN = ("25 b1 leo=100 e0@0", "25 b2 leo=120 e0@0 e1@90", "25 b3 leo=80 e0@0")
BOTH_RESTARTED = (
    *("1 register 1 a", "2 register 2 b", "3 register 3 c", "4 unfence 1", "5 unfence 2", "6 unfence 3"),
    *("21 fence 1 batch=20", "31 fence 2 batch=30"),
    *("45 register 1 a2 batch=44", "50 register 2 b2 batch=49", "53 unfence 1 batch=53", "55 unfence 2 batch=55"),
)
EMPTY = (
    "10 isr=1,2 elr= leader=1",
    "20 isr=2 elr=1 leader=2 batch=20",
    "30 isr= elr=1,2 leader=-1 lke=2 batch=30",
    "44 elr=2 batch=44",
    "49 elr= batch=49",
    "56 isr=2 elr= leader=2 lke= recovering batch=55",
)


@pytest.mark.parametrize(
    ("policy", "leaders"),
    [
        ("unclean_recovery_none", [1, 2, -1]),
        # Broker 3 has an old log, but is the only one to ask when the ISR is empty and nobody of the ELR is alive.
        ("unclean_recovery_aggressive", [1, 2, 3]),
        ("unclean_recovery_balanced", [1, 2, -1, 2]),
        ("unclean_recovery_all_replicas", [1, 2, -1, 2]),
    ],
)
def test_strategies_choose_by_the_logs_that_were_seen(policy: str, leaders: list[int]) -> None:
    known = simulated(states(*EMPTY), around(sessions(*BOTH_RESTARTED)), [45, 50], *SEEN)
    found = [leader for leader, _, _ in steps_through(known.course(known.by_policy(policy)), 0)]
    assert [leader for i, leader in enumerate(found) if not i or found[i - 1] != leader] == leaders


@pytest.mark.parametrize(("policy", "leader"), [("balanced", 1), ("none", 1), ("aggressive", 3)])
def test_only_aggressive_does_not_wait_for_a_fenced_member_of_the_elr(policy: str, leader: int) -> None:
    """Broker 2, the last leader, is back first, uncleanly; broker 1, of the ELR, later. KIP-966: "If there are fenced
    ELR members [...] Otherwise, we will wait for the fenced ELR members to be unfenced"."""
    known = simulated(states(*STANDING), around(sessions(*LOST)), [50], *SEEN)
    leaders = [each for each, _, _ in steps_through(known.course(known.by_policy(f"unclean_recovery_{policy}")), 0)]
    assert leaders[:2] == [1, 2]
    assert next(each for each in leaders[2:] if each >= 0) == leader


def test_a_log_that_was_never_seen_leaves_the_choice_open() -> None:
    known = simulated(states(*EMPTY), around(sessions(*BOTH_RESTARTED)), [45, 50])
    (row,) = known.compared(known.by_policy("unclean_recovery_balanced"))
    assert row["undetermined_offset"] == 55
    assert {row[f"{name}_would_be"] for name in ("elections", "leaderless_ms", "loss_min", "loss_max")} == {None}
    assert row["elections_recorded"] == 2


def test_a_designated_broker_leads_where_it_holds_a_replica_and_is_alive() -> None:
    known = simulated(states(*EMPTY), around(sessions(*BOTH_RESTARTED)), [45, 50], *SEEN)
    assert steps_through(known.course(designated(3)), 0)[-1] == (3, (3,), frozenset())
    assert [leader for leader, _, _ in steps_through(known.course(designated(9)), 0)] == [1, 2, -1, -1, -1]


def test_losses_are_told_for_the_window_in_which_the_leaders_part_and_not_behind_it() -> None:
    """audit-1 lost 30 offsets with broker 2; had the preferred leaders been others before, nobody knows."""
    rows = real("unclean").compared(RECORDED)
    audit = next(r for r in rows if (r["topic"], r["partition"]) == ("audit", 1))
    assert (audit["loss_min_recorded"], audit["loss_min_would_be"]) == (30, 30)
    moved = Scenario(deprioritized=((1, 0, END), (2, 0, END)))
    rows = real("unclean").compared(moved, rebalanced=[0])
    audit = next(r for r in rows if (r["topic"], r["partition"]) == ("audit", 1))
    assert audit["loss_min_recorded"] == 30
    assert audit["loss_min_would_be"] is None


def test_an_unclean_election_where_none_was_recorded_has_no_bound() -> None:
    rows = real("unclean").compared(Scenario(min_isr=1))
    more = [r for r in rows if r["unclean_elections_would_be"] > r["unclean_elections_recorded"]]
    assert more
    assert all(r["loss_max_would_be"] is None or r["loss_max_would_be"] >= 0 for r in more)
    # Never less certain than "at least nothing".
    assert all(r["loss_min_would_be"] >= 0 for r in rows if r["loss_min_would_be"] is not None)


def test_strategies_have_names() -> None:
    assert policy_of_strategy("aggressive") == "unclean_recovery_aggressive"
    assert policy_of_strategy("Balanced") in POLICIES
    with pytest.raises(ValueError, match="'bold' is not a strategy"):
        policy_of_strategy("bold")


def test_who_is_asked_for_a_leader() -> None:
    """Only partitions without anybody of ISR and ELR are; with everything that a choice needs."""
    asked: list[tuple[int, list[int], int | None]] = []

    def nobody(row: int, offset: int, timestamp_ms: int, situation: Situation) -> None:
        asked.append((offset, [*situation.alive], situation.waited_for))

    known = simulated(states(*EMPTY), around(sessions(*BOTH_RESTARTED)), [45, 50])
    known.course(replace(RECORDED, recover=nobody))
    assert asked == [(31, [3], 2), (45, [3], 2), (50, [3], 2), (53, [1, 3], 2), (55, [1, 2, 3], 2)]


def test_scenarios_that_are_simulated_at_once_give_what_each_gives_alone() -> None:
    known = real("unclean")
    rules = [
        RECORDED,
        *(Scenario(profile=profile) for profile in PROFILES.values()),
        Scenario(elr=False, unclean=False),
        Scenario(elr=False, unclean=True),
        Scenario(min_isr=1, deprioritized=((1, 0, 90), (3, 80, END))),
        *(known.by_policy(policy) for policy in ("unclean_recovery_aggressive", "unclean_recovery_none")),
        designated(2),
    ]
    starts, steps, lasts, alone = [], [], [], []
    for number, scenario in enumerate(rules):
        subjects = known.subjects(number * 10, END)
        count, before = len(subjects.start), sum(map(len, starts))
        last = np.where(np.arange(count) % 2, 2, PAD) if number % 2 else np.full(count, PAD)
        own = steps_of(known.bucket, known.changes, subjects)
        course = simulate(known.bucket, subjects.start, own, [scenario], last=last)
        alone.append(replace(course, subject=course.subject + before))
        steps.append(replace(own, subject=own.subject + before))
        starts.append(subjects.start)
        lasts.append(last)
    of = np.repeat(np.arange(len(rules)), [len(start) for start in starts])
    together = simulate(known.bucket, np.concatenate(starts), joined(steps), rules, of, np.concatenate(lasts))
    for field in fields(Course):
        assert members(getattr(together, field.name)) == members(getattr(joined(alone), field.name)), field.name


def members(values: Any) -> list[Any]:
    """An array's values, or a matrix's lists."""
    return [[int(v) for v in row if v != PAD] if row.ndim else row.item() for row in values]


@pytest.mark.parametrize(
    ("tried", "expected"), [(None, (70, 80)), (1, (70, 80)), (2, (0, 80)), (0, (70, None))], ids=str
)
def test_a_higher_min_isr_might_have_refused_what_was_lost(tried: int | None, expected: tuple[int, int | None]) -> None:
    """Report, explain and whatif ask the same function."""
    assert loss_with_min_isr((70, 80), tried, 1) == expected
