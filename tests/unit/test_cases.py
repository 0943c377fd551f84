"""Regression cases: a folder each in tests/cases, with the bytes, what must come of them, and why it exists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence.batches import scan_batches
from evidence.errors import Damage
from evidence.records import read_records
from tests.support.paths import ROOT

CASES = sorted(p.parent for p in (ROOT / "tests" / "cases").glob("*/segment.log"))


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.name)
def test_case(case: Path) -> None:
    data = (case / "segment.log").read_bytes()
    expected = json.loads((case / "expected.json").read_text())
    scan = scan_batches(data)
    items = [item for batch in scan.batches for item in read_records(data, batch)]
    assert [item.offset for item in items if not isinstance(item, Damage)] == expected["offsets"]
    assert [[d.position, d.length_bytes, d.reason] for d in scan.damage] == expected["damage"]
    assert scan.trailing_bytes == expected["trailing_bytes"]
    assert scan.parsed_bytes + scan.quarantined_bytes + scan.trailing_bytes == len(data)


def test_there_are_cases() -> None:
    assert len(CASES) >= 5
