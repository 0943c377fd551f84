"""Records beside the pages: conditions that `make mutants` leaves out; how often the rules of `likely` are right."""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from replay.loss import likely_record
from replay.loss.likely import RULES
from replay.loss.verdicts import KEPT, LOST, UNKNOWN
from tests.likely.record import DRILLS, LIVES, Case, cases_of_lives, module, record_of, report
from tests.mutants.__main__ import TESTS, Row, read, write
from tests.mutants.conditions import Condition, conditions
from tests.support.paths import ROOT, text_with_table


@pytest.mark.parametrize("file", sorted({condition.file for condition in conditions()}))
def test_a_condition_can_be_left_out(file: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    for condition in (each for each in conditions() if each.file == file):
        changed = condition.left_out_of(source)
        assert file.endswith(".sql") or ast.parse(changed)
        assert condition.old.split() != condition.new.split(), condition


def test_each_condition_is_listed_once() -> None:
    listed = conditions()
    assert [key for key, n in Counter((c.rule, c.text) for c in listed).items() if n > 1] == []
    assert [key for key, n in Counter((c.file, c.old, c.new) for c in listed).items() if n > 1] == []


def test_the_table_has_each_condition() -> None:
    found = read(ROOT / "docs" / "mutants.csv")
    assert set(found) == {(c.rule, c.text) for c in conditions()}
    assert not any(row.caught_by for row in found.values() if row.test)
    source = "".join(text_with_table(path) for room in TESTS for path in (ROOT / room).rglob("test_*.py"))
    assert {row.test for row in found.values()} <= {"", *re.findall(r"\btest_\w+", source)}


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


CASES = {
    DRILLS: [Case("member_had_more", LOST, True), Case("member_had_more", LOST, False), Case(None, UNKNOWN, True)],
    LIVES: [Case("member_had_more", LOST, True), Case("old_log_ended_there", KEPT, False)],
}


def test_a_rule_is_right_if_the_window_went_as_it_leans() -> None:
    found = {rule: known for rule, known in record_of(CASES).items() if known}
    assert found == {"member_had_more": {DRILLS: (1, 2), LIVES: (1, 1)}, "old_log_ended_there": {LIVES: (1, 1)}}


def test_the_report_counts_what_leans() -> None:
    lines = report(CASES).splitlines()
    assert lines[-2:] == [
        "drills: 3 open windows, 2 lean, 1 of them as they should",
        "lives: 2 open windows, 2 lean, 2 of them as they should",
    ]


def test_the_module_holds_the_record() -> None:
    made: dict[str, Any] = {}
    exec(module(record_of(CASES)), made)
    assert made["RECORD"] == record_of(CASES)


def test_the_kept_record_is_as_its_maker_writes_it() -> None:
    kept = ROOT / "replay" / "loss" / "likely_record.py"
    assert kept.read_text(encoding="utf-8") == module(likely_record.RECORD)


def test_a_fixed_set_of_lives_leans_as_the_record_says() -> None:
    cases = [case for fault in ("clean stops", "unclean restarts") for case in cases_of_lives((fault, 0, 128))]
    leaning = [case for case in cases if case.leaning != UNKNOWN]
    assert len(leaning) >= 20
    assert sum((case.leaning == LOST) == case.lost for case in leaning) >= 0.95 * len(leaning)
    of_rules = record_of({LIVES: cases})
    assert sum(of for known in of_rules.values() for _, of in known.values()) == sum(c.rule is not None for c in cases)


def test_the_page_shows_the_record() -> None:
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    for rule in RULES:
        shown = "; ".join(f"{right} of {of} {kind}" for kind, (right, of) in likely_record.RECORD[rule].items())
        row = next(line for line in page.splitlines() if line.startswith(f"| `{rule}` |"))
        assert row.endswith(f"| {shown} |")
