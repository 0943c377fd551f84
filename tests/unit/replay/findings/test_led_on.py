"""Another process of a leader that registers within its term."""

from typing import Any

import pytest

from replay.controller.transitions import Bucket
from replay.findings.faults import led_on_findings
from replay.findings.kinds import EVIDENCE_GAP
from tests.support.scenario import facts_with, sessions, states, together, up

UP = up(1, 2, 3)


def found(history: Any, *lines: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = led_on_findings(Bucket(history, facts_with(sessions(*UP, *lines))), "c").to_pylist()
    return rows


def test_what_it_lost_may_be_lost_although_nobody_was_elected() -> None:
    """3.9.1 without ELR: the session was over, the controller had not fenced the broker yet."""
    history = together(*(states("10 isr=1,2,3", "60 isr=2 leader=2", partition=p) for p in (0, 1)))
    (row,) = found(history, "40 register 1 again", "50 register 2 again")
    assert (row["kind"], row["rule"], row["start_offset"]) == (EVIDENCE_GAP, "leader_registered_again", 40)
    assert row["explanation"] == (
        "Broker 1 registered again at metadata offset 40 while it led t-0 and 1 more: what its log had lost by then is "
        "of no election"
    )


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # It ended the term, or had led already when the batch began.
        (("10 isr=1,2", "40 isr=2 leader=2 batch=40"), 0),
        (("10 isr=1,2", "40 isr=1 batch=40"), 1),
        # It was elected with it.
        (("10 isr=1,2", "20 isr= leader=-1", "40 isr=1 leader=1 batch=40"), 0),
        (("10 isr=1,2", "20 isr= leader=-1"), 0),
        (("10 isr=1,2", "20 removed"), 0),
        ((), 0),
    ],
)
def test_only_within_a_term(lines: tuple[str, ...], expected: int) -> None:
    assert len(found(states(*lines), "41 register 1 again batch=40")) == expected
