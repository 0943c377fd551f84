"""How far a node's clock is ahead, from questions and answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.collect.session import ClockReading, Offset, offset_of, parse_time, wait_before_next_s

SECOND = 1_000_000_000
MS = 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1795372099191123456", (1795372099191123456, 1)),
        ("1795372099", (1795372099 * SECOND, SECOND)),
        ("1795372099N", (1795372099 * SECOND, SECOND)),
        ("1795372099%N", (1795372099 * SECOND, SECOND)),
        ("", None),
        ("date: invalid", None),
        ("17953720991911", None),
    ],
)
def test_what_date_prints(text: str, expected: tuple[int, int] | None) -> None:
    assert parse_time(text) == expected


def test_the_quickest_answer_decides() -> None:
    slow, quick = ClockReading(0, 700 * MS, 400 * MS), ClockReading(1000 * MS, 1502 * MS, 1004 * MS)
    assert offset_of([slow]) == Offset(500, 201)
    assert offset_of([slow, quick]) == Offset(500, 3)
    assert offset_of([]) is None


def test_answers_that_contradict_each_other_leave_the_quickest() -> None:
    assert offset_of([ClockReading(0, 10 * MS, 2 * MS), ClockReading(0, 900 * MS, 20 * MS)]) == Offset(9, 2)


@given(
    offset=st.integers(-(10**15), 10**15),
    trips=st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**10)), min_size=1, max_size=9
    ),
    granularity=st.sampled_from([1, SECOND]),
)
def test_the_truth_is_within_the_error(offset: int, trips: list[tuple[int, int, int]], granularity: int) -> None:
    now = 1_795_372_099 * SECOND
    answers = []
    for there, back, pause in trips:
        now += pause
        time = (now + there + offset) // granularity * granularity
        answers.append(ClockReading(now, time, now + there + back, granularity))
        now += there + back
    found = offset_of(answers)
    assert found is not None
    assert abs(found.offset_ms * MS - offset) <= found.error_ms * MS


def test_a_clock_of_whole_seconds_is_asked_at_the_turn_of_a_second() -> None:
    offset, now, answers = 123_456_789_012, 1_795_372_099 * SECOND, []
    for _ in range(8):
        now += int(wait_before_next_s(answers, now) * 1e9)
        asked = now
        now += 2 * MS
        answers.append(ClockReading(asked, (now - MS + offset) // SECOND * SECOND, now, SECOND))
    found = offset_of(answers)
    assert found is not None
    assert found.error_ms <= 12
    assert abs(found.offset_ms - offset // MS) <= found.error_ms
