"""Choose the states of a partition that the page shows. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]

MAX_STATES = 60
CONTEXT_STATES = 10  # states to show before a window that is too long to show completely


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """The consecutive states that a detail shows, and the number of states before and after them."""

    states: Sequence[Row]
    before: int
    after: int


def around_window(history: Sequence[Row], finding: Row, limit: int = MAX_STATES) -> TimelineSpan:
    """At most `limit` consecutive states, with the window in the middle; the election is always included.

    history: sorted by offset, each state with `place` and `total` (jobs.report.rows.ReportInput); only the states
    within `limit` places of the window's start and of its election are needed.
    """
    total = history[0]["total"] if history else 0
    if total <= limit:
        return TimelineSpan(history, 0, 0)
    first, election = (_place(history, finding[name]) for name in ("start_offset", "election_offset"))
    election = first if finding["election_offset"] is None else election
    last = total - 1 if finding["end_offset"] is None else _place(history, finding["end_offset"])
    length = last - first + 1
    begin = first - (limit - length) // 2 if length <= limit else first - CONTEXT_STATES
    if not begin <= election < begin + limit:
        begin = election - limit // 2
    begin = max(0, min(begin, total - limit))
    shown = [state for state in history if begin <= state["place"] < begin + limit]
    return TimelineSpan(shown, begin, total - begin - limit)


def _place(history: Sequence[Row], offset: int | None) -> int:
    """The `place` of the state that is valid after the record at `offset`; 0 for null."""
    index = state_at([state["offset"] for state in history], offset, default=0)
    return 0 if offset is None else int(history[index]["place"])


def state_at(offsets: Sequence[int], offset: int | None, *, default: int) -> int:
    """Index of the state that is valid after the record at `offset` (0 if before all); `default` for null."""
    return default if offset is None else max(0, bisect_right(offsets, offset) - 1)
