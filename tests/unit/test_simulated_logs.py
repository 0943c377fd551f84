"""The brokers' own logs of simulated lives: as text that the readers of real logs read, they are the rows that verdicts
are tested with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evidence.broker_logs.events import read_event
from evidence.broker_logs.read import read_broker_logs
from evidence.capture.files import open_capture
from tests.simulator import session_lines
from tests.simulator.detection import detected
from tests.simulator.faults import FAULTS, life
from tests.simulator.judge import MISMATCH, judged
from tests.simulator.life import Life, from_json
from tests.simulator.node_logs import TEXTS, LogThinning, files, rows
from tests.support.detection import windows
from tests.support.paths import ROOT
from tests.support.small_captures import write_files

# Where the lines are, their text and its length are of the files.
_OF_FILES = ("capture", "path", "sha256", "position", "length_bytes", "message", "level", "logger", "file_is_whole")
_OF_TIME = ("logged_at_ms", "logged_at_utc_ms")


def read(each: Life, folder: Path) -> dict[tuple[int, str], list[dict[str, object]]]:
    """By broker and file, the rows of the life's logs as text."""
    with open_capture(write_files(folder, files(each.world.logged, each.setup))) as capture:
        tables = read_broker_logs(capture.name, capture.files)
    found: dict[tuple[int, str], list[dict[str, object]]] = {}
    for row in tables.events.to_pylist():
        name = str(row["path"]).rpartition("/")[2]
        found.setdefault((row["node_id"], name), []).append(row)
    return found


@pytest.mark.parametrize("fault", list(FAULTS))
def test_lines_read_as_text_are_the_rows(fault: str, tmp_path: Path) -> None:
    for seed in range(2):
        each = life(fault, seed)
        expected: dict[tuple[int, str], list[dict[str, object]]] = {}
        for row in rows(each.world.logged, [], each.setup, LogThinning()):
            name = str(row["path"]).rpartition("/")[2].rpartition(".")[0]
            expected.setdefault((row["node_id"], name), []).append(row)
        found = read(each, tmp_path / str(seed))
        for place in {*expected, *found}:
            plain = [_plain(row) for row in expected.get(place, [])]
            assert [_plain(row) for row in found.get(place, [])] == plain


def _plain(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in (*_OF_FILES, *_OF_TIME)}


def test_lives_log_every_kind_of_line() -> None:
    # A leader has a line of its own epoch before it serves, so its epochs always say where a follower's log parts.
    missing = set(TEXTS) - {"fetch_offset_reset"}
    for each in (life(fault, seed) for seed in range(20) for fault in FAULTS):
        kinds = {line.kind for line in each.world.logged}
        assert kinds <= set(TEXTS) - {"fetch_offset_reset"}
        missing -= kinds
        if not missing:
            break
    assert missing == set()


def test_lines_of_registrations_read_as_text_are_the_rows() -> None:
    seen = set()
    for fault in FAULTS:
        for seed in range(3):
            each = life(fault, seed)
            for row in session_lines.rows(each.world.of_sessions, 0, each.setup, LogThinning()):
                event = read_event(str(row["message"]))
                assert event is not None
                previous = ("previous_isr", "previous_leader", "previous_leader_epoch", "speaker_id")
                assert {n: v for n, v in event.items() if n not in previous} == {
                    n: row[n] for n in event if n not in previous
                }
                seen.add(event["kind"])
    assert seen == set(session_lines.TEXTS)


def _changed(kind: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Life:
    """The first life with a line of that kind, and the line changed."""
    for seed in range(200):
        each = replace(life("everything", seed), logs=LogThinning())
        lines = each.lines
        at = next((n for n, row in enumerate(lines) if row["kind"] == kind and each.gap is None), None)
        if at is not None and not judged([each]).wrong:
            return replace(each, kept_lines=[*lines[:at], lines[at] | change(lines[at]), *lines[at + 1 :]])
    raise AssertionError(kind)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("follower_unchanged", lambda row: {"leader_epoch": row["leader_epoch"] + 70}),
        ("leader_started", lambda row: {"isr": [*row["isr"], 7_777]}),
        ("incarnation_registered", lambda row: {"count": row["count"] + 1}),
    ],
)
def test_a_line_that_is_not_true_is_found(kind: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """So a comparison that finds nothing in lives has been at work."""
    assert MISMATCH in {wrong.kind for wrong in judged([_changed(kind, change)]).wrong}


def test_only_a_line_below_min_isr_decides() -> None:
    """L8 of docs/findings.md, in a case: a killed leader that led on below min ISR is elected again."""
    path = ROOT / "tests" / "cases" / "life_led_on_below_min_isr" / "life.json"
    each = from_json(json.loads(path.read_text()))
    logged = [row["kind"] for row in each.lines]
    assert logged == ["leader_unchanged", "leader_started"]
    verdicts = []
    for lines in (each.lines, each.lines[1:], each.lines[:1]):
        (window,) = (f for f in windows(detected([replace(each, kept_lines=lines)]).findings))
        codes = {statement["code"] for statement in window["reason"]}
        assert ("ceiling_logged_below_min_isr" in codes) == (lines[0]["kind"] == "leader_unchanged")
        verdicts.append(window["verdict"])
    assert verdicts == ["excluded", "possible", "possible"]
