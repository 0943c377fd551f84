"""How far a node's clock is ahead of this machine's, from answers to "what time is it". Pure arithmetic.

A node that answers `time` to a question that was sent at `asked` and answered by `answered` read its clock in between.
So the difference lies between time - answered and time + granularity - asked: the smaller the round trip, the closer.
Ranges of several answers hold at once, if no clock was set meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

_ANSWER = re.compile(r"(?P<seconds>[0-9]{9,11})(?P<nanos>[0-9]{9})?\D{0,4}")
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A node's time, with the times of this machine before the question and after the answer; ns since the epoch.
    granularity_ns: 1, or a second where the node's `date` prints no fraction."""

    asked_ns: int
    time_ns: int
    answered_ns: int
    granularity_ns: int = 1

    @property
    def range_ns(self) -> tuple[int, int]:
        """The least and the greatest difference: node's clock minus this machine's."""
        return self.time_ns - self.answered_ns, self.time_ns + self.granularity_ns - self.asked_ns


@dataclass(frozen=True, slots=True)
class Offset:
    """The node's clock minus this machine's, and by how much that may be wrong; in ms."""

    offset_ms: int
    error_ms: int

    @property
    def largest_ms(self) -> int:
        """The largest possible difference of the two clocks."""
        return abs(self.offset_ms) + self.error_ms


def parse_time(text: str) -> tuple[int, int] | None:
    """(ns since the epoch, granularity in ns) of what `date +%s%N` printed; a `date` that does not know %N prints the
    seconds and perhaps a letter. None for anything else."""
    found = _ANSWER.fullmatch(text)
    if found is None:
        return None
    if found["nanos"]:
        return int(found["seconds"]) * _SECOND + int(found["nanos"]), 1
    return int(found["seconds"]) * _SECOND, _SECOND


def common_range(answers: Sequence[ClockReading]) -> tuple[int, int]:
    """The range (ns) of the difference that all answers allow; that of the quickest answer if they contradict each
    other (a clock that is being adjusted)."""
    ranges = [answer.range_ns for answer in answers]
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    return (low, high) if low <= high else min(ranges, key=lambda r: r[1] - r[0])


def offset_of(answers: Sequence[ClockReading]) -> Offset | None:
    """The middle of the common range, and half its width rounded up; None without answers."""
    if not answers:
        return None
    low, high = common_range(answers)
    middle = round((low + high) / 2 / 1e6)
    return Offset(middle, ceil(max(high / 1e6 - middle, middle - low / 1e6)))


def wait_before_next_s(answers: Sequence[ClockReading], now_ns: int) -> float:
    """How long to wait before the next question. 0 if the node prints fractions; else until the middle of the range
    puts the node's clock at the turn of a second: each answer then halves the range."""
    if not answers or answers[-1].granularity_ns == 1:
        return 0.0
    low, high = common_range(answers)
    return (-(now_ns + (low + high) // 2) % _SECOND) / 1e9
