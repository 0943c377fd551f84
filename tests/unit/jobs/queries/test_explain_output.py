"""What people and programs read of `explain`, besides what the golden files of tests/unit/test_terminal.py have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs.queries.explain import print_explained
from tests.support.report_rows import finding as finding_row

FINDING = {"cluster_id": "c", **finding_row(unacked_min=1, unacked_max=90)}
EVIDENCE = {
    "role": "window_start",
    "source": "partition_history",
    "broker_id": -1,
    "value": None,
    "leader_epoch": 1,
    "offset": 91,
    "captured_at_ms": 1_795_221_565_233,
    "capture": "tuesday",
    "path": "log",
    "sha256": "f" * 64,
    "position": 7508,
    "table": "partition_history",
    "row": {"offset": 91, "leader": -1, "isr": [], "elr": [3], "topic_id": "T", "timestamp_ms": 1_795_221_565_233},
    "file_kind": "metadata_segment",
    "record": {"type": "PARTITION_CHANGE_RECORD", "payload": '{"isr":[]}', "batch_base_offset": 90},
    "commands": ["first log", "second log"],
}


def explained(
    finding: dict[str, Any], counterfactuals: list[dict[str, Any]], evidence: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    found = {"causes": [], "deleted": None, "counterfactuals": counterfactuals, "evidence": evidence, "commands": []}
    return finding | found | more


def printed(capsys: pytest.CaptureFixture[str], finding: dict[str, Any], *evidence: dict[str, Any]) -> list[str]:
    print_explained(explained(finding, [], list(evidence)), "table")
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0, None, "nothing is proven; no upper bound is known"),
        (0, 7, "nothing is proven; at most 7"),
        (0, 0, "nothing"),
        (5, 5, "5"),
        (5, 7, "at least 5; at most 7"),
        (None, 7, "nothing is proven; at most 7"),
    ],
)
def test_bounds(capsys: pytest.CaptureFixture[str], low: int | None, high: int | None, said: str) -> None:
    finding = FINDING | {"loss_min": low, "loss_max": high, "first_lost_offset": None, "unacked_min": None}
    lines = printed(capsys, finding | {"unacked_max": None})
    assert f"   lost      acks=all: {said}" in lines
    assert "             acks=0 or 1: no bound is known" in lines
    assert lines[-1] == "Evidence: none besides the explanation"


@pytest.mark.parametrize(
    ("after", "text"),
    [
        ({"next_id": None, "next_ms": None}, "no topic has its name since"),
        ({"next_id": "S", "next_ms": 1_795_221_575_000}, "since 2026-11-21 00:39:35 another topic has its name (id S)"),
    ],
)
def test_a_topic_that_was_deleted_says_so(capsys: pytest.CaptureFixture[str], after: dict[str, Any], text: str) -> None:
    gone = {"topic": "orders", "topic_id": "T", "deleted_ms": 1_795_221_570_000, **after}
    found = explained({**FINDING, "topic_id": "T"}, [], [], deleted=gone)
    print_explained(found, "table")
    assert f"id T, deleted at 2026-11-21 00:39:30 UTC; {text}" in capsys.readouterr().out
    print_explained(found, "json")
    assert json.loads(capsys.readouterr().out)[0]["deleted"] == gone


def test_names_do_not_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "orders\x1b[31m\u202e\r\x9b"
    row = EVIDENCE | {"path": evil, "capture": evil, "row": {"leader": evil}, "bytes": {"note": None, "hex": None}}
    row["bytes"] |= {"text": evil, "file": "copy"}
    row["record"] = EVIDENCE["record"] | {"payload": evil}
    unread = EVIDENCE | {"bytes": {"note": "the file was altered", "hex": None, "text": None, "file": None}}
    print_explained(explained(FINDING | {"topic": evil, "explanation": evil}, [], [row, unread]), "table")
    out = capsys.readouterr().out
    assert "   bytes     from copy, which has this SHA-256:\n             orders" in out
    assert "   bytes     the file was altered\n" in out
    assert out.count("orders\\u001b[31m\\u202e") >= 6
    assert all(c.isprintable() or c == "\n" for c in out)


def test_programs_get_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(FINDING, [{"policy": "p", "leader": 3}], [EVIDENCE, EVIDENCE])
    print_explained(found, "json")
    assert json.loads(capsys.readouterr().out) == [found]
