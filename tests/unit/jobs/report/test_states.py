"""The states of a partition that the page shows: around its window, in a table."""

from __future__ import annotations

from pathlib import Path

from jobs.report.load import load_report
from jobs.report.page import render_report
from jobs.report.rows import MAX_STATES
from tests.support.report_page import Page
from tests.support.report_rows import finding, lake_of, state

HISTORY = [state(offset, 3, [3]) for offset in range(1000)]


def test_a_long_history_shows_the_states_around_each_window(tmp_path: Path) -> None:
    windows = {
        "a": (500, 510, 505, 476),
        "b": (0, 5, 3, 0),
        "c": (995, None, 996, 940),
        "d": (100, 900, 101, 90),
        "e": (100, 900, 800, 770),
        "f": (None, 900, None, 0),
    }
    rows = [
        finding(name, start_offset=start, end_offset=end, election_offset=election)
        for name, (start, end, election, _) in windows.items()
    ]
    loaded = load_report(lake_of(tmp_path, "c", findings=rows, partition_history=HISTORY), "c")
    html = render_report(loaded)
    text = Page(html).text
    for name, (start, _, election, before) in windows.items():
        near = loaded["page"]["states"][name]
        shown = [each for each in near if each["shown"]]
        assert [each["place"] for each in shown] == [*range(before, before + MAX_STATES)]
        assert {each["total"] for each in near} == {1000}
        assert election in {None, *(each["offset"] for each in shown)}
        assert start in {None, *(each["offset"] for each in near)}
        assert f"{before} earlier and {1000 - before - MAX_STATES} later states are not shown" in text
    assert text.count(f"{MAX_STATES} states of this partition") == len(windows)
    assert html.count("<dt>Min ISR</dt>") == len(windows) - 1  # of the last one the state before is not known
