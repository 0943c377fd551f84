"""The answer as it is loaded from a lake: what it is narrowed to, captured logs, topics that were deleted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from jobs.incident.document import load_answer
from jobs.incident.lookup import ALL, Focus, load_deleted, parse_span
from jobs.report.timeline import timeline_of
from replay.arrow.schemas import FINDINGS
from replay.findings.statements import statement
from replay.incident.answer import COLUMNS, AnswerScope, answer
from tests.support.report_rows import START_MS, TOPIC_ID, events, evidence_file, fault, finding, lake_of, state

KOLKATA_MS = 19_800_000


def test_spans_of_captured_logs_are_in_utc(tmp_path: Path) -> None:
    """Broker 1 logs in UTC. Broker 2 logs in another zone, which node_clocks has, and broker 3 in one that nothing
    shows; broker 4 has no line of state-change.log."""
    lines = [
        {
            "node_id": node,
            "logged_at_ms": at_ms + zone_ms,
            "logged_at_utc_ms": at_ms if node == 1 else None,
            "kind": kind,
        }
        for node, zone_ms, kinds in (
            (1, 0, ("leader_started", "log_loaded")),
            (2, KOLKATA_MS, ("follower_started", "log_loaded")),
            (3, 0, ("leader_started", "log_loaded")),
            (4, 0, ("log_loaded", "log_loaded")),
        )
        for kind, at_ms in zip(kinds, (START_MS - 5, START_MS + 60_000), strict=True)
    ]
    clock = {"node_id": 2, "zone_ms": KOLKATA_MS, "from_ms": START_MS, "to_ms": START_MS + 2 * KOLKATA_MS}
    codes = [statement("missing_high_watermark_ceiling", [node]) for node in (1, 2, 3, 4)]
    windows = [finding(str(n), verdict="possible", loss_max=None, reason=[code]) for n, code in enumerate(codes)]
    lake = lake_of(tmp_path, "c", broker_log_events=lines, node_clocks=[clock], findings=windows)
    (missing,) = load_answer(lake, "c")["missing"]
    assert (missing["windows"], missing["capture_windows"], missing["logged"]) == (4, 2, [1, 2])
    assert missing["capture"].startswith("server.log and state-change.log of brokers 3, 4, from the election")


@pytest.mark.parametrize(
    ("focus", "status"),
    [
        (Focus(topic="ledger"), "not_lost"),
        (Focus(topic="legder"), "not_known"),
        (Focus(START_MS + 2_500, START_MS + 9_000), "not_lost"),
        (Focus(START_MS - 9_000, START_MS - 1), "not_known"),
        (Focus(START_MS + 5_001), "not_known"),
        (Focus(START_MS, START_MS + 1_500, "audit"), "not_known"),
        (Focus(START_MS + 3_001, None, "audit"), "not_known"),
    ],
)
def test_of_what_the_log_does_not_show_a_narrowed_report_knows_nothing(
    tmp_path: Path, focus: Focus, status: str
) -> None:
    """The log goes from START_MS on for 5 s; audit is there from 2 to 3 s."""
    states = [
        state(10, 1, [1, 2], timestamp_ms=START_MS, end_timestamp_ms=None),
        state(20, 1, [1, 2], topic="audit", timestamp_ms=START_MS + 2_000, end_timestamp_ms=START_MS + 3_000),
    ]
    files = [evidence_file(last_timestamp_ms=START_MS + 5_000)]
    lake = lake_of(tmp_path, "c", evidence_files=files, partition_history=states)
    assert load_answer(lake, "c", focus)["status"] == status


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (0, "The captured log ends at 2023-11-14 22:13:25 UTC; nothing is known of later."),
        (
            700,
            "The captured log goes from 2023-11-14 22:13:20 to 2023-11-14 22:13:25 UTC; nothing is known of earlier or "
            "later.",
        ),
    ],
)
def test_the_answer_says_what_time_it_is_about(tmp_path: Path, first: int, text: str) -> None:
    batch = {"base_offset": first, "last_offset": 900, "base_timestamp_ms": START_MS, "max_timestamp_ms": START_MS}
    files = [evidence_file(last_timestamp_ms=START_MS + 5_000)]
    found = load_answer(lake_of(tmp_path, "c", evidence_files=files, log_batches=[batch]), "c")
    assert found["text"][-1].endswith(text)
    assert found["since_ms"] == (START_MS if first else None)


AGAIN = "B" * 22


def removal(offset: int) -> dict[str, Any]:
    kept = ("offset", "timestamp_ms", "topic", "topic_id", "partition")
    return {name: state(offset, 3, [3])[name] for name in kept} | {"removed": True}


def deleted(root: Path, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    return load_deleted(lake_of(root, "c", partition_history=list(rows)), "c")


def test_a_topic_with_the_same_name_is_another_one(tmp_path: Path) -> None:
    (found,) = deleted(tmp_path, state(100, 3, [3]), removal(120), state(130, 1, [1], topic_id=AGAIN))
    assert found == {
        "topic": "ledger",
        "topic_id": TOPIC_ID,
        "offset": 120,
        "deleted_ms": state(120, 3, [3])["timestamp_ms"],
        "next_id": AGAIN,
        "next_ms": state(130, 1, [1])["timestamp_ms"],
    }


def test_nothing_was_deleted(tmp_path: Path) -> None:
    assert deleted(tmp_path, state(100, 3, [3])) == []


def test_answer_and_timeline_say_so_with_times_and_ids(tmp_path: Path) -> None:
    rows = deleted(tmp_path, state(100, 3, [3]), removal(120), state(130, 1, [1], topic_id=AGAIN))
    windows = pa.Table.from_pylist([finding()], schema=FINDINGS).select(COLUMNS)
    scope = AnswerScope(gaps=[], gap_count=0, conflicts=[], states=3, until_ms=None, deleted=rows)
    (text,) = (text for text in answer(windows, scope)["text"] if "deleted" in text)
    assert text == (
        f"ledger (id {TOPIC_ID}) was deleted at 2023-11-14 22:13:40 UTC; since 2023-11-14 22:13:50 another topic has "
        f"its name (id {AGAIN})."
    )
    excluded = pa.Table.from_pylist([finding(verdict="excluded")], schema=FINDINGS).select(COLUMNS)
    assert answer(excluded, scope)["deleted"] == []
    timeline = timeline_of(replace(events([finding()]), deleted=rows), {}, {})
    assert timeline is not None
    (lane,) = (lane for title, lanes in timeline["groups"] if title == "Topics" for lane in lanes)
    assert f"deleted: topic ledger\nTopic id: {TOPIC_ID}\nAt: 2023-11-14 22:13:40" in str(lane["drawing"])


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
