"""What the evidence consists of."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from evidence.tables import CAPTURES, NODE_BOOTS
from jobs.incident.captured import load_captured
from jobs.lake.lake import Lake
from tests.support.report_rows import row


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
    lake = Lake(tmp_path)
    lake.create()
    at = {"capture": "one", "path": "server.log", "sha256": "00"}
    given = enumerate(printed)
    boots = [row(NODE_BOOTS, node_id=number, kafka_version=release, position=number, **at) for number, release in given]
    lake.append("node_boots", "c", pa.Table.from_pylist(boots, schema=NODE_BOOTS))
    lake.put(
        "captures", "c", pa.Table.from_pylist([row(CAPTURES, capture="one", kafka_release=named)], schema=CAPTURES)
    )
    assert load_captured(lake, "c").releases == expected
