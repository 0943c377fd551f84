"""Which high watermark reports still count at an election."""

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


@pytest.mark.parametrize("entry", entries(beside(__file__, "floors")), ids=lambda entry: entry.name)
def test_the_floor_at_each_election(entry: Entry) -> None:
    for story, answer in entry.cases:
        steps, known = [], []
        for place, rest in (item.split() for item in story.split("; ")):
            if place == "report":
                value, at, epoch = rest.replace("/", "@").split("@")
                known.append(Report(int(value), ms(float(at)), int(epoch), {"value": value}))
            else:
                epoch, at = place.split("@")
                survives = int(rest) if rest.isdigit() else None
                steps.append(step(int(epoch), float(at), survives, rest == "on"))
        assert " ".join(str(bound.value) for bound in floors(steps, known)) == answer, story


def test_an_election_lets_pass_what_is_below_its_winners_log_end() -> None:
    steps = [step(1, 20, survives=50), step(2, 40, survives=30), step(3, 60)]
    found = floors(steps, [Report(80, ms(10), 0, {"value": 80})])
    assert [b.value for b in found] == [80, 50, 30]
    assert [b.row for b in found] == [{"value": 80}] * 3
    assert [b.limit for b in found] == [None, {"epoch": 1}, {"epoch": 2}]
    assert floors([], []) == []


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

    found = reports(index_rows(evidence(*lines)).high_watermarks, begun, steps, ask, Clock(0))
    return [f"{report.value}@{report.leader_epoch}" for report in found]


@pytest.mark.parametrize("entry", entries(beside(__file__, "epochs")), ids=lambda entry: entry.name)
def test_the_epoch_of_a_report(entry: Entry) -> None:
    for story, answer in entry.cases:
        assert (" ".join(epochs(story)) or "nothing") == answer, story
