"""Text filters of the report: losses, topic names, times and durations."""

from __future__ import annotations

import pytest

from jobs.report.filters import duration_text, lost_text, topic_text, utc_text, visible
from jobs.report.page import render_report
from tests.support.report_rows import START_MS, finding, report


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
    assert utc_text(None) == "unknown"


@pytest.mark.parametrize(
    ("elapsed_ms", "text"),
    [(7, "7 ms"), (31_060, "31.1 s"), (125_000, "2 min 5 s"), (7_500_000, "2 h 5 min"), (-5, "")],
)
def test_durations_read_naturally(elapsed_ms: int, text: str) -> None:
    assert duration_text(START_MS, START_MS + elapsed_ms) == text
