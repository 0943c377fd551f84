"""Compare each recorded partition change with what the controller should have written.

A profile predicts a change if some trigger that the log allows gives the recorded state in every field. A change is
AS_PREDICTED (by every profile that the active controller may have run), PROFILES_DISAGREE (only some of these predict
it), KNOWN_BUG (its release does this, but a later ticket fixed it), UNKNOWN_INPUT (an input that the evidence lacks
would explain it) or UNEXPLAINED. Changes that all rules treat alike share one prediction (replay/controller/alike.py).
Vectorised, in pieces that fit the processor's cache.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from replay.arrow.ragged import PAD, Array
from replay.arrow.sets import joined, resize, same, same_set, take, where
from replay.cluster.broker_events import nearest
from replay.cluster.configs import MIN_ISR, UNCLEAN_LEADER_ELECTION
from replay.controller.alike import Alike, alike
from replay.controller.partition_change_builder import (
    ELECT_ONLINE,
    ELECT_UNCLEAN,
    NO_CHANGE,
    Cases,
    Changes,
    PartitionStates,
    predict,
    state_after,
)
from replay.controller.profiles import FIXES, PROFILES, Profile
from replay.controller.transitions import Bucket, Configs
from replay.controller.triggers import (
    DIRECTORY_ASSIGNMENT,
    SHOWN_BY_FOLLOWING,
    SHOWN_BY_ITSELF,
    SHOWN_BY_PRECEDING,
    Hypothesis,
    Transitions,
    hypotheses,
    unshown,
)

AS_PREDICTED, KNOWN_BUG, UNKNOWN_INPUT, UNEXPLAINED = "as_predicted", "known_bug", "unknown_input", "unexplained"
PROFILES_DISAGREE = "profiles_disagree"

NEWEST = PROFILES["4.3"]
# The compared fields, by bit: column names of schemas.PARTITION_HISTORY; "record": whether a record is written at all.
FIELDS = (
    *("leader", "leader_epoch", "leader_recovery_state", "isr", "elr", "last_known_elr"),
    *("replicas", "removing_replicas", "adding_replicas", "directories", "record"),
)
_PIECE_ROWS = 1 << 15
# Predicted states by the name in `Cases`: leader, recovery, isr, elr, last_known_elr; one element each.
State = dict[str, Array]


@dataclass(frozen=True, slots=True)
class ProfilePredictions:
    """One profile's predictions for some changes, one element each.

    as_recorded: bool, some trigger gives the recorded state. hypothesis: number of that trigger, else of the likeliest
    one; -1 if the log allows none. differs: bit i is set if FIELDS[i] differs from the record. leader: PAD without a
    hypothesis.
    """

    as_recorded: Array
    hypothesis: Array
    differs: Array
    leader: Array


@dataclass(frozen=True, slots=True)
class Predictions:
    """Partition changes compared with the rules, one element each.

    trigger, reason: str or None. shown_by: which record shows the trigger (`Hypothesis`), -1 without one. may_be:
    profile -> bool, the active controller may have run it. Where the change is not as predicted, profile (str) predicts
    `state` instead, which differs in the fields FIELDS[i] for each bit i of `differs`.
    """

    trigger: Array
    shown_by: Array
    may_be: dict[str, Array]
    answers: dict[str, ProfilePredictions]
    difference: Array
    reason: Array
    profile: Array
    differs: Array
    state: State


@dataclass(frozen=True, slots=True)
class Compared:
    """All changes of some rows of a history compared with the rules.

    predictions: of the first change of each kind, in terms of its brokers (Alike.renamed). shown_at: of each change,
    the metadata offset of the record that shows its trigger; -1 without a trigger.
    """

    rows: Array
    alike: Alike
    predictions: Predictions
    shown_at: Array

    def trigger(self, changes: Array | slice) -> Array:
        """The trigger of some changes, by their numbers: str or None."""
        return self.predictions.trigger[self.alike.kind[changes]]


def predict_all(bucket: Bucket, rows: Array) -> Compared:
    """Compare changes with the rules. rows: from Bucket.changed_rows."""
    place = bucket.offset[rows], bucket.batch[rows]
    following, preceding = events = nearest(bucket.facts.broker_events, *place)
    kinds = alike(bucket, rows, events)
    predictions = predict_each(bucket, rows[kinds.first])
    shown = {SHOWN_BY_ITSELF: place[0], SHOWN_BY_FOLLOWING: following.offset, SHOWN_BY_PRECEDING: preceding.offset}
    shown_by = predictions.shown_by[kinds.kind]
    shown_at = np.select([shown_by == by for by in shown], list(shown.values()), default=-1)
    return Compared(rows, kinds, predictions, shown_at)


def predict_each(bucket: Bucket, rows: Array) -> Predictions:
    """Predict every change by itself. rows: from Bucket.changed_rows."""
    begins = range(0, max(len(rows), 1), _PIECE_ROWS)
    return joined([_Piece(bucket, rows[begin : begin + _PIECE_ROWS]).predictions() for begin in begins])


class _Piece:
    """Some changes, their possible triggers, and each profile's predictions."""

    def __init__(self, bucket: Bucket, rows: Array) -> None:
        self.bucket, self.rows = bucket, rows
        self.configs: Configs = bucket.configs(rows)
        self.transitions: Transitions = bucket.transitions(rows, self.configs)
        self.found = list(hypotheses(self.transitions, bucket.facts.broker_events))
        offset, profiles = self.transitions.change.place[0], bucket.profiles
        self.may_be = {name: profiles.may_be(name, offset) for name in profiles.names}
        self.answers = {name: self.answer(PROFILES[name], mask) for name, mask in self.may_be.items()}

    def answer(
        self,
        profile: Profile,
        wanted: Array,
        found: Sequence[Hypothesis] | None = None,
        altered: Callable[[Cases], Cases] | None = None,
    ) -> ProfilePredictions:
        """A profile's predictions for the wanted changes (bool).

        found: the hypotheses to try, by default all of the piece. altered: applied to each hypothesis's input.
        """
        count = len(self.rows)
        result = ProfilePredictions(
            np.zeros(count, bool), np.full(count, -1), np.zeros(count, np.int64), np.full(count, PAD)
        )
        for number, hypothesis in enumerate(self.found if found is None else found):
            mine = wanted[hypothesis.rows] & ~result.as_recorded[hypothesis.rows]
            if not mine.any():
                continue
            rows = hypothesis.rows[mine]
            cases = self._input(hypothesis, np.flatnonzero(mine), profile)
            cases = altered(cases) if altered else cases
            changes, state = self._predicted(hypothesis, rows, cases, profile)
            differs = self._compare(cases, changes, state, rows)
            right = differs == 0
            # Keep the likeliest trigger until one gives the recorded state.
            better = right | (result.hypothesis[rows] < 0)
            result.as_recorded[rows[right]] = True
            result.hypothesis[rows[better]] = number
            result.differs[rows[better]] = differs[better]
            result.leader[rows[better]] = state.leader[better]
        return result

    def predictions(self) -> Predictions:
        count = len(self.rows)
        explained = np.any([a.as_recorded & self.may_be[name] for name, a in self.answers.items()], axis=0)
        difference = np.where(explained, AS_PREDICTED, UNEXPLAINED).astype(object)
        reason = np.full(count, None, dtype=object)
        differs = np.any([self.may_be[name] & ~a.as_recorded for name, a in self.answers.items()], axis=0)
        open_release = explained & differs
        difference[open_release] = PROFILES_DISAGREE
        reason[open_release] = self._agreeing(open_release)
        newest = self.answer(NEWEST, explained)
        for ticket, hit in self._bugs(explained & ~newest.as_recorded):
            difference[hit], reason[hit] = KNOWN_BUG, ticket
        for name, hit in self._unknown(~explained):
            difference[hit], reason[hit] = UNKNOWN_INPUT, name
        trigger, shown_by = np.full(count, None, dtype=object), np.full(count, -1)
        # The oldest profile decides the trigger; the profiles nearly always agree.
        for name, answer in reversed(self.answers.items()):
            for number, hypothesis in enumerate(self.found):
                at = np.isin(hypothesis.rows, np.flatnonzero(self.may_be[name] & (answer.hypothesis == number)))
                trigger[hypothesis.rows[at]] = hypothesis.trigger
                shown_by[hypothesis.rows[at]] = hypothesis.shown_by
        instead = self._predicted_instead(difference, newest)
        return Predictions(trigger, shown_by, self.may_be, self.answers, difference, reason, *instead)

    def _input(self, hypothesis: Hypothesis, index: Array, profile: Profile) -> Cases:
        cases = take(hypothesis.cases, index)
        if hypothesis.trigger == DIRECTORY_ASSIGNMENT and not profile.directory_assignment_keeps_elr:
            return replace(cases, elr_enabled=np.zeros(len(index), dtype=bool))
        return cases

    def _predicted(
        self, hypothesis: Hypothesis, rows: Array, cases: Cases, profile: Profile
    ) -> tuple[Changes, PartitionStates]:
        """What the profile changes, and the states after that, for some changes of a hypothesis with their input. The
        second record that is made from one state changes what the first one left."""
        changes = predict(cases, profile)
        before = take(self.transitions.before, rows) if hypothesis.from_start else cases
        return changes, state_after(before, changes)

    def _compare(self, cases: Cases, changes: Changes, state: PartitionStates, rows: Array) -> Array:
        """The fields that differ from the record, as bits of FIELDS. state: after the changes."""
        after = self.transitions.after
        bumped = (changes.leader != NO_CHANGE).astype(np.int64)
        equal = {
            "leader": state.leader == after.leader[rows],
            "leader_epoch": bumped == after.leader_epochs[rows],
            "leader_recovery_state": state.recovery == after.recovery[rows],
            "isr": same(state.isr, after.isr[rows]),
            "elr": same_set(state.elr, after.elr[rows]),
            "last_known_elr": same(state.last_known_elr, after.last_known_elr[rows]),
            "replicas": same(state.replicas, after.replicas[rows]),
            "removing_replicas": same(state.removing, after.removing[rows]),
            "adding_replicas": same(state.adding, after.adding[rows]),
            "directories": same(self._directories(cases, state.replicas, rows), after.directories[rows]),
            # A change of directories alone does not show in is_no_op: it is part of the builder's input.
            "record": ~changes.is_no_op | ~same(self.transitions.before.directories[rows], cases.directories),
        }
        result = np.zeros(len(rows), dtype=np.int64)
        for bit, name in enumerate(FIELDS):
            result[~equal[name]] |= 1 << bit
        return result

    def _directories(self, cases: Cases, replicas: Array, rows: Array) -> Array:
        """The directory of each replica after the change; the recorded one if metadata.version lacks directories."""
        if replicas.shape == cases.replicas.shape and (replicas == cases.replicas).all():
            return cases.directories
        offset = self.transitions.change.place[0][rows]
        placed = self.bucket.availability.placed(replicas, (cases.replicas, cases.directories), offset)
        return where(cases.has_directories, placed, self.transitions.after.directories[rows])

    def _agreeing(self, rows: Array) -> list[str]:
        """The names of the profiles that predict each of some changes (bool), joined by commas."""
        names = [(name, (self.may_be[name] & a.as_recorded)[rows].tolist()) for name, a in self.answers.items()]
        return [", ".join(name for name, right in names if right[i]) for i in range(int(rows.sum()))]

    def _bugs(self, rows: Array) -> Iterator[tuple[str, Array]]:
        """(ticket, changes) that their release explains and that the ticket's fix would have changed."""
        for ticket, fix in FIXES.items():
            for name, answer in self.answers.items():
                fixed = replace(PROFILES[name], **fix)
                wanted = rows & self.may_be[name] & answer.as_recorded
                if fixed == PROFILES[name] or not wanted.any():
                    continue
                yield ticket, wanted & ~self.answer(fixed, wanted).as_recorded

    def _unknown(self, rows: Array) -> Iterator[tuple[str, Array]]:
        """(input, changes) that would be as predicted if this unknown input had another value."""
        before, configs = self.transitions.before, self.configs
        left = rows.copy()
        for name, profile, wanted, found, altered in self._alternatives(before, configs):
            wanted = wanted & left
            if wanted.any():
                hit = self.answer(profile, wanted, found, altered).as_recorded
                left &= ~hit
                yield name, hit
        yield "broker_registrations", left & ~self.bucket.brokers_known(self.transitions)

    def _alternatives(
        self, before: Cases, configs: Configs
    ) -> Iterator[tuple[str, Profile, Array, Sequence[Hypothesis], Callable[[Cases], Cases] | None]]:
        """(input, profile, changes for which the input is unknown, triggers, how to alter the builder's input if it
        is)."""
        widest = int((before.replicas != PAD).sum(axis=1).max(initial=1))
        assumed = ~configs.min_isr_known & before.elr_enabled
        for name, mask in self.may_be.items():
            profile = PROFILES[name]
            yield "trigger", profile, mask, unshown(self.transitions), None
            yield UNCLEAN_LEADER_ELECTION, profile, mask & ~configs.unclean_known, self.found, _flipped_election
            for value in range(1, widest + 1):
                yield MIN_ISR, profile, mask & assumed, self.found, _with_min_isr(value)
        for name, profile in PROFILES.items():
            other = ~self.may_be.get(name, np.zeros(len(self.rows), bool))
            yield "release", profile, other, self.found, None

    def _predicted_instead(self, difference: Array, newest: ProfilePredictions) -> tuple[Array, Array, State]:
        """(profile, differs, state): the newest profile's prediction for a known bug, else that of the newest possible
        profile."""
        by = np.full(len(self.rows), None, dtype=object)
        for name, mask in self.may_be.items():
            by[mask & ~self.answers[name].as_recorded] = name
        by[difference == KNOWN_BUG] = NEWEST.name
        answers = {**self.answers, NEWEST.name: newest} if NEWEST.name not in self.answers else self.answers
        differs = np.zeros(len(self.rows), dtype=np.int64)
        # A predicted ISR or ELR has only members of the replicas, ISRs and ELR around the change.
        before, after = self.transitions.before, self.transitions.after
        lists = (before.replicas, before.isr, before.elr, after.replicas, after.isr)
        count, width = len(self.rows), sum(members.shape[1] for members in lists)
        state: State = {name: np.full(count, PAD) for name in ("leader", "recovery")}
        state |= {name: np.full((count, width), PAD) for name in ("isr", "elr", "last_known_elr")}
        for name, answer in answers.items():
            mine = (by == name) & (difference != AS_PREDICTED)
            differs[mine] = answer.differs[mine]
            for number, hypothesis in enumerate(self.found):
                at = np.flatnonzero((mine & (answer.hypothesis == number))[hypothesis.rows])
                if len(at):
                    cases = self._input(hypothesis, at, PROFILES[name])
                    _, instead = self._predicted(hypothesis, hypothesis.rows[at], cases, PROFILES[name])
                    for field, values in state.items():
                        found = getattr(instead, field)
                        values[hypothesis.rows[at]] = resize(found, width) if found.ndim > 1 else found
        return by, differs, state


def _flipped_election(cases: Cases) -> Cases:
    other = np.select(
        [cases.election == ELECT_ONLINE, cases.election == ELECT_UNCLEAN], [ELECT_UNCLEAN, ELECT_ONLINE], cases.election
    )
    return replace(cases, election=other)


def _with_min_isr(value: int) -> Callable[[Cases], Cases]:
    return lambda cases: replace(cases, min_isr=np.full(len(cases.min_isr), value))
