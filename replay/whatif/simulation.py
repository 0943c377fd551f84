"""The simulation of recorded triggers under other rules. All results are hypothetical.

Every partition starts from a recorded state and goes through the broker events and requests that the log shows, in
offset order; the controller's reaction follows the scenario. Step k of all partitions is taken at once. What the log
cannot show about a history that did not happen is assumed: if the recorded leader added a replica to (or removed it
from) the ISR, another leader would have done so at the same time, provided it was a replica and its broker was alive.

With the recorded rules the result is the recorded history (a test).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from replay.arrow.ragged import PAD, Array, members_of
from replay.arrow.runs import place_in_run
from replay.arrow.sets import empty, fit, has, is_in, join, joined, keep, resize, same, size, take, trim, where, without
from replay.cluster import broker_events as events
from replay.controller import partition_change_builder as builder
from replay.controller import triggers
from replay.controller.partition_change_builder import Cases
from replay.controller.profiles import PROFILES, rules_of
from replay.controller.transitions import Bucket
from replay.loss.judged_windows import Situation
from replay.whatif.scenario import Course, Scenario
from replay.whatif.steps import CLEAR_ELR, Steps


def simulate(
    bucket: Bucket,
    start: Array,
    steps: Steps,
    scenarios: Sequence[Scenario],
    scenario: Array | None = None,
    last: Array | None = None,
) -> Course:
    """The states that result, of all subjects at once, step by step.

    start: row of the history with which each subject begins; the same one may be that of several. steps: of the
    subjects, from `steps_of`. scenario: the number of each subject's among `scenarios`; None: all have the first. last:
    a broker of each subject that is deprioritized beside the scenario's, PAD for none.
    """
    scenario = np.zeros(len(start), dtype=np.int64) if scenario is None else scenario
    last = np.full(len(start), PAD) if last is None else last
    simulation = _Simulation(bucket, start, steps, scenarios, scenario[steps.subject], last)
    subject = steps.subject
    rank = place_in_run(subject)
    order = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[order], np.arange(int(rank.max(initial=-1)) + 2))
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        simulation.take_steps(order[begin:end])
    # Pieces are in the order of steps: a stable sort keeps it within a subject.
    course = joined(simulation.pieces)
    return take(course, np.argsort(course.subject, kind="stable"))


class _Simulation:
    """The states of the partitions (one element per subject, lists of equal width), changed step by step.

    scenario: number of each step's. rules, settings, allowed (unclean elections), manual (an administrator's unclean
    election is still one), recovers (the scenario chooses who leads without ISR and ELR): of each step. pieces: the
    states so far.
    """

    def __init__(
        self, bucket: Bucket, start: Array, steps: Steps, scenarios: Sequence[Scenario], scenario: Array, last: Array
    ) -> None:
        self.bucket, self.start, self.steps, self.last = bucket, start, steps, last
        self.scenarios, self.scenario = scenarios, scenario
        self.triggers, self.trigger = np.unique(steps.trigger.astype(str), return_inverse=True)
        requests = np.flatnonzero(steps.row >= 0)
        rows, number = np.unique(steps.row[requests], return_inverse=True)
        self.recorded = bucket.transitions(rows, bucket.configs(rows))
        self.number = np.full(len(steps.row), -1)
        self.number[requests] = number
        self._set_rules()
        begin = bucket.cases_at(start)
        # An ELR keeps members that are no longer replicas.
        self.width = 3 * max(lists.shape[1] for lists in (begin.replicas, self.recorded.after.replicas))
        self.state = {name: fit(getattr(begin, name), self.width).copy() for name in (*builder.LISTS, "directories")}
        self.state |= {"leader": begin.leader.copy(), "recovery": begin.recovery.copy()}
        self.last_leader = np.where(begin.leader >= 0, begin.leader, bucket.states.previous_leader[start])
        nobody = np.zeros(len(start), dtype=bool)
        columns = ("offset", "batch_base_offset", "timestamp_ms")
        place = (bucket.history[name].to_numpy()[start] for name in columns)
        self.pieces = [self._states(np.arange(len(nobody)), *place, begin.min_isr, nobody, nobody)]

    def _set_rules(self) -> None:
        """Configs, features and rules at every step: those in force, or what the step's scenario has instead."""
        steps = self.steps
        configs = self.bucket.configs(self.start[steps.subject], steps.at)
        self.settings = {"min_isr": configs.min_isr, **self.bucket.features(steps.at)}
        # Of several profiles that may have been running, the newest.
        profile = self.bucket.profiles.newest(steps.offset)
        self.allowed, self.manual = configs.unclean.copy(), np.ones(len(steps.at), dtype=bool)
        self.recovers = np.zeros(len(steps.at), dtype=bool)
        for number, scenario in enumerate(self.scenarios):
            mine = np.flatnonzero(self.scenario == number)
            if scenario.profile is not None:
                profile[mine] = list(PROFILES).index(scenario.profile.name)
            if scenario.min_isr is not None:
                self.settings["min_isr"][mine] = np.minimum(configs.most_min_isr[mine], scenario.min_isr)
            if scenario.elr is not None:
                self.settings["elr_enabled"][mine] = scenario.elr
            if scenario.recover is not None or scenario.unclean is False:
                # A recorded unclean election that the config allowed is attributed to it, not to an administrator.
                self.manual[mine] = ~configs.unclean[mine]
            if scenario.recover is not None:
                self.recovers[mine], self.allowed[mine] = True, False
            elif scenario.unclean is not None:
                self.allowed[mine] = scenario.unclean
        rules = rules_of(list(PROFILES.values()), profile)
        # Electing the last known leader is left to a scenario that chooses.
        acceptable = rules.last_known_leader_must_be_acceptable | self.recovers
        self.rules = replace(rules, last_known_leader_must_be_acceptable=acceptable)

    def take_steps(self, steps: Array) -> None:
        """Take steps of different subjects. steps: their numbers."""
        trigger = self.trigger[steps]
        for number in np.unique(trigger).tolist():
            self._take(steps[trigger == number], str(self.triggers[number]))

    def _take(self, steps: Array, trigger: str) -> None:
        subject = self.steps.subject[steps]
        if trigger == CLEAR_ELR:
            held = (size(self.state["elr"][subject]) > 0) | (size(self.state["last_known_elr"][subject]) > 0)
            for name in ("elr", "last_known_elr"):
                self.state[name][subject[held]] = PAD
            self._record(steps[held], np.zeros(held.sum(), bool), np.zeros(held.sum(), bool))
            return
        cases = self._cases(steps)
        inputs, concerned = self._builder_inputs(trigger, cases, steps)
        rows = np.flatnonzero(concerned)
        if len(rows):
            self._apply(steps[rows], take(cases, rows), take(inputs, rows))

    def _apply(self, steps: Array, before: Cases, inputs: Cases) -> None:
        """Change the states as the controller would, and record those that changed. before: the cases before the
        trigger; inputs: those that the builder gets."""
        subject = self.steps.subject[steps]
        ordered = self._by_priority(inputs, steps)
        changes = builder.predict(ordered, take(self.rules, steps))
        state = builder.state_after(ordered, changes)
        lists = {name: getattr(state, name) for name in builder.LISTS}
        kept = ~changes.written["replicas"]
        lists["replicas"] = where(kept, before.replicas, _in_order(lists["replicas"], inputs.target_replicas))
        leader, recovery = state.leader, state.recovery
        if self.recovers[steps].any():
            chosen = self._recovered(steps, inputs, leader, lists["isr"], lists["elr"])
            recovered = chosen != PAD
            leader = np.where(recovered, chosen, leader)
            recovery = np.where(recovered, builder.RECOVERING, recovery)
            lists["isr"] = where(recovered, chosen[:, None], lists["isr"])
            for name in ("elr", "last_known_elr"):
                lists[name] = where(recovered, empty(lists[name]), lists[name])
        held = (inputs.replicas, inputs.directories)
        lists["directories"] = self.bucket.availability.placed(lists["replicas"], held, self.steps.at[steps])
        elected = (leader >= 0) & (leader != before.leader)
        marked = (recovery == builder.RECOVERING) & (before.recovery != builder.RECOVERING)
        unclean = elected & (marked | ~(has(before.isr, leader) | has(before.elr, leader)))
        changed = ~changes.is_no_op | (leader != before.leader)
        for name in (*builder.LISTS, "directories"):
            self.state[name][subject] = resize(lists[name], self.width)
        self.state["leader"][subject], self.state["recovery"][subject] = leader, recovery
        self.last_leader[subject] = np.where(leader >= 0, leader, self.last_leader[subject])
        self._record(steps[changed], elected[changed], unclean[changed])

    def _cases(self, steps: Array) -> Cases:
        """The states before some steps, with targets that change nothing, and the settings in force."""
        subject, at = self.steps.subject[steps], self.steps.at[steps]
        own = {name: self.state[name][subject] for name in ("leader", "recovery")}
        own |= {name: trim(self.state[name][subject]) for name in builder.LISTS}
        own["directories"] = resize(self.state["directories"][subject], own["replicas"].shape[1])
        available = self.bucket.availability
        states = available.states(own["replicas"], at)
        may_lead = available.acceptable(own["replicas"], own["directories"], states)
        settings = {name: values[steps] for name, values in self.settings.items()}
        return builder.at_rest(keep(own["replicas"], may_lead), **own, **settings)

    def _builder_inputs(self, trigger: str, cases: Cases, steps: Array) -> tuple[Cases, Array]:
        """(input of PartitionChangeBuilder, mask of the partitions that the trigger concerns)."""
        usual = replace(cases, election=np.where(self.allowed[steps], builder.ELECT_UNCLEAN, builder.ELECT_ONLINE))
        broker, led = self.steps.broker[steps], cases.leader >= 0
        everyone = np.ones(len(steps), dtype=bool)
        if trigger in triggers.OF_BROKERS:
            return triggers.of_broker(trigger, usual, broker)
        if trigger == events.DIRECTORY_OFFLINE:
            states = self.bucket.availability.states(cases.replicas, self.steps.offset[steps] + 1)
            online = self.bucket.availability.acceptable(cases.replicas, cases.directories, states)
            lost = is_in(cases.replicas, broker[:, None]) & ~online
            return triggers.removed(usual, broker), has(cases.isr, broker) & lost.any(axis=1)
        if trigger == triggers.PREFERRED_ELECTION:
            return triggers.with_election(cases, builder.ELECT_PREFERRED), led
        if trigger == triggers.UNCLEAN_ELECTION:
            return triggers.with_election(cases, builder.ELECT_UNCLEAN), ~led & self.manual[steps]
        # The recorded states before and after the request.
        number = self.number[steps]
        before, after = take(self.recorded.before, number), take(self.recorded.after, number)
        if trigger == triggers.ALTER_PARTITION:
            return self._altered(usual, before, after), led
        if trigger == triggers.REASSIGNMENT:
            return triggers.reassigned(cases, after), everyone
        if trigger == triggers.CANCELLED_REASSIGNMENT:
            return triggers.cancelled(usual), size(cases.adding) + size(cases.removing) > 0
        if trigger == triggers.DIRECTORY_ASSIGNMENT:
            enabled = cases.elr_enabled & self.rules.directory_assignment_keeps_elr[steps]
            inputs = replace(cases, directories=resize(after.directories, self.width), elr_enabled=enabled)
            return inputs, same(cases.replicas, after.replicas)
        raise ValueError(f"no such trigger: {trigger}")

    def _altered(self, cases: Cases, before: Cases, after: triggers.RecordedStates) -> Cases:
        """The input for a leader's request: the recorded one if leader and ISR were as recorded. Otherwise the recorded
        joins and leaves are applied to the simulated ISR."""
        as_recorded = same(cases.isr, before.isr) & (cases.leader == before.leader)
        left = without(before.isr, join(after.isr, cases.leader[:, None]))
        came = keep(after.isr, is_in(after.isr, cases.acceptable) & is_in(after.isr, cases.replicas))
        isr = join(without(cases.isr, left), came)
        other = replace(cases, target_isr=isr, target_recovery=np.full(len(cases.leader), builder.RECOVERED))
        return triggers.where_cases(as_recorded, triggers.altered(cases, after), other)

    def _by_priority(self, cases: Cases, steps: Array) -> Cases:
        """The cases with brokers that are deprioritized at that time moved to the end, with their directories."""
        recovers = self.recovers[steps]
        if recovers.any():
            nobody_left = recovers & (size(cases.isr) == 0) & (size(cases.elr) == 0)
            known = without(cases.acceptable, cases.last_known_elr)
            cases = replace(cases, acceptable=where(nobody_left, known, cases.acceptable))
        ranges = [(number, *given) for number, of in enumerate(self.scenarios) for given in of.deprioritized]
        last = self.last[self.steps.subject[steps]]
        if not ranges and (last == PAD).all():
            return cases
        offset, scenario = self.steps.offset[steps], self.scenario[steps]
        lists = {}
        for name in ("replicas", "target_replicas"):
            members = getattr(cases, name)
            late = members == last[:, None]
            for number, broker, begin, end in ranges:
                late |= (members == broker) & ((scenario == number) & (offset >= begin) & (offset < end))[:, None]
            order = np.argsort(np.where(members == PAD, 2, late), axis=1, kind="stable")
            lists[name] = np.take_along_axis(members, order, axis=1)
            if name == "replicas":
                lists["directories"] = np.take_along_axis(cases.directories, order, axis=1)
        return replace(cases, **lists)

    def _recovered(self, steps: Array, cases: Cases, leader: Array, isr: Array, elr: Array) -> Array:
        """The broker that the scenario elects for each leaderless partition; PAD for the others. leader, isr, elr: as
        the controller leaves them."""
        chosen = np.full(len(steps), PAD)
        for number in np.flatnonzero((leader == builder.NO_LEADER) & self.recovers[steps]).tolist():
            step = steps[number]
            choose, subject = self.scenarios[self.scenario[step]].recover, self.steps.subject[step]
            assert choose is not None  # because it recovers
            lists = (cases.replicas, isr, elr, cases.acceptable, cases.last_known_elr)
            replicas, in_isr, in_elr, alive, known = (members_of(each[number]) for each in lists)
            waited_for = known[0] if len(known) == 1 else int(self.last_leader[subject])
            place = self.start[subject], self.steps.offset[step], self.steps.timestamp_ms[step]
            found = choose(
                *map(int, place),
                Situation(replicas, in_isr, in_elr, alive, waited_for if waited_for >= 0 else None, {}, recorded=-1),
            )
            chosen[number] = found if found in alive else PAD
        return chosen

    def _record(self, steps: Array, elected: Array, unclean: Array) -> None:
        """Add the states of the steps' subjects to the result."""
        position = (getattr(self.steps, name)[steps] for name in ("offset", "batch", "timestamp_ms"))
        min_isr = self.settings["min_isr"][steps]
        self.pieces.append(self._states(self.steps.subject[steps], *position, min_isr, elected, unclean))

    def _states(
        self, subject: Array, offset: Array, batch: Array, timestamp_ms: Array, min_isr: Array, *kind: Array
    ) -> Course:
        leader, isr, elr = (self.state[name][subject].copy() for name in ("leader", "isr", "elr"))
        return Course(subject, offset, batch, timestamp_ms, leader, isr, elr, min_isr, *kind)


def _in_order(lists: Array, reference: Array) -> Array:
    """The members of each list in the order of the reference; members that it lacks come last."""
    equal = lists[:, :, None] == reference[:, None, :]
    position = np.where((lists == PAD) | ~equal.any(axis=2), reference.shape[1], equal.argmax(axis=2))
    order = np.argsort(position, axis=1, kind="stable")
    return np.take_along_axis(lists, order, axis=1)
