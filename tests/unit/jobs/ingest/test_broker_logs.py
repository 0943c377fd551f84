"""The brokers' own logs at ingest: a row for each line that shows a fact, once."""

from __future__ import annotations

from pathlib import Path

from evidence import kinds
from jobs.config.settings import load_settings
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from tests.support.paths import CAPTURES


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
