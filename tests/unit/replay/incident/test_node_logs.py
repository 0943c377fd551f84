"""What the chain of causes takes from nodes' own logs."""

from __future__ import annotations

from typing import Any

import pytest

from replay.incident.node_logs import EVENTS, NodeLogs, node_logs
from tests.support.report_rows import START_MS, state
from tests.unit.replay.incident.test_causes import lines

Row = dict[str, Any]

# In test_causes broker 2 asks for a controlled shutdown at second 4, and broker 3 is fenced at second 11.
FENCED_MS = START_MS + 11_000


def line(node: int, kind: str, at_ms: int | None, **values: Any) -> Row:
    times = {"logged_at_ms": at_ms, "logged_at_utc_ms": at_ms}
    return {**dict.fromkeys(EVENTS), "node_id": node, "kind": kind, **times, **values}


def of(*events: Row, starts: tuple[Row, ...] = ()) -> NodeLogs:
    return node_logs(events, starts, {})


def boot(node: int, epoch: int, unclean: list[str], load_ms: int | None = 318) -> Row:
    clean = [] if unclean else ["/data"]
    known = {"unclean_directories": unclean, "clean_directories": clean, "load_ms": load_ms}
    return {"node_id": node, "broker_epoch": epoch, **known}


def test_why_a_broker_went_away_and_what_its_next_start_found() -> None:
    full = line(3, "disk_error", FENCED_MS - 9_000, detail="No space left on device")
    fenced = line(3000, "broker_fenced", FENCED_MS, broker_id=3, broker_epoch=20)
    went = lines(logs=of(full, full, fenced, starts=(boot(3, 124, ["/data"]),)))["Went away"]
    assert went.endswith(
        "was treated as unclean. Controller 3000 logged that its session timed out. Around that time broker 3 logged a "
        "disk error (No space left on device) at 2023-11-14 22:13:22 UTC. Broker 3 logged at that start that it found "
        "no clean shutdown file in /data, and loading its logs took 318 ms."
    )


@pytest.mark.parametrize(
    "given",
    [
        # Of another broker or session, from long before or after, and at a time that is not known.
        line(1, "out_of_memory", FENCED_MS),
        line(3, "out_of_memory", FENCED_MS - 61_000),
        line(3, "out_of_memory", FENCED_MS + 6_000),
        line(3, "out_of_memory", None),
        line(3000, "broker_fenced", FENCED_MS, broker_id=3, broker_epoch=19),
        # 3.9 prints no epoch.
        line(3000, "broker_fenced", FENCED_MS, broker_id=3),
        # A controlled shutdown ends with a session that times out: that is not why.
        line(3000, "broker_fenced", START_MS + 9_000, broker_id=2, broker_epoch=20),
        line(3, "fetch_failed", FENCED_MS, leader=2),
    ],
)
def test_lines_of_other_brokers_sessions_or_times_are_not_named(given: Row) -> None:
    assert lines(logs=of(given)) == lines()


def test_a_start_that_said_nothing_of_its_directories_is_not_named() -> None:
    nothing = {**boot(3, 124, []), "clean_directories": []}
    assert lines(logs=of(starts=(nothing, boot(3, 125, ["/data"])))) == lines()
    assert "found a clean shutdown file." in lines(logs=of(starts=(boot(3, 124, [], None),)))["Went away"]


def test_why_a_follower_left_the_isr() -> None:
    late = {"broker_id": 2, "log_end_offset": 57, "last_caught_up_ms": START_MS - 30_000}
    shrinking = line(
        3,
        "isr_shrinking",
        START_MS + 4_500,
        topic="ledger",
        partition=0,
        previous_isr=[2, 3],
        isr=[3],
        log_end_offset=60,
        out_of_sync=[late],
    )
    failed = [line(2, "fetch_failed", START_MS + ms, leader=3) for ms in (1_000, 2_000)]
    shrank = lines(logs=of(shrinking, *failed))["Shrank the ISR"]
    assert (
        "(leader 3 logged that broker 2 was at offset 57 of 60, and had last caught up at 2023-11-14 22:12:50 UTC; "
        "broker 2 logged 2 failed fetches from 3 before that)" in shrank
    )
    other = [{**shrinking, **change} for change in ({"partition": 1}, {"isr": [2]}, {"previous_isr": [1, 3]})]
    assert "logged" not in lines(logs=of(*other))["Shrank the ISR"]


def test_a_departure_without_a_time_has_no_lines() -> None:
    logs = of(line(3, "out_of_memory", FENCED_MS))
    assert logs.departure(3, None, None) == ""
    assert logs.smaller_isr(("ledger", 0), state(1, 3, [3, 2]), {**state(2, 3, [3]), "timestamp_ms": None}) == ""
