"""The verdict on a terminal, the ticket and the postmortem: short, of the same words as the page, and no name marks
anything up."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jobs.incident.focus import Focus
from jobs.report.load import load_report
from jobs.report.texts import as_json, as_text, as_ticket
from jobs.report.words import focus_text
from tests.support.report_rows import (
    answered,
    finding,
    lake_of,
    page_one_of,
    report,
    small_plan,
    small_report,
)


def document(*findings: dict[str, Any]) -> dict[str, Any]:
    page = page_one_of(list(findings), small_plan())
    given = {"cluster_id": "c1", "page_one": page, "answer": answered(list(findings)), "plan": small_plan()}
    return {**given, "evidence": {"captures": ["tuesday"]}, "report": "lake/report.html"}


def many() -> dict[str, Any]:
    proven = [finding(f"p{n}", partition=n) for n in range(120)]
    undecided = [finding(f"u{n}", partition=200 + n, verdict="possible", loss_max=None) for n in range(120)]
    return document(*proven, *undecided)


@pytest.mark.parametrize("columns", ["80", "120", "200"])
def test_a_terminal_gets_25_lines_whatever_was_found_and_a_ticket_40(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for given in (many(), document(), document(finding()), document(finding(verdict="possible", loss_max=None))):
        assert len(as_text(given)) <= 25
        assert len(as_ticket(given).splitlines()) <= 40


def test_no_loss_has_no_cause() -> None:
    possible = document(finding(verdict="possible", loss_max=None))
    assert "Cause: No loss is proven. One is possible where unclean.leader.election.enable let broker 1" in " ".join(
        as_text(possible)
    )
    assert not any(line.startswith(("Cause", "Predicted")) for line in as_text(document()))


def test_names_from_a_capture_mark_nothing_up() -> None:
    given = document(finding(topic="a](http://x)<b>`\x1b[31m"))
    ticket, text = as_ticket(given), "\n".join(as_text(given))
    assert "\x1b" not in ticket + text
    assert "a\\](http://x)\\<b\\>\\`" in ticket
    assert re.search(r"(?<!\\)[\[<>`]", ticket) is None


def test_json_has_every_section_with_what_it_leaves_out() -> None:
    found = json.loads(as_json(small_report()))
    assert found["answer"]["status"] == "lost"
    assert found["narrowed_to"] is None
    names = ("windows", "excluded", "other_rules", "exposures", "cut_logs", "rules", "faults")
    assert [found["findings"][name]["total"] for name in names] == [2, 1, 1, 4, 1, 1, 1]
    assert found["policies"][0]["policy"] == "profile_4.3"
    assert found["timeline"]["brokers"]["3"][0]["broker_id"] == 3
    assert found["evidence"]["files"][0]["sha256"] == "ab" * 32
    many = json.loads(as_json(report([finding(f"w{n}") for n in range(305)])))
    assert many["findings"]["windows"]["left_out"] == 5
    assert len(many["findings"]["windows"]["rows"]) == 300


def test_a_narrowed_report_says_so_first(tmp_path: Path) -> None:
    focus = Focus(1_700_000_000_000, None, "led\nger")
    assert focus_text(focus) == r"topic led\nger, 2023-11-14 22:13:20.000 to the end UTC"
    narrowed = load_report(lake_of(tmp_path, "c", findings=[finding()]), "c", focus=focus)
    assert json.loads(as_json(narrowed))["narrowed_to"]["topic"] == "led\nger"
