"""The report as Markdown and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from jobs.incident.focus import Focus
from jobs.report.texts import as_json, as_markdown
from jobs.report.words import focus_text
from tests.support.report_rows import exposure, finding, report, small_report


def test_markdown_has_answer_plan_windows_policies_and_evidence() -> None:
    text = as_markdown(small_report())
    assert text.startswith("# Kafka metadata incident report: ")
    for part in (
        "**LOST: at least 70 acknowledged records of ledger-0, ",
        "## What would have been lost under each policy (predictions)",
        "| ledger-0 | proven | 70 | 2023-11-14 22:13:30.000 | 20.0 s | 1 | hwm-1 |",
        "### How ledger-0 lost records (hwm-1)",
        "## Exposures",
        "- Kafka release: 4.3.1",
        "   - `kafka-",
    ):
        assert part in text


def test_markdown_has_the_digests_of_what_it_is_made_from() -> None:
    made_from = {"captures": {"a|b": "cd" * 32}, "tables": {"findings": {"version": 3, "digest": "ef" * 32}}}
    text = as_markdown(replace(small_report(), made_from=made_from), digests=True)
    assert f"| files of a\\|b | {'cd' * 32} |" in text
    assert f"| findings, version 3 | {'ef' * 32} |" in text


@pytest.mark.parametrize("topic", ["<script>", "[x](y)", "`a` *b*", "| a |", "new\nline"])
def test_names_mark_nothing_up(topic: str) -> None:
    plain, planted = (as_markdown(report([finding(topic=name), exposure("e", topic=name)])) for name in ("x", topic))
    assert len(planted.splitlines()) == len(plain.splitlines())
    for character in "<[`*|":
        bare = [at for at, each in enumerate(planted) if each == character and planted[at - 1] != "\\"]
        assert len(bare) == len([at for at, each in enumerate(plain) if each == character and plain[at - 1] != "\\"])


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
    assert "raw" not in found["quarantine"][0]
    many = json.loads(as_json(report([finding(f"w{n}") for n in range(305)])))
    assert many["findings"]["windows"]["left_out"] == 5
    assert len(many["findings"]["windows"]["rows"]) == 300


def test_a_narrowed_report_says_so_first() -> None:
    focus = Focus(1_700_000_000_000, None, "led\nger")
    assert focus_text(focus) == r"topic led\nger, 2023-11-14 22:13:20.000 to the end UTC"
    narrowed = report([finding()], focus=focus)
    assert as_markdown(narrowed).splitlines()[2].startswith("**Narrowed to topic led")
    assert json.loads(as_json(narrowed))["narrowed_to"]["topic"] == "led\nger"
