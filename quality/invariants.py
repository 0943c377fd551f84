"""Invariants of a partition's state as boolean columns, which the expectations require to be true.

Names and meanings are those of replay.invariants.catalogue.INVARIANTS and docs/invariants.md. This module has those
that can be checked on a single row; the catalogue has all, with where each was broken and for how long.

Sources: KIP-966 (ELR and ISR are disjoint; a non-empty ELR means |ISR| < min ISR), KIP-704 (a RECOVERING leader has an
ISR of one), PartitionRegistration (leader in ISR; directories match replicas).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = np.ndarray[Any, Any]
PAD = np.iinfo(np.int64).min

SCALARS = (
    "cluster_id",
    "topic_id",
    "topic",
    "partition",
    "offset",
    "leader",
    "leader_epoch",
    "partition_epoch",
    "min_isr",
    "leader_recovery_state",
)
COLUMNS = (*SCALARS, "replicas", "isr", "elr", "last_known_elr", "directories", "min_isr_source", "removed")


class _Lists:
    """A column of lists. members: a row for each list, padded with PAD; size: of each list, 0 for null."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        lists = column.combine_chunks()
        self.size: Array = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        self.members: Array = np.full((len(lists), max(self.size, default=0)), PAD, dtype=np.int64)
        self.members[np.arange(self.members.shape[1]) < self.size[:, None]] = pc.list_flatten(lists).to_numpy()

    def has(self, values: Array) -> Array:
        """For each list, whether it has the value of its row."""
        found: Array = (self.members == values[:, None]).any(axis=1)
        return found

    def within(self, lists: _Lists) -> Array:
        """For each list, whether the other list of its row has all its members."""
        return self._all(lambda members: (members == PAD) | lists.has(members))

    def apart_from(self, lists: _Lists) -> Array:
        """For each list, whether the other list of its row has none of its members."""
        return self._all(lambda members: (members == PAD) | ~lists.has(members))

    def distinct(self) -> Array:
        """For each list, whether no member occurs twice."""
        return self._all(lambda members: (members == PAD) | ((self.members == members[:, None]).sum(axis=1) == 1))

    def _all(self, holds: Callable[[Array], Array]) -> Array:
        found = np.ones(len(self.size), dtype=bool)
        for members in self.members.T:
            found &= holds(members)
        return found


class _Rows:
    """Rows of partition_history that are not removals."""

    def __init__(self, history: pa.Table) -> None:
        self.replicas, self.isr, self.elr = (_Lists(history[name]) for name in ("replicas", "isr", "elr"))
        self.last_known_elr = _Lists(history["last_known_elr"])
        self.directories: Array = pc.fill_null(pc.list_value_length(history["directories"]), 0).to_numpy()
        self.leader: Array = pc.fill_null(history["leader"], -1).to_numpy()
        self.min_isr: Array = pc.fill_null(history["min_isr"], 0).to_numpy()
        self.assumed: Array = _bools(pc.equal(history["min_isr_source"], "assumed_default"))
        self.recovering: Array = _bools(pc.equal(history["leader_recovery_state"], "RECOVERING"))


def _bools(column: pa.ChunkedArray) -> Array:
    found: Array = pc.fill_null(column, False).to_numpy().astype(bool)
    return found


INVARIANTS: dict[str, Callable[[_Rows], Array]] = {
    "isr_within_replicas": lambda r: r.isr.within(r.replicas),
    "elr_within_replicas": lambda r: r.elr.within(r.replicas),
    "isr_and_elr_disjoint": lambda r: r.elr.apart_from(r.isr),
    "leader_in_isr": lambda r: (r.leader == -1) | r.isr.has(r.leader),
    "elr_empty_at_min_isr": lambda r: (r.elr.size == 0) | (r.isr.size < r.min_isr) | r.assumed,
    "recovering_isr_is_leader": lambda r: ~r.recovering | (r.isr.size <= 1),
    "directories_match_replicas": lambda r: r.directories == r.replicas.size,
    "last_known_elr_never_minus_one": lambda r: ~r.last_known_elr.has(np.full(len(r.leader), -1)),
    "replicas_distinct": lambda r: r.replicas.distinct(),
}


def with_invariants(history: pa.Table) -> pa.Table:
    """partition_history (COLUMNS) without removed rows: the columns SCALARS, and a boolean column for each entry of
    INVARIANTS."""
    live = history.filter(pc.invert(pc.fill_null(history["removed"], False)))
    rows = _Rows(live)
    checked = {name: pa.array(holds(rows)) for name, holds in INVARIANTS.items()}
    return pa.table({**{name: live[name] for name in SCALARS}, **checked})
