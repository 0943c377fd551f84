"""The HTML report: what it says, in which order, and that nothing in the evidence can break out of it.

The golden page has its style sheet left out. After a wanted change run `python tests/unit/test_report_html.py` and
read the diff.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from evidence.tables import QUARANTINE
from jobs.report_html import MAX_DETAILS, ReportInput, element_id, render_report
from jobs.report_svg import MAX_STATES, around_window, draw_timeline, lanes_of
from jobs.templates import duration_text, is_legal_topic, loss_text, topic_text, utc_text, visible
from replay.tables import COUNTERFACTUALS, ELECTIONS, FINDINGS, PARTITION_HISTORY

GOLDEN = Path(__file__).parent / "golden" / "report_small.html"
TOPIC_ID = "HS26_evqTuGXhSeNomuVKg"
START_MS = 1_700_000_000_000
SHA256 = "ab" * 32
VOID_TAGS = {"meta", "br", "wbr"}
HOSTILE_TOPICS = (
    "<script>alert(1)</script>",
    "gnp\u202etxt.exe",
    "quote\"'onmouseover=x",
    "new\nline\ttab",
    "{{ 7 * 7 }}{% raw %}",
    "]]></svg><img src=x onerror=y>",
    "lone\ud800surrogate",
)


class Page(HTMLParser):
    """The elements of a page; fails on a tag that closes another one than the last opened."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID_TAGS:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text += data

    def attributes(self, name: str) -> list[str]:
        return [str(attrs[name]) for _, attrs in self.elements if name in attrs]

    def of_class(self, tag: str, name: str) -> int:
        return sum(1 for each, attrs in self.elements if each == tag and name in (attrs.get("class") or "").split())

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}


def row(schema: pa.Schema, **values: Any) -> dict[str, Any]:
    assert set(values) <= set(schema.names)
    return dict.fromkeys(schema.names) | values


def finding(finding_id: str = "hwm-1", **values: Any) -> dict[str, Any]:
    given = {
        "kind": "hwm_regression",
        "topic_id": TOPIC_ID,
        "topic": "ledger",
        "partition": 0,
        "start_offset": 110,
        "end_offset": 130,
        "start_timestamp_ms": START_MS + 10_000,
        "end_timestamp_ms": START_MS + 30_000,
        "election_offset": 120,
        "verdict": "proven",
        "severity": "critical",
        "loss_min": 70,
        "loss_max": 70,
        "first_lost_offset": 500,
        "recorded_leader": 1,
        "rule": "hwm_regression",
        "rule_version": 1,
        "explanation": "Broker 1 was elected from outside the ISR.\nIts log ended at 500.",
    }
    return row(FINDINGS, finding_id=finding_id, **(given | values))


def state(offset: int, leader: int, isr: list[int], elr: list[int] | None = None, **values: Any) -> dict[str, Any]:
    given = {
        "timestamp_ms": START_MS + (offset - 100) * 1000,
        "topic_id": TOPIC_ID,
        "topic": "ledger",
        "partition": 0,
        "replicas": [3, 1, 2],
        "elr": elr or [],
        "last_known_elr": [],
        "leader_epoch": (offset - 100) // 10,
        "partition_epoch": (offset - 100) // 10,
        "leader_recovery_state": "RECOVERED",
        "min_isr": 2,
        "min_isr_source": "topic",
        "unclean_leader_election_enable": True,
        "unclean_leader_election_enable_source": "default",
        "removed": False,
        "origin": "log",
    }
    return row(PARTITION_HISTORY, offset=offset, leader=leader, isr=isr, **(given | values))


def history() -> list[dict[str, Any]]:
    return [
        state(100, 3, [3, 2]),
        state(110, -1, [], [3]),
        state(120, 1, [1], leader_recovery_state="RECOVERING"),
        state(130, 1, [1, 3]),
    ]


def report(findings: list[dict[str, Any]], **values: Any) -> ReportInput:
    given: dict[str, Any] = {
        "cluster_id": "5L6g3nShT-eMCtK--X86sw",
        "generated_from": ["capture-1"],
        "counterfactuals": [],
        "timelines": {(TOPIC_ID, 0): history()},
        "elections": [],
        "quality": [],
        "quarantine": [],
        "counts": {},
    }
    return ReportInput(findings=findings, **(given | values))


def small_report() -> ReportInput:
    evidence = {
        "role": "high_watermark",
        "source": "replication_offset",
        "broker_id": 3,
        "value": 570,
        "leader_epoch": None,
        "offset": None,
        "captured_at_ms": START_MS,
        "capture": "capture-1",
        "path": "broker-3/replication-offset-checkpoint",
        "sha256": SHA256,
        "position": 12,
    }
    partition = {"topic_id": TOPIC_ID, "topic": "ledger", "partition": 0}
    other = row(
        COUNTERFACTUALS,
        **partition,
        finding_id="hwm-1",
        offset=120,
        policy="unclean_recovery_balanced",
        outcome="elected",
        leader=2,
        last_written_leader_epoch=0,
        log_end_offset=560,
        loss_min=10,
        loss_max=10,
        differs=True,
        explanation="Broker 2 has the longer log.",
    )
    election = row(
        ELECTIONS,
        **partition,
        offset=120,
        timestamp_ms=START_MS + 20_000,
        leader_epoch=2,
        previous_leader=3,
        leader=1,
        cause="unclean",
        leader_recovery_state="RECOVERING",
        isr_before=[],
        elr_before=[3],
        last_known_elr_before=[],
        candidates=[1, 2],
    )
    held = row(
        QUARANTINE,
        capture="capture-1",
        path="controller-3000/00000000000000000000.log",
        position=4096,
        length_bytes=61,
        reason="crc_mismatch",
        message="CRC does not match at byte 4096",
        raw=b"\x00planted-secret",
    )
    check = {
        "suite": "evidence",
        "table": "log_end_offsets",
        "expectation": "expect_column_values_to_not_be_null",
        "column": "captured_at_ms",
        "success": False,
        "unexpected_count": 4,
        "element_count": 96,
    }
    findings = [
        finding("ok-1", verdict="excluded", loss_min=0, loss_max=0, explanation="The new leader was in the ISR."),
        finding(would_be_leader=2, policy="unclean_recovery_balanced", unacked_max=5, evidence=[evidence]),
    ]
    return report(
        findings,
        counterfactuals=[other],
        elections=[election],
        quality=[check],
        quarantine=[held],
        counts={"findings": 2, "partition_history": 4},
    )


def without_style(html: str) -> str:
    return re.sub(r"<style>.*?</style>", "<style></style>", html, flags=re.DOTALL)


def test_a_small_report_is_the_golden_page() -> None:
    assert without_style(render_report(small_report())) == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (70, 70, "70"),
        (70, 75, "70–75"),
        (70, None, "≥ 70"),
        (None, 75, "≤ 75"),
        (None, None, "unknown"),
        (0, 0, "0"),
        (0, None, "≥ 0"),
    ],
)
def test_loss_is_worded_by_its_bounds(low: int | None, high: int | None, text: str) -> None:
    one = finding(loss_min=low, loss_max=high)
    assert loss_text(one) == text
    assert f'<td class="num loss">{text}</td>' in render_report(report([one]))


def test_proven_comes_first_then_the_larger_loss() -> None:
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
    links = [href for href in Page(render_report(report(findings))).attributes("href") if href.startswith("#f-")]
    assert links == [
        "#f-proven-70-75",
        "#f-proven-70",
        "#f-proven-7",
        "#f-possible-open",
        "#f-possible-some",
        "#f-possible-none",
        "#f-unknown-verdict",
    ]


def test_the_order_of_the_rows_does_not_change_the_page() -> None:
    findings = [finding(f"hwm-{number}", partition=number % 3) for number in range(9)]
    small = small_report()
    elections = [small.elections[0] | {"offset": offset} for offset in (110, 120, 130)]
    others = [small.counterfactuals[0] | {"policy": policy} for policy in ("b", "a", "c")]
    held = [small.quarantine[0] | {"position": position} for position in (7, None, 5)]
    checks = [small.quality[0] | {"success": success, "column": None} for success in (True, False, None)]
    rows = {"elections": elections, "counterfactuals": others, "quarantine": held, "quality": checks}
    one = render_report(report(findings, **rows))
    assert one == render_report(report(findings[::-1], **{name: each[::-1] for name, each in rows.items()}))


def test_an_empty_report_says_that_nothing_was_flagged() -> None:
    page = Page(render_report(report([], timelines={}, generated_from=[])))
    assert "no window was flagged" in page.text
    assert "svg" not in page.tags()


def test_excluded_findings_are_listed_apart_and_get_no_section() -> None:
    findings = [finding(f"ok-{number}", verdict="excluded", loss_min=0, loss_max=0) for number in range(300)]
    page = Page(render_report(report(findings)))
    assert "no window was flagged" in page.text
    assert "300 windows examined and excluded" in page.text
    assert page.of_class("details", "excluded-list") == 1
    assert "article" not in page.tags()


def test_findings_beyond_the_limit_are_counted_and_named() -> None:
    findings = [finding(f"hwm-{number:04}") for number in range(MAX_DETAILS + 3)]
    page = Page(render_report(report(findings, timelines={})))
    assert page.of_class("article", "finding") == MAX_DETAILS
    assert f"The {MAX_DETAILS} worst findings are shown" in page.text
    assert f"explain hwm-{MAX_DETAILS + 2:04}" in page.text


def test_the_headline_adds_up_what_is_proven() -> None:
    findings = [finding("a"), finding("b", partition=1, loss_min=5, loss_max=9), finding("c", verdict="possible")]
    page = Page(render_report(report(findings)))
    assert "3 windows flagged on 2 partitions. Proven loss: at least 75 offsets" in page.text


def test_a_verdict_of_another_release_is_refused() -> None:
    with pytest.raises(ValueError, match="finding 'hwm-1' has verdict 'likely'"):
        render_report(report([finding(verdict="likely")]))


def test_predictions_assumptions_and_facts_are_marked_as_such() -> None:
    html = render_report(small_report())
    page = Page(html)
    assert page.of_class("section", "fact") == 3  # what the log records, an exact proven loss, the evidence
    assert page.of_class("section", "prediction") == 2
    assert 'prediction-value">2</span> <span class="tag prediction">prediction</span>' in html
    assert "true (assumed: no config in the evidence)" in page.text
    assert "2 (topic config)" in page.text


def test_a_loss_with_bounds_is_an_estimate() -> None:
    page = Page(render_report(report([finding(loss_max=75)])))
    assert page.of_class("section", "estimate") == 1


def test_evidence_points_at_bytes() -> None:
    page = Page(render_report(small_report()))
    for text in ("high_watermark", "replication_offset", "570", "broker-3/replication-offset-checkpoint", SHA256):
        assert text in page.text


def test_quarantine_says_where_and_why_and_never_shows_the_bytes() -> None:
    page = Page(render_report(small_report()))
    assert "crc_mismatch" in page.text
    assert "4096" in page.text
    assert "planted-secret" not in page.text


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    html = render_report(small_report())
    page = Page(html)
    policy = next(attrs["content"] for tag, attrs in page.elements if tag == "meta" and "http-equiv" in attrs)
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert "script-src" not in policy
    assert not page.tags() & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert page.attributes("src") == []
    assert "//" not in html.replace("default-src", "")
    assert "@import" not in html
    assert set(re.findall(r"url\((.)", html)) <= {"#"}


def test_every_reference_has_its_target_and_every_id_is_single() -> None:
    page = Page(render_report(report([finding("same"), finding("same"), finding("other")])))
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert {href.removeprefix("#") for href in page.attributes("href")} <= set(ids)
    for names in page.attributes("aria-labelledby"):
        assert set(names.split()) <= set(ids)
    for fill in page.attributes("fill"):
        assert fill.removeprefix("url(#").removesuffix(")") in ids


def test_tables_and_drawings_are_described() -> None:
    page = Page(render_report(small_report()))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("caption") == tags.count("table")
    assert tags.count("desc") == tags.count("svg") == 1
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("topic", HOSTILE_TOPICS)
def test_a_hostile_name_stays_text(topic: str) -> None:
    honest = Page(render_report(small_report()))
    planted = small_report()
    rows = [*planted.findings, *planted.elections, *planted.counterfactuals, *planted.timelines[TOPIC_ID, 0]]
    for each in rows:
        each["topic"] = topic
    for each in planted.findings:
        each |= {"explanation": f"It was {topic}.", "kind": topic, "severity": topic, "rule": topic, "policy": topic}
        for piece in each["evidence"] or []:
            piece |= {"path": topic, "capture": topic, "role": topic, "source": topic, "sha256": topic}
    planted.elections[0]["cause"] = topic
    planted.counterfactuals[0] |= {"policy": topic, "outcome": topic, "explanation": topic}
    planted.quarantine[0] |= {"path": topic, "reason": topic, "message": topic, "capture": topic}
    planted.quality[0] |= {"table": topic, "column": topic, "suite": topic, "expectation": topic}
    planted.generated_from[:] = [topic]
    planted.counts[topic] = 1
    html = render_report(planted)
    page = Page(html)
    assert page.tags() <= honest.tags()
    assert {name for _, attrs in page.elements for name in attrs} <= {name for _, a in honest.elements for name in a}
    assert "illegal topic name" in page.text
    assert topic_text(topic) in page.text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html)
    html.encode("utf-8")


@pytest.mark.parametrize(
    ("finding_id", "expected"),
    [("hwm-1", "f-hwm-1"), ('x" onclick="y', "f-x-onclick-y"), ("<a>\n\u202e", "f--a-"), ("", "f-"), (None, "f-")],
)
def test_element_ids_hold_only_safe_characters(finding_id: str | None, expected: str) -> None:
    assert element_id(finding_id, set()) == expected


def test_element_ids_never_collide() -> None:
    taken: set[str] = set()
    assert [element_id(name, taken) for name in ("a b", "a/b", "a-b-2", "a.b")] == [
        "f-a-b",
        "f-a-b-2",
        "f-a-b-2-2",
        "f-a-b-3",
    ]


@pytest.mark.parametrize(
    ("topic", "shown", "legal"),
    [
        ("orders.v2_EU-west", "orders.v2_EU-west", True),
        ("a\u202eb", "a\\u202eb", False),
        ("a\nb\t\x00", "a\\nb\\t\\x00", False),
        ("pаypal", "p\\u0430ypal", False),  # the second letter is Cyrillic
        ("back\\slash", "back\\\\slash", False),
        (".", ".", False),
        ("x" * 300, "x" * 249 + "… (300 characters)", False),
    ],
)
def test_topic_names_are_shown_for_what_they_are(topic: str, shown: str, legal: bool) -> None:
    assert topic_text(topic) == shown
    assert is_legal_topic(topic) is legal


def test_prose_keeps_its_letters_but_no_hidden_character() -> None:
    assert visible("Größe 日本 \u200b\u2028\x1b[31m\xa0") == "Größe 日本 \\u200b\\u2028\\x1b[31m\\xa0"


def test_times_are_utc_and_impossible_ones_stay_numbers() -> None:
    assert utc_text(1_795_221_520_460) == "2026-11-21 00:38:40.460"
    assert utc_text(-1) == "1969-12-31 23:59:59.999"
    assert utc_text(2**63 - 1) == f"{2**63 - 1} ms"
    assert utc_text(None) == "unknown"


@pytest.mark.parametrize(
    ("elapsed_ms", "text"),
    [(7, "7 ms"), (31_060, "31.1 s"), (125_000, "2 min 5 s"), (7_500_000, "2 h 5 min"), (-5, "")],
)
def test_durations_read_naturally(elapsed_ms: int, text: str) -> None:
    assert duration_text(START_MS, START_MS + elapsed_ms) == text


def test_a_timeline_has_a_lane_per_replica_and_a_tick_per_state() -> None:
    states = [*history(), state(140, 1, [1, 4], replicas=[1, 4, 5])]
    page = Page(render_report(report([finding()], timelines={(TOPIC_ID, 0): states})))
    assert lanes_of(states) == [3, 1, 2, 4, 5]
    assert page.of_class("g", "lane") == 5
    assert page.of_class("g", "state") == 5
    assert page.of_class("g", "window") == 2  # the window and the legend's
    assert page.of_class("g", "judged") == 1
    assert page.of_class("rect", "recovering") == 2  # one state and the legend's
    assert page.of_class("rect", "leaderless") == 2


def test_equal_neighbours_are_one_band() -> None:
    states = [state(100 + step, 3, [3, 1, 2]) for step in range(30)]
    page = Page(str(draw_timeline(around_window(states, finding()), finding(), "f-x")))
    assert page.of_class("rect", "isr") == 3 + 2  # and two in the legend
    assert page.of_class("g", "state") == 30


@pytest.mark.parametrize(
    ("window", "election", "before"),
    [((500, 510), 505, 476), ((0, 5), 3, 0), ((995, None), 996, 940), ((100, 900), 101, 90), ((100, 900), 800, 770)],
)
def test_a_long_history_shows_the_states_around_the_window(
    window: tuple[int, int | None], election: int, before: int
) -> None:
    states = [state(offset, 3, [3]) for offset in range(1000)]
    one = finding(start_offset=window[0], end_offset=window[1], election_offset=election)
    span = around_window(states, one)
    assert (span.before, span.after) == (before, 1000 - before - MAX_STATES)
    assert any(each["offset"] == election for each in span.states)
    page = Page(render_report(report([one], timelines={(TOPIC_ID, 0): states})))
    assert page.of_class("g", "state") == MAX_STATES
    assert f"{span.before} earlier and {span.after} later states are left out" in page.text


def test_a_removed_topic_and_unknown_values_can_be_drawn() -> None:
    gone = state(140, -1, [], removed=True) | dict.fromkeys(
        ("replicas", "isr", "elr", "leader", "leader_epoch", "timestamp_ms", "leader_recovery_state")
    )
    hidden = state(135, -1, []) | {"isr": None, "leader": None, "leader_epoch": None}
    page = Page(render_report(report([finding()], timelines={(TOPIC_ID, 0): [*history(), hidden, gone]})))
    assert "topic removed" in page.text
    assert page.of_class("line", "unknown") == 3


def test_a_window_without_history_has_a_section_too() -> None:
    page = Page(render_report(report([finding()], timelines={})))
    assert "No partition history belongs to this finding." in page.text


def test_a_fault_of_the_log_is_no_window_and_claims_no_loss() -> None:
    nowhere = dict.fromkeys(("topic", "topic_id", "partition", "end_offset", "election_offset", "loss_min", "loss_max"))
    fault = finding("f-1", kind="controller_divergence", explanation="Logs part at offset 46.", **nowhere)
    page = Page(render_report(report([fault])))
    assert "In this evidence, no window was flagged." in page.text
    assert "Faults of the log and of the evidence" in page.text
    assert "Logs part at offset 46." in page.text
    assert "whole cluster" in page.text
    assert "proven loss" not in page.text.lower()
    both = Page(render_report(report([fault, finding()])))
    assert "1 window flagged on 1 partition." in both.text
    assert "Faults of the log" not in Page(render_report(report([finding()]))).text


if __name__ == "__main__":
    GOLDEN.write_text(without_style(render_report(small_report())), encoding="utf-8")
