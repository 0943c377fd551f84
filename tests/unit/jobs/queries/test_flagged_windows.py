"""The table of flagged windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.console.output import Format
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.queries.flagged_windows import print_windows

OPEN = {"kind": "hwm_regression", "topic": "orders", "verdict": "possible", "severity": "medium", "loss_min": 0}


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
    lake = Lake(tmp_path / "lake")
    lake.create()
    for name, rows in (
        ("findings", [{**OPEN, "finding_id": str(n), "partition": n, **row} for n, row in enumerate(({}, likely))]),
        ("evidence_files", [dict.fromkeys(("parsed_bytes", "quarantined_bytes", "trailing_bytes", "size_bytes"), 0)]),
    ):
        schema = TABLES[name].file_schema
        lake.put(name, "c", pa.Table.from_pylist([{n: row.get(n) for n in schema.names} for row in rows], schema))
    print_windows(lake, Format.TABLE)
    printed = capsys.readouterr().out
    assert "orders-1" in printed
    assert ("likely" in printed.partition("window")[2], shown is not None and shown in printed) == (bool(shown),) * 2
