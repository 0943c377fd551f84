"""What other rules would have done in every judged window: tables.COUNTERFACTUALS. Predictions, never facts.

Two ways. A policy that only chooses (KIP-966's strategies, the last known leader) is asked at the recorded election. A
rule that shapes ISR and ELR, too (another release, ELR off, another min ISR, deprioritized brokers), goes through the
recorded events once more (replay/whatif/simulation.py), from the last state before the window in which every replica
was in sync: there ISR and ELR are the same under all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from replay.arrow.asof import Events
from replay.arrow.ragged import INT64_MAX, PAD, Array
from replay.cluster.brokers import BrokerTimeline
from replay.controller.profiles import PROFILES
from replay.controller.transitions import Bucket
from replay.controller.triggers import take
from replay.loss.judged_windows import JudgedWindow, loss_of
from replay.offsets.evidence import Row
from replay.partitions.elections import States
from replay.partitions.windows import exposing
from replay.whatif import recovery_policies
from replay.whatif.policies import BEFORE_ELR, BEFORE_ELR_UNCLEAN
from replay.whatif.scenario import Course, Scenario
from replay.whatif.simulation import simulate
from replay.whatif.steps import Steps, Subjects, merged, steps_of

DEPRIORITIZED_LEADER = "deprioritized_recorded_leader"
_FOREVER = INT64_MAX - 1


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask beside the fixed policies. deprioritized: lists of broker ids (KIP-491); min_isr: values of
    min.insync.replicas."""

    deprioritized: tuple[tuple[int, ...], ...] = ()
    min_isr: tuple[int, ...] = (1, 2, 3)


def counterfactuals(
    seen: Sequence[JudgedWindow], ids: Sequence[str], bucket: Bucket, question: Question | None
) -> list[list[Row]]:
    """The rows of every judged window. ids: of their findings. question None: only policies that just choose a leader,
    so that nothing is simulated."""
    rows: list[list[Row]] = [[] for _ in seen]
    situations = [each.situation for each in seen]
    for name in recovery_policies.POLICIES if seen else ():
        for found, each, number, pick in zip(rows, seen, ids, recovery_policies.picks(name, situations), strict=True):
            found.append(_chosen(each, number, pick))
    if question is not None and seen:
        simulated = _Simulated(bucket, seen, ids)
        for name, scenario, windows in [*_scenarios(seen, question), *simulated.without_leaders()]:
            for window, row in zip(windows, simulated.ask(name, scenario, windows), strict=True):
                rows[window].append(row)
    return rows


def _chosen(seen: JudgedWindow, number: str, pick: recovery_policies.Pick) -> Row:
    bounds: tuple[int | None, int | None] = (None, None)
    if pick.leader is not None:
        bounds = _bounds(seen, pick.leader)
    return _row(seen, number, pick.policy, pick.outcome, pick.leader, bounds, pick.explanation)


def _bounds(seen: JudgedWindow, leader: int) -> tuple[int | None, int | None]:
    """What electing that broker would have lost."""
    if leader == seen.situation.recorded:
        return seen.judgement.loss_min, seen.judgement.loss_max
    replica = seen.situation.seen.get(leader)
    return loss_of(seen, replica) if replica else (None, None)


def _row(
    seen: JudgedWindow,
    number: str,
    policy: str,
    outcome: str,
    leader: int | None,
    bounds: tuple[int | None, int | None],
    explanation: str,
) -> Row:
    replica = seen.situation.seen.get(leader) if leader is not None else None
    return {
        "finding_id": number,
        **{n: seen.after[n] for n in ("topic_id", "topic", "partition", "offset")},
        "policy": policy,
        "outcome": outcome,
        "leader": leader,
        "last_written_leader_epoch": replica.last_written_leader_epoch if replica else None,
        "log_end_offset": replica.log_end_offset if replica else None,
        "loss_min": bounds[0],
        "loss_max": bounds[1],
        "differs": None if leader is None else leader != seen.situation.recorded,
        "explanation": explanation,
    }


def _scenarios(seen: Sequence[JudgedWindow], question: Question) -> Iterator[tuple[str, Scenario, list[int]]]:
    """(policy, scenario, numbers of the windows that it is asked about)."""
    every = list(range(len(seen)))
    for name, profile in PROFILES.items():
        yield f"profile_{name}", Scenario(profile=profile), every
    yield BEFORE_ELR, Scenario(elr=False, unclean=False), every
    yield BEFORE_ELR_UNCLEAN, Scenario(elr=False, unclean=True), every
    for value in question.min_isr:
        other = [i for i in every if seen[i].before["min_isr"] != value <= len(seen[i].after["replicas"])]
        yield f"min_isr_{value}", Scenario(min_isr=value), other
    for brokers in question.deprioritized:
        last = [(broker, 0, _FOREVER) for broker in brokers]
        yield f"deprioritized_{'_'.join(map(str, brokers))}", Scenario(deprioritized=last), every


class _Simulated:
    """The windows as subjects of a simulation: one for all windows with the same state to begin with."""

    def __init__(self, bucket: Bucket, seen: Sequence[JudgedWindow], ids: Sequence[str]) -> None:
        self.bucket, self.seen, self.ids = bucket, seen, ids
        self.offset, self.batch = (bucket.history[n].to_numpy() for n in ("offset", "batch_base_offset"))
        self.row = np.array([each.case.row for each in seen])
        begin = _anchors(bucket.states)[[each.start_row for each in seen]]
        start, self.subject = np.unique(begin, return_inverse=True)
        last = np.full(len(start), -1)
        np.maximum.at(last, self.subject, self.row)
        self.subjects = Subjects(start, last, np.full(len(start), _FOREVER), np.zeros(len(start), dtype=bool), _FOREVER)
        self.steps = self._all_steps()

    def _all_steps(self) -> Steps:
        """Two subjects may share one state, where one ends and the next begins: every other one at a time."""
        parts = []
        for parity in range(min(2, len(self.subjects.start))):
            own = np.arange(parity, len(self.subjects.start), 2)
            some = _subjects(self.subjects, own)
            steps = steps_of(self.bucket, some)
            inside = take(steps, np.flatnonzero(steps.batch <= self.batch[some.last[steps.subject]]))
            parts.append(replace(inside, subject=own[inside.subject]))
        return merged(parts)

    def without_leaders(self) -> Iterator[tuple[str, Scenario, list[int]]]:
        """As _scenarios, of DEPRIORITIZED_LEADER: all leaders at once, as far as no subject has two."""
        leaders: dict[int, list[int]] = {}
        rounds: dict[int, list[int]] = {}
        for window, subject in enumerate(self.subject.tolist()):
            recorded, known = self.seen[window].situation.recorded, leaders.setdefault(subject, [])
            if recorded not in known:
                known.append(recorded)
            rounds.setdefault(known.index(recorded), []).append(window)
        for number, windows in rounds.items():
            last = np.full(len(self.subjects.start), PAD)
            for subject, known in leaders.items():
                last[subject] = known[number] if number < len(known) else PAD
            yield DEPRIORITIZED_LEADER, Scenario(last=last), windows

    def ask(self, name: str, scenario: Scenario, windows: Sequence[int]) -> list[Row]:
        """The rows of some windows. scenario.last: of all subjects."""
        if not windows:
            return []
        wanted = np.array(windows)
        own, subject = np.unique(self.subject[wanted], return_inverse=True)
        place = np.full(len(self.subjects.start), -1)
        place[own] = np.arange(len(own))
        taken = take(self.steps, np.flatnonzero(place[self.steps.subject] >= 0))
        taken = replace(taken, subject=place[taken.subject])
        if scenario.last is not None:
            scenario = replace(scenario, last=scenario.last[own])
        subjects = _subjects(self.subjects, own)
        course = simulate(self.bucket, subjects, taken, scenario)
        batch = self.batch[self.row[wanted]]
        at = Events(course.subject, course.batch).last(subject, batch)
        elected = np.flatnonzero(course.elected)
        by = np.append(elected, -1)[Events(course.subject[elected], course.batch[elected]).last(subject, batch)]
        clean = (by < 0) | ~course.unclean[np.maximum(by, 0)]
        parted = self._parted(course, subjects, subject, self.row[wanted])
        return [
            self._answer(name, scenario, window, self.ids[window], int(leader), bool(is_clean), bool(part))
            for window, leader, is_clean, part in zip(windows, course.leader[at], clean, parted, strict=True)
        ]

    def _parted(self, course: Course, subjects: Subjects, subject: Array, row: Array) -> Array:
        """Whether the course had another leader while one led in the recorded history before: then logs would have been
        others, and nothing is known of them. While nobody led nothing was written, whoever would have led."""
        leader, rows = self.bucket.states.leader, np.arange(len(self.batch))
        of = subjects.of(rows)
        rows = rows[of >= 0]
        recorded = Events(of[rows], self.batch[rows])
        places = np.concatenate([[of[rows], self.batch[rows]], [course.subject, course.batch]], axis=1)
        was, would = recorded.last(*places), Events(course.subject, course.batch).last(*places)
        differs = (was >= 0) & (would >= 0)
        differs &= (leader[rows[was]] >= 0) & (leader[rows[was]] != course.leader[would])
        first = np.full(len(subjects.start), _FOREVER)
        np.minimum.at(first, places[0][differs], places[1][differs])
        led = np.maximum.accumulate(np.where(leader >= 0, np.arange(len(leader)), -1))
        parted: Array = first[subject] < self.batch[led[row - 1] + 1]
        return parted

    def _answer(
        self, name: str, scenario: Scenario, window: int, number: str, leader: int, clean: bool, parted: bool
    ) -> Row:
        seen = self.seen[window]
        if leader in (PAD, -1):
            return _row(seen, number, name, recovery_policies.WAITS, None, (None, None), "nobody could be elected yet")
        bounds = (None, None) if parted else self._loss(window, scenario, leader, clean)
        how = "of the ISR or ELR" if clean else "from outside ISR and ELR, or marked RECOVERING"
        told = f"broker {leader} would lead, {how}"
        told += "; another leader would have led before, so its log is not known" if parted else ""
        return _row(seen, number, name, recovery_policies.ELECTED, leader, bounds, told)

    def _loss(self, window: int, scenario: Scenario, leader: int, clean: bool) -> tuple[int | None, int | None]:
        seen = self.seen[window]
        least, most = _bounds(seen, leader)
        begin = int(self.offset[self.subjects.start[self.subject[window]]])
        if scenario.min_isr is not None:
            # With a higher min ISR the high watermark might have stopped earlier, with a lower one gone on.
            least, most = (0, most) if scenario.min_isr > seen.before["min_isr"] else (least, None)
        if clean and not least and leader != seen.situation.recorded and self._held(leader, begin, seen):
            least, most = 0, 0
        return least, most

    def _held(self, broker: int, begin: int, seen: JudgedWindow) -> bool:
        """Whether the broker, which had not restarted since every replica was in sync, held everything by protocol as
        recorded."""
        membership = seen.case.memberships.get(broker)
        brokers: BrokerTimeline = self.bucket.facts.brokers
        steady = not brokers.restarted(broker, begin, int(seen.after["offset"]))
        return membership is not None and membership.holds and steady and not seen.case.election.contradictions


def _anchors(states: States) -> Array:
    """For every row the last one before it with a leader and every replica in sync, else the first known one."""
    index = np.arange(len(states.key))
    first = np.maximum.accumulate(np.where(states.begins, index, 0))
    whole = (states.leader >= 0) & (states.isr_size == (states.replicas != PAD).sum(axis=1)) & ~states.removed
    last = np.maximum.accumulate(np.where(whole & ~exposing(states), index, -1))
    before = np.append(-1, last[:-1]) if len(last) else last
    return np.maximum(before, first)


def _subjects(subjects: Subjects, chosen: Array) -> Subjects:
    start, last, until, stops = (getattr(subjects, n)[chosen] for n in ("start", "last", "until", "stops"))
    return Subjects(start, last, until, stops, subjects.to_offset)
