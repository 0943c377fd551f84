"""Who brought a leader change about, where the log shows it: a broker's event in the same batch, or the change itself.

Sources: Kafka's ReplicationControlManager (which events change partitions, and in which order the records stand).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from replay.broker_events import (
    BEHIND,
    CONTROLLED_SHUTDOWN,
    IN_FRONT,
    UNFENCE,
    BrokerEvents,
    Nearest,
    nearest,
)
from replay.lists import PAD, Array, to_matrix

ALTER_PARTITION, REASSIGNMENT = "alter_partition", "reassignment"
ELECT_LEADERS, PREFERRED_ELECTION = "elect_leaders", "preferred_election"


@dataclass(frozen=True, slots=True)
class Change:
    """Leader changes, an element each: the rows of tables.PARTITION_HISTORY before and after it, the new leader (-1:
    none), the last leader before, and whether there was none right before."""

    before: pa.Table
    after: pa.Table
    winner: Array
    previous: Array
    was_leaderless: Array

    @property
    def place(self) -> tuple[Array, Array]:
        """(offset, base offset of the batch) of each change."""
        return self.after["offset"].to_numpy(), self.after["batch_base_offset"].to_numpy()


def actors(change: Change, cause: Sequence[str], events: BrokerEvents) -> tuple[list[str | None], list[int | None]]:
    """(actor, metadata offset of the record that shows it) of every change; null where the log does not show one."""
    behind = nearest(events, *change.place, behind=True)
    front = nearest(events, *change.place, behind=False)
    left = _concerned(change, behind)
    shut = (front.kind == CONTROLLED_SHUTDOWN) & _concerned(change, front)
    back = (front.kind == UNFENCE) & change.was_leaderless & (change.winner >= 0)
    by_behind = np.isin(behind.kind, BEHIND) & left
    by_front = np.isin(front.kind, IN_FRONT) & (shut | back)
    own = _by_the_change_itself(change, cause)
    offset = change.place[0]
    actor: list[str | None] = []
    shown: list[int | None] = []
    for i in range(len(offset)):
        # Events on both sides that would do: the log does not tell them apart.
        if by_behind[i] and not by_front[i]:
            actor.append(str(behind.kind[i]))
            shown.append(int(behind.offset[i]))
        elif by_front[i] and not by_behind[i]:
            actor.append(str(front.kind[i]))
            shown.append(int(front.offset[i]))
        else:
            actor.append(None if by_front[i] else own[i])
            shown.append(None if actor[-1] is None else int(offset[i]))
    return actor, shown


def _concerned(change: Change, near: Nearest) -> Array:
    """Whether the event's broker led, or was in sync or eligible, before the change, and does not lead after it."""
    member = change.previous == near.broker
    for name in ("isr", "elr"):
        member |= (to_matrix(change.before[name]) == near.broker[:, None]).any(axis=1)
    result: Array = member & (near.broker >= 0) & (change.winner != near.broker)
    return result


def _by_the_change_itself(change: Change, cause: Sequence[str]) -> list[str | None]:
    """Actors that a change shows without a broker's record beside it.

    A reassignment is begun or cancelled by an administrator, and completed by the ISR that a leader proposes. An
    unclean election that the config forbids, on a leaderless partition, can only have been asked for.
    """
    under_way = [
        (_any(table["adding_replicas"]) | _any(table["removing_replicas"])) for table in (change.before, change.after)
    ]
    begun, completed = ~under_way[0] & under_way[1], under_way[0] & ~under_way[1]
    by_cause = {
        "cancelled_reassignment": REASSIGNMENT,
        "preferred": PREFERRED_ELECTION,
        "unclean_by_administrator": ELECT_LEADERS,
    }
    return [
        by_cause.get(name) or (REASSIGNMENT if start else ALTER_PARTITION if end else None)
        for name, start, end in zip(cause, begun.tolist(), completed.tolist(), strict=True)
    ]


def _any(lists: pa.ChunkedArray) -> Array:
    found: Array = (to_matrix(lists) != PAD).any(axis=1)
    return found
