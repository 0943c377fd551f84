"""How brokers went away: what is recorded, what is deduced, and what stays unknown."""

from typing import Any

import pytest

from replay.cluster.boots import BootReading
from replay.incident.departures import GONE, KILLED, PAUSED, REBOOTED, STOPPED, UNREGISTERED, Departure, departures
from replay.incident.node_logs import NodeLogs
from tests.support.report_rows import START_MS
from tests.unit.replay.incident.test_causes import session

UP = session(3, 20, 20)
FENCED = session(3, 110, 110, fenced=True)
ASKED = session(3, 110, 110, in_controlled_shutdown=True)


def next_process(offset: int = 125, restart: str = "unclean", **values: Any) -> dict[str, Any]:
    return session(3, offset, offset, offset, fenced=True, restart_class=restart, **values)


def only(*rows: dict[str, Any], boots: tuple[str, ...] = (), booted_s: int | None = None) -> Departure:
    times = (START_MS + 5_000, START_MS + 60_000)
    booted_ms = None if booted_s is None else START_MS + booted_s * 1000
    readings = [BootReading(boot, at, at, booted_ms) for boot, at in zip(boots, times, strict=False)]
    (found,) = departures(rows, NodeLogs(boots={3: readings}))
    return found


@pytest.mark.parametrize(
    ("rows", "way", "deduced"),
    [
        ([UP, ASKED], STOPPED, False),
        ([UP, ASKED, session(3, 111, 111, fenced=True), next_process()], STOPPED, False),
        ([UP, FENCED, next_process(restart="clean")], STOPPED, True),
        ([UP, FENCED, next_process(restart="unclean")], KILLED, True),
        ([UP, FENCED, next_process(restart="unknown")], GONE, False),
        ([UP, FENCED], GONE, False),
        ([UP, session(3, 110, 110, incarnation_id=None, fenced=None)], UNREGISTERED, False),
        ([UP, next_process(restart="unclean")], KILLED, True),
    ],
)
def test_a_way_is_recorded_or_follows_from_the_next_start(rows: list[dict[str, Any]], way: str, deduced: bool) -> None:
    found = only(*rows)
    assert (found.way, found.deduced) == (way, deduced)


def test_a_process_that_came_back_was_not_killed_whatever_became_of_it_later() -> None:
    rows = [UP, FENCED, session(3, 112, 112), session(3, 118, 118, fenced=True), next_process()]
    paused, killed = departures(rows)
    assert (paused.way, paused.deduced, killed.way) == (PAUSED, False, KILLED)
    assert paused.text == (
        "Broker 3 was fenced at 2023-11-14 22:13:30 UTC (metadata offset 110); the same process was active again at "
        "metadata offset 112."
    )


def test_only_two_boot_ids_around_it_show_that_the_machine_started_again() -> None:
    rows = [UP, FENCED, next_process()]
    assert only(*rows, boots=("a", "b")).way == REBOOTED
    assert only(*rows, boots=("a", "a")).way == only(*rows, boots=("a",)).way == KILLED
    assert "its machine did not start again" in only(*rows, boots=("a", "a")).text
    assert only(UP, ASKED, next_process(), boots=("a", "b")).way == STOPPED  # it had asked: that is recorded
    # It was there again 25 s after the start of the log.
    assert [only(*rows, boots=("a", "b"), booted_s=at).way for at in (25, 26)] == [REBOOTED, KILLED]


@pytest.mark.parametrize(("found", "way"), [("unclean", KILLED), ("clean", STOPPED)])
def test_what_the_next_start_logged_shows_how_the_last_process_ended(found: str, way: str) -> None:
    start = {"unclean_directories": [], "clean_directories": [], "load_ms": None} | {f"{found}_directories": ["/data"]}
    logs = NodeLogs(starts={(3, 125): start})
    (event,) = departures([UP, FENCED, next_process(restart="unknown")], logs)
    assert (event.way, event.deduced) == (way, True)
    assert only(UP, FENCED, next_process(restart="unknown")).way == GONE


@pytest.mark.parametrize(("before", "after"), [(["a"], ["b", "a"]), (["a", "b"], ["a"])])
def test_with_other_directories_a_start_counts_as_unclean_however_the_process_ended(
    before: list[str], after: list[str]
) -> None:
    """LogManager.readBrokerEpochFromCleanShutdownFiles: each directory must have its file, and none may have failed."""
    rows = [{**UP, "log_dirs": before}, {**FENCED, "log_dirs": before}, next_process(log_dirs=after)]
    start = {"unclean_directories": ["/b"], "clean_directories": ["/a"], "load_ms": None}
    assert only(*rows).way == GONE
    assert departures(rows, NodeLogs(starts={(3, 125): start}))[0].way == STOPPED


def test_a_new_process_within_the_session_of_the_last_one_went_unnoticed() -> None:
    assert only(UP, next_process()).unnoticed
    assert not only(UP, FENCED, next_process()).unnoticed


def test_brokers_are_kept_apart() -> None:
    rows = [UP, session(4, 21, 21), FENCED, session(4, 112, 112, 112, fenced=True, restart_class="clean")]
    assert [(each.broker_id, each.way) for each in departures(rows)] == [(3, GONE), (4, STOPPED)]
