"""Each node's clock and zone, by records that its own lines name: on real clusters, and where bounds contradict."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import tables
from evidence.broker_logs.anchors import boots_in_utc, least_error_ms, node_clocks, with_utc
from evidence.broker_logs.read import BrokerLogTables, read_broker_logs
from evidence.capture.files import open_capture
from replay.arrow import schemas
from replay.cluster.broker_sessions import SESSION_EVIDENCE, broker_history
from tests.support.paths import capture
from tests.support.pure import decode, history_of
from tests.unit.evidence.accounting import FUZZ
from tests.unit.evidence.broker_logs.support import Row

HOUR, INDIA = 3_600_000, 19_800_000
ID, OTHER_ID = "W75btSJSTuq9rejrvBAZag", "AAzDrM2cS0uoU_if9yZ2Jg"


def events(*rows: Row) -> pa.Table:
    filled = [{"node_id": 1, "path": "p", "position": i, **row} for i, row in enumerate(rows)]
    return pa.Table.from_pylist(filled, schema=tables.BROKER_LOG_EVENTS)


def states(*rows: Row) -> pa.Table:
    base = {"topic_id": ID, "topic": "a", "partition": 0, "leader_epoch": 0, "isr": [1, 2], "origin": "log"}
    return pa.Table.from_pylist([{**base, **row} for row in rows], schema=schemas.PARTITION_HISTORY)


def registrations(*rows: Row) -> pa.Table:
    base = {"broker_id": 1, "broker_epoch": 19, "incarnation_id": ID, "in_controlled_shutdown": False, "origin": "log"}
    return pa.Table.from_pylist([{**base, **row} for row in rows], schema=schemas.BROKER_HISTORY)


def leader(epoch: int, partition_epoch: int, logged_at_ms: int, **more: object) -> Row:
    place = {"topic": "a", "partition": 0, "topic_id": ID, "leader_epoch": epoch, "partition_epoch": partition_epoch}
    return {"kind": "leader_started", **place, "logged_at_ms": logged_at_ms, **more}


def clocks(*args: object, **more: object) -> list[Row]:
    table = node_clocks(*args, **more)  # type: ignore[arg-type]
    assert table.schema.equals(tables.NODE_CLOCKS, check_metadata=True)
    return table.to_pylist()


def bounds(rows: list[Row]) -> list[tuple[int | None, int | None]]:
    return [(row["offset_lower_ms"], row["offset_upper_ms"]) for row in rows]


REGISTERED = (
    {"kind": "broker_starting", "incarnation_id": ID, "logged_at_ms": HOUR + 990},
    {"kind": "broker_registered", "broker_epoch": 19, "logged_at_ms": HOUR + 1040},
)


def test_registration_bounds_the_clock_from_both_sides() -> None:
    table = registrations({"timestamp_ms": 1000}, {"timestamp_ms": 5000, "fenced": False})
    (row,) = clocks(events(*REGISTERED), states(), table)
    assert row == {
        "node_id": 1,
        "from_ms": HOUR + 990,
        "to_ms": HOUR + 1040,
        "offset_lower_ms": HOUR - 10,
        "offset_upper_ms": HOUR + 40,
        "zone_ms": HOUR,
        "zone_source": "anchors",
        "error_lower_ms": -10,
        "error_upper_ms": 40,
        "lower_anchors": 1,
        "upper_anchors": 1,
    }


def test_a_later_record_of_a_session_that_a_snapshot_shows_is_not_its_registration() -> None:
    fenced = {"timestamp_ms": 900_000, "fenced": True}
    shown = registrations({"timestamp_ms": 500_000, "origin": "checkpoint"}, fenced)
    assert clocks(events(*REGISTERED), states(), shown) == []
    # One that the log has counts, although a later snapshot shows the session, too.
    shown = registrations({"timestamp_ms": 1000}, {"timestamp_ms": 500_000, "origin": "checkpoint"}, fenced)
    assert bounds(clocks(events(*REGISTERED), states(), shown)) == [(HOUR - 10, HOUR + 40)]


def test_controlled_shutdown_is_asked_for_before_it_is_a_record() -> None:
    stop = {"kind": "controlled_shutdown_started", "logged_at_ms": HOUR + 9000}
    table = registrations({"timestamp_ms": 1000}, {"timestamp_ms": 9005, "in_controlled_shutdown": True})
    (row,) = clocks(events(*REGISTERED, stop), states(), table)
    assert (row["offset_lower_ms"], row["lower_anchors"]) == (HOUR - 5, 2)
    assert bounds(clocks(events(stop), states(), table)) == [], "nothing says which session it ends"


def test_files_of_two_captures_under_one_path_are_two_files() -> None:
    """The log was rotated between them: what the second one asks for is of another session."""
    stop = {"kind": "controlled_shutdown_started", "logged_at_ms": HOUR + 99_000, "capture": "d", "position": 5}
    first = [{**row, "capture": "c"} for row in REGISTERED]
    table = registrations({"timestamp_ms": 1000}, {"timestamp_ms": 9005, "in_controlled_shutdown": True})
    (row,) = clocks(events(*first, stop), states(), table)
    assert (row["offset_lower_ms"], row["lower_anchors"]) == (HOUR - 10, 1)
    place = {"topic": "a", "partition": 0, "isr": [1]}
    shrink = {"kind": "isr_shrinking", **place, "logged_at_ms": 9_195, "capture": "c"}
    updated = {"kind": "isr_updated", **place, "partition_epoch": 1, "logged_at_ms": 210, "capture": "d"}
    asked = states({"partition_epoch": 1, "timestamp_ms": 200, "isr": [1]})
    assert bounds(clocks(events(shrink, updated), asked)) == [(None, 10)]


def test_the_least_delay_bounds_from_above() -> None:
    table = states({"partition_epoch": 0, "timestamp_ms": 100}, {"partition_epoch": 1, "timestamp_ms": 200})
    found = clocks(events(leader(0, 0, 130), leader(0, 1, 204), leader(0, 1, 9000)), table)
    assert bounds(found) == [(None, 4)]
    assert (found[0]["zone_ms"], found[0]["upper_anchors"]) == (None, 3)


@pytest.mark.parametrize(
    ("line", "state"),
    [
        (leader(1, 0, 130), {"partition_epoch": 0}),
        (leader(0, 1, 130), {"partition_epoch": 0}),
        (leader(0, 0, 130, topic_id=OTHER_ID), {"partition_epoch": 0}),
        (leader(0, 0, 130), {"partition_epoch": 0, "origin": "checkpoint"}),
        (leader(0, 0, 130, kind="unclean_election"), {"partition_epoch": 0}),
        (leader(0, 0, 130, node_id=None), {"partition_epoch": 0}),
        ({**leader(0, 0, 130), "logged_at_ms": None}, {"partition_epoch": 0}),
    ],
)
def test_lines_that_are_no_anchor(line: Row, state: Row) -> None:
    assert clocks(events(line), states({"timestamp_ms": 100, **state})) == []


def test_a_name_without_an_id_has_to_be_of_one_topic() -> None:
    line = leader(0, 0, 130, topic_id=None, kind="follower_started")
    one = {"partition_epoch": 0, "timestamp_ms": 100}
    assert bounds(clocks(events(line), states(one))) == [(None, 30)]
    assert clocks(events(line), states(one, {**one, "topic_id": OTHER_ID})) == []


def test_the_first_shrink_since_a_known_state_precedes_its_record() -> None:
    place = {"topic": "a", "partition": 0}
    shrink = {"kind": "isr_shrinking", **place, "isr": [1], "logged_at_ms": 195}
    updated = {"kind": "isr_updated", **place, "isr": [1], "partition_epoch": 1, "logged_at_ms": 210}
    table = states({"partition_epoch": 1, "timestamp_ms": 200, "isr": [1]})
    assert bounds(clocks(events(shrink, updated), table)) == [(-5, 10)]
    assert bounds(clocks(events(shrink, {**shrink, "logged_at_ms": 205}, updated), table)) == [(-5, 10)]
    other = {**shrink, "isr": [1, 3]}
    assert bounds(clocks(events(other, updated), table)) == [(None, 10)]
    assert bounds(clocks(events(shrink, leader(0, 0, 196), updated), table)) == [(None, 10)]


def test_a_clock_that_was_set_gives_two_rows() -> None:
    """Or a zone whose clocks went forward an hour."""
    again = {"incarnation_id": OTHER_ID, "broker_epoch": 77}
    table = registrations({"timestamp_ms": 1000}, {"timestamp_ms": 50_000, **again})
    later = (
        {"kind": "broker_starting", "incarnation_id": OTHER_ID, "logged_at_ms": 2 * HOUR + 49_995},
        {"kind": "broker_registered", "broker_epoch": 77, "logged_at_ms": 2 * HOUR + 50_020},
    )
    found = clocks(events(*REGISTERED, *later), states(), table)
    assert bounds(found) == [(HOUR - 10, HOUR + 40), (2 * HOUR - 5, 2 * HOUR + 20)]
    assert [row["zone_ms"] for row in found] == [HOUR, 2 * HOUR]
    lines = events(*REGISTERED, *later, {"kind": "truncated", "logged_at_ms": HOUR + 10_000})
    utc = with_utc(lines, pa.Table.from_pylist(found, schema=tables.NODE_CLOCKS))
    assert utc["logged_at_utc_ms"].to_pylist() == [990, 1040, 49_995, 50_020, None]


def test_what_shows_the_zone() -> None:
    table = registrations({"timestamp_ms": 1000})
    boot = pa.Table.from_pylist([{"node_id": 1, "zone_ms": 0}], schema=tables.NODE_BOOTS)
    stamped = [{**row, "logged_at_utc_ms": row["logged_at_ms"] - HOUR + 1} for row in REGISTERED]

    def shown(lines: pa.Table, **more: object) -> tuple[object, object, object]:
        (row,) = clocks(lines, states(), table, **more)
        return row["zone_ms"], row["zone_source"], row["error_upper_ms"]

    plain = events(*REGISTERED)
    assert shown(plain) == (HOUR, "anchors", 40)
    assert shown(plain, boots=boot) == (0, "start_time", HOUR + 40)
    assert shown(events(*stamped), boots=boot) == (HOUR, "printed", 40)


@pytest.mark.parametrize(
    ("shift", "utc"), [(0, True), (HOUR // 2, False), (HOUR, False), (-HOUR, True), (HOUR + 120_000, True)]
)
@pytest.mark.parametrize("away", [-10_000_000, 10_000_000])
def test_lines_from_before_or_after_the_clocks_changed_have_no_time_in_utc(away: int, shift: int, utc: bool) -> None:
    """In spring the process ran on, and crashed; in autumn the files begin with the lines of the process before."""
    now = 100_000_000
    own = [{**row, "logged_at_ms": row["logged_at_ms"] + now} for row in REGISTERED]
    lines = events(*own, leader(0, 0, now + away + HOUR + shift))
    table = registrations({"timestamp_ms": now + 1000})
    found = node_clocks(lines, states({"partition_epoch": 0, "timestamp_ms": now + away}), table)
    shown = with_utc(lines, found)["logged_at_utc_ms"].to_pylist()
    assert shown == [now + 990, now + 1040, now + away + shift if utc and shift >= 0 else None]


def test_a_start_in_winter_does_not_show_the_zone_in_summer() -> None:
    boot = pa.Table.from_pylist([{"node_id": 1, "zone_ms": 0}], schema=tables.NODE_BOOTS)
    for late, zone in ((20, 0), (HOUR + 20, None), (2 * HOUR + 20, 0)):
        (row,) = clocks(
            events(leader(0, 0, 1000 + late)), states({"partition_epoch": 0, "timestamp_ms": 1000}), boots=boot
        )
        assert row["zone_ms"] == zone


def test_utc_is_filled_in_where_it_is_not_printed() -> None:
    lines = events({"logged_at_ms": HOUR}, {"logged_at_ms": HOUR, "logged_at_utc_ms": 7}, {"logged_at_ms": None})
    known = pa.Table.from_pylist([{"node_id": 1, "zone_ms": HOUR}], schema=tables.NODE_CLOCKS)
    assert with_utc(lines, known)["logged_at_utc_ms"].to_pylist() == [0, 7, None]
    assert with_utc(lines, known.slice(0, 0))["logged_at_utc_ms"].to_pylist() == [None, 7, None]
    assert with_utc(lines, known).schema.equals(tables.BROKER_LOG_EVENTS, check_metadata=True)


def test_a_clock_that_is_certainly_wrong_gives_no_time() -> None:
    """Broker 1 runs ten minutes late: what it printed after an election would seem to be from before it."""
    late = [{**row, "logged_at_ms": row["logged_at_ms"] - HOUR - 600_000} for row in REGISTERED]
    stamped = [{**row, "logged_at_utc_ms": row["logged_at_ms"]} for row in late]
    table = registrations({"timestamp_ms": 1000})
    zone = pa.Table.from_pylist([{"node_id": 1, "zone_ms": 0}], schema=tables.NODE_BOOTS)
    for lines, boots in ((late, zone), (stamped, None)):
        found = node_clocks(events(*lines), states(), table, boots)
        assert found["error_upper_ms"].to_pylist() == [-599_960]
        assert with_utc(events(*lines), found)["logged_at_utc_ms"].to_pylist() == [None, None]
        moment = {"node_id": 1, "first_event_ms": late[0]["logged_at_ms"], "last_event_ms": late[1]["logged_at_ms"]}
        shown = boots_in_utc(pa.Table.from_pylist([moment], schema=tables.NODE_BOOTS), found).to_pylist()
        assert (shown[0]["first_event_ms"], shown[0]["last_event_ms"]) == (None, None)
        assert least_error_ms(found) == 0, "it is not one that times are widened by"


@pytest.mark.parametrize(("ahead_ms", "error_ms"), [(0, 0), (-40, 0), (-45, 5), (10, 0), (1010, 1000), (-61_040, 0)])
def test_a_clock_that_is_off_widens_every_time(ahead_ms: int, error_ms: int) -> None:
    lines = [{**row, "logged_at_ms": row["logged_at_ms"] - HOUR + ahead_ms} for row in REGISTERED]
    boot = pa.Table.from_pylist([{"node_id": 1, "zone_ms": 0}], schema=tables.NODE_BOOTS)
    found = node_clocks(events(*lines), states(), registrations({"timestamp_ms": 1000}), boot)
    assert least_error_ms(found) == error_ms
    assert (with_utc(events(*lines), found)["logged_at_utc_ms"].null_count == 2) is (ahead_ms < -60_000)


@FUZZ
@given(
    st.integers(-2 * HOUR, 2 * HOUR),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 5000), st.booleans()), min_size=1, max_size=20),
)
def test_true_bounds_hold_the_truth(offset_ms: int, moments: list[tuple[int, int, bool]]) -> None:
    """A clock that stays as it is, any delays: one row, whose bounds hold."""
    lines: list[Row] = []
    records: list[Row] = []
    for number, (at, delay, _) in enumerate(moments):
        records.append({"partition_epoch": number, "timestamp_ms": at})
        lines.append(leader(0, number, at + delay + offset_ms))
    (row,) = clocks(events(*lines), states(*records))
    assert row["offset_upper_ms"] >= offset_ms
    assert row["offset_upper_ms"] == offset_ms + min(delay for _, delay, _ in moments)


def real(name: str) -> tuple[BrokerLogTables, pa.Table]:
    with open_capture(capture(name)) as opened:
        logs = read_broker_logs(opened.name, opened.files)
    decoded = decode(Path(capture(name)))
    history, state = history_of(decoded)
    sessions = broker_history(state.records, SESSION_EVIDENCE.empty_table(), [])
    return logs, node_clocks(logs.events, history.table, sessions, logs.boots)


@pytest.mark.parametrize("release", ["3.9.1", "4.0.2", "4.1.1"])
def test_a_real_cluster_with_two_zones(release: str) -> None:
    """One machine's clock, so nothing is between the nodes' clocks; broker 2 logs in Asia/Kolkata."""
    logs, found = real(f"logs-{release}")
    rows = {row["node_id"]: row for row in found.to_pylist()}
    assert sorted(rows) == [1, 2]
    assert len(found) == 2
    assert {node: row["zone_ms"] for node, row in rows.items()} == {1: 0, 2: INDIA}
    for row in rows.values():
        assert -30 <= row["error_lower_ms"] <= 0 <= row["error_upper_ms"] <= 60
        assert row["zone_source"] == "start_time"
    brokers = with_utc(logs.events, found).to_pylist()
    assert all((row["logged_at_utc_ms"] is None) == (row["node_id"] == 3000) for row in brokers)
