"""Up to where an elected leader's log was the partition's."""

from typing import Any

import pytest

from replay.offsets.evidence import index_rows
from replay.offsets.shared_log import Leaders, SharedLog, shared_log
from tests.support.scenario import evidence

LED = Leaders([0, 2, 4], [1, 2, 3])


PARTED = Leaders([0, 1, 2, 4], [1, 3, 2, 3])
# Name -> (lines, leaders, the log end of leader 3 as epoch 4 began).
EXACT: dict[str, tuple[tuple[str, ...], Leaders, int | None]] = {
    "its own line, where it had records of the leader before": (("9 b3 e0@0 e2@50 e4@80",), LED, 80),
    "its own line in any later copy, even one without a time": (("? b3 e0@0 e2@50 e4@80 e7@120",), LED, 80),
    "another replica's line": (("9 b2 e0@0 e2@50 e4@80",), LED, None),
    "its first line, which deleting old records moves": (("9 b3 e4@80",), LED, None),
    "its first line at 0": (("9 b3 e4@0",), LED, 0),
    # Broker 3 has 80 records, the last 30 of them of epoch 0; the leader of epoch 2 went on from offset 50.
    "what both logs have": (("9 b3 e0@0 e4@80", "9 b2 e0@0 e2@50"), LED, 50),
    "what both logs have, the leader's is the shorter one": (("9 b3 e0@0 e4@40", "9 b2 e0@0 e2@50"), LED, 40),
    # Broker 3 led epoch 1, cut off, and wrote from offset 20 on; nobody else has that.
    "logs that parted further back": (("9 b3 e0@0 e1@20 e4@30", "9 b2 e0@0 e2@50"), PARTED, 20),
    "no file of the leader before": (("9 b3 e0@0 e4@80",), LED, None),
    "another broker's file": (("9 b3 e0@0 e4@80", "9 b1 e0@0 e2@50"), LED, None),
    "files that begin with other epochs": (("9 b3 e1@10 e4@80", "9 b2 e2@50"), LED, None),
    "an epoch that one file lacks": (("9 b3 e1@0 e4@80", "9 b2 e0@0 e2@50"), LED, None),
    "before the first known leader": (("9 b3 e0@0 e4@80",), Leaders([4], [3]), None),
    "of contradicting copies the smaller": (("9 b3 e0@0 e2@50 e4@80", "12 b3 e0@0 e2@50 e4@70"), LED, 70),
}


@pytest.mark.parametrize("name", EXACT)
def test_where_the_log_was_the_partitions(name: str) -> None:
    lines, leaders, expected = EXACT[name]
    assert shared_log(index_rows(evidence(*lines)), leaders, 3, 4).end.value == expected


def test_a_file_with_a_missing_line_is_not_exact() -> None:
    rows = evidence("9 b3 e0@0 e1@20 e4@80", "9 b2 e0@0 e2@50")
    lacking = [r for r in rows if r["leader_epoch"] != 1]
    assert shared_log(index_rows(rows), PARTED, 3, 4).end.value == 20
    assert shared_log(index_rows(lacking), PARTED, 3, 4).end.value is None


def test_a_line_that_a_later_process_may_have_written_again_does_not_count() -> None:
    rows = index_rows(evidence("9 b3 e0@0 e4@40", "9 b2 e0@0 e2@50"))
    ends = [
        shared_log(rows, LED, 3, 4, is_first=lambda e, doubted=doubted: e.broker_id != doubted).end.value
        for doubted in (None, 2, 3)
    ]
    assert ends == [40, None, None]


# Equal lines, other records: one of the epochs may have been written twice.

LINES = ("9 b3 e0@0 e1@10 e2@50 e4@80", "9 b2 e0@0 e1@10 e2@50")


@pytest.mark.parametrize(
    ("lines", "known", "expected"),
    [
        (LINES, {"twice": {1}}, 1),
        (LINES, {}, None),
        # The last leader's epoch is checked elsewhere.
        (LINES, {"twice": {2}}, None),
        # Epochs before the known history may have been written twice.
        (LINES, {"known_from": 1}, 0),
        (LINES, {"known_from": 3}, 2),
        # An epoch that the log does not have is of no account, nor is one after the offset where the logs part.
        (("9 b3 e0@0 e2@50 e4@80",), {"twice": {1}}, None),
        (("9 b3 e0@0 e1@50 e4@80", "9 b2 e0@0 e2@50"), {"twice": {1}}, None),
        # A leader that led last is compared with itself.
        (LINES, {"known_from": 3, "twice": {0, 1, 2}, "leader": 3}, None),
    ],
)
def test_an_epoch_that_may_have_been_written_twice_leaves_it_open_what_follows(
    lines: tuple[str, ...], known: dict[str, Any], expected: int | None
) -> None:
    known = {"known_from": 0, "twice": (), "leader": 2} | known
    leaders = Leaders([0, 1, 2, 4], [1, 1, known["leader"], 3], known["known_from"], frozenset(known["twice"]))
    found = shared_log(index_rows(evidence(*lines)), leaders, 3, 4)
    assert (found.end.value is None) == (found.doubted is not None)
    assert found.doubted == expected


def test_without_lines_nothing_is_doubted() -> None:
    assert shared_log(index_rows([]), LED, 3, 4) == SharedLog(shared_log(index_rows([]), LED, 3, 4).end)
