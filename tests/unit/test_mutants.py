"""The list of conditions that `make mutants` leaves out fits the sources."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.__main__ import TESTS, Row, read, write
from tests.mutants.conditions import Condition, conditions
from tests.support.paths import ROOT


@pytest.mark.parametrize("file", sorted({condition.file for condition in conditions()}))
def test_a_condition_can_be_left_out(file: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    whole = ast.dump(ast.parse(source))
    for condition in (each for each in conditions() if each.file == file):
        assert ast.dump(ast.parse(condition.left_out_of(source))) != whole, condition


def test_each_condition_is_listed_once() -> None:
    listed = conditions()
    assert [key for key, n in Counter((c.rule, c.text) for c in listed).items() if n > 1] == []
    assert [key for key, n in Counter((c.file, c.old, c.new) for c in listed).items() if n > 1] == []


def test_the_table_has_each_condition() -> None:
    found = read(ROOT / "docs" / "mutants.csv")
    assert set(found) == {(c.rule, c.text) for c in conditions()}
    assert not any(row.caught_by for row in found.values() if row.test)
    source = "".join(path.read_text("utf-8") for room in TESTS for path in (ROOT / room).rglob("test_*.*"))
    assert [row.test for row in found.values() if not re.search(rf"\b{row.test}\b", source)] == []


def test_the_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = [
        *read(ROOT / "docs" / "mutants.csv").values(),
        Row("P1", 'of a "test", or two', "", 2_000, "test_of_it", 3),
    ]
    write(tmp_path / "mutants.csv", found)
    assert read(tmp_path / "mutants.csv") == {(row.rule, row.condition): row for row in found}
    assert read(tmp_path / "no_table.csv") == {}


@pytest.mark.parametrize("source", ["nothing of it", "if a and b: if a and b:"])
def test_what_does_not_stand_there_once_cannot_be_left_out(source: str) -> None:
    with pytest.raises(ValueError, match="times in"):
        Condition("P1", "b", "replay/made_up.py", "a and b", "a").left_out_of(source)
