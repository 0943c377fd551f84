"""What other rules would have done in every judged window: schemas.COUNTERFACTUALS. Predictions, never facts.

There are two ways. A policy that only chooses a leader (KIP-966's strategies, the last known leader) is applied at the
recorded election. A rule that also shapes ISR and ELR (another release, ELR off, another min ISR, deprioritized
brokers) replays the recorded events (replay/whatif/simulation.py) from the last state before the window in which every
replica was in sync: in that state ISR and ELR are the same under all rules.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from replay.arrow.ragged import INT64_MAX, PAD, Array
from replay.arrow.runs import Events, last_true, last_true_before, ranges
from replay.arrow.sets import take
from replay.controller.predictions import Compared
from replay.controller.profiles import PROFILES
from replay.controller.transitions import Bucket
from replay.loss.judged_windows import JudgedWindow, loss_of
from replay.offsets.evidence import Row
from replay.partitions.elections import States
from replay.partitions.windows import exposing
from replay.whatif import recovery_policies
from replay.whatif.policies import BEFORE_ELR, BEFORE_ELR_UNCLEAN
from replay.whatif.scenario import Course, Scenario, loss_with_min_isr
from replay.whatif.simulation import Simulation, simulate_all
from replay.whatif.steps import Steps, Subjects, steps_of

DEPRIORITIZED_LEADER = "deprioritized_recorded_leader"
_FOREVER = INT64_MAX - 1
_MOST_STEPS = 1 << 16


@dataclass(frozen=True, slots=True)
class Question:
    """Rules to try in addition to the fixed policies. deprioritized: lists of broker ids (KIP-491); min_isr: values of
    min.insync.replicas."""

    deprioritized: tuple[tuple[int, ...], ...] = ()
    min_isr: tuple[int, ...] = (1, 2, 3)


def counterfactuals(
    judged: Sequence[JudgedWindow],
    ids: Sequence[str],
    bucket: Bucket,
    question: Question | None,
    compared: Compared | None,
) -> list[list[Row]]:
    """The schemas.COUNTERFACTUALS rows of every judged window. ids: of the windows' findings. compared: all
    changes of the bucket. question or compared None: only policies that just choose a leader; nothing is simulated."""
    rows: list[list[Row]] = [[] for _ in judged]
    for name in recovery_policies.POLICIES:
        for own, window, finding_id in zip(rows, judged, ids, strict=True):
            pick = recovery_policies.pick(name, window.situation)
            bounds = (None, None) if pick.leader is None else _bounds(window, pick.leader)
            own.append(_row(window, finding_id, name, pick.outcome, pick.leader, bounds, pick.explanation))
    if question is not None and compared is not None and judged:
        simulated = _Simulated(bucket, compared, judged, ids)
        for number, row in simulated.rows([*_scenarios(judged, question), *simulated.without_leaders()]):
            rows[number].append(row)
    return rows


def _bounds(window: JudgedWindow, leader: int) -> tuple[int | None, int | None]:
    """(least, most) offsets that electing that broker would have lost; None: unknown."""
    if leader == window.situation.recorded:
        return window.judgement.loss_min, window.judgement.loss_max
    replica = window.situation.last_seen.get(leader)
    return loss_of(window, replica) if replica else (None, None)


def _row(
    window: JudgedWindow,
    finding_id: str,
    policy: str,
    outcome: str,
    leader: int | None,
    bounds: tuple[int | None, int | None],
    explanation: str,
) -> Row:
    replica = window.situation.last_seen.get(leader) if leader is not None else None
    return {
        "finding_id": finding_id,
        **{n: window.after[n] for n in ("topic_id", "topic", "partition", "offset")},
        "policy": policy,
        "outcome": outcome,
        "leader": leader,
        "last_written_leader_epoch": replica.last_written_leader_epoch if replica else None,
        "log_end_offset": replica.log_end_offset if replica else None,
        "loss_min": bounds[0],
        "loss_max": bounds[1],
        "differs": None if leader is None else leader != window.situation.recorded,
        "explanation": explanation,
    }


def _scenarios(judged: Sequence[JudgedWindow], question: Question) -> Iterator[tuple[str, Scenario, list[int]]]:
    """(policy, scenario, numbers of the windows to which it applies) of each fixed rule and of the question."""
    every = list(range(len(judged)))
    for name, profile in PROFILES.items():
        yield f"profile_{name}", Scenario(profile=profile), every
    yield BEFORE_ELR, Scenario(elr=False, unclean=False), every
    yield BEFORE_ELR_UNCLEAN, Scenario(elr=False, unclean=True), every
    for value in question.min_isr:
        other = [i for i in every if judged[i].before["min_isr"] != value <= len(judged[i].after["replicas"])]
        yield f"min_isr_{value}", Scenario(min_isr=value), other
    for brokers in question.deprioritized:
        last = [(broker, 0, _FOREVER) for broker in brokers]
        yield f"deprioritized_{'_'.join(map(str, brokers))}", Scenario(deprioritized=last), every


class _Simulated:
    """The windows as subjects of a simulation: one subject for all windows with the same start state."""

    def __init__(self, bucket: Bucket, compared: Compared, judged: Sequence[JudgedWindow], ids: Sequence[str]) -> None:
        self.bucket, self.judged, self.ids = bucket, judged, ids
        self.offset, self.batch = (bucket.history[n].to_numpy() for n in ("offset", "batch_base_offset"))
        self.row = np.array([window.election_facts.row for window in judged])
        begin = _anchors(bucket.states)[[window.start_row for window in judged]]
        start, self.subject = np.unique(begin, return_inverse=True)
        last = np.full(len(start), -1)
        np.maximum.at(last, self.subject, self.row)
        self.subjects = Subjects(start, last, np.full(len(start), _FOREVER), np.zeros(len(start), dtype=bool), _FOREVER)
        self.steps = self._all_steps(compared)
        self.inside = np.unique(ranges(start, last - start + 1)[1])
        self.led = last_true(bucket.states.leader >= 0)

    def _all_steps(self, compared: Compared) -> Steps:
        """The steps of all subjects."""
        last, bases = self.batch[self.subjects.last], np.unique(self.bucket.facts.broker_events.batch)
        # Of a broker's events, which may be many, only those up to the batch of the subject's last state.
        until = np.append(bases, _FOREVER)[np.searchsorted(bases, last, side="right")]
        steps = steps_of(self.bucket, compared, replace(self.subjects, until=until))
        return take(steps, np.flatnonzero(steps.batch <= last[steps.subject]))

    def without_leaders(self) -> Iterator[tuple[str, Scenario, list[int]]]:
        """The scenarios of DEPRIORITIZED_LEADER, as from `_scenarios`: one for all windows, more only if a subject has
        windows with different leaders."""
        leaders: dict[int, list[int]] = {}
        rounds: dict[int, list[int]] = {}
        for window, subject in enumerate(self.subject.tolist()):
            recorded, known = self.judged[window].situation.recorded, leaders.setdefault(subject, [])
            if recorded not in known:
                known.append(recorded)
            rounds.setdefault(known.index(recorded), []).append(window)
        for number, windows in rounds.items():
            last = np.full(len(self.subjects.start), PAD)
            for subject, known in leaders.items():
                last[subject] = known[number] if number < len(known) else PAD
            yield DEPRIORITIZED_LEADER, Scenario(last=last), windows

    def rows(self, wanted: Sequence[tuple[str, Scenario, list[int]]]) -> Iterator[tuple[int, Row]]:
        """(window, row) of each window under each scenario. wanted: as from `_scenarios`; scenario.last: of all
        subjects."""
        some: list[tuple[str, Simulation, Array]] = []
        for name, scenario, windows in wanted:
            if windows:
                some.append((name, *self._run(scenario, windows)))
            # Many runs at once take little longer than one, but memory has a limit.
            if sum(len(run.steps.subject) for _, run, _ in some) > _MOST_STEPS:
                yield from self._of_runs(some)
                some = []
        yield from self._of_runs(some)

    def _of_runs(self, some: Sequence[tuple[str, Simulation, Array]]) -> Iterator[tuple[int, Row]]:
        courses = simulate_all(self.bucket, [run for _, run, _ in some]) if some else []
        for (name, run, windows), course in zip(some, courses, strict=True):
            yield from zip(windows.tolist(), self._of_run(name, run, windows, course), strict=True)

    def _run(self, scenario: Scenario, windows: Sequence[int]) -> tuple[Simulation, Array]:
        """The simulation of some windows, and their numbers."""
        wanted = np.array(windows)
        own = np.unique(self.subject[wanted])
        number = np.full(len(self.subjects.start), -1)
        number[own] = np.arange(len(own))
        steps = take(self.steps, np.flatnonzero(number[self.steps.subject] >= 0))
        last = None if scenario.last is None else scenario.last[own]
        steps = replace(steps, subject=number[steps.subject])
        return Simulation(take(self.subjects, own), steps, replace(scenario, last=last)), wanted

    def _of_run(self, name: str, run: Simulation, wanted: Array, course: Course) -> list[Row]:
        """The rows of some windows (numbers) from the simulation of them."""
        _, subject = np.unique(self.subject[wanted], return_inverse=True)
        batch = self.batch[self.row[wanted]]
        at = Events(course.subject, course.batch).last(subject, batch)
        elected = np.flatnonzero(course.elected)
        by = np.append(elected, -1)[Events(course.subject[elected], course.batch[elected]).last(subject, batch)]
        clean = (by < 0) | ~course.unclean[np.maximum(by, 0)]
        diverged = self._diverged(course, run.subjects, subject, self.row[wanted])
        return [
            self._simulated_row(name, run.scenario, window, leader, is_clean, other_logs)
            for window, leader, is_clean, other_logs in zip(
                *(values.tolist() for values in (wanted, course.leader[at], clean, diverged)), strict=True
            )
        ]

    def _diverged(self, course: Course, subjects: Subjects, subject: Array, row: Array) -> Array:
        """Whether the course had another leader earlier, while one led in the recorded history: then the logs would
        have been different and nothing is known about them. While nobody led, nothing was written in either case."""
        leader, of = self.bucket.states.leader, subjects.of(self.inside)
        rows, of = self.inside[of >= 0], of[of >= 0]
        recorded = Events(of, self.batch[rows])
        points = np.concatenate([[of, self.batch[rows]], [course.subject, course.batch]], axis=1)
        was, would = recorded.last(*points), Events(course.subject, course.batch).last(*points)
        differs = (was >= 0) & (would >= 0)
        differs &= (leader[rows[was]] >= 0) & (leader[rows[was]] != course.leader[would])
        first = np.full(len(subjects.start), _FOREVER)
        np.minimum.at(first, points[0][differs], points[1][differs])
        return first[subject] < self.batch[self.led[row - 1] + 1]

    def _simulated_row(
        self, name: str, scenario: Scenario, number: int, leader: int, clean: bool, diverged: bool
    ) -> Row:
        window, finding_id = self.judged[number], self.ids[number]
        if leader in (PAD, -1):
            waits = recovery_policies.WAITS
            return _row(window, finding_id, name, waits, None, (None, None), "nobody could be elected yet")
        bounds = (None, None) if diverged else self._loss(number, scenario, leader, clean)
        how = "of the ISR or ELR" if clean else "from outside ISR and ELR, or marked RECOVERING"
        explanation = f"broker {leader} would lead, {how}"
        explanation += "; another leader would have led before, so its log is unknown" if diverged else ""
        return _row(window, finding_id, name, recovery_policies.ELECTED, leader, bounds, explanation)

    def _loss(self, number: int, scenario: Scenario, leader: int, clean: bool) -> tuple[int | None, int | None]:
        window = self.judged[number]
        least, most = loss_with_min_isr(_bounds(window, leader), scenario.min_isr, window.before["min_isr"])
        begin = int(self.offset[self.subjects.start[self.subject[number]]])
        if clean and not least and leader != window.situation.recorded and self._held(leader, begin, window):
            least, most = 0, 0
        return least, most

    def _held(self, broker: int, begin: int, window: JudgedWindow) -> bool:
        """Whether the broker had not restarted since every replica was in sync, and held everything by protocol in the
        recorded history."""
        facts, brokers = window.election_facts, self.bucket.facts.brokers
        steady = not brokers.restarts(broker, begin, int(window.after["offset"]))
        return steady and not facts.election.contradictions and facts.membership(broker).holds


def _anchors(states: States) -> Array:
    """For every row, the last row before it with a leader and every replica in sync, else the first known row."""
    whole = (states.leader >= 0) & (states.isr_size == (states.replicas != PAD).sum(axis=1)) & ~states.removed
    return np.maximum(last_true_before(whole & ~exposing(states)), last_true(states.begins))
