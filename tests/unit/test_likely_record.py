"""The record of the rules of `likely`, and what the maker makes of a small fixed set of lives."""

from __future__ import annotations

from typing import Any

from replay.loss import likely_record
from replay.loss.likely import RULES
from replay.loss.verdicts import KEPT, LOST, UNKNOWN
from tests.likely.record import DRILLS, LIVES, Case, cases_of_lives, module, record_of, report
from tests.support.paths import ROOT

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
