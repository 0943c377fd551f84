"""The brokers' own logs at ingest: a row for each line that shows a fact, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evidence import kinds
from evidence.broker_logs.read import read_broker_logs
from evidence.capture.files import open_capture
from jobs.config.settings import load_settings
from jobs.ingest import broker_logs
from jobs.ingest.stage import ingest
from tests.support.paths import CAPTURES
from tests.support.spark_lake import SparkLake


def test_lines_become_rows_once_and_every_byte_is_accounted_for(spark: SparkSession, tmp_path: Path) -> None:
    lake = SparkLake(spark, tmp_path / "lake")
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


def test_tasks_read_the_same(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_logs, "_LARGE_BYTES", 4000)  # some of the capture's files are smaller
    with open_capture(CAPTURES / "logs-4.0.2.tar.xz") as capture:
        by_tasks = broker_logs.read_logs(capture, load_settings())
        here = read_broker_logs(capture.name, capture.files, is_collected=capture.is_collected)
    assert by_tasks == here
