"""The whole HTML report: the golden page, the order of findings, and that no evidence can break out of the page.

The golden page has no style sheet and no script. To update it, run `python -m tests.unit.jobs.report.test_page` and
read the diff.
"""

import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from evidence.tables import QUARANTINE
from jobs.report.filters import topic_text
from jobs.report.page import MAX_CAPTURES, MAX_EVIDENCE, fingerprint_in, render_report
from jobs.report.rows import MAX_DETAILS, MAX_LISTED, MAX_STATEMENTS, MAX_STATES
from replay.arrow.schemas import FINDINGS
from replay.findings.statements import statement
from tests.support.report_page import Page, without_style
from tests.support.report_rows import (
    SHA256,
    broken_rule,
    cut_log,
    exposure,
    fault,
    finding,
    placed,
    prediction,
    report,
    row,
    small_report,
    state,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "report_small.html"
HOSTILE_TOPICS = (
    "<script>alert(1)</script>",
    "gnp\u202etxt.exe",
    "quote\"'onmouseover=x",
    "new\nline\ttab",
    "{{ 7 * 7 }}{% raw %}",
    "]]></svg><img src=x onerror=y>",
)
PLANTED = {"topic", "explanation", "severity", "rule", "policy", "text", "path", "capture", "role", "source", "sha256"}
PLANTED |= {"cause", "outcome", "reason", "message", "table", "column", "suite", "expectation"}


def test_a_small_report_is_the_golden_page() -> None:
    assert without_style(render_report(small_report())) == GOLDEN.read_text(encoding="utf-8")


def test_proven_findings_come_first_then_larger_losses() -> None:
    bounds: list[tuple[str, str | None, int | None, int | None]] = [
        ("unknown-verdict", None, None, None),
        ("possible-none", "possible", None, None),
        ("possible-some", "possible", 0, 9),
        ("possible-open", "possible", 0, None),
        ("proven-7", "proven", 7, 7),
        ("proven-70", "proven", 70, 70),
        ("proven-70-75", "proven", 70, 75),
    ]
    findings = [finding(name, verdict=verdict, loss_min=low, loss_max=high) for name, verdict, low, high in bounds]
    links = re.findall(r'<a href="(#f-[^"]*)">evidence</a>', render_report(report(findings)))
    assert links == [
        *("#f-proven-70-75", "#f-proven-70", "#f-proven-7", "#f-possible-open", "#f-possible-some"),
        *("#f-possible-none", "#f-unknown-verdict"),
    ]


def test_the_order_of_the_rows_does_not_change_the_page() -> None:
    findings = [finding(f"hwm-{number}", partition=number % 3) for number in range(9)]
    small = small_report()
    elections = [small["page"]["elections"][0] | {"offset": offset} for offset in (110, 120, 130)]
    others = [small["predictions"][0] | {"policy": policy} for policy in ("b", "a", "c")]
    quarantined = [small["quarantine"][0] | {"position": position} for position in (7, None, 5)]
    checks = [small["quality"][0] | {"success": success, "column": None} for success in (True, False, None)]
    rows = {"elections": elections, "predictions": others, "quarantine": quarantined, "quality": checks}
    one = render_report(report(findings, **rows))
    assert one == render_report(report(findings[::-1], **{name: each[::-1] for name, each in rows.items()}))


def test_an_empty_report_states_that_nothing_was_flagged() -> None:
    page = Page(render_report(report([], captures=[])))
    assert "no window was flagged" in page.text
    assert "svg" not in page.tags()


def boundless(times: int) -> dict[str, Any]:
    """A report in which everything that the page shows is there many times; of each kind the first have most pieces."""
    blank = dict.fromkeys(field.name for field in FINDINGS.field("evidence").type.value_type)
    pieces = [blank | {"capture": "c", "path": f"f{n}", "sha256": SHA256, "position": n} for n in range(70 * times)]
    reason = [statement("log_end", value=n) for n in range(50 * times)]
    most = (1, None)  # pieces of a row, of the first ones
    every = (finding, prediction, exposure, cut_log, broken_rule, fault, partial(finding, verdict="excluded"))
    rows = [
        make(f"{number}-{n}", evidence=pieces[: most[n < 3]], reason=reason[: most[n < 3]], election_offset=n)
        for number, make in enumerate(every)
        for n in range((MAX_LISTED + 5) * times)
    ]
    states = [state(100 + n, 1, [1], replicas=list(range(150 * times))) for n in range(MAX_STATES)]
    return report(
        rows,
        states=placed(states),
        quarantine=[row(QUARANTINE, path=f"{n}", reason="r") for n in range((MAX_LISTED + 5) * times)],
        rows={"quarantine": (MAX_LISTED + 5) * times},
        captures=[f"capture-{n}" for n in range(30 * times)],
    )


def test_a_page_is_bounded_whatever_was_found() -> None:
    """Twice as much of everything gives as many elements of each kind, and says what is not shown."""
    htmls = [render_report(boundless(times)) for times in (1, 2)]
    first, second = (Counter(re.findall(r"<([a-z]+)", html)) for html in htmls)
    for tag in ("article", "details", "li", "table", "td", "th", "tr"):
        assert first[tag] == second[tag] > 0
    assert first["article"] == MAX_DETAILS
    for name, rows_each in (("windows", 2), ("exposure", 2), ("cut-logs", 2), ("rules", 1), ("faults", 1)):
        section = re.search(rf'<section id="{name}"[^>]*>.*?</section>', htmls[0], re.DOTALL)
        assert section is not None
        assert section[0].count("<tr") - section[0].count("<thead") == rows_each * MAX_LISTED, name
    for html, times in zip(htmls, (1, 2), strict=True):
        text = re.sub(r"<[^>]+>", "", html)
        more = (MAX_LISTED + 5) * times - MAX_LISTED
        assert f"Only the {MAX_DETAILS} worst findings are shown, " in text
        assert text.count(f"{more} more are not shown. All {more + MAX_LISTED}: kraft-forensics") == 7
        assert f"and {30 * times - MAX_CAPTURES} more" in text
        assert f"{70 * times - MAX_EVIDENCE} more are not shown. All: kraft-forensics explain 0-0" in text
        assert f"{50 * times - MAX_STATEMENTS} more are not shown. All: kraft-forensics explain 0-0" in text
        assert f"… ({150 * times} brokers)]" in text


def test_each_reference_has_its_target_and_each_id_is_unique() -> None:
    page = Page(render_report(report([finding("one"), finding("other")])))
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert {href.removeprefix("#") for href in page.attributes("href")} <= set(ids)
    for names in page.attributes("aria-labelledby"):
        assert set(names.split()) <= set(ids)
    for fill in page.attributes("fill"):
        assert fill.removeprefix("url(#").removesuffix(")") in ids


def plant(value: Any, text: str) -> Any:
    """The value with the text in place of every name and text of evidence."""
    if isinstance(value, dict):
        return {name: text if name in PLANTED and isinstance(x, str) else plant(x, text) for name, x in value.items()}
    return [plant(each, text) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("topic", HOSTILE_TOPICS)
def test_a_hostile_name_stays_text(topic: str) -> None:
    honest = Page(render_report(small_report()))
    html = render_report(plant(small_report(), topic) | {"captures": [topic], "rows": {topic: 1}})
    page = Page(html)
    assert page.tags() <= honest.tags()
    assert {name for _, attrs in page.elements for name in attrs} <= {name for _, a in honest.elements for name in a}
    assert "illegal topic name" in page.text
    assert topic_text(topic) in page.text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html)
    html.encode("utf-8")


def test_a_page_has_the_fingerprint_of_its_tables() -> None:
    page = render_report(small_report() | {"cluster_id": "x" * 5000}).encode()
    assert fingerprint_in(page) == "0123456789abcdef"
    assert fingerprint_in(b"<html><title>another page</title>") is None


if __name__ == "__main__":
    GOLDEN.write_text(without_style(render_report(small_report())), encoding="utf-8")
