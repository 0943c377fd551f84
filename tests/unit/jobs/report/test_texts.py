"""The verdict on a terminal, the ticket and the postmortem: short, of the same words as the page, and no name marks
anything up."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from jobs.incident.focus import Focus
from jobs.report.load import load_report
from jobs.report.page import render_report
from jobs.report.texts import as_json, as_postmortem, as_text, as_ticket
from jobs.report.words import focus_text
from tests.support.invoked import invoke
from tests.support.report_rows import (
    answered,
    evidence_file,
    finding,
    lake_of,
    page_one_of,
    report,
    small_plan,
    small_report,
)


def document(*findings: dict[str, Any], plan: dict[str, Any] | None = None) -> dict[str, Any]:
    plan = plan or small_plan()
    page = page_one_of(list(findings), plan)
    given = {"cluster_id": "c1", "page_one": page, "answer": answered(list(findings)), "plan": plan}
    return {**given, "evidence": {"captures": ["tuesday"]}, "report": "lake/report.html"}


def many() -> dict[str, Any]:
    proven = [finding(f"p{n}", partition=n) for n in range(120)]
    undecided = [finding(f"u{n}", partition=200 + n, verdict="possible", loss_max=None) for n in range(120)]
    return document(*proven, *undecided)


@pytest.mark.parametrize("columns", ["80", "120", "200"])
def test_a_terminal_gets_25_lines_whatever_was_found(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for given in (many(), document(), document(finding()), document(finding(verdict="possible", loss_max=None))):
        assert len(as_text(given)) <= 25


def test_a_ticket_has_at_most_40_lines_in_the_order_in_which_they_are_read() -> None:
    assert len(as_ticket(many()).splitlines()) <= 40
    ticket = as_ticket(document(finding(), finding("u", verdict="undetermined", loss_min=None, loss_max=None)))
    parts = [
        "**LOST: at least 70 acknowledged records of ledger-0, between ",
        "- MAY ALSO HAVE LOST records of ledger-0: no upper limit is known.",
        "- **Cause:** unclean.leader.election.enable let broker 1 lead ledger-0.",
        "| ledger-0 | proven | 70 | 500 | 2023-11-14 22:13:30 | 22:13:50 | hwm-1 |",
        "| ledger-0 | undetermined | not known | 500 | 2023-11-14 22:13:30 | 22:13:50 | u |",
        "**What happened** (UTC)",
        "**What to do, in this order**",
        "- **Not known:** ",
        "- **Predicted:** with unclean.leader.election.enable=false, ledger-0 would have waited for broker 3.",
        "Cluster c1, captures: tuesday. Report: lake/report.html",
    ]
    places = [ticket.replace("\\", "").find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


def test_a_postmortem_leaves_to_people_what_no_log_knows() -> None:
    text = as_postmortem(document(finding()), {"hwm-1": ["a", "b", "c", "d", "e"]})
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "## Summary",
        "## Impact",
        "## Timeline (UTC)",
        "## Root cause",
        "## Contributing factors",
        "## What went well in the evidence",
        "## What is not known",
        "## Follow-ups",
    ]
    assert "1. In sync: a" in text
    assert text.count("TODO") > 5


def test_no_loss_has_no_cause() -> None:
    possible = document(finding(verdict="possible", loss_max=None))
    assert "Cause: No loss is proven. One is possible where unclean.leader.election.enable let broker 1" in " ".join(
        as_text(possible)
    )
    assert not any(line.startswith(("Cause", "Predicted")) for line in as_text(document()))


def test_facts_and_commands_are_in_the_full_text() -> None:
    short, long = ("\n".join(as_text(document(finding()), full)) for full in (False, True))
    facts = [
        "     Fact: unclean.leader.election.enable was true for ledger (config layer: topic).",
        "     Assumed: min.insync.replicas is 1 for audit (config layer: assumed_default).",
        "     Predicted: An unclean election loses for good what only those brokers have.",
        "     Rule: leaderless, N10 (docs/findings.md#exposure)",
        '     kafka-configs.sh --bootstrap-controller "$CONTROLLERS" --alter --entity-type topics --entity-name ledger '
        "--add-config unclean.leader.election.enable=false",
    ]
    assert "$CONTROLLERS: host:port of a controller" in long
    assert all(line in long.splitlines() for line in facts)
    assert not any(line in short.splitlines() for line in facts)
    assert "kraft-forensics verdict --full" in short


def test_terminal_ticket_page_and_json_have_the_same_steps() -> None:
    given = document(finding())
    expected = [step["text"] for step in given["plan"]["steps"]]
    on_page = re.findall(r"<li>([^<]+)\n", render_report(small_report()).partition('<ol class="plan">')[2])
    texts = " ".join(" ".join(as_text(given)).split())
    marked = as_ticket(given).replace("\\", "")
    numbered = [f"{number}. {text}" for number, text in enumerate(expected, 1)]
    assert all(line in texts and line in marked for line in numbered)
    assert [html.unescape(text).strip() for text in on_page[: len(expected)]] == expected


def test_names_from_a_capture_mark_nothing_up() -> None:
    given = document(finding(topic="a](http://x)<b>`\x1b[31m"))
    ticket, text = as_ticket(given), "\n".join(as_text(given))
    assert "\x1b" not in ticket + text
    assert "a\\](http://x)\\<b\\>\\`" in ticket
    assert re.search(r"(?<!\\)[\[<>`]", ticket) is None


@pytest.mark.parametrize(("form", "start"), [("text", "Cluster c1\nLOST: "), ("markdown", "**LOST: "), ("json", "{")])
def test_the_command_prints_each_form(tmp_path: Path, form: str, start: str) -> None:
    lake_of(tmp_path, "c1", findings=[finding()], evidence_files=[evidence_file()])
    result = invoke(["verdict", "--lake", str(tmp_path), "--cluster", "c1", "--format", form])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(start)


def test_json_has_every_section_with_what_it_leaves_out() -> None:
    found = json.loads(as_json(small_report()))
    assert found["answer"]["status"] == "lost"
    assert found["narrowed_to"] is None
    assert {name: section["total"] for name, section in found["findings"].items()} == {
        **dict.fromkeys(("windows", "excluded", "other_rules", "exposures", "cut_logs", "rules", "faults"), 1)
    }
    assert found["findings"]["windows"]["rows"][0]["finding_id"] == "hwm-1"
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
