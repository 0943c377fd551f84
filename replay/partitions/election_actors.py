"""The list columns of a history as matrices; and what triggered a leader change, if the log shows it: a broker's
event in the same batch, or the change itself.

Sources: Kafka's ReplicationControlManager (which events change partitions, and the order of the records; only
alterPartition adds members to an ISR), PartitionReassignmentReplicas and PartitionReassignmentRevert.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from replay.arrow.once import once_each
from replay.arrow.ragged import PAD, Array, to_matrix
from replay.arrow.sets import all_within, has, is_in, without
from replay.cluster.broker_events import (
    AFTER_CHANGES,
    CONTROLLED_SHUTDOWN,
    DIRECTORY_OFFLINE,
    REGISTRATION,
    UNFENCE,
    BrokerEvents,
    nearest,
)


class Lists:
    """The lists of broker ids of a schemas.PARTITION_HISTORY, by column name: int64 matrices with one row per state
    (`ragged.to_matrix`), each made when first asked for. Never write to one."""

    def __init__(self, history: pa.Table) -> None:
        self._history = history

    @once_each
    def __getitem__(self, name: str) -> Array:
        return to_matrix(self._history[name])

    def at(self, name: str, rows: Array) -> Array:
        """The lists of some states."""
        return self[name].T.take(rows, axis=1).T


ALTER_PARTITION, REASSIGNMENT = "alter_partition", "reassignment"
ELECT_LEADERS, PREFERRED_ELECTION = "elect_leaders", "preferred_election"

_BY_CAUSE = {"preferred": PREFERRED_ELECTION, "unclean_by_administrator": ELECT_LEADERS}


@dataclass(frozen=True, slots=True)
class Side:
    """The lists of the states before (or after) changes, as matrices."""

    replicas: Array
    isr: Array
    elr: Array
    adding: Array
    removing: Array

    @property
    def under_way(self) -> Array:
        """True where a reassignment is under way."""
        return (self.adding != PAD).any(axis=1) | (self.removing != PAD).any(axis=1)


@dataclass(frozen=True, slots=True)
class Change:
    """Changes of partitions, one element each.

    winner: the leader after it. led: the leader in the state right before. -1: none. place: (metadata offset, base
    offset of the batch) of the record.
    """

    before: Side
    after: Side
    winner: Array
    led: Array
    place: tuple[Array, Array]

    @property
    def same_replicas(self) -> Array:
        return all_within(self.before.replicas, self.after.replicas) & all_within(
            self.after.replicas, self.before.replicas
        )

    @property
    def cancelled(self) -> Array:
        """True where it cancels a reassignment: the adding replicas are gone, the removing ones remain."""
        return self._ended(self.before.removing, self.before.adding)

    @property
    def completed(self) -> Array:
        """True where it completes a reassignment: the adding replicas remain, the removing ones are gone."""
        return self._ended(self.before.adding, self.before.removing)

    def _ended(self, stays: Array, goes: Array) -> Array:
        gone = ~is_in(goes, self.after.replicas).any(axis=1)
        # A reassignment that is redirected may add and remove the same replica.
        kept = all_within(without(stays, goes), self.after.replicas)
        return self.before.under_way & ~self.after.under_way & kept & gone


def changes_at(history: pa.Table, lists: Lists, leader: Array, rows: Array) -> Change:
    """The changes that made some states of a history from the rows before them. lists, leader: of the same history."""
    names = ("replicas", "isr", "elr", "adding_replicas", "removing_replicas")
    before, after = (Side(*(lists.at(name, at) for name in names)) for at in (rows - 1, rows))
    offset, batch = (history[name].to_numpy()[rows] for name in ("offset", "batch_base_offset"))
    return Change(before, after, leader[rows], leader[rows - 1], (offset, batch))


def actors(change: Change, cause: Array, events: BrokerEvents, lost_at: Array) -> tuple[Array, Array]:
    """(actor, metadata offset of the record that shows it) of each change: str and int64; None and -1 if none is shown.

    What the change itself shows takes precedence over the broker records next to it. cause: from
    replay.partitions.elections. lost_at: metadata offset of the previous record where it set the directory of the old
    leader's replica to LOST, else -1.
    """
    offset, _ = change.place
    following, preceding = nearest(events, *change.place)
    left_elr = has(change.before.elr, following.broker) & ~has(change.after.elr, following.broker)
    restarted = following.are(REGISTRATION) & left_elr & ~has(change.after.isr, following.broker)
    by_following = following.are(*AFTER_CHANGES) & (_left_isr(change, following.broker) | restarted)
    shut = preceding.are(CONTROLLED_SHUTDOWN) & _left_isr(change, preceding.broker)
    by_preceding = shut | (preceding.are(UNFENCE) & (change.led < 0) & (change.winner >= 0))
    itself = {
        **{actor: cause == name for name, actor in _BY_CAUSE.items()},
        REASSIGNMENT: change.cancelled | aimed(change),
        ALTER_PARTITION: (cause == REASSIGNMENT) & change.completed & ~all_within(change.after.isr, change.before.isr),
    }
    # If the events on both sides could be the cause, the log does not show which one was.
    conditions = [*itself.values(), lost_at >= 0, by_following & ~by_preceding, by_preceding & ~by_following]
    names = [np.array(name, dtype=object) for name in (*itself, DIRECTORY_OFFLINE)]
    shown = [*(offset for _ in itself), lost_at]
    actor = np.select(conditions, [*names, following.kind, preceding.kind], default=np.array(None, dtype=object))
    return actor, np.select(conditions, [*shown, following.offset, preceding.offset], default=-1)


def _left_isr(change: Change, broker: Array) -> Array:
    """True where the broker left the ISR, or led and nobody leads now: without ELR the last ISR member stays in it."""
    leaderless = (change.led == broker) & (broker >= 0) & (change.winner < 0)
    return leaderless | (has(change.before.isr, broker) & ~has(change.after.isr, broker))


def aimed(change: Change) -> Array:
    """True where a change starts or redirects a reassignment, or is one that completes immediately."""
    before, after = change.before, change.after
    same = all_within(after.adding, before.adding) & all_within(after.removing, before.removing)
    same &= all_within(before.adding, after.adding) & all_within(before.removing, after.removing)
    return (after.under_way & ~same) | (~before.under_way & ~after.under_way & ~change.same_replicas)
