"""What detect takes from the nodes' own logs in a lake, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from evidence.tables import BROKER_LOG_EVENTS, NODE_BOOTS
from jobs.detect.inputs import (
    USED,
    disk_errors,
    judging_events,
    measured_clocks,
    registration_mismatches,
    topic_lifetimes,
)
from jobs.lake.lake import Lake
from jobs.lake.tables import STATIC_CONFIGS
from jobs.replay.cluster_state import static_files
from replay.arrow.schemas import BROKER_HISTORY
from replay.cluster.broker_sessions import SESSION_EVIDENCE, broker_history
from replay.cluster.state import ClusterState
from replay.findings.log_lines import UNCLEAN
from tests.support.paths import capture
from tests.support.pure import decode, replayed

CLUSTER = "c"
KOLKATA_MS = 19_800_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, ClusterState]:
    decoded = decode(capture("logs-4.0.2"))
    history, state = replayed("logs-4.0.2")
    made = Lake(tmp_path_factory.mktemp("lake"))
    made.create()
    made.append("broker_log_events", CLUSTER, decoded.events)
    made.append("node_boots", CLUSTER, NODE_BOOTS.empty_table())
    made.put("partition_history", CLUSTER, history.table)
    made.put("broker_history", CLUSTER, broker_history(state.records, SESSION_EVIDENCE.empty_table(), []))
    return made, state


def test_clocks_are_bounded_by_records_and_show_the_zone(lake: tuple[Lake, ClusterState], tmp_path: Path) -> None:
    rows = {row["node_id"]: row for row in measured_clocks(lake[0], CLUSTER).to_pylist()}
    assert {1, 2} <= set(rows)
    for node, zone_ms in ((1, 0), (2, KOLKATA_MS)):
        assert rows[node]["zone_ms"] == zone_ms
        assert rows[node]["error_lower_ms"] <= 0 <= rows[node]["error_upper_ms"]
    empty = Lake(tmp_path)
    empty.create()
    assert not len(measured_clocks(empty, CLUSTER))


def test_the_events_of_verdicts_have_topic_ids_and_utc(lake: tuple[Lake, ClusterState]) -> None:
    made, state = lake
    events = judging_events(made, CLUSTER, state.shape, measured_clocks(made, CLUSTER), topic_lifetimes(made, CLUSTER))
    assert set(events["kind"].to_pylist()) <= set(USED)
    assert events["topic_id"].null_count == 0
    # Nothing shows a controller's zone here.
    of_brokers = [r for r in events.to_pylist() if r["kind"] != UNCLEAN]
    shifts = {(r["node_id"], r["logged_at_ms"] - r["logged_at_utc_ms"]) for r in of_brokers}
    assert shifts == {(1, 0), (2, KOLKATA_MS)}


def test_registrations_are_compared_with_the_log(lake: tuple[Lake, ClusterState], tmp_path: Path) -> None:
    made, _ = lake
    assert registration_mismatches(made, CLUSTER) == []
    events = made.rows("broker_log_events", CLUSTER)
    altered = Lake(tmp_path)
    altered.create()
    wrong = [{**row, "count": 7} for row in events if row["kind"] == "incarnation_registered"]
    altered.append("broker_log_events", CLUSTER, pa.Table.from_pylist(wrong, schema=BROKER_LOG_EVENTS))
    altered.put("broker_history", CLUSTER, made.read("broker_history", CLUSTER, BROKER_HISTORY.names))
    found = registration_mismatches(altered, CLUSTER)
    assert {row["kind"] for row in found} == {"log_line_mismatch"}
    assert len(found) == len({row["incarnation_id"] for row in wrong})


def test_errors_of_a_nodes_disks_are_known_by_time(lake: tuple[Lake, ClusterState], tmp_path: Path) -> None:
    clocks, other = measured_clocks(lake[0], CLUSTER), Lake(tmp_path)
    other.create()
    (first, *_) = (row for row in lake[0].rows("broker_log_events", CLUSTER) if row["node_id"] == 2)
    kinds = [("Input/output error", 2), ("Input/output error", 9), ("No space left on device", 2)]
    rows = [
        {**first, "kind": "disk_error", "detail": detail, "node_id": node, "position": at}
        for at, (detail, node) in enumerate(kinds)
    ]
    other.append("broker_log_events", CLUSTER, pa.Table.from_pylist(rows, schema=BROKER_LOG_EVENTS))
    assert disk_errors(other, CLUSTER, clocks) == {2: [first["logged_at_ms"] - KOLKATA_MS], 9: [None]}


def test_a_nodes_file_of_two_captures_has_the_values_of_both(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.create()
    files: dict[str, dict[str, str]] = {"old": {"a": "1", "b": "3", "c": "5"}, "new": {"a": "2", "c": "5"}}
    for capture_of, own in files.items():
        place = {"capture": capture_of, "path": "p", "sha256": capture_of, "position": 0, "node_id": 1}
        lines = {"process.roles": "broker", **own}.items()
        rows = [{**place, "name": name, "value": value} for name, value in lines]
        lake.append("static_configs", CLUSTER, pa.Table.from_pylist(rows, schema=STATIC_CONFIGS))
    assert static_files(lake, CLUSTER) == {1: {"process.roles": "broker", "a": "1 2", "b": "- 3", "c": "5"}}
