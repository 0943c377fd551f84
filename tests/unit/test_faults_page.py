"""docs/reliability.md and the records beside it: each fault has tests that exist, and each that is tried has a row."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from tests.faults.matrix import trials
from tests.faults.table import PAGE, markdown, read
from tests.support.paths import ROOT, text_with_table
from tests.support.s3 import Store

NUMBERED = ROOT / "docs" / "fault_tests.csv"
TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")
FAULTS = 62


def test_each_fault_has_tests_that_exist() -> None:
    with NUMBERED.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert [int(row["number"]) for row in found] == list(range(1, FAULTS + 1))
    for row in found:
        assert row["fault"]
        assert row["result"]
        named = [TEST.fullmatch(test) for test in row["tests"].split()]
        assert named
        for test in named:
            assert test is not None, row
            text = text_with_table(ROOT / test[1])
            assert re.search(rf"^(def {test[2]}\(|{test[2]}:)", text, re.MULTILINE), test[0]


def test_the_record_has_every_fault_that_is_tried_and_the_page_its_sums() -> None:
    nowhere = Store("", None, Path())
    wanted = dict.fromkeys((fault, where) for fault, where, _ in trials(1, 20, nowhere, ROOT))
    found = read()
    assert list(found) == list(wanted)
    for name, line in found.items():
        assert line.tried or line.run.startswith("not tried: "), name
    assert markdown(found, "").lstrip() in PAGE.read_text(encoding="utf-8")
