"""The states of a partition that the page shows: around its window, in a table."""

from __future__ import annotations

import pytest

from jobs.report.page import render_report
from jobs.report.sections import MAX_STATES, around_window
from tests.support.report_page import Page
from tests.support.report_rows import TOPIC_ID, events, finding, history, placed, report, state


@pytest.mark.parametrize(
    ("window", "election", "before"),
    [((500, 510), 505, 476), ((0, 5), 3, 0), ((995, None), 996, 940), ((100, 900), 101, 90), ((100, 900), 800, 770)],
)
def test_a_long_history_shows_the_states_around_the_window(
    window: tuple[int, int | None], election: int, before: int
) -> None:
    states = placed([state(offset, 3, [3]) for offset in range(1000)])
    one = finding(start_offset=window[0], end_offset=window[1], election_offset=election)
    span = around_window(states, one)
    assert (span.before, span.after) == (before, 1000 - before - MAX_STATES)
    assert any(each["offset"] == election for each in span.states)
    page = Page(render_report(report([one], timelines={(TOPIC_ID, 0): states})))
    assert f"{MAX_STATES} states of this partition" in page.text
    assert f"{span.before} earlier and {span.after} later states are not shown" in page.text


@pytest.mark.parametrize("window", [(500, 510, 505), (0, 5, 3), (995, None, 996), (100, 900, 800), (None, 900, None)])
def test_the_states_near_a_window_are_enough_for_its_timeline(
    window: tuple[int | None, int | None, int | None],
) -> None:
    start, end, election = window
    one = finding(start_offset=start, end_offset=end, election_offset=election)
    states = placed([state(offset, 3, [3]) for offset in range(1000)])
    middles = [each or 0 for each in (start, election)]
    near = [each for each in states if any(abs(each["place"] - middle) <= MAX_STATES for middle in middles)]
    assert around_window(near, one) == around_window(states, one)


def test_a_removed_topic_and_unknown_values_are_shown() -> None:
    gone = state(140, -1, [], removed=True) | dict.fromkeys(
        ("replicas", "isr", "elr", "leader", "leader_epoch", "timestamp_ms", "leader_recovery_state")
    )
    hidden = state(135, -1, []) | {"isr": None, "leader": None, "leader_epoch": None}
    states = placed([*history(), hidden, gone])
    page = Page(render_report(report([finding()], timelines={(TOPIC_ID, 0): states}, events=events([finding()]))))
    assert "topic removed" in page.text
    assert [page.of_class("rect", name) for name in ("strip", "unknown", "leaderless")] == [5, 1, 1]


def test_a_window_without_history_has_a_section_too() -> None:
    page = Page(render_report(report([finding()], timelines={})))
    assert "This finding has no partition history." in page.text
