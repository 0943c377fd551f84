"""The brokers' own logs at ingest."""

from __future__ import annotations

from pathlib import Path

from evidence.capture.files import open_capture
from jobs.config.settings import load_settings
from jobs.ingest.broker_logs import read_logs
from tests.support.small_captures import write_files


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
