"""Who brought a leader change about, where the log shows it: a broker's event in the same batch, or the change itself.

Sources: Kafka's ReplicationControlManager (which events change partitions, and in which order the records stand; only
alterPartition adds members to an ISR), PartitionReassignmentReplicas and PartitionReassignmentRevert.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from replay.arrow.ragged import PAD, Array, masks, to_matrix
from replay.cluster.broker_events import (
    BEHIND,
    CONTROLLED_SHUTDOWN,
    DIRECTORY_OFFLINE,
    REGISTRATION,
    UNFENCE,
    BrokerEvents,
    nearest,
)

ALTER_PARTITION, REASSIGNMENT = "alter_partition", "reassignment"
ELECT_LEADERS, PREFERRED_ELECTION = "elect_leaders", "preferred_election"

_BY_CAUSE = {"preferred": PREFERRED_ELECTION, "unclean_by_administrator": ELECT_LEADERS}


@dataclass(frozen=True, slots=True)
class Side:
    """The states before (or after) leader changes: rows of tables.PARTITION_HISTORY, and their lists as matrices."""

    table: pa.Table
    replicas: Array
    isr: Array
    elr: Array
    adding: Array
    removing: Array

    @property
    def under_way(self) -> Array:
        """A reassignment is."""
        result: Array = (self.adding != PAD).any(axis=1) | (self.removing != PAD).any(axis=1)
        return result


@dataclass(frozen=True, slots=True)
class Change:
    """Leader changes, an element each. winner: the new leader (-1: none); led: the one right before (-1: none);
    previous: the last one before, looking through leaderless states."""

    before: Side
    after: Side
    winner: Array
    led: Array
    previous: Array

    @property
    def place(self) -> tuple[Array, Array]:
        """(offset, base offset of the batch) of each change."""
        return self.after.table["offset"].to_numpy(), self.after.table["batch_base_offset"].to_numpy()

    @property
    def same_replicas(self) -> Array:
        return within(self.before.replicas, self.after.replicas) & within(self.after.replicas, self.before.replicas)

    @property
    def cancelled(self) -> Array:
        """It ends a reassignment: the new replicas are gone, those to be removed are still there."""
        return self._ended(self.before.removing, self.before.adding)

    @property
    def completed(self) -> Array:
        """It ends a reassignment: the new replicas are there, those to be removed are gone."""
        return self._ended(self.before.adding, self.before.removing)

    def _ended(self, stays: Array, goes: Array) -> Array:
        gone = masks(goes, self.after.replicas) == 0
        result: Array = self.before.under_way & ~self.after.under_way & within(stays, self.after.replicas) & gone
        return result


def side(table: pa.Table) -> Side:
    names = ("replicas", "isr", "elr", "adding_replicas", "removing_replicas")
    return Side(table, *(to_matrix(table[name]) for name in names))


def has(lists: Array, broker: Array) -> Array:
    """Whether each list has the broker beside it. lists: of `to_matrix`; -1 is nobody."""
    result: Array = (lists == broker[:, None]).any(axis=1) & (broker >= 0)
    return result


def within(lists: Array, others: Array) -> Array:
    """Whether each list has only members of the one beside it."""
    result: Array = masks(lists, others) == masks(lists, lists)
    return result


def actors(change: Change, cause: Array, events: BrokerEvents, lost: Array) -> tuple[Array, Array]:
    """(actor, metadata offset of the record that shows it) of every change: strings and int64; None and -1 where the
    log does not show one. What the change itself shows goes before the broker records beside it.

    cause: of replay.partitions.elections. lost: the record before gave the old leader's replica the directory LOST.
    """
    offset, _ = change.place
    behind = nearest(events, *change.place, behind=True)
    front = nearest(events, *change.place, behind=False)
    restarted = (behind.kind == REGISTRATION) & _left_elr(change, behind.broker)
    by_behind = np.isin(behind.kind.astype(str), BEHIND) & (_left_isr(change, behind.broker) | restarted)
    shut = (front.kind == CONTROLLED_SHUTDOWN) & _left_isr(change, front.broker)
    by_front = shut | ((front.kind == UNFENCE) & (change.led < 0) & (change.winner >= 0))
    itself = {
        **{actor: cause == name for name, actor in _BY_CAUSE.items()},
        REASSIGNMENT: change.cancelled | aimed(change),
        ALTER_PARTITION: (cause == REASSIGNMENT) & change.completed & ~within(change.after.isr, change.before.isr),
    }
    # Events on both sides that would do: the log does not tell them apart.
    conditions = [*itself.values(), lost, by_behind & ~by_front, by_front & ~by_behind]
    names = [*(np.full(len(offset), name, dtype=object) for name in (*itself, DIRECTORY_OFFLINE))]
    shown = [*(offset for _ in itself), change.before.table["offset"].to_numpy()]
    actor = np.select(conditions, [*names, behind.kind, front.kind], default=np.array(None, dtype=object))
    return actor, np.select(conditions, [*shown, behind.offset, front.offset], default=-1)


def _left_isr(change: Change, broker: Array) -> Array:
    """The broker did; or it led, and nobody does now: without ELR the last one in the ISR stays there."""
    leaderless = (change.led == broker) & (broker >= 0) & (change.winner < 0)
    result: Array = leaderless | (has(change.before.isr, broker) & ~has(change.after.isr, broker))
    return result


def _left_elr(change: Change, broker: Array) -> Array:
    result: Array = has(change.before.elr, broker) & ~has(change.after.elr, broker) & ~has(change.after.isr, broker)
    return result


def aimed(change: Change) -> Array:
    """It begins a reassignment, gives one another aim, or is one that was complete as soon as it was asked for."""
    before, after = change.before, change.after
    same = within(after.adding, before.adding) & within(after.removing, before.removing)
    same &= within(before.adding, after.adding) & within(before.removing, after.removing)
    result: Array = (after.under_way & ~same) | (~before.under_way & ~after.under_way & ~change.same_replicas)
    return result
