"""The brokers' own logs at ingest: a row for each line that shows a fact, once."""

from __future__ import annotations

from pathlib import Path

from evidence import kinds
from evidence.capture.files import open_capture
from jobs.config.settings import load_settings
from jobs.ingest.broker_logs import read_logs
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from tests.support.paths import CAPTURES
from tests.support.small_captures import write_files


def test_lines_become_rows_once_and_every_byte_is_accounted_for(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    capture = CAPTURES / "logs-4.0.2.tar.xz"
    first = ingest(lake, capture, load_settings(), lambda _: None)
    events = lake.rows("broker_log_events", first.cluster_id)
    assert first.added["broker_log_events"] == len(events) > 100
    assert first.added["node_boots"] == lake.count("node_boots", first.cluster_id) > 0
    assert {"leader_started", "log_loaded", "truncated"} <= {row["kind"] for row in events}
    files = lake.rows("evidence_files", first.cluster_id)
    logs = [row for row in files if row["kind"] in kinds.BROKER_LOGS]
    assert logs
    assert all(
        row["parsed_bytes"] + row["quarantined_bytes"] + row["trailing_bytes"] == row["size_bytes"] for row in logs
    )
    assert {(row["sha256"], row["path"]) for row in events} <= {(row["sha256"], row["path"]) for row in logs}
    again = ingest(lake, capture, load_settings(), lambda _: None)
    assert again.added == {}


def test_files_that_are_read_one_by_one_are_compared(tmp_path: Path) -> None:
    """kafka-1 is the pod of node 4; a rotated file with the logs that a start loaded names no node."""
    begin = "[2026-11-21 00:00:00,123] INFO "
    loaded = f"{begin}[Partition a-0 broker=4] Log loaded for partition a-0 with initial high watermark 7 (k.P)\n"
    version = f"{begin}Kafka version: 4.0.2 (k.A)\n"
    files = {"kafka-1/server.log": loaded.encode(), "kafka-1/server.log.1": version.encode()}
    with open_capture(write_files(tmp_path, files)) as capture:
        rows = read_logs(capture, load_settings()).events.to_pylist()
    assert [(row["path"], row["node_id"]) for row in rows] == [
        ("kafka-1/server.log", 4),
        ("kafka-1/server.log.1", None),
    ]
