"""The table of flagged windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.console.output import Format
from jobs.queries.flagged_windows import print_windows
from tests.support.report_rows import evidence_file, lake_of

OPEN = {"kind": "hwm_regression", "topic": "orders", "verdict": "possible", "severity": "medium", "loss_min": 0}


def test_a_window_of_a_deleted_topic_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    findings = [{**OPEN, "finding_id": name, "topic_id": name, "partition": 0} for name in ("old", "new")]
    states = [{"topic": "orders", "topic_id": "old", "offset": 5, "timestamp_ms": 5, "removed": True}]
    lake = lake_of(tmp_path, "c", evidence_files=[evidence_file()], findings=findings, partition_history=states)
    print_windows(lake, Format.TABLE)
    of = {line.split()[-1]: line for line in capsys.readouterr().out.splitlines() if line.startswith("orders-0")}
    assert {name: "(deleted)" in line for name, line in of.items()} == {"old": True, "new": False}


@pytest.mark.parametrize(
    ("likely", "shown"),
    [
        ({"likely": "unknown"}, None),
        ({"likely": "unknown", "likely_rule": "member_had_more", "likely_right": 63, "likely_of": 80}, None),
        ({"likely": "lost", "likely_rule": "a", "likely_right": 299, "likely_of": 309}, "lost (299 of 309)"),
    ],
)
def test_likely_is_a_column_if_a_window_leans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], likely: dict[str, Any], shown: str | None
) -> None:
    rows = [{**OPEN, "finding_id": str(n), "partition": n, **row} for n, row in enumerate(({}, likely))]
    lake = lake_of(tmp_path, "c", evidence_files=[evidence_file()], findings=rows)
    print_windows(lake, Format.TABLE)
    printed = capsys.readouterr().out
    assert "orders-1" in printed
    assert ("likely" in printed.partition("window")[2], shown is not None and shown in printed) == (bool(shown),) * 2
