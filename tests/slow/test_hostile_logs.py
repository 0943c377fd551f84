"""Captures at the ends of every type: each stage ends, without a warning, and a report is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.limits import MAX_TIME_MS
from jobs.lake.lake import Lake
from jobs.report.stage import write_pages
from tests.slow.test_crashes import run
from tests.support.hostile_logs import hostile_capture


@pytest.mark.parametrize("seed", range(6))
def test_a_hostile_capture_is_judged(seed: int, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    cluster = run(lake, hostile_capture(seed, tmp_path / "capture"))
    (page,) = write_pages(lake, [cluster], tmp_path / "report.html", lambda _: None)
    assert Path(page).stat().st_size > 10_000
    times = lake.read("metadata_records", cluster, ("timestamp_ms",))["timestamp_ms"].to_pylist()
    assert times
    assert all(abs(time) <= MAX_TIME_MS for time in times)
    # Nothing is written into the table that is not read: damage is named.
    reasons = {row["reason"] for row in lake.rows("quarantine", cluster, ("reason",))}
    assert reasons <= {"bad_timestamp", "bad_checkpoint"}
