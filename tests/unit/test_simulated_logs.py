"""The brokers' own logs of simulated lives: as text that the readers of real logs read, they are the rows that verdicts
are tested with."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.broker_logs.read import read_broker_logs
from evidence.capture.files import open_capture
from tests.simulator.faults import FAULTS, life
from tests.simulator.life import Life
from tests.simulator.node_logs import TEXTS, LogThinning, files, rows

# Where the lines are, their text and its length are of the files.
_OF_FILES = ("capture", "path", "sha256", "position", "length_bytes", "message", "level", "logger")
_OF_TIME = ("logged_at_ms", "logged_at_utc_ms")


def read(each: Life, folder: Path) -> dict[tuple[int, str], list[dict[str, object]]]:
    """By broker and file, the rows of the life's logs as text."""
    for path, text in files(each.world.logged, each.setup).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    with open_capture(folder) as capture:
        tables = read_broker_logs(capture.name, capture.files)
    found: dict[tuple[int, str], list[dict[str, object]]] = {}
    for row in tables.events.to_pylist():
        name = str(row["path"]).rpartition("/")[2]
        found.setdefault((row["node_id"], name), []).append(row)
    return found


@pytest.mark.parametrize("fault", list(FAULTS))
def test_lines_read_as_text_are_the_rows(fault: str, tmp_path: Path) -> None:
    for seed in range(3):
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
    lives = (life(fault, seed) for fault in FAULTS for seed in range(20))
    assert {line.kind for each in lives for line in each.world.logged} == set(TEXTS)
