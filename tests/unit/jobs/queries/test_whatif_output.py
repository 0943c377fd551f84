"""What people read of `whatif`, besides the golden files of tests/unit/test_terminal.py."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jobs.console.output import Format
from jobs.queries.whatif import print_differences
from replay.whatif.comparison import WHATIF

ROW = dict.fromkeys(WHATIF.names, 0) | {"topic_id": "T" * 22, "topic": "orders", "undetermined_offset": None}
SAME = ROW | {"first_difference_offset": None, "first_difference_timestamp_ms": None}


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=WHATIF)


def test_what_is_not_known_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    print_differences(table(SAME, SAME), Format.TABLE)
    assert capsys.readouterr().out == "none of 2 partitions would differ\n"
    differs = ROW | {"recorded_leader": 1, "loss_min_recorded": 70, "loss_max_recorded": 75, "loss_max_would_be": None}
    unknown = SAME | {"partition": 2, "undetermined_offset": 9, "elections_would_be": None}
    print_differences(table(SAME, differs, unknown), Format.TABLE)
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines() if "orders-" in line] == ["orders-0", "orders-2"]
    assert "70 to 75 -> ?" in shown.out
    assert "1 partitions: the policy needs log ends that were not captured" in shown.err
