"""Where the log is known to be incomplete: findings and snapshots say so."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from quality.columns import Array, Tables

# Rules of findings from whose offset on the state is unknown until the next snapshot.
GAPS = ("offset_gap", "unreadable_record", "no_snapshot", "unknown_prefix", "log_conflict")
HOLES = {"findings": ("rule", "start_offset"), "quorum_history": ("offset", "origin")}
_END = np.iinfo(np.int64).max


class Holes:
    """Ranges of metadata offsets of which nothing is known."""

    def __init__(self, tables: Tables) -> None:
        findings, quorum = tables["findings"], tables["quorum_history"]
        gaps = findings.ints("start_offset")[findings.in_set("rule", GAPS)]
        self._starts = sorted(set(gaps.tolist()))
        offsets = quorum.ints("offset")
        self._bases = sorted(offsets[quorum.in_set("origin", ("checkpoint",))].tolist())
        self._conflict = bool(findings.in_set("rule", ("log_conflict",)).any())
        self._begin = int(offsets.min(initial=_END))

    def explain(self, offset: int) -> bool:
        """Whether nothing is known of this offset: it is before the history, or between a hole and a snapshot."""
        return bool(self.cover(np.array([offset]))[0])

    def cover(self, offsets: Array) -> Array:
        """`explain` for each offset."""
        found = (offsets < self._begin) | self._conflict
        for start in self._starts:
            after = bisect_right(self._bases, start)
            end = self._bases[after] if after < len(self._bases) else _END
            found |= (offsets >= start) & (offsets <= end)
        return found
