"""Leader changes in a partition history, what kind of election each one was, and who brought it about. Vectorised over
all partitions.

Sources: Kafka's PartitionChangeBuilder (who may be elected from where), ReplicationControlManager (what a controller
does on which event), PartitionReassignmentRevert (a cancelled reassignment), KIP-966, KIP-704, KIP-858.
The cause is read off recorded state alone: it says what the log shows, not what a rule would have done.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay import tables
from replay.broker_events import BrokerEvents, broker_events, nearest, went_offline
from replay.brokers import BrokerTimeline
from replay.election_actors import Change, actors
from replay.lists import PAD, Array, mask_of, masks, to_matrix

LEADERLESS, PREFERRED, ISR, REASSIGNMENT = "leaderless", "preferred", "isr", "reassignment"
CANCELLED_REASSIGNMENT, DIRECTORY_FAILURE = "cancelled_reassignment", "directory_failure"
ELR, LAST_KNOWN_LEADER = "elr", "last_known_leader"
UNCLEAN_BY_CONFIG, UNCLEAN_BY_ADMINISTRATOR, UNCLEAN = "unclean_by_config", "unclean_by_administrator", "unclean"


@dataclass(frozen=True, slots=True)
class States:
    """A history as arrays, one element a row. A removed row has leader -1 and empty lists.

    begins: the row does not continue a known state (first row, or a snapshot's). key: one number a partition.
    """

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


def states_of(history: pa.Table) -> States:
    """Arrays of a tables.PARTITION_HISTORY sorted by (topic_id, partition, offset).

    isr, elr and holders (their union) are bit masks over the row's own replica list (`lists.masks`).
    """
    topic = history["topic_id"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    key = topic << 32 | history["partition"].to_numpy().astype(np.int64)
    begins = np.ones(len(key), dtype=bool)
    begins[1:] = key[1:] != key[:-1]
    begins |= history["origin"].to_numpy(zero_copy_only=False) == "checkpoint"
    replicas = to_matrix(history["replicas"])
    isr = to_matrix(history["isr"])
    isr_mask, elr_mask = masks(replicas, isr), masks(replicas, to_matrix(history["elr"]))
    return States(
        key=key,
        begins=begins,
        removed=history["removed"].to_numpy(zero_copy_only=False).astype(bool),
        leader=pc.fill_null(history["leader"], -1).to_numpy().astype(np.int64),
        leader_epoch=pc.fill_null(history["leader_epoch"], -1).to_numpy().astype(np.int64),
        min_isr=pc.fill_null(history["min_isr"], 1).to_numpy().astype(np.int64),
        min_isr_known=history["min_isr_source"].to_numpy(zero_copy_only=False) != "assumed_default",
        isr_size=(isr != PAD).sum(axis=1),
        isr=isr_mask,
        elr=elr_mask,
        holders=isr_mask | elr_mask,
        replicas=replicas,
    )


def previous_leaders(states: States) -> Array:
    """The last leader before each row, looking through leaderless states; -1 if there was none."""
    index = np.arange(len(states.key))
    start = np.maximum.accumulate(np.where(states.begins, index, 0))
    led = np.maximum.accumulate(np.where(states.leader >= 0, index, -1))
    before = np.concatenate([[-1], led[:-1]]) if len(led) else led
    known = (before >= start) & ~states.begins
    return np.where(known, states.leader[np.maximum(before, 0)], -1)


def leader_changes(states: States) -> Array:
    """Row numbers at which a leader was elected or lost: every bump of the leader epoch after the first known state."""
    changed = np.zeros(len(states.key), dtype=bool)
    changed[1:] = states.leader_epoch[1:] != states.leader_epoch[:-1]
    rows: Array = np.flatnonzero(changed & ~states.begins & ~states.removed)
    return rows


def causes(history: pa.Table, states: States, rows: Array, events: BrokerEvents) -> tuple[list[str], Array]:
    """(cause, hidden_unclean) of every leader change in `rows`, from the state before it and the change itself.

    Hidden: the winner was in neither ISR nor ELR nor the last known leader, and the record does not say RECOVERING.
    """
    change = _change(history, states, rows)
    before, winner = rows - 1, change.winner
    # The winner as a bit of the replica list before the change; none if the change itself brought it in.
    bit = mask_of(states.replicas[before], winner)
    known = to_matrix(change.before["last_known_elr"])
    was_last_known = (known == winner[:, None]).any(axis=1) & (winner >= 0)
    in_isr, in_elr = (bit & states.isr[before]) != 0, (bit & states.elr[before]) != 0
    same_replicas = (states.replicas[before] == states.replicas[rows]).all(axis=1)
    previous_stays = (mask_of(states.replicas[rows], change.previous) & states.isr[rows]) != 0
    preferred = (states.replicas[rows, 0] == winner) & previous_stays & (change.previous != winner)
    enabled = pc.fill_null(change.after["unclean_leader_election_enable"], False).to_numpy(zero_copy_only=False)
    source = pc.fill_null(change.after["unclean_leader_election_enable_source"], "assumed_default")
    told = pc.not_equal(source, "assumed_default").to_numpy(zero_copy_only=False)
    failed = _directory_failed(change, events)
    conditions = {
        LEADERLESS: winner < 0,
        CANCELLED_REASSIGNMENT: _cancelled(change),
        REASSIGNMENT: in_isr & ~same_replicas,
        DIRECTORY_FAILURE: in_isr & failed,
        PREFERRED: in_isr & preferred,
        ISR: in_isr,
        ELR: in_elr,
        LAST_KNOWN_LEADER: was_last_known,
        UNCLEAN_BY_CONFIG: enabled.astype(bool),
        # electLeaders passes over partitions that have a leader.
        UNCLEAN_BY_ADMINISTRATOR: told.astype(bool) & change.was_leaderless,
    }
    names = [*conditions, UNCLEAN]
    chosen = np.select(list(conditions.values()), list(range(len(conditions))), default=len(conditions))
    recovering = pc.equal(change.after["leader_recovery_state"], "RECOVERING").to_numpy(zero_copy_only=False)
    hidden = (winner >= 0) & ~in_isr & ~in_elr & ~was_last_known & ~recovering.astype(bool)
    return [names[i] for i in chosen.tolist()], hidden


def _change(history: pa.Table, states: States, rows: Array) -> Change:
    return Change(
        before=history.take(pa.array(rows - 1)),
        after=history.take(pa.array(rows)),
        winner=states.leader[rows],
        previous=previous_leaders(states)[rows],
        was_leaderless=states.leader[rows - 1] < 0,
    )


def _cancelled(change: Change) -> Array:
    """A reassignment was under way, and is not any more; its new replicas are gone, those to be removed are still there
    (Kafka's PartitionReassignmentRevert)."""
    removing, adding = (to_matrix(change.before[n]) for n in ("removing_replicas", "adding_replicas"))
    replicas = to_matrix(change.after["replicas"])
    under_way = (removing != PAD).any(axis=1) | (adding != PAD).any(axis=1)
    over = np.ones(len(under_way), dtype=bool)
    for name in ("removing_replicas", "adding_replicas"):
        over &= ~(to_matrix(change.after[name]) != PAD).any(axis=1)
    stayed = masks(removing, replicas) == masks(removing, removing)
    gone = masks(adding, replicas) == 0
    result: Array = under_way & over & stayed & gone
    return result


def _directory_failed(change: Change, events: BrokerEvents) -> Array:
    """Whether the previous leader's broker runs on without the directory that the partition was in (KIP-858)."""
    near = nearest(events, *change.place, behind=True)
    replicas, directories = (change.before[n].to_pylist() for n in ("replicas", "directories"))
    previous = change.previous.tolist()
    held = [
        ids[brokers.index(leader)] if leader in brokers and brokers.index(leader) < len(ids) else ""
        for brokers, ids, leader in zip(replicas, directories, previous, strict=True)
    ]
    gone = went_offline(events, near, np.array(held, dtype=object))
    result: Array = gone & (near.broker == change.previous)
    return result


def candidates(brokers: BrokerTimeline, replicas: list[list[int]], batch_base_offsets: list[int]) -> list[list[int]]:
    """The replicas of each election that stood on an active broker once the election's batch was applied."""
    return [
        [broker for broker in row if brokers.active(broker, batch)]
        for row, batch in zip(replicas, batch_base_offsets, strict=True)
    ]


def build_elections(history: pa.Table, states: States, brokers: BrokerTimeline) -> pa.Table:
    """tables.ELECTIONS: one row a leader change."""
    rows, events = leader_changes(states), broker_events(brokers)
    change = _change(history, states, rows)
    after, before = change.after, change.before
    cause, hidden = causes(history, states, rows, events)
    actor, actor_offset = actors(change, cause, events)
    standing = candidates(brokers, after["replicas"].to_pylist(), after["batch_base_offset"].to_pylist())
    columns = {
        **{n: after[n] for n in ("offset", "timestamp_ms", "controller_epoch", "topic_id", "topic", "partition")},
        "leader_epoch": after["leader_epoch"],
        "previous_leader": pa.array(change.previous, type=pa.int32()),
        "leader": after["leader"],
        "cause": pa.array(cause, type=pa.string()),
        "hidden_unclean": pa.array(hidden, type=pa.bool_()),
        "actor": pa.array(actor, type=pa.string()),
        "actor_offset": pa.array(actor_offset, type=pa.int64()),
        "leader_recovery_state": after["leader_recovery_state"],
        "isr_before": before["isr"],
        "elr_before": before["elr"],
        "last_known_elr_before": before["last_known_elr"],
        "candidates": pa.array(standing, type=tables.INT32_LIST),
        **{n: after[n] for n in ("capture", "path", "sha256", "position")},
    }
    return pa.table({f.name: columns[f.name] for f in tables.ELECTIONS}, schema=tables.ELECTIONS)
