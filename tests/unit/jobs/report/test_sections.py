"""Sections of the report: which findings each lists, in which order, and what is left out."""

from __future__ import annotations

import re

from jobs.report.page import render_report
from tests.support.report_page import Page, section_text
from tests.support.report_rows import broken_rule, cut_log, exposure, fault, finding, prediction, report


def test_a_fault_of_the_log_is_not_a_window_and_claims_no_loss() -> None:
    parted = fault("f-1", kind="controller_divergence", verdict="proven", explanation="Logs part.", reason=None)
    html = render_report(report([parted, fault("f-2")]))
    page = Page(html)
    assert "No window was flagged in this evidence." in page.text
    for text in ("controller_ divergence", "Logs part.", "offset_ gap", "Offsets 40 to 49 are in", "whole cluster"):
        assert text in section_text(html, "faults")
    assert "proven loss" not in page.text.lower()
    both = Page(render_report(report([parted, finding()])))
    assert "LOST: exactly 70 acknowledged records of ledger-0" in both.text


def test_only_windows_count_in_the_verdicts() -> None:
    rows = [prediction("a"), exposure("b"), cut_log("c"), broken_rule("d"), fault("e")]
    html = render_report(report([finding(verdict="possible", loss_min=0, loss_max=None), *rows]))
    cards = [(name, count) for count, name in re.findall(r'<strong>(\d+)</strong> <span class="badge (\w+)">', html)]
    assert dict(cards) == {"proven": "0", "possible": "1", "undetermined": "0", "excluded": "0"}
    assert "MAY HAVE LOST records of ledger-0" in html
    assert "LOST:" not in html


def test_excluded_findings_are_listed_separately_without_a_section() -> None:
    findings = [finding(f"ok-{number}", verdict="excluded", loss_min=0, loss_max=0) for number in range(300)]
    page = Page(render_report(report(findings)))
    assert "no window was flagged" in page.text
    assert "300 windows examined and excluded" in page.text
    assert page.of_class("details", "excluded-list") == 1
    assert "article" not in page.tags()
