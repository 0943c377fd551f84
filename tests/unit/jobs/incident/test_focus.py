"""What a report is narrowed to."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from jobs.incident.focus import ALL, Focus, parse_span
from replay.arrow.schemas import FINDINGS
from tests.support.report_rows import START_MS, fault, finding


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-14T22:13:20..2023-11-14T22:13:21.5Z", (START_MS, START_MS + 1500)),
        ("2023-11-14T23:13:20+01:00..", (START_MS, None)),
        (" .. 2023-11-14T22:13:20", (None, START_MS)),
    ],
)
def test_a_span_is_in_utc_unless_it_names_a_zone(text: str, expected: tuple[int | None, int | None]) -> None:
    assert parse_span(text) == expected


@pytest.mark.parametrize("text", ["", "..", "2023-11-14", "yesterday..today", "2023-11-15..2023-11-14"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"FROM\.\.TO|ISO 8601|ends before"):
        parse_span(text)


def test_findings_that_overlap_and_those_without_a_time_are_within() -> None:
    rows = [
        finding("before", start_timestamp_ms=100, end_timestamp_ms=199),
        finding("touches", start_timestamp_ms=100, end_timestamp_ms=200),
        finding("in", start_timestamp_ms=220, end_timestamp_ms=230),
        finding("open", start_timestamp_ms=100, end_timestamp_ms=None),
        finding("after", start_timestamp_ms=301, end_timestamp_ms=400),
        finding("timeless", start_timestamp_ms=None, end_timestamp_ms=None),
        finding("other", topic="audit", start_timestamp_ms=220, end_timestamp_ms=230),
        fault("gap", start_timestamp_ms=None, end_timestamp_ms=None),
    ]
    data = ds.dataset(pa.Table.from_pylist(rows, schema=FINDINGS))

    def within(focus: Focus) -> list[str]:
        found: list[str] = data.to_table(filter=focus.findings())["finding_id"].to_pylist()
        return found

    assert within(Focus(200, 300)) == ["touches", "in", "open", "timeless", "other", "gap"]
    assert within(Focus(200, 300, "ledger")) == ["touches", "in", "open", "timeless", "gap"]
    assert within(Focus(None, 210)) == ["before", "touches", "open", "timeless", "gap"]
    assert len(within(ALL)) == len(rows)
    assert not ALL.narrows
