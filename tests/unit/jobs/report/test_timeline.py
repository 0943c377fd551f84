"""The timeline of the incident: lanes, marks to scale, what is bounded."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from jobs.incident.events import Events
from jobs.report.page import render_report
from jobs.report.timeline import MOST_WINDOW_LANES, Timeline, timeline_of
from tests.support.report_page import Page
from tests.support.report_rows import START_MS, events, exposure, finding, report


def drawn(of: Events) -> Timeline:
    timeline = timeline_of(of, {"hwm-1": "f-hwm-1"})
    assert timeline is not None
    return timeline


def lanes(timeline: Timeline) -> dict[str, str]:
    return {lane.name: str(lane.drawing) for _, found in timeline.groups for lane in found}


def texts(drawing: str) -> list[str]:
    return re.findall(r"<title>(.*?)</title>", drawing)


def test_each_part_of_the_cluster_has_its_lane() -> None:
    timeline = drawn(events([finding(), exposure("e")]))
    assert [title for title, _ in timeline.groups] == [
        *("Controllers", "Brokers", "Elections", "Windows", "Other findings", "Evidence")
    ]
    found = lanes(timeline)
    assert list(found) == [
        *("controller 3000", "controller 3001", "broker 3", "elections", "ledger-0", "no leader", "captured")
    ]
    assert [text.split(",")[0] for text in texts(found["controller 3001"])] == [
        "active: controller 3001",
        "fail-over: controller 3000 to 3001",
    ]
    assert [text.partition(",")[0] for text in texts(found["broker 3"])] == [
        *("up: broker 3", "fenced: broker 3", "up: broker 3", "unclean restart: broker 3")
    ]
    assert texts(found["captured"])[0].startswith("captured: 2 files of nodes 1, 3, 2023-11-14 22:14:10.000")
    assert timeline.topics == ["ledger"]
    assert timeline.left_out == [
        "4 elections (within the ISR, or later ones)",
        "1 findings and elections without a known time",
    ]


def test_marks_are_to_scale_and_a_short_one_is_there() -> None:
    """The span is 26 s, from 7 s on; the window lasts from 10 s to 30 s."""
    drawing = lanes(drawn(events([finding()])))["ledger-0"]
    assert f'x="{3 * 1000 / 26:.2f}"' in drawing
    width = re.search(r'width="([\d.]+)"', drawing)
    assert width is not None
    assert float(width[1]) == pytest.approx(20 * 1000 / 26, abs=0.02)
    assert 'data-s="10000" data-e="30000"' in drawing
    short = lanes(drawn(events([finding(end_timestamp_ms=START_MS + 10_000)])))["ledger-0"]
    assert 'width="0.02"' in short
    never_closed = lanes(drawn(events([finding(end_offset=None, end_timestamp_ms=None)])))["ledger-0"]
    assert 'data-e="60000"' in never_closed  # the log's end


def test_a_window_and_its_election_link_to_the_finding() -> None:
    found = lanes(drawn(events([finding()])))
    assert '<a href="#f-hwm-1" tabindex="-1"><rect id="t-hwm-1"' in found["ledger-0"]
    assert '<a href="#f-hwm-1" tabindex="-1"><rect class="tick unclean"' in found["elections"]


def test_many_partitions_share_the_lanes_of_their_topics_the_worst_first() -> None:
    windows = [finding(f"w{n}", partition=n, topic=f"t{n % 40:02}", verdict="possible") for n in range(80)]
    windows.append(finding("lost", partition=1, topic="t39"))
    names = [name for name in lanes(drawn(events(windows))) if name.startswith("t") or "more" in name]
    assert len(names) == MOST_WINDOW_LANES
    assert names[:2] == ["t39", "t00"]
    assert names[-1] == "11 more topics"


@pytest.mark.parametrize("time_ms", [-5, 2**62])
def test_times_of_damaged_records_are_drawn_within_the_lane(time_ms: int) -> None:
    found = lanes(drawn(replace(events([finding()]), windows=[finding(end_timestamp_ms=time_ms)])))
    for x, width in re.findall(r'x="([-\d.]+)" y="\d+" width="([-\d.]+)"', "".join(found.values())):
        assert -20 <= float(x) <= 1020
        assert 0 < float(width) <= 1040


def test_no_known_time_gives_no_timeline() -> None:
    assert timeline_of(Events(), {}) is None
    assert Page(render_report(report([finding()]))).of_class("div", "lane") == 0


def test_windows_beyond_the_lists_have_a_place_on_the_page() -> None:
    windows = [finding(f"w{n:04}", partition=n) for n in range(310)]
    html = render_report(report(windows[:300], timelines={}, events=events(windows)))
    assert "10 further windows, in short" in html
    assert '<li id="f-w0309">' in html
    assert 'href="#f-w0309" tabindex="-1"><rect id="t-w0309"' in html


def test_a_changed_setting_and_an_election_by_an_administrator_have_marks_of_their_own() -> None:
    change = {"offset": 7, "timestamp_ms": START_MS + 9000, "resource_type": "topic", "resource_name": "ledger"}
    change |= {"name": "min.insync.replicas", "before": "2", "value": None}
    everywhere = change | {"resource_type": "broker", "resource_name": "", "before": None, "value": "1"}
    given = events([finding()])
    forced = [row | {"cause": "unclean_by_administrator"} for row in given.elections]
    found = lanes(drawn(replace(given, configs=[change, everywhere], elections=forced)))
    assert 'class="tick unclean forced"' in found["elections"]
    at = "2023-11-14 22:13:29.000, metadata offset 7"
    assert texts(found["changed"]) == [
        f"config min.insync.replicas of topic ledger: 2 to not set, {at}",
        f"config min.insync.replicas of all brokers: not set to 1, {at}",
    ]
