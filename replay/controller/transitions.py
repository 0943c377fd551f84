"""Partition changes of a history, each with the previous state and what the controller knew at that moment."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from replay.arrow.ragged import PAD, Array
from replay.arrow.schemas import coded, sorted_history
from replay.arrow.sets import join, keep, resize, same, without
from replay.cluster.broker_events import DIRECTORY_OFFLINE, KINDS
from replay.cluster.facts import ClusterFacts
from replay.cluster.features import ELR_VERSION, METADATA_VERSION, USES_ZOOKEEPER, ZK_MIGRATION_STATE, switches
from replay.controller.acceptable_leaders import Availability, Directories, availability
from replay.controller.partition_change_builder import LISTS, RECOVERED, RECOVERING, Cases, at_rest
from replay.controller.profiles import PossibleProfiles, possible_profiles
from replay.controller.triggers import RecordedStates, Transitions
from replay.partitions.effective_configs import ConfigKeys, Points, config_keys, config_points
from replay.partitions.election_actors import changes_at
from replay.partitions.elections import states_of

SWITCHES = ("marks_recovery", "bumps_leader_epoch_on_shrink", "has_directories")
# The columns of lists that have another name as a field.
_COLUMN_OF = {"removing": "removing_replicas", "adding": "adding_replicas"}


@dataclass(frozen=True, slots=True)
class Configs:
    """Effective configs at some offsets, one element each.

    min_isr_known, unclean_known: bool, false if the value is only assumed. most_min_isr: the controller's cap of
    min.insync.replicas.
    """

    min_isr: Array
    most_min_isr: Array
    min_isr_known: Array
    unclean: Array
    unclean_known: Array


class Bucket:
    """A bucket of whole partitions: what is judged and simulated together.

    history: schemas.PARTITION_HISTORY in the order of schemas.sorted_history. states: the same as arrays. offset,
    batch: metadata offset of each row, and base offset of its batch. facts: of the cluster. Values that several
    computations share are computed once, on first use.
    """

    def __init__(self, history: pa.Table, facts: ClusterFacts) -> None:
        self.history = sorted_history(history.cast(coded(history.schema)))
        self.states = states_of(self.history)
        self.facts = facts
        self.offset, self.batch = (self.history[n].to_numpy() for n in ("offset", "batch_base_offset"))

    @cached_property
    def profiles(self) -> PossibleProfiles:
        """The profiles that the active controllers may have run."""
        return possible_profiles(self.facts.controller_releases)

    @cached_property
    def directories(self) -> Directories:
        return Directories(self.history["directories"])

    @cached_property
    def directory_codes(self) -> Array:
        """The directories of each state as numbers (Directories.codes)."""
        return self.directories.codes(self.history["directories"])

    @cached_property
    def availability(self) -> Availability:
        """The broker states that decide which replicas were acceptable as leaders."""
        return availability(self.facts.brokers, self.directories)

    @cached_property
    def changed_rows(self) -> Array:
        """Row numbers of states that a PartitionChangeRecord made from a known state."""
        cleared = np.isin(self.offset, self.facts.cleared)
        return np.flatnonzero(~self.states.begins & ~self.states.removed & ~cleared)

    @cached_property
    def config_keys(self) -> ConfigKeys:
        return config_keys(self.history, self.facts.known_configs())

    @cached_property
    def config_points(self) -> Points:
        return config_points(self.history, self.config_keys)

    def configs(self, rows: Array, at: Array | None = None) -> Configs:
        """The two configs of the rows' partitions right before the rows, or right before other offsets (at)."""
        keys = self.config_keys
        topic, before = keys.topic[rows], (self.offset[rows] if at is None else at) - 1
        min_isr = keys.configs.min_isr.resolve(keys.topics, topic, before)
        unclean = keys.configs.unclean.resolve(keys.topics, topic, before)
        cap = keys.zero.replicas(topic, before, keys.replica_count[rows - 1 if at is None else rows])
        effective = np.minimum(min_isr.ints(), cap)
        return Configs(effective, cap, min_isr.known(), unclean.bools(), unclean.known())

    def features(self, at: Array) -> dict[str, Array]:
        """What the finalized features enable right before some offsets, by field name of `Cases`. While brokers may
        use ZooKeeper, every ISR shrink starts a leader epoch (PartitionChangeBuilder.zkMigrationEnabled, 3.9.1)."""
        features = self.facts.features
        levels = features.at_each(METADATA_VERSION, at - 1)
        found = {name: switches(levels, name) for name in SWITCHES}
        in_migration = np.isin(features.at_each(ZK_MIGRATION_STATE, at - 1), USES_ZOOKEEPER)
        found["bumps_leader_epoch_on_shrink"] |= in_migration
        return {"elr_enabled": features.at_each(ELR_VERSION, at - 1) >= 1, **found}

    def transitions(self, rows: Array, configs: Configs) -> Transitions:
        """The changes at some of `changed_rows`, with configs from `configs(rows)`."""
        change = changes_at(self.history, self.states.lists, self.states.leader, rows)
        held, now = (self.directory_codes_at(r) for r in (rows - 1, rows))
        before, again = self._cases(rows - 1, held, configs, change.place[0]), self.again(rows)
        earlier = rows - 1 - again
        repeated = np.flatnonzero(again)
        while len(repeated := repeated[self._repeats(earlier[repeated] + 1)]):
            earlier[repeated] -= 1
        start = self._cases(earlier, self.directory_codes_at(earlier), configs, change.place[0])
        return Transitions(
            change=change,
            before=before,
            start=replace(start, directories=before.directories),
            again=again,
            after=RecordedStates(
                **self._states(rows, now),
                leader_epochs=self.states.leader_epoch[rows] - self.states.leader_epoch[rows - 1],
            ),
            unclean_allowed=configs.unclean,
            lost=self.lost(rows),
        )

    def lost(self, rows: Array) -> Array:
        """The replicas whose directory is not online, or that the record before took away, of each change that is
        `again` one: one of these that record may have assigned to a failed directory. A matrix."""
        again, replicas = self.again(rows), self.states.lists.at("replicas", rows - 1)
        held = resize(self.directory_codes_at(rows - 1), replicas.shape[1])
        online = self.availability.has_online(held, self.availability.states(replicas, self.offset[rows - 1]))
        left = without(self.states.lists.at("replicas", rows - 1 - again), replicas)
        return keep(join(keep(replicas, ~online), left), again[:, None])

    def again(self, rows: Array) -> Array:
        """True for each change that follows another one in its batch, with no broker record between them: if one event
        wrote both, the controller made both from the state before the first one. A heartbeat that fences a broker and
        tells of a failed directory has a record of the broker between them, too."""
        events = self.facts.broker_events
        found: Array = (self.batch[rows - 1] == self.batch[rows]) & ~self.states.begins[rows - 1]
        own = rows[found]
        first, second = np.searchsorted(events.offset, (self.offset[own - 1], self.offset[own]))
        broker, kind = np.append(events.broker, PAD), np.append(events.kind_number, PAD)
        of_heartbeat = (first + 1 == second) & (kind[second] == KINDS.index(DIRECTORY_OFFLINE))
        found[found] = (first == second) | (of_heartbeat & (broker[first] == broker[second]))
        return found

    def _repeats(self, rows: Array) -> Array:
        """True for each change that is `again` one and left the ISR, the ELR and the leader as they were: an event may
        write such a record any number of times, each from the state before the first one."""
        result = self.again(rows) & (self.states.leader[rows - 1] == self.states.leader[rows])
        for name in ("isr", "elr"):
            result &= same(*(self.states.lists.at(name, at) for at in (rows - 1, rows)))
        return result

    def directory_codes_at(self, rows: Array) -> Array:
        """The directories of some states as numbers."""
        return self.directory_codes.T.take(rows, axis=1).T

    def _states(self, rows: Array, directories: Array) -> dict[str, Array]:
        """Some states by field name of `PartitionStates`."""
        recovery = np.where(self.states.recovering[rows], RECOVERING, RECOVERED)
        lists = {name: self.states.lists.at(_COLUMN_OF.get(name, name), rows) for name in LISTS}
        return {**lists, "directories": directories, "leader": self.states.leader[rows], "recovery": recovery}

    def cases_at(self, rows: Array, at: Array | None = None) -> Cases:
        """The states that some rows made, with the configs, features and brokers right after them, or right before
        later offsets (at)."""
        after = self.offset[rows] + 1 if at is None else at
        return self._cases(rows, self.directory_codes_at(rows), self.configs(rows, after), after)

    def brokers_known(self, transitions: Transitions) -> Array:
        """True where the state of every broker among the replicas before the change is known."""
        replicas = transitions.before.replicas
        states = self.availability.states(replicas, transitions.change.place[0])
        return ((states >= 0) | (replicas == PAD)).all(axis=1)

    def _cases(self, rows: Array, directories: Array, configs: Configs, offset: Array) -> Cases:
        """The states as Cases right before the offsets, with targets that request nothing."""
        own = self._states(rows, directories)
        replicas = own["replicas"]
        states = self.availability.states(replicas, offset)
        may_lead = self.availability.acceptable(replicas, resize(directories, replicas.shape[1]), states)
        return at_rest(keep(replicas, may_lead), min_isr=configs.min_isr, **own, **self.features(offset))
