"""The report as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from jobs.incident.focus import Focus
from jobs.report.load import load_report
from jobs.report.texts import as_json
from jobs.report.words import focus_text
from tests.support.report_rows import finding, lake_of, report, small_report


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
