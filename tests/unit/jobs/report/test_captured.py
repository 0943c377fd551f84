"""What the evidence consists of."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.report.load import load_captured
from tests.support.report_rows import lake_of


@pytest.mark.parametrize(
    ("named", "printed", "expected"),
    [
        (None, ["4.0.2", None, "4.0.2"], ["4.0.2"]),
        ("4.1.1", ["4.0.2"], ["4.1.1"]),
        (None, [], []),
        (None, ["8.1.0-ccs"], ["4.1 (8.1.0-ccs)"]),
        ("7.9.0-ce", [], ["3.9 (7.9.0-ce)"]),
    ],
)
def test_the_release_is_that_of_the_manifest_else_what_nodes_printed(
    tmp_path: Path, named: str | None, printed: list[str | None], expected: list[str]
) -> None:
    boots = [{"node_id": number, "kafka_version": release} for number, release in enumerate(printed)]
    lake = lake_of(tmp_path, "c", node_boots=boots, captures=[{"capture": "one", "kafka_release": named}])
    assert load_captured(lake, "c")["releases"] == expected
