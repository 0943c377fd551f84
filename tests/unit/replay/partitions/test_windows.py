"""From the record that exposes a partition to the one that makes it safe again."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.partitions.elections import states_of
from replay.partitions.windows import build_windows
from tests.support.scenario import states, together
from tests.support.window_table import beside, lines_of

Window = tuple[int, int, int | None]


def windows(history: pa.Table, suspicious: tuple[int, ...] = ()) -> list[Window]:
    """(start, election, end) as metadata offsets; suspicious: offsets of elections that evidence speaks against."""
    offset = history["offset"].to_numpy()
    found = build_windows(states_of(history), np.isin(offset, suspicious))
    return [
        (int(offset[s]), int(offset[e]), None if end < 0 else int(offset[end]))
        for s, e, end in zip(found.start.tolist(), found.election.tolist(), found.end.tolist(), strict=True)
    ]


def of(*lines: str, suspicious: tuple[int, ...] = ()) -> list[Window]:
    return windows(states(*lines), suspicious)


LEADERLESS = "10 isr=1,2; 20 isr=1; 30 isr= elr=1 leader=-1; 40 isr=2 elr= leader=2 recovering"


@pytest.mark.parametrize(("lines", "expected"), lines_of(beside(__file__)))
def test_windows_of_one_partition(lines: list[str], expected: str) -> None:
    shown = [f"{start}-{election}-{'' if end is None else end}" for start, election, end in of(*lines)]
    assert (", ".join(shown) or "none") == expected


def test_no_history_no_windows() -> None:
    assert of() == []


def test_a_winner_that_its_leader_takes_in_while_the_reassignment_ends_opens_none() -> None:
    """Leader 1 says that 4 is in sync, which completes the reassignment that removes 1: 4 is vouched for."""
    begin = "10 replicas=1,2,3,4 isr=1,2,3 removing=1,2,3 adding=4 leader=1"
    assert of(begin, "20 replicas=4 isr=4 removing= adding= leader=4 min=1") == []
    # Marked, it was elected uncleanly; without a leader nobody could have asked; cancelled, 4 goes again.
    assert of(begin, "20 replicas=4 isr=4 removing= adding= leader=4 min=1 recovering") == [(20, 20, 20)]
    assert of(begin, "15 leader=-1", "20 replicas=4 isr=4 removing= adding= leader=4 min=1") == [(15, 20, 20)]
    lines = ("10 replicas=1,4 isr=4 adding=4 leader=4", "20 replicas=1 isr=1 adding= leader=1 min=1")
    assert of(*lines) == [(20, 20, 20)]


def test_windows_do_not_cross_partitions() -> None:
    first = states(*LEADERLESS.split("; "))
    second = states("35 isr=1,2", "41 isr=2 leader=2", "50 isr=1,2", partition=1)
    third = states("36 isr=1,2", "55 isr= leader=-1", "65 isr=3 leader=3", "75 isr=2,3", partition=2)
    assert windows(together(first, second, third)) == [(30, 40, None), (55, 65, 75)]


def test_a_suspicious_election_is_a_window_of_its_own() -> None:
    lines = ("10 isr=1,2,3", "20 isr=2,3 leader=2", "30 isr=3 leader=3", "40 isr=2,3")
    assert of(*lines, suspicious=(20,)) == [(20, 20, 20)]
    assert of(*lines, suspicious=(20, 30)) == [(20, 20, 20), (30, 30, 40)]


STATES = [
    "isr=1,2 elr= leader=1",
    "isr=2 elr=1 leader=2",
    "isr= elr=2 leader=-1",
    "isr=3 elr= leader=3",
    "isr=1,2,3 elr=",
]


@settings(max_examples=30)
@given(st.lists(st.lists(st.sampled_from(STATES), max_size=12), max_size=4))
def test_partitions_are_judged_alike_alone_and_together(partitions: list[list[str]]) -> None:
    tables = [
        states(f"{p} isr=1,2,3 leader=1", *(f"{10 * i + p} {s}" for i, s in enumerate(lines, 1)), partition=p)
        for p, lines in enumerate(partitions)
    ]
    alone = sorted(w for t in tables for w in windows(t))
    assert sorted(windows(together(*tables)) if tables else []) == alone
    assert all(start <= election and (end is None or end >= election) for start, election, end in alone)
