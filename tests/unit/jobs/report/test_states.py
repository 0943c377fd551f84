"""The states of a partition that the page shows: around its window, in a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.report.load import load_report
from jobs.report.page import render_report
from jobs.report.rows import MAX_STATES
from tests.support.report_page import Page
from tests.support.report_rows import events, finding, history, lake_of, placed, report, state

HISTORY = [state(offset, 3, [3]) for offset in range(1000)]


@pytest.mark.parametrize(
    ("window", "election", "before"),
    [
        ((500, 510), 505, 476),
        ((0, 5), 3, 0),
        ((995, None), 996, 940),
        ((100, 900), 101, 90),
        ((100, 900), 800, 770),
        ((None, 900), None, 0),
    ],
)
def test_a_long_history_shows_the_states_around_the_window(
    tmp_path: Path, window: tuple[int | None, int | None], election: int | None, before: int
) -> None:
    one = finding(start_offset=window[0], end_offset=window[1], election_offset=election)
    loaded = load_report(lake_of(tmp_path, "c", findings=[one], partition_history=HISTORY), "c")
    near = loaded.states["hwm-1"]
    shown = [each for each in near if each["shown"]]
    assert [each["place"] for each in shown] == [*range(before, before + MAX_STATES)]
    assert {each["total"] for each in near} == {1000}
    assert election in {None, *(each["offset"] for each in shown)}
    assert window[0] in {None, *(each["offset"] for each in near)}
    html = render_report(loaded)
    page = Page(html)
    assert f"{MAX_STATES} states of this partition" in page.text
    assert f"{before} earlier and {1000 - before - MAX_STATES} later states are not shown" in page.text
    assert ("<dt>Min ISR</dt>" in html) is (window[0] is not None)


def test_a_short_history_is_shown_whole(tmp_path: Path) -> None:
    rows = [finding(), finding("other", topic_id="none", partition=1)]
    loaded = load_report(lake_of(tmp_path, "c", findings=rows, partition_history=history()), "c")
    found = {key: [(each["offset"], each["shown"]) for each in states] for key, states in loaded.states.items()}
    assert found == {"hwm-1": [(100, True), (110, True), (120, True), (130, True)]}


def test_a_removed_topic_and_unknown_values_are_shown() -> None:
    gone = state(140, -1, [], removed=True) | dict.fromkeys(
        ("replicas", "isr", "elr", "leader", "leader_epoch", "timestamp_ms", "leader_recovery_state")
    )
    hidden = state(135, -1, []) | {"isr": None, "leader": None, "leader_epoch": None}
    states = placed([*history(), hidden, gone])
    page = Page(render_report(report([finding()], states, events=events([finding()]))))
    assert "topic removed" in page.text
    assert [page.of_class("rect", name) for name in ("strip", "unknown", "leaderless")] == [5, 1, 1]


def test_a_window_without_history_has_a_section_too() -> None:
    page = Page(render_report(report([finding()], states=[])))
    assert "This finding has no partition history." in page.text
