"""Which high watermark reports still count at an election."""

from __future__ import annotations

from typing import Any

import pytest

from replay.cluster.facts import Clock
from replay.offsets.evidence import OPEN, Bound, index_rows
from replay.offsets.watermark_floor import LeaderChange, Report, floors, reports
from tests.support.scenario import evidence, ms
from tests.support.window_table import Entry, beside, entries

Row = dict[str, Any]


def step(epoch: int, at: float, survives: int | None = None, carries: bool = False) -> LeaderChange:
    bound = OPEN if survives is None else Bound(survives, {"epoch": epoch})
    return LeaderChange(epoch, ms(at), carries, bound)


def report(value: int, at: float, epoch: int = 0) -> Report:
    return Report(value, ms(at), epoch, {"value": value})


def values(steps: list[LeaderChange], *known: Report) -> list[int | None]:
    return [bound.value for bound in floors(steps, list(known))]


def test_the_largest_report_before_each_election() -> None:
    steps = [step(1, 20, survives=200), step(2, 40)]
    assert values(steps, report(80, 10), report(60, 15), report(120, 30, epoch=1), report(900, 50, epoch=1)) == [
        80,
        120,
    ]


def test_a_report_at_the_very_time_of_the_election_is_not_before_it() -> None:
    assert values([step(1, 20)], report(80, 20)) == [None]
    assert values([step(1, 20)], report(80, 19.999)) == [80]


def test_an_election_lets_pass_what_is_below_its_winners_log_end() -> None:
    steps = [step(1, 20, survives=50), step(2, 40, survives=30), step(3, 60)]
    found = floors(steps, [report(80, 10)])
    assert [b.value for b in found] == [80, 50, 30]
    assert [b.row for b in found] == [{"value": 80}] * 3
    assert [b.limit for b in found] == [None, {"epoch": 1}, {"epoch": 2}]


def test_an_election_whose_winners_log_end_is_not_known_lets_nothing_pass() -> None:
    steps = [step(1, 20), step(2, 40, survives=99), step(3, 60)]
    assert values(steps, report(80, 10)) == [80, None, None]
    assert values(steps, report(80, 10), report(70, 50, epoch=2)) == [80, None, 70]


def test_a_stale_copy_read_after_an_election_speaks_of_the_log_before_it() -> None:
    steps = [step(1, 20, survives=50), step(2, 40)]
    assert values(steps, report(80, 30, epoch=0)) == [None, 50]
    assert values(steps, report(80, 30, epoch=1)) == [None, 80]


def test_a_leader_that_goes_on_carries_everything() -> None:
    steps = [step(1, 20, carries=True), step(2, 40)]
    assert values(steps, report(80, 10)) == [80, 80]
    assert values(steps, report(80, 30, epoch=0)) == [None, 80]


def test_limits_hold_for_what_was_before_them_only() -> None:
    steps = [step(1, 20, survives=50), step(2, 40, survives=90), step(3, 60, survives=70), step(4, 80)]
    known = [report(80, 70, epoch=0), report(75, 70, epoch=1), report(85, 70, epoch=2)]
    assert [values(steps, r)[-1] for r in known] == [50, 70, 70]
    assert values(steps, *known, report(72, 75, epoch=3))[-1] == 72


def test_a_report_of_a_later_epoch_than_its_time_allows_waits_for_that_epoch() -> None:
    steps = [step(1, 20, survives=200), step(2, 40, survives=200), step(3, 60)]
    assert values(steps, report(80, 10, epoch=2)) == [None, None, 80]


def test_times_may_go_back_where_controllers_clocks_differ() -> None:
    steps = [step(1, 40, survives=100), step(2, 30)]
    assert values(steps, report(80, 35)) == [80, 80]


def test_no_steps_no_reports() -> None:
    assert floors([], [report(1, 1)]) == []
    assert values([step(1, 20)]) == [None]


def epochs(story: str) -> list[str]:
    """The reports of a story, with the leader epochs that they surely belong to."""
    items = [item.split(" ", 1) for item in story.split("; ")]
    given = {word: [value for name, value in items if name == word] for word in ("created", "step", "asked")}
    lines = [f"{first} {rest}" for first, rest in items if first not in given]
    created = (given["created"] or ["0@0"])[0]
    begun, *changes = (
        None if pair == "?" else (int(pair.split("@")[0]), ms(float(pair.split("@")[1])))
        for pair in (created, *given["step"])
    )
    steps = [LeaderChange(epoch, at_ms, False, OPEN) for epoch, at_ms in changes]
    settled = dict(pair.split("=") for pair in given["asked"])

    def ask(row: Row) -> int | None:
        epoch = settled.get(str(row["captured_at_ms"] // 1000))
        return None if epoch is None else int(epoch)

    known = index_rows(evidence(*lines))
    found = reports(known, known.high_watermarks, begun, steps, ask, Clock(0))
    return [f"{report.value}@{report.leader_epoch}" for report in found]


@pytest.mark.parametrize("entry", entries(beside(__file__)), ids=lambda entry: entry.name)
def test_the_epoch_of_a_report(entry: Entry) -> None:
    for story, answer in entry.cases:
        assert (" ".join(epochs(story)) or "nothing") == answer, story
