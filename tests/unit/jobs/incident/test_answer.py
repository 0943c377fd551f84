"""The answer as it is loaded from a lake: logs that were captured are not asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.incident.document import load_answer
from jobs.incident.focus import Focus
from replay.findings.statements import statement
from tests.support.report_rows import START_MS, evidence_file, finding, lake_of, state

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
