"""Invariants of a partition's state as boolean arrays, which the expectations require to be true.

Names and meanings are those of replay.invariants.catalogue.INVARIANTS and docs/invariants.md. This module has those
that can be checked on a single row; the catalogue has all, with where each was broken and for how long.

Sources: KIP-966 (ELR and ISR are disjoint; a non-empty ELR means |ISR| < min ISR), KIP-704 (a RECOVERING leader has an
ISR of one), PartitionRegistration (leader in ISR; directories match replicas).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quality.columns import Array, Lists

# What the invariants read.
COLUMNS = (
    *("topic_id", "partition", "removed", "leader", "leader_recovery_state", "min_isr", "min_isr_source"),
    *("replicas", "isr", "elr", "last_known_elr", "directories"),
)


class States:
    """Rows of partition_history that are not removals."""

    def __init__(self, history: pa.Table) -> None:
        self.replicas, self.isr, self.elr = (Lists(history[name]) for name in ("replicas", "isr", "elr"))
        self.last_known_elr = Lists(history["last_known_elr"])
        self.directories: Array = pc.fill_null(pc.list_value_length(history["directories"]), 0).to_numpy()
        self.leader: Array = pc.fill_null(history["leader"], -1).to_numpy()
        self.min_isr: Array = pc.fill_null(history["min_isr"], 0).to_numpy()
        self.assumed: Array = _is(history["min_isr_source"], "assumed_default")
        self.recovering: Array = _is(history["leader_recovery_state"], "RECOVERING")


def _is(column: pa.ChunkedArray, value: str) -> Array:
    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    found: Array = pc.fill_null(pc.equal(plain, value), False).to_numpy().astype(bool)
    return found


INVARIANTS: dict[str, Callable[[States], Array]] = {
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
