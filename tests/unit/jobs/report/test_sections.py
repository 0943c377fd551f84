"""Sections of the report, states around a window and the timeline: what each shows, and what is left out."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.incident.events import IncidentEvents
from jobs.report.load import load_report
from jobs.report.page import render_report
from jobs.report.rows import MAX_STATES
from jobs.report.timeline import MOST_WINDOW_LANES, timeline_of
from tests.support.report_page import Page, section_text
from tests.support.report_rows import (
    broken_rule,
    cut_log,
    events,
    exposure,
    fault,
    finding,
    history,
    lake_of,
    placed,
    prediction,
    report,
    state,
)


def test_a_fault_of_the_log_is_not_a_window_and_claims_no_loss() -> None:
    parted = fault("f-1", kind="controller_divergence", verdict="proven", explanation="Logs part.", reason=None)
    html = render_report(report([parted, fault("f-2")]))
    page = Page(html)
    assert "No window was flagged in this evidence." in page.text
    for text in ("controller_ divergence", "Logs part.", "offset_ gap", "offsets 40 to 49 are in", "whole cluster"):
        assert text in section_text(html, "faults")
    assert "proven loss" not in page.text.lower()
    both = Page(render_report(report([parted, finding()])))
    assert "LOST: exactly 70 acknowledged records of ledger-0" in both.text


def test_only_windows_count_in_the_verdicts() -> None:
    rows = [prediction("a"), exposure("b"), cut_log("c"), broken_rule("d"), fault("e")]
    html = render_report(report([finding(verdict="possible", loss_min=0, loss_max=None), *rows]))
    cards = [(name, count) for count, name in re.findall(r'<strong>(\d+)</strong> <span class="badge (\w+)">', html)]
    assert dict(cards) == {"proven": "0", "possible": "1", "undetermined": "0", "excluded": "0"}
    assert "MAY HAVE LOST records of ledger-0" in html
    assert "LOST:" not in html


def test_excluded_findings_are_listed_separately_without_a_section() -> None:
    findings = [finding(f"ok-{number}", verdict="excluded", loss_min=0, loss_max=0) for number in range(300)]
    page = Page(render_report(report(findings)))
    assert "no window was flagged" in page.text
    assert "300 windows examined and excluded" in page.text
    assert page.of_class("details", "excluded-list") == 1
    assert "article" not in page.tags()


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


def lanes(timeline: dict[str, Any]) -> dict[str, str]:
    return {lane["name"]: str(lane["drawing"]) for _, found in timeline["groups"] for lane in found}


def test_many_partitions_share_the_lanes_of_their_topics_the_worst_first() -> None:
    windows = [finding(f"w{n}", partition=n, topic=f"t{n % 40:02}", verdict="possible") for n in range(80)]
    windows.append(finding("lost", partition=1, topic="t39"))
    shown = [name for name in lanes(timeline_of(events(windows), {}, {})) if name.startswith("t") or "more" in name]
    assert len(shown) == MOST_WINDOW_LANES
    assert shown[:2] == ["t39", "t00"]
    assert shown[-1] == "11 more topics"


@pytest.mark.parametrize("time_ms", [-5, 2**62])
def test_times_of_damaged_records_are_drawn_within_the_lane(time_ms: int) -> None:
    found = lanes(timeline_of(replace(events([finding()]), windows=[finding(end_timestamp_ms=time_ms)]), {}, {}))
    for x, width in re.findall(r'x="([-\d.]+)" y="\d+" width="([-\d.]+)"', "".join(found.values())):
        assert -20 <= float(x) <= 1020
        assert 0 < float(width) <= 1040


def test_no_known_time_gives_no_timeline() -> None:
    assert timeline_of(IncidentEvents(), {}, {}) is None
    assert Page(render_report(report([finding()]))).of_class("div", "lane") == 0


def test_a_state_whose_next_one_is_not_known_has_no_length() -> None:
    first, second = placed(history()[:1], total=9), placed(history()[2:3], before=2, total=9)
    timeline = timeline_of(events([finding()]), {}, {"ledger-0": ("hwm-1", [*first, *second])})
    assert re.findall(r'class="strip.*?data-s="(\d+)" data-e="(\d+)"', lanes(timeline)["ledger-0"]) == [
        ("0", "0"),
        ("20000", "20000"),
    ]
