"""Topics that were deleted, and what has their names since: in the answer, on the timeline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobs.incident.lookup import load_deleted
from jobs.report.timeline import timeline_of
from replay.arrow.schemas import FINDINGS
from replay.incident.answer import COLUMNS, AnswerScope, answer
from tests.support.report_rows import TOPIC_ID, events, finding, lake_of, state

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
