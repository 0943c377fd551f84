"""The timeline of the incident: lanes, marks to scale, what is bounded."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from jobs.incident.events import IncidentEvents
from jobs.report.page import render_report
from jobs.report.timeline import MOST_WINDOW_LANES, timeline_of
from tests.support.report_page import Page
from tests.support.report_rows import events, finding, history, placed, report


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
