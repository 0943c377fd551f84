"""Regression cases: a folder each in tests/cases, with the bytes, the expected result and a README."""

import json
import re
from pathlib import Path

import pytest

from evidence.capture.files import open_capture
from evidence.errors import Damage
from evidence.metadata_log.scan import scan_files
from evidence.offsets.read import read_offsets
from evidence.wire.batches import scan_batches
from evidence.wire.records import read_records
from tests.support.metric_names import NAMES
from tests.support.paths import ROOT

FOLDERS = sorted(p for p in (ROOT / "tests" / "cases").iterdir() if p.is_dir())
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


CAPTURES = sorted(p.parent for p in (ROOT / "tests" / "cases").glob("*/capture"))


@pytest.mark.parametrize("case", CAPTURES, ids=lambda p: p.name)
def test_capture_case(case: Path) -> None:
    """A small capture: the number of rows from its files, and the position of each damage."""
    expected = json.loads((case / "expected.json").read_text())
    with open_capture(case / "capture") as capture:
        scanned = scan_files(capture.files)
        offsets = read_offsets(capture.name, capture.files, NAMES, 5000)
        for file in capture.files:
            account = (scanned.accounts | offsets.accounts)[file.path]
            used = account.parsed_bytes + account.quarantined_bytes + account.trailing_bytes
            assert used == file.size_bytes
            found = [[d.position, d.length_bytes, d.reason] for d in account.damage]
            assert found == expected["damage"][file.path]
    assert offsets.log_end_offsets.num_rows == expected["log_end_offsets"]
    if "captured_at_ms" in expected:
        assert offsets.log_end_offsets["captured_at_ms"].unique().to_pylist() == expected["captured_at_ms"]
    assert sum(len(log.batches) for log in scanned.logs) == expected["batches"]


@pytest.mark.parametrize("case", FOLDERS, ids=lambda p: p.name)
def test_each_case_has_a_readme_that_names_its_test(case: Path) -> None:
    text = (case / "README.md").read_text(encoding="utf-8")
    assert text.startswith("# ")
    named = re.findall(r"tests/[a-z0-9_/]+\.py", text)
    assert named
    for path in named:
        assert (ROOT / path).is_file(), path


def test_there_are_cases() -> None:
    assert len(CASES) >= 5
    assert len(CAPTURES) >= 3
