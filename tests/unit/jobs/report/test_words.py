"""Words and filters of the report; the glossary, which is a page of docs/, too."""

import shlex
from typing import Any

import pytest

from docs_site.glossary_page import document
from jobs.report.filters import duration_text, lost_text, topic_text, utc_text, visible
from jobs.report.page import render_report
from jobs.report.words import GLOSSARY, POLICY_NAMES, TERMS, policy_name
from replay.controller.profiles import PROFILES
from replay.findings.statements import statement
from replay.whatif.recovery_policies import POLICIES
from tests.support.paths import ROOT
from tests.support.report_page import Page, section_text
from tests.support.report_rows import START_MS, finding, report, small_report


@pytest.mark.parametrize("reason", [None, [], [statement("lost_open") | {"code": "of_a_newer_release"}]])
def test_a_finding_without_known_statements_shows_its_explanation(reason: list[dict[str, Any]] | None) -> None:
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
def test_losses_of_other_producers_are_worded_by_their_bounds(low: int | None, high: int | None, text: str) -> None:
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
        (None, "not known"),
    ],
)
def test_policies_have_readable_names(policy: str | None, name: str) -> None:
    assert policy_name(policy) == name


def test_every_policy_and_profile_has_a_name() -> None:
    policies = [*POLICIES, *(f"profile_{name}" for name in PROFILES)]
    assert [policy for policy in policies if policy not in POLICY_NAMES] == []


def test_a_record_is_found_by_its_metadata_offset() -> None:
    small = small_report()
    (command,) = Page(render_report(small | {"cluster_id": "c'1"})).attributes("data-record")
    assert shlex.split(str(command).replace("OFFSET", "7"))[-1] == (
        "select capture, path, position, payload from records where cluster_id = 'c\\'1' and metadata_offset = 7"
    )


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (70, 70, "70"),
        (70, 75, "70–75"),
        (70, None, "≥ 70"),
        (None, 75, "≤ 75"),
        (None, None, "not known"),
        (0, 0, "0"),
        (0, None, "not known"),
    ],
)
def test_loss_is_worded_by_its_bounds(low: int | None, high: int | None, text: str) -> None:
    one = finding(loss_min=low, loss_max=high)
    assert lost_text(one) == text
    assert f'<td class="num loss">{text}</td>' in render_report(report([one]))


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
def test_topic_names_are_shown_with_escapes(topic: str, shown: str, legal: bool) -> None:
    assert topic_text(topic) == shown
    page = render_report(report([finding(topic=topic)]))
    assert ("illegal topic name" not in page) is legal


def test_prose_keeps_letters_but_escapes_hidden_characters() -> None:
    assert visible("lone\ud800surrogate") == r"lone\ud800surrogate"  # tables cannot hold one
    assert visible("Größe 日本 \u200b\u2028\x1b[31m\xa0") == "Größe 日本 \\u200b\\u2028\\x1b[31m\\xa0"


def test_times_are_utc_and_impossible_ones_stay_numbers() -> None:
    assert utc_text(1_795_221_520_460) == "2026-11-21 00:38:40.460"
    assert utc_text(-1) == "1969-12-31 23:59:59.999"
    assert utc_text(2**63 - 1) == f"{2**63 - 1} ms"
    assert utc_text(None) == "not known"


@pytest.mark.parametrize(
    ("elapsed_ms", "text"),
    [(7, "7 ms"), (31_060, "31.1 s"), (125_000, "2 min 5 s"), (7_500_000, "2 h 5 min"), (-5, "")],
)
def test_durations_read_naturally(elapsed_ms: int, text: str) -> None:
    assert duration_text(START_MS, START_MS + elapsed_ms) == text


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8") == document()


def test_terms_are_sorted_and_their_places_differ() -> None:
    assert [name.lower() for name in TERMS] == sorted(name.lower() for name in TERMS)
    assert len({term.anchor for term in TERMS.values()}) == len(TERMS)
    assert all(term.meaning.endswith(".") for term in TERMS.values())
    assert len(TERMS) == len(GLOSSARY.splitlines())
