"""The HTML report: what it says, in which order, and that nothing in the evidence can break out of it.

The golden page has its style sheet left out. After a wanted change run
`python -m tests.unit.jobs.report.test_page` and read the diff.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from evidence.tables import QUARANTINE
from jobs.report.filters import duration_text, is_legal_topic, loss_text, topic_text, utc_text, visible
from jobs.report.order import LASTED, LASTED_AT_LEAST
from jobs.report.page import element_id, fingerprint_in, render_report
from jobs.report.rows import MAX_DETAILS, MAX_LISTED, ReportInput, Section, Totals, section_of
from jobs.report.timeline_svg import MAX_STATES, around_window, draw_timeline, lanes_of
from jobs.report.words import POLICY_NAMES, policy_name
from replay.arrow.schemas import COUNTERFACTUALS, ELECTIONS, FINDINGS, PARTITION_HISTORY
from replay.controller.profiles import PROFILES
from replay.findings.statements import prose, statement
from replay.whatif.recovery_policies import POLICIES

GOLDEN = Path(__file__).parents[2] / "golden" / "report_small.html"
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
        "unclean_leader_election_enable_source": "assumed_default",
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


def placed(states: list[dict[str, Any]], before: int = 0, total: int | None = None) -> list[dict[str, Any]]:
    """States as a report is given them. before: how many of the history's are left out before them."""
    whole = len(states) if total is None else total
    return [each | {"place": before + number, "total": whole} for number, each in enumerate(states)]


def lasted_ms(row: dict[str, Any]) -> int | None:
    """How long an exposure lasted, as its statement says, else by its times."""
    said = [
        s["value"] for s in row["reason"] or [] if s["code"] in (LASTED, LASTED_AT_LEAST) and s["value"] is not None
    ]
    start, end = row["start_timestamp_ms"], row["end_timestamp_ms"]
    return said[0] if said else None if start is None or end is None else end - start


def counted(findings: list[dict[str, Any]]) -> Totals:
    """What jobs/report/totals.py counts, one by one."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    names = ("kind", "verdict", "rule", "rule_version")
    for each in findings:
        group = groups.setdefault(
            tuple(each[name] for name in names),
            {name: each[name] for name in names} | {"findings": 0, "unended": 0, "lasted_ms": 0, "longest_ms": None},
        )
        lasted = lasted_ms(each)
        group["findings"] += 1
        group["unended"] += each["end_offset"] is None
        group["lasted_ms"] += max(lasted or 0, 0)
        group["longest_ms"] = max((ms for ms in (lasted, group["longest_ms"]) if ms is not None), default=None)
    flagged = [each for each in findings if section_of(each) is Section.WINDOWS]
    proven = [each for each in flagged if each["verdict"] == "proven" and each["loss_min"]]
    places, proven_places = ({(f["topic_id"], f["topic"], f["partition"]) for f in some} for some in (flagged, proven))
    return Totals(
        groups=list(groups.values()),
        partitions=len(places),
        proven_partitions=len(proven_places),
        proven_least=sum(each["loss_min"] for each in proven),
        proven_exact=all(each["loss_min"] == each["loss_max"] for each in proven),
    )


def report(findings: list[dict[str, Any]], **values: Any) -> ReportInput:
    given: dict[str, Any] = {
        "totals": counted(findings),
        "fingerprint": "0123456789abcdef",
        "cluster_id": "5L6g3nShT-eMCtK--X86sw",
        "generated_from": ["capture-1"],
        "counterfactuals": [],
        "timelines": {(TOPIC_ID, 0): placed(history())},
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
        finding(
            would_be_leader=2,
            policy="unclean_recovery_balanced",
            unacked_min=3,
            unacked_max=5,
            evidence=[evidence],
            reason=window_reason(),
        ),
        prediction("would-1"),
        exposure("leaderless-1"),
        cut_log("cut-1"),
        broken_rule("rule-1"),
        fault("gap-1"),
    ]
    shipped = other | {"policy": "profile_4.3", "leader": 1, "differs": False, "loss_min": 70, "loss_max": 70}
    return report(
        findings,
        counterfactuals=[other, shipped, other | {"policy": "min_isr_3"}],
        elections=[election],
        quality=[check],
        quarantine=[held],
        counts={"findings": 7, "partition_history": 4},
    )


def window_reason() -> list[dict[str, Any]]:
    """Statements of all natures, as of a loss in Kafka's own topic."""
    return [
        statement("elected", [1], offset=120, leader_epoch=2, text="__consumer_offsets-0"),
        statement("log_end", value=500),
        statement("lost_at_least", value=70),
        statement("clocks", value=250),
        statement("consumer_offsets"),
        statement("would_elect", [2]),
    ]


def other_kind(finding_id: str, **values: Any) -> dict[str, Any]:
    """A finding that is no window: it judges no loss."""
    nothing = dict.fromkeys(("election_offset", "loss_min", "loss_max", "first_lost_offset", "recorded_leader"))
    given = {"severity": "medium", "rule": values["kind"]}
    return finding(finding_id, **(nothing | given | values))


def prediction(finding_id: str, **values: Any) -> dict[str, Any]:
    """Under Kafka 4.0's rules the window of `finding()` would have lost more."""
    given = {
        "kind": "hwm_regression_counterfactual",
        "verdict": "possible",
        "severity": "low",
        "loss_min": 90,
        "loss_max": None,
        "first_lost_offset": None,
        "would_be_leader": 3,
        "policy": "profile_4.0",
        "reason": [statement("policy_elects", [3], text="profile_4.0")],
        "explanation": "Prediction: under profile_4.0 broker 3 would have led.",
    }
    return finding(finding_id, **(given | values))


def exposure(finding_id: str, lasted: int = 20_000, code: str = "exposed_for", **values: Any) -> dict[str, Any]:
    reason = [
        statement("leader_lost", [3], offset=110, leader_epoch=1),
        statement(code, value=lasted),
        statement("leaderless_means"),
    ]
    given = {"kind": "leaderless", "reason": reason, "explanation": prose(reason)}
    return other_kind(finding_id, **(given | values))


def cut_log(finding_id: str, **values: Any) -> dict[str, Any]:
    reason = [
        statement("log_end_before", [2], value=560, text="2023-11-14 22:13:25.000 UTC"),
        statement("log_end_after", value=500, text="2023-11-14 22:13:45.000 UTC"),
        statement("tail_lost", value=60),
        statement("one_copy_less"),
    ]
    place = {"capture": "capture-1", "path": "broker-2/log-start-offset", "sha256": SHA256, "position": 4}
    blank = dict.fromkeys(("leader_epoch", "offset", "captured_at_ms")) | {"source": "log_end", "broker_id": 2}
    evidence = [blank | place | {"role": role, "value": value} for role, value in (("before", 560), ("after", 500))]
    told = {"reason": reason, "explanation": prose(reason), "evidence": evidence}
    return other_kind(finding_id, **({"kind": "log_truncation"} | told | values))


def broken_rule(finding_id: str, **values: Any) -> dict[str, Any]:
    reason = [
        statement("invariant_broken", text="No replica is in the ISR and in the ELR."),
        statement("invariant_means", text="One copy is counted twice."),
    ]
    given = {"kind": "invariant_violation", "rule": "isr_and_elr_disjoint"}
    return other_kind(finding_id, **(given | {"reason": reason, "explanation": prose(reason)} | values))


def fault(finding_id: str, **values: Any) -> dict[str, Any]:
    nowhere = dict.fromkeys(("topic", "topic_id", "partition", "end_offset"))
    text = "Offsets 40 to 49 are in no captured file."
    told = {"reason": [statement("fault", text=text)], "explanation": text}
    given = {"kind": "evidence_gap", "rule": "offset_gap", "verdict": "undetermined"}
    return other_kind(finding_id, **(nowhere | told | given | values))


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
    assert f"Only the {MAX_DETAILS} worst findings are shown" in page.text
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
    assert page.of_class("div", "box") == 1  # what other rules would have done
    assert 'prediction-value">2</span> <span class="tag prediction">prediction</span>' in html
    assert "true (assumed: no config in the evidence) estimate" in page.text
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


def test_a_lone_surrogate_is_shown_as_an_escape() -> None:
    """Tables cannot hold one, so that none comes from findings."""
    assert visible("lone\ud800surrogate") == r"lone\ud800surrogate"


@pytest.mark.parametrize("topic", HOSTILE_TOPICS)
def test_a_hostile_name_stays_text(topic: str) -> None:
    honest = Page(render_report(small_report()))
    planted = small_report()
    rows = [*planted.findings, *planted.elections, *planted.counterfactuals, *planted.timelines[TOPIC_ID, 0]]
    for each in rows:
        each["topic"] = topic
    for each in planted.findings:
        each |= {"explanation": f"It was {topic}.", "severity": topic, "rule": topic, "policy": topic}
        each["reason"] = [said | {"text": topic} for said in each["reason"] or []]
        for piece in each["evidence"] or []:
            piece |= {"path": topic, "capture": topic, "role": topic, "source": topic, "sha256": topic}
    planted.elections[0]["cause"] = topic
    planted.counterfactuals[0] |= {"policy": topic, "outcome": topic, "explanation": topic}
    planted.quarantine[0] |= {"path": topic, "reason": topic, "message": topic, "capture": topic}
    planted.quality[0] |= {"table": topic, "column": topic, "suite": topic, "expectation": topic}
    planted.generated_from[:] = [topic]
    planted.counts[topic] = 1
    planted = replace(planted, totals=counted(planted.findings))
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
    page = Page(render_report(report([finding()], timelines={(TOPIC_ID, 0): placed(states)})))
    assert lanes_of(states) == [3, 1, 2, 4, 5]
    assert page.of_class("g", "lane") == 5
    assert page.of_class("g", "state") == 5
    assert page.of_class("g", "window") == 2  # the window and the legend's
    assert page.of_class("g", "judged") == 1
    assert page.of_class("rect", "recovering") == 2  # one state and the legend's
    assert page.of_class("rect", "leaderless") == 2


def test_equal_neighbours_are_one_band() -> None:
    states = [state(100 + step, 3, [3, 1, 2]) for step in range(30)]
    page = Page(str(draw_timeline(around_window(placed(states), finding()), finding(), "f-x")))
    assert page.of_class("rect", "isr") == 3 + 2  # and two in the legend
    assert page.of_class("g", "state") == 30


@pytest.mark.parametrize(
    ("window", "election", "before"),
    [((500, 510), 505, 476), ((0, 5), 3, 0), ((995, None), 996, 940), ((100, 900), 101, 90), ((100, 900), 800, 770)],
)
def test_a_long_history_shows_the_states_around_the_window(
    window: tuple[int, int | None], election: int, before: int
) -> None:
    states = placed([state(offset, 3, [3]) for offset in range(1000)])
    one = finding(start_offset=window[0], end_offset=window[1], election_offset=election)
    span = around_window(states, one)
    assert (span.before, span.after) == (before, 1000 - before - MAX_STATES)
    assert any(each["offset"] == election for each in span.states)
    page = Page(render_report(report([one], timelines={(TOPIC_ID, 0): states})))
    assert page.of_class("g", "state") == MAX_STATES
    assert f"{span.before} earlier and {span.after} later states are not shown" in page.text


@pytest.mark.parametrize("window", [(500, 510, 505), (0, 5, 3), (995, None, 996), (100, 900, 800), (None, 900, None)])
def test_the_states_near_a_window_are_enough_for_its_timeline(
    window: tuple[int | None, int | None, int | None],
) -> None:
    start, end, election = window
    one = finding(start_offset=start, end_offset=end, election_offset=election)
    states = placed([state(offset, 3, [3]) for offset in range(1000)])
    middles = [each or 0 for each in (start, election)]
    near = [each for each in states if any(abs(each["place"] - middle) <= MAX_STATES for middle in middles)]
    assert around_window(near, one) == around_window(states, one)


def test_a_removed_topic_and_unknown_values_can_be_drawn() -> None:
    gone = state(140, -1, [], removed=True) | dict.fromkeys(
        ("replicas", "isr", "elr", "leader", "leader_epoch", "timestamp_ms", "leader_recovery_state")
    )
    hidden = state(135, -1, []) | {"isr": None, "leader": None, "leader_epoch": None}
    page = Page(render_report(report([finding()], timelines={(TOPIC_ID, 0): placed([*history(), hidden, gone])})))
    assert "topic removed" in page.text
    assert page.of_class("line", "unknown") == 3


def test_a_window_without_history_has_a_section_too() -> None:
    page = Page(render_report(report([finding()], timelines={})))
    assert "This finding has no partition history." in page.text


def section_text(html: str, name: str) -> str:
    """The text of one section of the page; empty where the page has none."""
    found = re.search(rf'<section id="{name}">.*?(?=<section id="|</main>)', html, re.DOTALL)
    return "" if found is None else re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[0]))


def test_a_fault_of_the_log_is_no_window_and_claims_no_loss() -> None:
    parted = fault("f-1", kind="controller_divergence", verdict="proven", explanation="Logs part.", reason=None)
    html = render_report(report([parted, fault("f-2")]))
    page = Page(html)
    assert "No window was flagged in this evidence." in page.text
    for text in ("controller_ divergence", "Logs part.", "offset_ gap", "Offsets 40 to 49 are in", "whole cluster"):
        assert text in section_text(html, "faults")
    assert "proven loss" not in page.text.lower()
    both = Page(render_report(report([parted, finding()])))
    assert "1 window flagged on 1 partition." in both.text


def test_every_kind_stands_in_its_own_section() -> None:
    one_of_each = {
        "windows": finding(),
        "other-rules": prediction("a"),
        "exposure": exposure("b"),
        "cut-logs": cut_log("c"),
        "rules": broken_rule("d"),
        "faults": fault("e"),
    }
    words = {
        "windows": "ledger-0 hwm_regression",
        "other-rules": "hwm_ regression_ counterfactual",
        "exposure": "leaderless",
        "cut-logs": "log_truncation",
        "rules": "isr_ and_ elr_ disjoint",
        "faults": "evidence_ gap",
    }
    html = render_report(report(list(one_of_each.values())))
    for section, word in words.items():
        assert [name for name in words if word in section_text(html, name)] == [section]
    for left_out in set(words) - {"windows"}:
        rows = [row for name, row in one_of_each.items() if name != left_out]
        assert section_text(render_report(report(rows)), left_out) == ""


def test_only_windows_count_in_the_verdicts() -> None:
    rows = [prediction("a"), exposure("b"), cut_log("c"), broken_rule("d"), fault("e")]
    html = render_report(report([finding(verdict="possible", loss_min=0, loss_max=None), *rows]))
    cards = re.findall(r'<li class="card (\w+)"><strong>(\d+)</strong> <span', html)
    assert dict(cards) == {"proven": "0", "possible": "1", "undetermined": "0", "excluded": "0"}
    assert "1 window flagged on 1 partition. None of them is a proven loss." in html


def test_predictions_are_grouped_by_window_and_by_what_they_come_to() -> None:
    there = {"partition": 1, "election_offset": 220, "would_be_leader": 2}
    rows = [
        prediction("a"),
        prediction("b", policy="min_isr_1"),
        prediction("c", policy="before_elr", loss_min=4, loss_max=9, would_be_leader=2),
        prediction("d", kind="unclean_recovery_divergence", severity="medium", loss_min=0, loss_max=0, **there),
    ]
    html = render_report(report([finding(), *rows]))
    shown = section_text(html, "other-rules")
    assert shown.index("ledger-1") < shown.index("ledger-0")  # the medium one first
    assert shown.count("ledger-0") == 1
    assert "3 ≥ 90 Kafka 3.9 and 4.0; min.insync.replicas = 1" in shown
    assert "2 4–9 without ELR" in shown
    assert "broker 1 lost 70 (proven)" in shown
    assert 'election at 120, <a href="#f-hwm-1">detail</a>' in html
    assert "election at 220</small>" in html
    assert "Proven loss: exactly 70 offsets" in html


def test_exposures_are_longest_first_with_what_they_sum_up_to() -> None:
    open_end = {"end_offset": None, "end_timestamp_ms": None}
    rows = [
        exposure("short", 5_000),
        exposure("open", 65_000, "exposed_for_at_least", partition=1, **open_end),
        exposure("long", 3_600_000, partition=2),
        exposure("alone", kind="last_replica_standing", partition=3),
    ]
    shown = section_text(render_report(report(rows)), "exposure")
    assert "3 without a leader ≥ 1 h 1 min in total over all partitions, longest ≥ 1 h 0 min; 1 without an end" in shown
    assert "1 one replica left 20.0 s in total" in shown
    places = [shown.index(text) for text in ("1 h 0 min 2023", "≥ 1 min 5 s", "20.0 s 2023", " 5.0 s 2023")]
    assert places == sorted(places)
    assert "still exposed at the end of the log" in shown


def test_a_log_that_was_cut_says_what_is_gone_and_where_that_stands() -> None:
    html = render_report(report([cut_log("c")]))
    assert "ledger-0 2 log_truncation 560 500 ≥ 60" in section_text(html, "cut-logs")
    assert "broker-2/log-start-offset" in Page(html).text
    assert html.count(SHA256) == 1  # in the provenance


def test_a_reason_is_told_apart_by_nature() -> None:
    html = render_report(report([finding(reason=window_reason(), explanation="All in one.")]))
    shown = section_text(html, "details")
    for text in (
        "Recorded fact At metadata offset 120 broker 1 became leader of __consumer_offsets-0 with leader epoch 2.",
        "Bounded estimate The new leader&#39;s log ended at 500. Proven: at least 70 acknowledged offsets are",
        "Assumed estimate Clocks of different nodes are taken to differ by 250 ms at most.",
        "Predicted prediction Prediction: unclean recovery",
        "Meaning This is a partition of __consumer_offsets: what is lost are committed offsets",
    ):
        assert text in shown
    assert "All in one." not in html


@pytest.mark.parametrize("reason", [None, [], [statement("lost_open") | {"code": "of_a_newer_release"}]])
def test_a_finding_without_statements_that_are_known_has_its_explanation(reason: list[dict[str, Any]] | None) -> None:
    assert "Its log ended at 500." in section_text(render_report(report([finding(reason=reason)])), "details")


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (None, None, "evidence does not bound the loss"),
        (0, None, "evidence does not bound the loss"),
        (7, None, "lost at least 7 offsets; no upper bound is known."),
        (0, 9, "lost at most 9 offsets."),
        (None, 0, "lost nothing."),
        (7, 9, "lost at least 7 and at most 9 offsets."),
        (7, 7, "lost exactly 7 offsets."),
    ],
)
def test_what_other_producers_lost_is_worded_by_its_bounds(low: int | None, high: int | None, text: str) -> None:
    assert text in section_text(render_report(report([finding(unacked_min=low, unacked_max=high)])), "details")


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ("profile_4.1.1", "Kafka 4.1.1 to 4.2"),
        ("profile_5.0", "Kafka 5.0"),
        ("before_elr_unclean", "without ELR, unclean election on"),
        ("min_isr_2", "min.insync.replicas = 2"),
        ("deprioritized_1_12", "deprioritized: 1, 12"),
        ("deprioritized_recorded_leader", "recorded leader deprioritized"),
        ("unclean_recovery_none", "unclean recovery, None"),
        ("min_isr_\u0665", "min_isr_\u0665"),
        (None, "unknown"),
    ],
)
def test_policies_have_names_for_people(policy: str | None, name: str) -> None:
    assert policy_name(policy) == name


def test_every_policy_and_profile_has_a_name() -> None:
    asked = [*POLICIES, *(f"profile_{name}" for name in PROFILES)]
    assert [policy for policy in asked if policy not in POLICY_NAMES] == []


def test_rules_that_come_to_the_same_are_one_answer() -> None:
    small = small_report()
    twin = small.counterfactuals[1] | {"policy": "profile_4.0"}
    page = section_text(render_report(replace(small, counterfactuals=[*small.counterfactuals, twin])), "details")
    assert "Kafka 3.9 and 4.0; Kafka 4.3 and 4.4 elected 1" in page


def test_predictions_in_a_detail_stand_by_family() -> None:
    page = section_text(render_report(small_report()), "details")
    words = [
        "Rules of Kafka",
        "Kafka 4.3 and 4.4",
        "Another min.insync",
        "min.insync.replicas = 3",
        "Proposals",
        "Balanced",
    ]
    places = [page.rindex(word) for word in words]
    assert places == sorted(places)
    assert "no Kafka release runs these" not in page


@pytest.mark.parametrize("make", [exposure, cut_log, broken_rule, fault, prediction])
def test_lists_are_capped_and_say_what_they_leave_out(make: Callable[..., dict[str, Any]]) -> None:
    shown = [make(f"f-{number}") for number in range(2)]
    group = counted([make("f")]).groups[0]
    totals = replace(counted(shown), groups=[group | {"findings": 5000}])
    page = Page(render_report(report(shown, totals=totals)))
    assert "4998 more are not shown; the findings table has all 5000." in page.text
    many = Page(render_report(report([make(f"f-{number}") for number in range(MAX_LISTED + 7)])))
    assert f"7 more are not shown; the findings table has all {MAX_LISTED + 7}." in many.text


def test_files_are_cited_for_what_is_shown() -> None:
    paths = ["of-a-detail", "of-a-fault", "of-an-exclusion"]
    blank = dict.fromkeys(field.name for field in FINDINGS.field("evidence").type.value_type)
    pieces = [[blank | {"capture": "c", "path": path, "sha256": SHA256}] for path in paths]
    rows = [
        finding(evidence=pieces[0]),
        fault("f", evidence=pieces[1]),
        finding("x", verdict="excluded", evidence=pieces[2]),
    ]
    page = Page(render_report(report(rows)))
    assert [path for path in paths if path in page.text] == paths[:2]


def test_a_page_carries_the_fingerprint_of_its_tables() -> None:
    page = render_report(replace(small_report(), cluster_id="x" * 5000)).encode()
    assert fingerprint_in(page) == "0123456789abcdef"
    assert fingerprint_in(b"<html><title>another page</title>") is None


if __name__ == "__main__":
    GOLDEN.write_text(without_style(render_report(small_report())), encoding="utf-8")
