"""docs/reliability.md: each fault has a test that exists, and the table of tries has every fault that is tried."""

from __future__ import annotations

import re

from tests.faults import clocks, disks, kills, races, releases, stores
from tests.faults.table import BEGIN, END, PAGE, Line, markdown, merged
from tests.support.paths import ROOT
from tests.support.s3 import Store

NUMBERED = re.compile(r"^\| (\d+) \| [^|]+ \| [^|]+ \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
FAULTS = 62


def test_each_fault_has_tests_that_exist() -> None:
    found = NUMBERED.findall(PAGE.read_text(encoding="utf-8"))
    assert [int(number) for number, _ in found] == list(range(1, FAULTS + 1))
    for number, tests in found:
        named = TEST.findall(tests)
        assert len(named) == tests.count("`") // 2 > 0, number
        for file, name in named:
            assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), name


def test_the_table_has_every_fault_that_is_tried() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page[page.index(BEGIN) : page.index(END)]
    assert " lost " in table
    nowhere = Store("", None)
    kinds = (kills.trials(1, 4), disks.trials(1, 1), stores.trials(nowhere, ROOT), races.trials(), clocks.trials())
    for fault, where, _ in (each for kind in (*kinds, releases.trials(1, 1)) for each in kind):
        if where not in ("tmpfs", "bind mount", "EROFS of each write (injector)"):  # one of them, by machine
            assert f"| {fault} | {where} |" in table, (fault, where)


def test_rows_that_were_tried_again_replace_their_older_ones() -> None:
    older = markdown({("a", "x"): Line(3, 1), ("b", "y"): Line(2, 0)}, "About.")
    again = merged(older, {("b", "y"): Line(5, 1), ("c", "z"): Line(1, 0)})
    assert again == {("a", "x"): Line(3, 1), ("b", "y"): Line(5, 1), ("c", "z"): Line(1, 0)}
    assert markdown(again, "About.").endswith("| all | | 9 | 7 | 2 |")
