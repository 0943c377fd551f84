"""docs/reliability.md and the records beside it: each fault has tests that exist, and each that is tried has a row."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from tests.faults.ground import Ground, LostError, NotHereError
from tests.faults.matrix import Board, trials
from tests.faults.table import BEGIN, END, NEVER, PAGE, Line, markdown, read, write
from tests.support.paths import ROOT
from tests.support.s3 import Store

NUMBERED = ROOT / "docs" / "fault_tests.csv"
TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")
FAULTS = 62


def test_each_fault_has_tests_that_exist() -> None:
    with NUMBERED.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert [int(row["number"]) for row in found] == list(range(1, FAULTS + 1))
    for row in found:
        assert row["fault"]
        assert row["result"]
        named = [TEST.fullmatch(test) for test in row["tests"].split()]
        assert named
        for test in named:
            assert test is not None, row
            text = (ROOT / test[1]).read_text(encoding="utf-8")
            assert re.search(rf"^def {test[2]}\(", text, re.MULTILINE), test[0]


def test_the_record_has_every_fault_that_is_tried_and_the_page_its_sums() -> None:
    nowhere = Store("", None)
    wanted = dict.fromkeys((fault, where) for fault, where, _ in trials(1, 20, nowhere, ROOT))
    found = read()
    assert list(found) == list(wanted)
    for name, line in found.items():
        assert line.tried or line.run.startswith("not tried: "), name
    assert markdown(found, "").lstrip() in PAGE.read_text(encoding="utf-8")


def page(folder: Path, table: str) -> Path:
    made = folder / "page.md"
    made.write_text(f"# Page\n\n{BEGIN}\n{table}\n{END}\n\nText\n")
    return made


def test_rows_that_were_tried_again_replace_their_older_ones(tmp_path: Path) -> None:
    older = {("a", "x"): Line(3, 1, "1"), ("b", "y"): Line(2, 0, "1"), ("gone", "z"): Line(9, 0, "1")}
    made = page(tmp_path, "")
    assert read(made) == {}
    write(older, older, "About.", made)
    assert read(made) == older
    write([("a", "x"), ("b", "y"), ("c", "z")], {("b", "y"): Line(5, 2, "2")}, "Anew.", made)
    assert read(made) == {("a", "x"): Line(3, 1, "1"), ("b", "y"): Line(5, 2, "2"), ("c", "z"): Line(0, 0, NEVER)}
    text = made.read_text()
    assert "| c | 1 | 1 | 0 | 0 |\n| all | 3 | 1 | 8 | 3 |" in text
    assert "Anew." in text
    assert "About." not in text
    assert text.endswith("\n\nText\n")


def lost(_: Ground) -> int:
    raise LostError("rows are gone")


def cannot(_: Ground) -> int:
    raise NotHereError("this machine may not mount")


def test_each_row_is_written_when_its_last_trial_has_ended(tmp_path: Path) -> None:
    names = [(fault, "x") for fault in ("kill", "lost", "mount", "missed", "later")]
    board = Board("today", "About.", names, dict(zip(names, (2, 1, 1, 1, 1), strict=True)), page(tmp_path, ""))
    ground = Ground(tmp_path, tmp_path, tmp_path)
    for name, trial in ((names[0], lambda _: 3), (names[1], lost), (names[2], cannot), (names[3], lambda _: 0)):
        board.attempt(ground, name, trial)
    found = read(board.page)
    assert found[names[0]] == found[names[4]] == Line(0, 0, NEVER)  # one of two has ended; none has
    assert found[names[1]] == Line(1, 1, "today")
    assert found[names[2]] == Line(0, 0, "not tried: this machine may not mount")
    assert found[names[3]] == Line(0, 0, "not tried: each run ended before the fault")
    board.attempt(ground, names[0], lambda _: 4)
    assert read(board.page)[names[0]] == Line(7, 0, "today")
