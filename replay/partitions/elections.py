"""Leader changes in a partition history: the kind of each election, and what triggered it.

Vectorised over all partitions. The cause follows from recorded state alone: it is what the log shows, not what a rule
would have done. Sources: Kafka's PartitionChangeBuilder (who may be elected), ReplicationControlManager (what a
controller does on each event), PartitionReassignmentRevert (a cancelled reassignment), KIP-966, KIP-704, KIP-858.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow import schemas
from replay.arrow.ragged import PAD, Array, as_lists, bools, to_lengths, whole
from replay.arrow.runs import last_true, last_true_before, run_starts
from replay.arrow.schemas import PROVENANCE_NAMES
from replay.arrow.sets import has, is_in, keep
from replay.cluster.broker_events import nearest, went_offline
from replay.cluster.facts import ClusterFacts
from replay.partitions.election_actors import Change, Lists, actors, changes_at

LEADERLESS, PREFERRED, ISR, REASSIGNMENT = "leaderless", "preferred", "isr", "reassignment"
CANCELLED_REASSIGNMENT, DIRECTORY_FAILURE = "cancelled_reassignment", "directory_failure"
ELR, LAST_KNOWN_LEADER = "elr", "last_known_leader"
UNCLEAN_BY_CONFIG, UNCLEAN_BY_ADMINISTRATOR, UNCLEAN_ELECTION = (
    "unclean_by_config",
    "unclean_by_administrator",
    "unclean",
)
# The winner may lack acknowledged records, and is marked RECOVERING unless hidden_unclean.
RISKY = frozenset({LAST_KNOWN_LEADER, UNCLEAN_BY_CONFIG, UNCLEAN_BY_ADMINISTRATOR, UNCLEAN_ELECTION})

# What is read of the states before and after a leader change, beside the lists of brokers.
_FROM_HISTORY = (
    *("offset", "timestamp_ms", "controller_epoch", "topic_id", "topic", "partition", "leader_epoch", "leader"),
    *("leader_recovery_state", *PROVENANCE_NAMES),
)
_CONFIG = ("unclean_leader_election_enable", "unclean_leader_election_enable_source")
_AFTER = (*_FROM_HISTORY, *_CONFIG)
_BEFORE = ("offset", "batch_base_offset", "isr", "elr", "last_known_elr", "directories")

# Kafka's DirectoryId.LOST: the directory failed before the controller learnt which one the replica was in.
LOST = "AAAAAAAAAAAAAAAAAAAAAg"


@dataclass(frozen=True)
class States:
    """A history as arrays, one element per row. A removed row has leader -1 and empty lists.

    lists: the list columns as matrices; replicas: one of them. isr, elr, holders: whether each replica is in the ISR,
    the ELR, either (bool matrices in the shape of replicas). key: one number per partition, at least 0. begins: the row
    does not continue a known state (it is the first row, from a snapshot, or after a removal). taken_in: the row's
    leader joined the ISR in the change that completes a reassignment. The old leader requested that change, so it
    confirms that the new one was in sync (Kafka's ReplicationControlManager.alterPartition). marked: the row newly
    marks the leader RECOVERING, so the controller itself records that it may lack acknowledged records (KIP-704).
    recovering: the row's leader is RECOVERING.
    """

    lists: Lists
    key: Array
    begins: Array
    removed: Array
    leader: Array
    leader_epoch: Array
    min_isr: Array
    min_isr_known: Array
    isr_size: Array
    isr: Array
    elr: Array
    holders: Array
    replicas: Array
    taken_in: Array
    marked: Array
    recovering: Array

    @cached_property
    def previous_leader(self) -> Array:
        """The last leader before each row, skipping leaderless states; -1 if there was none."""
        before = last_true_before(self.leader >= 0)
        known = (before >= last_true(self.begins)) & ~self.begins
        return np.where(known, self.leader[np.maximum(before, 0)], -1)

    @cached_property
    def exposing(self) -> Array:
        """True on rows that open an exposure window or keep it open (replay/partitions/windows.py).

        The partition is leaderless, or the row newly marks its leader RECOVERING, or its leader was in neither the ISR
        nor the ELR of the previous row (whatever the recovery state), unless the old leader added it to the ISR in the
        same change.
        """
        held = self.led_by_holder(np.arange(len(self.key)))
        return ~self.removed & ((self.leader < 0) | self.marked | ~(held | self.begins | self.taken_in))

    def led_by_holder(self, rows: Array) -> Array:
        """Whether the leader of each of some rows was in the ISR or the ELR of the row before."""
        before = np.maximum(rows - 1, 0)
        replicas, holders = (of.T.take(before, axis=1) for of in (self.replicas, self.holders))
        return ((replicas == self.leader[rows]) & holders).any(axis=0)


def states_of(history: pa.Table) -> States:
    """Convert a schemas.PARTITION_HISTORY, sorted by (topic_id, partition, offset), to arrays."""
    topic = whole(history["topic_id"]).dictionary_encode().indices.to_numpy().astype(np.int64)
    # A sum: a damaged record's partition may be negative. No key is.
    key = (topic + 1 << 32) + history["partition"].to_numpy().astype(np.int64)
    removed = bools(history["removed"])
    begins = run_starts(key) | np.append(False, removed)[:-1]
    begins |= bools(pc.equal(history["origin"], "checkpoint"))
    lists = Lists(history)
    replicas, isr = lists["replicas"], lists["isr"]
    in_isr, in_elr = is_in(replicas, isr), is_in(replicas, lists["elr"])
    recovering = bools(pc.equal(history["leader_recovery_state"], "RECOVERING"))
    leader = pc.fill_null(history["leader"], -1).to_numpy().astype(np.int64)
    return States(
        lists=lists,
        key=key,
        begins=begins,
        removed=removed,
        leader=leader,
        leader_epoch=pc.fill_null(history["leader_epoch"], -1).to_numpy().astype(np.int64),
        min_isr=pc.fill_null(history["min_isr"], 1).to_numpy().astype(np.int64),
        min_isr_known=~bools(pc.equal(history["min_isr_source"], "assumed_default")),
        isr_size=(isr != PAD).sum(axis=1),
        isr=in_isr,
        elr=in_elr,
        holders=in_isr | in_elr,
        replicas=replicas,
        taken_in=_taken_in(history, lists, begins, leader, recovering),
        marked=recovering & ~np.append(False, recovering[:-1])[: len(recovering)] & ~begins,
        recovering=recovering,
    )


def _taken_in(history: pa.Table, lists: Lists, begins: Array, leader: Array, recovering: Array) -> Array:
    result = np.zeros(len(leader), dtype=bool)
    under_way = to_lengths(history["adding_replicas"]) + to_lengths(history["removing_replicas"]) > 0
    led = np.append(-1, leader[:-1]) if len(leader) else leader
    rows = np.flatnonzero(np.append(False, under_way[:-1]) & ~under_way & ~begins & (leader >= 0) & (led >= 0))
    if len(rows):
        change = changes_at(history, lists, leader, rows)
        joined = has(change.after.isr, change.winner) & ~has(change.before.isr, change.winner)
        # Who was first a replica is in the ISR, too, if one that adds and removes the same replicas is cancelled.
        result[rows] = change.completed & ~change.cancelled & joined & ~recovering[rows]
    return result


def leader_changes(states: States) -> Array:
    """Row numbers of leader changes (elected or lost): each leader epoch bump after the first known state."""
    changed = np.zeros(len(states.key), dtype=bool)
    changed[1:] = states.leader_epoch[1:] != states.leader_epoch[:-1]
    return np.flatnonzero(changed & ~states.begins & ~states.removed)


def causes(
    change: Change, states: States, rows: Array, after: pa.Table, failed: Array, registered: Array
) -> tuple[Array, Array]:
    """(cause, hidden_unclean) of each leader change, str and bool, from the state before it and the change itself.

    rows: of the states that the changes made; after: the same of the history. failed: the old leader's directory
    failed, and its broker stays active. registered: the winner registered a new incarnation in the same batch, so it
    was not elected as an ISR or ELR member. Hidden unclean: the winner was not in the ISR or the ELR and not the last
    known leader, yet is not RECOVERING. A winner that joined the ISR in the change that completes a reassignment is not
    hidden unclean: the old leader confirmed that it was in sync.
    """
    before, now, winner, marked = change.before, change.after, change.winner, states.marked[rows]
    was_last_known = has(states.lists.at("last_known_elr", rows - 1), winner)
    # A winner from the ELR that is marked was elected uncleanly (the ISR had members, but none of them could lead).
    in_isr = has(before.isr, winner) & ~registered
    in_elr = has(before.elr, winner) & ~marked & ~registered
    reassigned = ~change.same_replicas & (in_isr | (change.completed & has(now.isr, winner) & ~marked))
    preferred = (now.replicas[:, 0] == winner) & has(now.isr, change.led) & (change.led != winner)
    enabled = bools(after["unclean_leader_election_enable"])
    source = pc.fill_null(after["unclean_leader_election_enable_source"], "assumed_default")
    conditions = {
        LEADERLESS: winner < 0,
        CANCELLED_REASSIGNMENT: change.cancelled & ~marked,
        REASSIGNMENT: reassigned,
        DIRECTORY_FAILURE: in_isr & failed,
        PREFERRED: in_isr & preferred,
        ISR: in_isr,
        ELR: in_elr,
        LAST_KNOWN_LEADER: was_last_known,
        UNCLEAN_BY_CONFIG: enabled,
        # electLeaders skips partitions that have a leader.
        UNCLEAN_BY_ADMINISTRATOR: bools(pc.not_equal(source, "assumed_default")) & (change.led < 0),
    }
    stranger = (winner >= 0) & ~in_isr & ~has(before.elr, winner) & ~was_last_known & ~registered
    cause = np.select(list(conditions.values()), list(conditions), default=UNCLEAN_ELECTION)
    return cause, stranger & ~states.recovering[rows] & ~reassigned


def _old_directories(directories: pa.ChunkedArray, change: Change) -> Array:
    """The directory of the old leader's replica before each change (str); empty if there was no leader. directories: of
    the replicas then."""
    lists, count = whole(directories), to_lengths(directories)
    is_led = (change.before.replicas == change.led[:, None]) & (change.led >= 0)[:, None]
    place = is_led.argmax(axis=1)
    index = pa.array(np.cumsum(count) - count + place, mask=~is_led.any(axis=1) | (place >= count))
    found: Array = pc.fill_null(pc.list_flatten(lists).take(index), "").to_numpy(zero_copy_only=False)
    return found


def build_elections(history: pa.Table, states: States, facts: ClusterFacts) -> pa.Table:
    """Build schemas.ELECTIONS, one row per leader change; predictions are left null."""
    rows, events, brokers = leader_changes(states), facts.broker_events, facts.brokers
    change = changes_at(history, states.lists, states.leader, rows)
    before, after = history.select(_BEFORE).take(pa.array(rows - 1)), history.select(_AFTER).take(pa.array(rows))
    directory = _old_directories(before["directories"], change)
    near, _ = nearest(events, *change.place)
    # By the previous record, in the same batch (ReplicationControlManager.handleAssignReplicasToDirs).
    lost = (directory == LOST) & (before["batch_base_offset"].to_numpy() == change.place[1])
    failed = lost | (went_offline(events, near, directory) & (near.broker == change.led))
    registered = brokers.registered_with(change.winner, change.place[1])
    cause, hidden = causes(change, states, rows, after, failed, registered)
    actor, actor_offset = actors(change, cause, events, np.where(lost, before["offset"].to_numpy(), -1))
    # The replicas whose broker was active after the election's batch.
    candidates = keep(change.after.replicas, brokers.active_members(change.after.replicas, change.place[1]))
    columns = {
        **{n: after[n] for n in _FROM_HISTORY},
        "previous_leader": pa.array(states.previous_leader[rows], type=pa.int32()),
        "cause": pa.array(cause.tolist(), type=pa.string()),
        "hidden_unclean": pa.array(hidden, type=pa.bool_()),
        "actor": pa.array(actor.tolist(), type=pa.string()),
        "actor_offset": pa.array(actor_offset, mask=actor_offset < 0, type=pa.int64()),
        "isr_before": before["isr"],
        "elr_before": before["elr"],
        "last_known_elr_before": before["last_known_elr"],
        "candidates": as_lists(candidates),
        # Filled in by replay.controller.differences.
        "predictions": pa.nulls(len(rows), schemas.ELECTIONS.field("predictions").type),
        "difference": pa.nulls(len(rows), pa.string()),
    }
    return pa.table({f.name: columns[f.name] for f in schemas.ELECTIONS}, schema=schemas.ELECTIONS)
