"""Which processes wrote a server.log, and how the one before each had stopped."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from evidence import tables
from tests.support.paths import capture
from tests.unit.evidence.broker_logs.support import Row, read

INDIA = 19_800_000
MBEAN = "Registered `kafka:type=kafka.Log4jController` MBean (k.L)"
SIGNALS = "Registered signal handlers for TERM, INT, HUP (k.L)"
STARTING = "[BrokerServer id=1] Transition from SHUTDOWN to STARTING (k.B)"
CONTROLLER_STARTING = "[ControllerServer id=1] Starting controller (k.C)"
STARTED = "[KafkaRaftServer nodeId=1] Kafka Server started (k.K)"
STOPPED = "[BrokerServer id=1] shut down completed (k.B)"
NOTHING = "Nothing of note (k.X)"


def log(*messages: str) -> bytes:
    return b"".join(b"[2026-11-21 00:00:%02d,000] INFO %s\n" % (i, m.encode()) for i, m in enumerate(messages))


def boots(tmp_path: Path, *messages: str) -> list[Row]:
    table = read(tmp_path, log(*messages)).boots
    assert table.schema.equals(tables.NODE_BOOTS, check_metadata=True)
    return table.to_pylist()


def seconds(rows: list[Row]) -> list[tuple[int, int]]:
    first = 1795219200000
    return [((r["first_event_ms"] - first) // 1000, (r["last_event_ms"] - first) // 1000) for r in rows]


@pytest.mark.parametrize(
    ("messages", "spans", "begins"),
    [
        ((MBEAN, SIGNALS, STARTING, STARTED), [(0, 3)], [True]),
        ((MBEAN, SIGNALS, STARTING, CONTROLLER_STARTING, STARTED, NOTHING), [(0, 5)], [True]),
        ((MBEAN, SIGNALS, NOTHING, MBEAN, SIGNALS), [(0, 2), (3, 4)], [True, True]),
        ((NOTHING, STARTED, MBEAN, SIGNALS), [(0, 1), (2, 3)], [False, True]),
        ((SIGNALS, STARTING, SIGNALS, STARTING), [(0, 1), (2, 3)], [True, True]),
        ((STARTING, STARTED, STARTING), [(0, 1), (2, 2)], [True, True]),
        ((MBEAN, STARTING, STOPPED, NOTHING, SIGNALS), [(0, 3), (4, 4)], [True, True]),
        ((NOTHING, NOTHING), [(0, 1)], [False]),
        ((MBEAN, MBEAN), [(0, 0), (1, 1)], [True, True]),
    ],
)
def test_where_processes_begin_and_end(
    tmp_path: Path, messages: tuple[str, ...], spans: list[tuple[int, int]], begins: list[bool]
) -> None:
    rows = boots(tmp_path, *messages)
    assert seconds(rows) == spans
    assert [r["begins_in_file"] for r in rows] == begins


def test_what_a_process_says_of_itself(tmp_path: Path) -> None:
    (row,) = boots(
        tmp_path,
        SIGNALS,
        "Kafka version: 4.0.2 (k.A)",
        "Kafka startTimeMs: 1795199399990 (k.A)",
        "[BrokerLifecycleManager id=1] Incarnation 8kLCWivTRLSAM7OT7X5ERQ of broker 1 in cluster c is now STARTING.",
        "[BrokerLifecycleManager id=1] Successfully registered broker 1 with broker epoch 19 (k.B)",
        "Skipping recovery of 7 logs from /d1 since clean shutdown file was found (k.L)",
        "Recovering 3 logs from /d2 since no clean shutdown file was found (k.L)",
        "Loaded 10 logs in 318ms (unclean log dirs = [/d2]) (k.L)",
        "Terminating process due to signal SIGTERM (k.L)",
        STOPPED,
        NOTHING,
    )
    expected = {
        "node_id": 1,
        "kafka_version": "4.0.2",
        "start_time_ms": 1795199399990,
        "zone_ms": INDIA,
        "incarnation_id": "8kLCWivTRLSAM7OT7X5ERQ",
        "broker_epoch": 19,
        "previous_shutdown": "unclean",
        "clean_directories": ["/d1"],
        "unclean_directories": ["/d2"],
        "load_ms": 318,
        "stopped": "complete",
        "stopped_at_ms": 1795219209000,
        "last_event_ms": 1795219210000,
        "position": 0,
    }
    assert {name: row[name] for name in expected} == expected


def test_a_process_that_was_killed_or_only_asked_to_stop(tmp_path: Path) -> None:
    rows = boots(tmp_path, SIGNALS, STARTED, SIGNALS, "Terminating process due to signal SIGTERM (k.L)")
    assert [r["stopped"] for r in rows] == [None, "signal"]


@pytest.mark.parametrize("said", ["Updated the log level of kafka.server to WARN", "Unset the log level of kafka"])
def test_the_last_line_of_a_process_whose_log_levels_were_changed_is_not_known(tmp_path: Path, said: str) -> None:
    """kafka-configs --entity-type broker-loggers; the next process begins with what log4j's file says."""
    rows = boots(tmp_path, SIGNALS, STARTED, f"{said} (k.A)", NOTHING, SIGNALS, NOTHING)
    assert [row["last_event_ms"] and row["last_event_ms"] - row["first_event_ms"] for row in rows] == [None, 1000]


@pytest.mark.parametrize("release", ["3.9.1", "4.0.2", "4.1.1"])
def test_processes_of_a_real_cluster(release: str, tmp_path: Path) -> None:
    """tests/captures/logs.sh: broker 2 is killed and started again, in Asia/Kolkata; then it stops cleanly."""
    name = f"logs-{release}"
    with tarfile.open(capture(name)) as tar:
        stream = tar.extractfile(f"{name}/logs/broker-2/server.log")
        assert stream is not None
        rows = read(tmp_path, stream.read()).boots.to_pylist()
    assert [r["previous_shutdown"] for r in rows] == [None, "unclean"]
    assert [r["stopped"] for r in rows] == [None, "complete"]
    assert {(r["node_id"], r["kafka_version"], r["zone_ms"]) for r in rows} == {(2, release, INDIA)}
    assert rows[0]["broker_epoch"] < rows[1]["broker_epoch"]
    assert rows[0]["incarnation_id"] != rows[1]["incarnation_id"]
