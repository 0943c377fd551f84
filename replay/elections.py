"""Leader changes in a partition history, and what kind of election each one was. Vectorised over all partitions.

Sources: Kafka's PartitionChangeBuilder (who may be elected from where), KIP-966 (ELR, last known leader), KIP-704.
The cause is read off recorded state alone: it says what the log shows, not what a rule would have done.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay import tables
from replay.brokers import BrokerTimeline
from replay.lists import PAD, Array, mask_of, masks, to_matrix

LEADERLESS, PREFERRED, ISR, REASSIGNMENT = "leaderless", "preferred", "isr", "reassignment"
ELR, LAST_KNOWN_LEADER, UNCLEAN = "elr", "last_known_leader", "unclean"
CAUSES = (LEADERLESS, PREFERRED, ISR, REASSIGNMENT, ELR, LAST_KNOWN_LEADER, UNCLEAN)


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


def causes(history: pa.Table, states: States, rows: Array) -> list[str]:
    """The cause of every leader change in `rows` (see CAUSES), from the state before it and the change itself."""
    before = rows - 1
    winner = states.leader[rows]
    # The winner as a bit of the replica list before the change; none if the change itself brought it in.
    bit = mask_of(states.replicas[before], winner)
    previous = previous_leaders(states)[rows]
    known = to_matrix(history["last_known_elr"].take(pa.array(before)))
    was_last_known = (known == winner[:, None]).any(axis=1) & (winner >= 0)
    in_isr, in_elr = (bit & states.isr[before]) != 0, (bit & states.elr[before]) != 0
    same_replicas = (states.replicas[before] == states.replicas[rows]).all(axis=1)
    previous_stays = (mask_of(states.replicas[rows], previous) & states.isr[rows]) != 0
    preferred = (states.replicas[rows, 0] == winner) & previous_stays & (previous != winner)
    conditions = [winner < 0, in_isr & ~same_replicas, in_isr & preferred, in_isr, in_elr, was_last_known]
    chosen = np.select(conditions, [0, 3, 1, 2, 4, 5], default=6)
    return [CAUSES[i] for i in chosen.tolist()]


def candidates(brokers: BrokerTimeline, replicas: list[list[int]], batch_base_offsets: list[int]) -> list[list[int]]:
    """The replicas of each election that stood on an active broker once the election's batch was applied."""
    return [
        [broker for broker in row if brokers.active(broker, batch)]
        for row, batch in zip(replicas, batch_base_offsets, strict=True)
    ]


def build_elections(history: pa.Table, states: States, brokers: BrokerTimeline) -> pa.Table:
    """tables.ELECTIONS: one row a leader change."""
    rows = leader_changes(states)
    after, before = history.take(pa.array(rows)), history.take(pa.array(rows - 1))
    standing = candidates(brokers, after["replicas"].to_pylist(), after["batch_base_offset"].to_pylist())
    columns = {
        **{n: after[n] for n in ("offset", "timestamp_ms", "controller_epoch", "topic_id", "topic", "partition")},
        "leader_epoch": after["leader_epoch"],
        "previous_leader": pa.array(previous_leaders(states)[rows], type=pa.int32()),
        "leader": after["leader"],
        "cause": pa.array(causes(history, states, rows), type=pa.string()),
        "leader_recovery_state": after["leader_recovery_state"],
        "isr_before": before["isr"],
        "elr_before": before["elr"],
        "last_known_elr_before": before["last_known_elr"],
        "candidates": pa.array(standing, type=tables.INT32_LIST),
        **{n: after[n] for n in ("capture", "path", "sha256", "position")},
    }
    return pa.table({f.name: columns[f.name] for f in tables.ELECTIONS}, schema=tables.ELECTIONS)
