"""Each node's clock and zone, by records that its own lines name: on real clusters, and where bounds contradict.

tests/unit/golden/clocks.jsonl has what it shows, lines, states, registrations and boots of broker 1 (columns that are
left out: see `events` and below), and what follows: clocks without nulls, each line's time in UTC, the error that
widens all times.
"""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import tables
from evidence.broker_logs.anchors import boots_in_utc, least_error_ms, with_utc
from evidence.broker_logs.read import BrokerLogTables, read_broker_logs
from evidence.capture.files import open_capture
from jobs.detect.inputs import clocks_of
from replay.arrow import schemas
from replay.cluster.broker_sessions import SESSION_EVIDENCE, broker_history
from tests.support.golden import filled
from tests.support.paths import capture
from tests.support.pure import decode, history_of
from tests.unit.evidence.accounting import FUZZ
from tests.unit.evidence.broker_logs.support import Row

NO_BOOTS = tables.NODE_BOOTS.empty_table()
HOUR, INDIA = 3_600_000, 19_800_000
ID = "W75btSJSTuq9rejrvBAZag"


def events(*rows: Row) -> pa.Table:
    filled = [{"node_id": 1, "path": "p", "position": i, **row} for i, row in enumerate(rows)]
    return pa.Table.from_pylist(filled, schema=tables.BROKER_LOG_EVENTS)


def states(*rows: Row) -> pa.Table:
    base = {"topic_id": ID, "topic": "a", "partition": 0, "leader_epoch": 0, "isr": [1, 2], "origin": "log"}
    return pa.Table.from_pylist([{**base, **row} for row in rows], schema=schemas.PARTITION_HISTORY)


def registrations(*rows: Row) -> pa.Table:
    base = {"broker_id": 1, "broker_epoch": 19, "incarnation_id": ID, "in_controlled_shutdown": False, "origin": "log"}
    return pa.Table.from_pylist([{**base, **row} for row in rows], schema=schemas.BROKER_HISTORY)


REGISTERED = (
    {"kind": "broker_starting", "incarnation_id": ID, "logged_at_ms": HOUR + 990},
    {"kind": "broker_registered", "broker_epoch": 19, "logged_at_ms": HOUR + 1040},
)


@filled("clocks")
def test_what_lines_show_of_a_clock(case: Row) -> Row:
    lines, boots = events(*case["events"]), pa.Table.from_pylist(case["boots"], schema=tables.NODE_BOOTS)
    found = clocks_of(lines, states(*case["states"]), registrations(*case["registrations"]), boots)
    assert found.schema.equals(tables.NODE_CLOCKS, check_metadata=True)
    rows = [{name: value for name, value in row.items() if value is not None} for row in found.to_pylist()]
    timed = with_utc(lines, found)
    assert timed.schema.equals(tables.BROKER_LOG_EVENTS, check_metadata=True)
    utc = timed["logged_at_utc_ms"].to_pylist()
    return {**case, "clocks": rows, "utc": utc, "least_error_ms": least_error_ms(found)}


def test_a_clock_that_is_certainly_wrong_gives_no_time() -> None:
    """Broker 1 runs ten minutes late: what it printed after an election would seem to be from before it."""
    late = [{**row, "logged_at_ms": row["logged_at_ms"] - HOUR - 600_000} for row in REGISTERED]
    stamped = [{**row, "logged_at_utc_ms": row["logged_at_ms"]} for row in late]
    table = registrations({"timestamp_ms": 1000})
    zone = pa.Table.from_pylist([{"node_id": 1, "zone_ms": 0}], schema=tables.NODE_BOOTS)
    for lines, boots in ((late, zone), (stamped, NO_BOOTS)):
        found = clocks_of(events(*lines), states(), table, boots)
        assert found["error_upper_ms"].to_pylist() == [-599_960]
        assert with_utc(events(*lines), found)["logged_at_utc_ms"].to_pylist() == [None, None]
        moment = {"node_id": 1, "first_event_ms": late[0]["logged_at_ms"], "last_event_ms": late[1]["logged_at_ms"]}
        shown = boots_in_utc(pa.Table.from_pylist([moment], schema=tables.NODE_BOOTS), found).to_pylist()
        assert (shown[0]["first_event_ms"], shown[0]["last_event_ms"]) == (None, None)
        assert least_error_ms(found) == 0, "it is not one that times are widened by"


@FUZZ
@given(
    st.integers(-2 * HOUR, 2 * HOUR),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 5000)), min_size=1, max_size=20),
)
def test_true_bounds_hold_the_truth(offset_ms: int, moments: list[tuple[int, int]]) -> None:
    """A clock that stays as it is, any delays: one row, whose bounds hold."""
    place = {"kind": "leader_started", "topic": "a", "partition": 0, "topic_id": ID, "leader_epoch": 0}
    lines = [
        {**place, "partition_epoch": number, "logged_at_ms": at + delay + offset_ms}
        for number, (at, delay) in enumerate(moments)
    ]
    records = [{"partition_epoch": number, "timestamp_ms": at} for number, (at, _) in enumerate(moments)]
    (upper,) = clocks_of(events(*lines), states(*records), registrations(), tables.NODE_BOOTS.empty_table())[
        "offset_upper_ms"
    ].to_pylist()
    assert upper == offset_ms + min(delay for _, delay in moments)


def real(name: str) -> tuple[BrokerLogTables, pa.Table]:
    with open_capture(capture(name)) as opened:
        logs = read_broker_logs(opened.name, opened.files)
    decoded = decode(Path(capture(name)))
    history, state = history_of(decoded)
    sessions = broker_history(state.records, SESSION_EVIDENCE.empty_table(), [])
    return logs, clocks_of(logs.events, history.table, sessions, logs.boots)


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
