"""The timeline of the incident: lanes, marks to scale, what is bounded."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from jobs.incident.events import IncidentEvents
from jobs.report.page import render_report
from jobs.report.timeline import MOST_WINDOW_LANES, timeline_of
from replay.incident.departures import GONE, KILLED, PAUSED, REBOOTED, STOPPED, UNREGISTERED, Departure
from tests.support.report_page import Page
from tests.support.report_rows import START_MS, events, finding, history, placed, report, state


def drawn(of: IncidentEvents, states: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    near = {"ledger-0": ("hwm-1", placed(states))} if states else {}
    timeline = timeline_of(of, {"hwm-1": "f-hwm-1"}, near)
    assert timeline is not None
    return timeline


def lanes(timeline: dict[str, Any]) -> dict[str, str]:
    return {lane["name"]: str(lane["drawing"]) for _, found in timeline["groups"] for lane in found}


def texts(drawing: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<title>(.*?)</title>", drawing, re.DOTALL)]


def names(drawing: str) -> list[str]:
    return [text.partition("\n")[0] for text in texts(drawing)]


def facts(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.split("\n")[1:])


def test_many_partitions_share_the_lanes_of_their_topics_the_worst_first() -> None:
    windows = [finding(f"w{n}", partition=n, topic=f"t{n % 40:02}", verdict="possible") for n in range(80)]
    windows.append(finding("lost", partition=1, topic="t39"))
    shown = [name for name in lanes(drawn(events(windows))) if name.startswith("t") or "more" in name]
    assert len(shown) == MOST_WINDOW_LANES
    assert shown[:2] == ["t39", "t00"]
    assert shown[-1] == "11 more topics"


@pytest.mark.parametrize("time_ms", [-5, 2**62])
def test_times_of_damaged_records_are_drawn_within_the_lane(time_ms: int) -> None:
    found = lanes(drawn(replace(events([finding()]), windows=[finding(end_timestamp_ms=time_ms)])))
    for x, width in re.findall(r'x="([-\d.]+)" y="\d+" width="([-\d.]+)"', "".join(found.values())):
        assert -20 <= float(x) <= 1020
        assert 0 < float(width) <= 1040


def test_no_known_time_gives_no_timeline() -> None:
    assert timeline_of(IncidentEvents(), {}, {}) is None
    assert Page(render_report(report([finding()]))).of_class("div", "lane") == 0


def test_a_changed_setting_and_an_election_by_an_administrator_have_marks_of_their_own() -> None:
    change = {"offset": 7, "timestamp_ms": START_MS + 9000, "resource_type": "topic", "resource_name": "ledger"}
    change |= {"name": "min.insync.replicas", "before": "2", "value": None}
    everywhere = change | {"resource_type": "broker", "resource_name": "", "before": None, "value": "1"}
    given = events([finding()])
    forced = [row | {"cause": "unclean_by_administrator"} for row in given.elections]
    found = lanes(drawn(replace(given, configs=[change, everywhere], elections=forced)))
    assert 'class="tick unclean forced"' in found["elections"]
    assert names(found["changed"]) == [
        "config min.insync.replicas of topic ledger: 2 to not set",
        "config min.insync.replicas of all brokers: not set to 1",
    ]
    assert facts(texts(found["changed"])[0]) == {"At": "2023-11-14 22:13:29.000", "Metadata offset": "7"}


@pytest.mark.parametrize(
    ("values", "estimate"),
    [({}, False), ({"loss_max": 75}, True), ({"verdict": "possible"}, True), ({"verdict": "excluded"}, False)],
)
def test_a_window_whose_loss_is_bounded_is_an_estimate(values: dict[str, Any], estimate: bool) -> None:
    drawing = lanes(drawn(events([finding(**values)])))["ledger-0"]
    assert ('data-n="estimate"' in drawing) is estimate


def departure(way: str, deduced: bool) -> IncidentEvents:
    gone = Departure(3, 105, START_MS + 10_000, way, deduced, unnoticed=False, text="Broker 3 was fenced.")
    return replace(events([finding()]), departures=[gone, replace(gone, broker_id=4)])


@pytest.mark.parametrize(
    ("way", "deduced", "look", "name"),
    [
        (STOPPED, False, "stop", "stop: broker 3"),
        (STOPPED, True, "stop", "stop (deduced): broker 3"),
        (KILLED, True, "kill", "kill or crash (deduced): broker 3"),
        (REBOOTED, True, "power", "power loss or reboot (deduced): broker 3"),
        (PAUSED, False, "gone", "away for a while: broker 3"),
        (UNREGISTERED, False, "stop", "unregistered: broker 3"),
        (GONE, False, "gone", "went away, not known how: broker 3"),
    ],
)
def test_a_departure_has_a_mark_that_says_whether_it_is_deduced(way: str, deduced: bool, look: str, name: str) -> None:
    lane = lanes(drawn(departure(way, deduced)))["broker 3"]
    (mark,) = re.findall(r"<a [^>]*><rect class=\"dot.*?</a>", lane, re.DOTALL)
    assert mark.startswith(f'<a href="#broker-3" tabindex="-1"><rect class="dot {look}" x="115.38"')
    assert names(mark) == [name]
    known = facts(texts(mark)[0])
    assert known["Recorded"] == "Broker 3 was fenced."
    assert ("Deduced" in known) is ('data-n="estimate"' in mark) is deduced
    assert 'data-o="105"' in mark


def test_the_states_of_a_partition_are_in_the_lane_of_its_windows() -> None:
    hole = [*history(), state(140, 1, [1, 3, 2])]
    lane = lanes(drawn(events([finding()]), hole))["ledger-0"]
    strips = re.findall(r'class="strip (\w+)".*?data-s="(\d+)" data-e="(\d+)"', lane)
    assert strips == [
        ("up", "0", "10000"),
        ("leaderless", "10000", "20000"),
        ("few", "20000", "30000"),
        ("up", "30000", "40000"),
        ("up", "40000", "60000"),  # to the end of the log
    ]
    assert lane.count('<a href="#f-hwm-1"') == 6
    assert lane.count('id="t-hwm-1"') == 1
    assert facts(texts(lane)[1]) | {"ISR": "[]", "ELR": "[3]", "Metadata offset": "110"} == facts(texts(lane)[1])


def test_a_state_whose_next_one_is_not_known_has_no_length() -> None:
    first, second = placed(history()[:1], total=9), placed(history()[2:3], before=2, total=9)
    timeline = timeline_of(events([finding()]), {}, {"ledger-0": ("hwm-1", [*first, *second])})
    assert timeline is not None
    assert re.findall(r'class="strip.*?data-s="(\d+)" data-e="(\d+)"', lanes(timeline)["ledger-0"]) == [
        ("0", "0"),
        ("20000", "20000"),
    ]
