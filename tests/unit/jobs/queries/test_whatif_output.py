"""What people read of `whatif`."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest

from jobs.console.output import Format
from jobs.queries.whatif import print_differences
from replay.whatif.comparison import WHATIF

ROW = dict.fromkeys(WHATIF.names, 0) | {"topic_id": "T" * 22, "topic": "orders", "undetermined_offset": None}
SAME = ROW | {"first_difference_offset": None, "first_difference_timestamp_ms": None}


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=WHATIF)


def test_nothing_differs(capsys: pytest.CaptureFixture[str]) -> None:
    print_differences(table(SAME, SAME), Format.TABLE)
    assert capsys.readouterr().out == "none of 2 partitions would differ\n"


def test_only_what_differs_is_shown_and_what_is_not_known_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    differs = ROW | {"recorded_leader": 1, "would_be_leader": -1, "leaderless_ms_would_be": 1500}
    differs |= {"loss_min_recorded": 70, "loss_max_recorded": None}
    unknown = SAME | {"partition": 2, "undetermined_offset": 9, "elections_would_be": None, "loss_min_would_be": None}
    print_differences(table(SAME, differs, unknown), Format.TABLE)
    shown = capsys.readouterr()
    assert "2 of 3 partitions would differ (hypothetical; recorded -> would be)" in shown.out
    cells = [re.split(r" {2,}", line) for line in shown.out.splitlines() if "orders-" in line]
    assert [row[0] for row in cells] == ["orders-0", "orders-2"]
    assert {"1 -> -1", "0 -> 2", "70 or more -> 0"} <= set(cells[0])
    assert {"0 -> ?"} <= set(cells[1])
    heading = re.split(r" {2,}", next(line for line in shown.out.splitlines() if line.startswith("partition")))
    assert heading == ["partition", "since (UTC)", "leader", "elections", "leaderless (s)", "lost"]
    assert "1 partitions: the policy needs log ends that were not captured" in shown.err


def test_programs_get_every_partition_and_column(capsys: pytest.CaptureFixture[str]) -> None:
    print_differences(table(SAME, ROW), Format.JSON, "c1")
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 2
    assert list(rows[0]) == ["cluster_id", *WHATIF.names]
    assert {row["cluster_id"] for row in rows} == {"c1"}


def test_a_loss_of_which_nothing_is_known_is_a_question_mark(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    row = ROW | {"recorded_leader": 1, "loss_min_recorded": 70, "loss_max_recorded": 75, "loss_max_would_be": None}
    print_differences(table(row), Format.TABLE)
    assert "70 to 75 -> ?" in capsys.readouterr().out
