"""What other rules would have done in every judged window: schemas.COUNTERFACTUALS. Predictions, never facts.

There are two ways. A policy that only chooses a leader (KIP-966's strategies, the last known leader) is applied at the
recorded election. A rule that also shapes ISR and ELR (another release, ELR off, another min ISR, deprioritized
brokers) replays the recorded events (replay/whatif/simulation.py) from the last state before the window in which every
replica was in sync: in that state ISR and ELR are the same under all rules.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from replay.arrow.ragged import INT64_MAX, PAD, Array
from replay.arrow.runs import Events, last_true, last_true_before, ranges
from replay.arrow.sets import take
from replay.controller.predictions import Compared
from replay.controller.profiles import PROFILES
from replay.controller.transitions import Bucket
from replay.loss.judged_windows import JudgedWindow, loss_if_led
from replay.offsets.evidence import Row
from replay.partitions.elections import States
from replay.whatif import recovery_policies
from replay.whatif.policies import BEFORE_ELR, BEFORE_ELR_UNCLEAN
from replay.whatif.scenario import Course, Scenario, loss_with_min_isr
from replay.whatif.simulation import simulate
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
            bounds = (None, None) if pick.leader is None else loss_if_led(window, pick.leader)
            own.append(_row(window, finding_id, name, pick.outcome, pick.leader, bounds, pick.explanation))
    if question is not None and compared is not None and judged:
        for number, row in _Simulated(bucket, compared, judged, ids).rows(_scenarios(judged, question)):
            rows[number].append(row)
    return rows


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
    yield DEPRIORITIZED_LEADER, Scenario(), every


class _Simulated:
    """The windows as subjects of a simulation: one subject for all windows with the same start state."""

    def __init__(self, bucket: Bucket, compared: Compared, judged: Sequence[JudgedWindow], ids: Sequence[str]) -> None:
        self.bucket, self.judged, self.ids = bucket, judged, ids
        self.offset, self.batch = (bucket.history[n].to_numpy() for n in ("offset", "batch_base_offset"))
        self.row = np.array([window.election_facts.row for window in judged])
        self.recorded = np.array([window.situation.recorded for window in judged])
        begin = _anchors(bucket.states)[[window.start_row for window in judged]]
        start, self.subject = np.unique(begin, return_inverse=True)
        last = np.full(len(start), -1)
        np.maximum.at(last, self.subject, self.row)
        self.subjects = Subjects(start, last, np.full(len(start), _FOREVER), np.zeros(len(start), dtype=bool), _FOREVER)
        self.steps = self._all_steps(compared)
        self.step_begin = np.searchsorted(self.steps.subject, np.arange(len(start) + 1))
        self.led = last_true(bucket.states.leader >= 0)

    def _all_steps(self, compared: Compared) -> Steps:
        """The steps of all subjects."""
        last, bases = self.batch[self.subjects.last], np.unique(self.bucket.facts.broker_events.batch)
        # Of a broker's events, which may be many, only those up to the batch of the subject's last state.
        until = np.append(bases, _FOREVER)[np.searchsorted(bases, last, side="right")]
        steps = steps_of(self.bucket, compared, replace(self.subjects, until=until))
        return take(steps, np.flatnonzero(steps.batch <= last[steps.subject]))

    def rows(self, wanted: Iterable[tuple[str, Scenario, list[int]]]) -> Iterator[tuple[int, Row]]:
        """(window, row) of each window under each scenario. wanted: as from `_scenarios`."""
        some: list[tuple[str, Scenario, list[int]]] = []
        count = 0
        for each in (each for each in wanted if each[2]):
            some.append(each)
            count += int(np.diff(self.step_begin)[np.unique(self.subject[each[2]])].sum())
            # Many scenarios at once take little longer than one, but memory has a limit.
            if count > _MOST_STEPS:
                yield from self._of_some(some)
                some, count = [], 0
        yield from self._of_some(some) if some else ()

    def _of_some(self, wanted: Sequence[tuple[str, Scenario, list[int]]]) -> Iterator[tuple[int, Row]]:
        """The same at once: a subject is simulated once for each scenario, and each leader to be deprioritized."""
        scenario = np.repeat(np.arange(len(wanted)), [len(windows) for _, _, windows in wanted])
        window = np.concatenate([windows for _, _, windows in wanted])
        without_leader = np.array([name == DEPRIORITIZED_LEADER for name, _, _ in wanted])[scenario]
        last = np.where(without_leader, self.recorded[window], PAD)
        keys, of = np.unique(np.stack([scenario, self.subject[window], last]), axis=1, return_inverse=True)
        of, subject = of.ravel(), keys[1]
        own, at = ranges(self.step_begin[subject], np.diff(self.step_begin)[subject])
        steps, of_all = replace(take(self.steps, at), subject=own), [rules for _, rules, _ in wanted]
        course = simulate(self.bucket, self.subjects.start[subject], steps, of_all, keys[0], keys[2])
        batch, states = self.batch[self.row[window]], Events(course.subject, course.batch)
        elected = np.flatnonzero(course.elected)
        by = np.append(elected, -1)[Events(course.subject[elected], course.batch[elected]).last(of, batch)]
        clean = (by < 0) | ~course.unclean[np.maximum(by, 0)]
        diverged = self._diverged(course, subject)[of] < self.batch[self.led[self.row[window] - 1] + 1]
        found = (scenario, window, course.leader[states.last(of, batch)], clean, diverged)
        for number, each, leader, is_clean, other_logs in zip(*(values.tolist() for values in found), strict=True):
            name, rules, _ = wanted[number]
            yield each, self._simulated_row(name, rules, each, leader, is_clean, other_logs)

    def _diverged(self, course: Course, subject: Array) -> Array:
        """The batch from which on each course had another leader, while one led in the recorded history: then the logs
        would have been different and nothing is known about them. While nobody led, nothing was written in either
        case. subject: of each course."""
        leader, start = self.bucket.states.leader, self.subjects.start[subject]
        of, rows = ranges(start, self.subjects.last[subject] - start + 1)
        points = np.concatenate([[of, self.batch[rows]], [course.subject, course.batch]], axis=1)
        was, would = Events(of, self.batch[rows]).last(*points), Events(course.subject, course.batch).last(*points)
        differs = (was >= 0) & (would >= 0)
        differs &= (leader[rows[was]] >= 0) & (leader[rows[was]] != course.leader[would])
        first = np.full(len(subject), _FOREVER)
        np.minimum.at(first, points[0][differs], points[1][differs])
        return first

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
        least, most = loss_with_min_isr(loss_if_led(window, leader), scenario.min_isr, window.before["min_isr"])
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
    return np.maximum(last_true_before(whole & ~states.exposing), last_true(states.begins))
