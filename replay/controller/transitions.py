"""Partition changes of a history, each with the state before it and what the controller knew then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.asof import Events
from replay.arrow.ragged import PAD, Array, to_lengths, to_matrix
from replay.arrow.sets import empty, first, keep, resize
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.configs import Context
from replay.cluster.features import ELR_VERSION, METADATA_VERSION, FeatureLevels, switches
from replay.cluster.state import ClusterState
from replay.controller.acceptable_leaders import LOST, Directories, availability
from replay.controller.partition_change_builder import ONLINE, RECOVERED, RECOVERING, Cases
from replay.controller.releases import Software, software
from replay.controller.triggers import Recorded, Transitions
from replay.partitions.election_actors import Change, side
from replay.partitions.elections import States

_SWITCHES = ("marks_recovery", "bumps_leader_epoch_on_shrink", "has_directories")
_COLUMNS = (
    "offset",
    "batch_base_offset",
    "replicas",
    "isr",
    "elr",
    "last_known_elr",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "leader",
    "leader_epoch",
    "leader_recovery_state",
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the active controller knew beside the partitions. cleared: offsets of ClearElrRecords, ascending."""

    context: Context
    features: FeatureLevels
    brokers: BrokerTimeline
    software: Software
    cleared: Array


@dataclass(frozen=True, slots=True)
class Configs:
    """What was effective at some places; known: bool, false where it is only assumed. most_min_isr: what the controller
    caps min.insync.replicas by."""

    min_isr: Array
    most_min_isr: Array
    min_isr_known: Array
    unclean: Array
    unclean_known: Array


def changed_rows(history: pa.Table, states: States, surroundings: Surroundings) -> Array:
    """Numbers of the history's rows (tables.sorted_history) that a PartitionChangeRecord made from a known state."""
    cleared = np.isin(history["offset"].to_numpy(), surroundings.cleared)
    rows: Array = np.flatnonzero(~states.begins & ~states.removed & ~cleared)
    return rows


class Cut:
    """Transitions of a history in pieces: what is the same for all of them is worked out once."""

    def __init__(self, history: pa.Table, states: States, surroundings: Surroundings) -> None:
        self.history = history.select(_COLUMNS)
        self.states = states
        self.surroundings = surroundings
        self.directories = Directories(history["directories"])
        self.availability = availability(surroundings.brokers, self.directories)
        encoded = history["topic_id"].combine_chunks().dictionary_encode()
        names = surroundings.context.topic_names
        self._topics = [names.get(i) or "" for i in encoded.dictionary.to_pylist()]
        self._topic = encoded.indices.to_numpy().astype(np.int64)
        self._offset = history["offset"].to_numpy()
        self._count = to_lengths(history["replicas"])
        zero = np.flatnonzero(history["partition"].to_numpy() == 0)
        self._zero = zero
        self._zeros = Events(self._topic[zero], self._offset[zero])

    def configs(self, rows: Array, at: Array | None = None) -> Configs:
        """The two configs right before the rows; or right before other offsets (at), for the rows' partitions."""
        context = self.surroundings.context
        topic, before = self._topic[rows], (self._offset[rows] if at is None else at) - 1
        min_isr = context.min_isr.resolve(self._topics, topic, before)
        unclean = context.unclean.resolve(self._topics, topic, before)
        cap = self._count[rows - 1] if at is None else self._count[rows]
        if len(self._zero):
            last = self._zeros.last(topic, before)
            at = self._zero[np.maximum(last, 0)]
            cap = np.where((last >= 0) & ~self.states.removed[at], self._count[at], cap)
        effective, known = np.minimum(min_isr.ints(), cap), _known(min_isr.sources())
        return Configs(effective, cap, known, unclean.bools(), _known(unclean.sources()))

    def features(self, at: Array) -> dict[str, Array]:
        """What the finalized features switch right before some offsets, as `Cases` names it."""
        features = self.surroundings.features
        levels = features.at_each(METADATA_VERSION, at - 1)
        enabled = features.at_each(ELR_VERSION, at - 1) >= 1
        return {"elr_enabled": enabled, **{name: switches(levels, name) for name in _SWITCHES}}

    def transitions(self, rows: Array, configs: Configs) -> Transitions:
        """The changes of some rows (of `changed_rows`)."""
        before = side(self.history.take(pa.array(rows - 1)))
        after = side(self.history.take(pa.array(rows)))
        led, winner = self.states.leader[rows - 1], self.states.leader[rows]
        change = Change(before, after, winner, led, led)
        held, now = (self.directories.codes(s.table["directories"]) for s in (before, after))
        together = before.table["batch_base_offset"].to_numpy() == change.place[1]
        is_lost = (held == self.directories.names.index(LOST)) & together[:, None]
        return Transitions(
            change=change,
            before=self._cases(before.table, held, configs, change.place[0]),
            after=Recorded(
                replicas=after.replicas,
                isr=after.isr,
                elr=after.elr,
                last_known_elr=to_matrix(after.table["last_known_elr"]),
                removing=after.removing,
                adding=after.adding,
                directories=now,
                leader=winner,
                recovery=_recovery(after.table),
                leader_epochs=self.states.leader_epoch[rows] - self.states.leader_epoch[rows - 1],
            ),
            unclean_allowed=configs.unclean,
            lost=np.where(is_lost.any(axis=1), first(resize(before.replicas, held.shape[1]), is_lost), PAD),
        )

    def cases_at(self, rows: Array) -> Cases:
        """The states that some rows made, and what was in force right behind them."""
        table = self.history.take(pa.array(rows))
        behind = self._offset[rows] + 1
        return self._cases(table, self.directories.codes(table["directories"]), self.configs(rows, behind), behind)

    def brokers_known(self, transitions: Transitions) -> Array:
        """Whether the log has shown every broker of the replicas before the change; bool."""
        replicas = transitions.before.replicas
        states = self.availability.states(replicas, transitions.change.place[0])
        known: Array = ((states >= 0) | (replicas == PAD)).all(axis=1)
        return known

    def _cases(self, table: pa.Table, directories: Array, configs: Configs, offset: Array) -> Cases:
        """The state before each change, with targets that ask for nothing."""
        replicas, isr, elr = (to_matrix(table[name]) for name in ("replicas", "isr", "elr"))
        removing, adding = (to_matrix(table[name]) for name in ("removing_replicas", "adding_replicas"))
        recovery = _recovery(table)
        states = self.availability.states(replicas, offset)
        may_lead = self.availability.acceptable(replicas, resize(directories, replicas.shape[1]), states)
        return Cases(
            replicas=replicas,
            isr=isr,
            elr=elr,
            last_known_elr=to_matrix(table["last_known_elr"]),
            removing=removing,
            adding=adding,
            directories=directories,
            leader=table["leader"].to_numpy().astype(np.int64),
            recovery=recovery,
            election=np.full(len(table), ONLINE),
            acceptable=keep(replicas, may_lead),
            target_isr=isr,
            target_replicas=replicas,
            target_removing=removing,
            target_adding=adding,
            target_recovery=recovery,
            unclean_shutdown=empty(replicas[:, :1]),
            min_isr=configs.min_isr,
            **self.features(offset),
        )


def _known(sources: pa.Array) -> Array:
    known: Array = pc.not_equal(sources, "assumed_default").to_numpy(zero_copy_only=False)
    return known


def _recovery(table: pa.Table) -> Array:
    marked = pc.equal(table["leader_recovery_state"], "RECOVERING").to_numpy(zero_copy_only=False)
    return np.where(marked, RECOVERING, RECOVERED)


def surroundings_of(state: ClusterState) -> Surroundings:
    """Of a resolved cluster."""
    ran = software(state.controllers, state.controller_registrations, state.releases)
    return Surroundings(state.context, state.features, state.brokers, ran, state.cleared)
