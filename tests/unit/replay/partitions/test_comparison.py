"""Replayed states against snapshots and printed states, against the same compared one partition at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.tables import DESCRIBED_PARTITIONS, PARTITION_CHANGE
from replay.arrow.schemas import PARTITION_HISTORY
from replay.partitions.comparison import printed_differences, snapshot_differences

Row = dict[str, Any]
SNAPSHOT = pa.schema(list(PARTITION_CHANGE))
END = 50
NAMES = ("replicas", "isr", "removing_replicas", "adding_replicas", "directories", "leader", "leader_epoch")
NAMES += ("partition_epoch", "leader_recovery_state")
SETS = ("elr", "last_known_elr")
STATE: Row = {
    "topic_id": "t",
    "topic": "orders",
    "partition": 0,
    "replicas": [1, 2, 3],
    "isr": [1, 2],
    "elr": [3, 4],
    "last_known_elr": [1],
    "removing_replicas": [],
    "adding_replicas": [],
    "directories": ["a", "b", "c"],
    "leader": 1,
    "leader_epoch": 4,
    "partition_epoch": 7,
    "leader_recovery_state": "RECOVERED",
    "removed": False,
    "offset": 10,
    "end_offset": None,
    "timestamp_ms": 1000,
    "end_timestamp_ms": None,
}


def history(*states: Row) -> pa.Table:
    return pa.Table.from_pylist(list(states), schema=PARTITION_HISTORY)


def snapshot(*states: Row) -> pa.Table:
    """What a snapshot writes of states of a history."""
    marks = {"RECOVERED": 0, "RECOVERING": 1}
    rows = [{**s, "leader_recovery_state": marks.get(s["leader_recovery_state"])} for s in states]
    return pa.Table.from_pylist(rows, schema=SNAPSHOT)


def test_only_the_state_that_is_valid_at_the_snapshot_is_compared() -> None:
    """A snapshot of END has what records before END made."""
    wrong = {**STATE, "leader": 9}
    ends = {"offset": 20, "end_offset": 30}, {"offset": 30, "end_offset": END}, {"offset": END, "end_offset": None}
    before, at, after = ({**wrong, **ends[0]}, {**STATE, **ends[1]}, {**wrong, **ends[2]})
    assert snapshot_differences(history(before, at, after), snapshot(STATE), END, True) == (1, [])
    lone = [{**STATE, "offset": END}, {**STATE, "end_offset": END - 1}, {**STATE, "removed": True}]
    for state in lone:
        compared, found = snapshot_differences(history(state), snapshot(STATE), END, True)
        assert (compared, [row["what"] for row in found]) == (1, ["missing in the replay"])


lists = st.none() | st.lists(st.integers(1, 3), max_size=3, unique=True)
values = {
    **dict.fromkeys(("replicas", "isr", "removing_replicas", "adding_replicas", *SETS), lists),
    "directories": st.none() | st.lists(st.sampled_from(["a", "b", "c"]), max_size=3),
    **dict.fromkeys(("leader", "leader_epoch", "partition_epoch"), st.none() | st.integers(-1, 2)),
    "leader_recovery_state": st.sampled_from(["RECOVERED", "RECOVERING"]),
}
places = st.tuples(st.sampled_from(["t", "u", "v"]), st.integers(0, 2))
states = st.tuples(st.fixed_dictionaries(values), st.fixed_dictionaries({}, optional=values))
worlds = st.dictionaries(places, st.tuples(states, st.sampled_from(["both", "both", "both", "replay", "snapshot"])))


def plain(own: Row, other: Row, compare_elr: bool) -> str:
    names = [name for name in NAMES if own[name] != other[name]]
    for name in SETS if compare_elr else ():
        sides = [None if row[name] is None else set(row[name]) for row in (own, other)]
        names += [name] if sides[0] != sides[1] else []
    return ", ".join(names)


@given(world=worlds, compare_elr=st.booleans(), data=st.data())
def test_any_states_are_compared_as_one_by_one(
    world: Mapping[Any, Any], compare_elr: bool, data: st.DataObject
) -> None:
    own, others, expected = [], [], []
    for (topic_id, partition), ((state, changed), where) in world.items():
        place = {"topic_id": topic_id, "partition": partition}
        before = {**STATE, **state, **place}
        after = {**before, **changed}
        own += [before] if where in ("both", "replay") else []
        others += [after] if where in ("both", "snapshot") else []
        said = {"both": plain(before, after, compare_elr), "replay": "missing in the snapshot"}
        text = said.get(where, "missing in the replay")
        expected += [{"snapshot_end_offset": END, **place, "what": text}] if text else []
    mixed = data.draw(st.permutations(others))
    compared, found = snapshot_differences(history(*own), snapshot(*mixed), END, compare_elr)
    assert compared == len(world)
    assert sorted(found, key=str) == sorted(expected, key=str)


# Printed states

SLACK_MS, CLOCK_MS, LOG_END_MS = 100, 10, 5000
SHOWN: Row = {
    "topic_id": "t",
    "topic": "orders",
    "partition": 0,
    "captured_at_ms": 2000,
    "uncertainty_ms": None,
    **{name: STATE[name] for name in ("leader", "leader_epoch", "replicas", "isr", "elr", "last_known_elr")},
}


def printed(*shown: Row) -> pa.Table:
    return pa.Table.from_pylist(list(shown), schema=DESCRIBED_PARTITIONS)


def compared(shown: Row, *states: Row) -> tuple[bool, bool, list[int]] | None:
    """(same, within, offsets of the states named) of one printed state."""
    found = printed_differences(history(*states), printed(shown), SLACK_MS, CLOCK_MS, LOG_END_MS)
    if not found:
        return None
    (row,) = found
    assert row["printed"].items() >= {k: v for k, v in shown.items() if v is not None}.items()
    return row["same"], row["within"], [state["offset"] for state in row["states"]]


@pytest.mark.parametrize(
    ("name", "value", "same"),
    [
        ("leader", 2, False),
        ("leader", -1, True),  # also printed where the leader has no endpoint on the listener
        ("leader_epoch", 5, False),
        ("leader_epoch", None, True),
        ("replicas", [1, 3, 2], False),
        ("isr", [2, 1], True),
        ("isr", [1], False),
        ("isr", [1, 2, 3], False),
        ("isr", None, True),
        ("elr", [4, 3], True),
        ("elr", [], False),
        ("elr", None, True),
        ("last_known_elr", [2], False),
        ("last_known_elr", None, True),
    ],
)
def test_everything_that_was_printed_is_compared(name: str, value: Any, same: bool) -> None:
    assert compared({**SHOWN, name: value}, STATE) == (same, True, [] if same else [10])


def test_a_leader_that_is_printed_where_there_is_none_differs() -> None:
    leaderless = {**STATE, "leader": -1}
    assert compared(SHOWN, leaderless) == (False, True, [10])
    assert compared({**SHOWN, "leader": -1}, leaderless) == (True, True, [])


FIRST_MS = SHOWN["captured_at_ms"] - SLACK_MS - CLOCK_MS


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "uncertainty_ms", "held"),
    [
        (1000, FIRST_MS, None, True),
        (1000, FIRST_MS - 1, None, False),
        (2000 + CLOCK_MS, None, None, True),
        (2000 + CLOCK_MS + 1, None, None, False),
        (2000 + CLOCK_MS + 1, None, 1, True),
        (2000 + CLOCK_MS + 300, 4000, 300, True),
        (2000 + CLOCK_MS + 301, 4000, 300, False),
    ],
)
def test_states_that_were_valid_while_the_tool_may_have_read(
    begin_ms: int, end_ms: int | None, uncertainty_ms: int | None, held: bool
) -> None:
    ends = {"end_offset": None if end_ms is None else 20, "end_timestamp_ms": end_ms}
    state = {**STATE, "timestamp_ms": begin_ms, **ends}
    shown = {**SHOWN, "uncertainty_ms": uncertainty_ms}
    assert compared(shown, state) == ((True, True, []) if held else None)


def test_one_of_several_states_is_enough_and_otherwise_all_are_named_by_offset() -> None:
    first = {**STATE, "leader": 2, "end_offset": 20, "end_timestamp_ms": 1950}
    second = {**STATE, "leader": 3, "offset": 20, "timestamp_ms": 1950}
    assert compared({**SHOWN, "leader": 2}, second, first) == (True, True, [])
    assert compared(SHOWN, second, first) == (False, True, [10, 20])


def test_what_was_read_after_the_log_ended_is_marked() -> None:
    assert compared({**SHOWN, "captured_at_ms": LOG_END_MS - CLOCK_MS}, STATE) == (True, True, [])
    assert compared({**SHOWN, "captured_at_ms": LOG_END_MS - CLOCK_MS + 1}, STATE) == (True, False, [])
    # The last state is known up to the end of the log.
    late = {**SHOWN, "captured_at_ms": LOG_END_MS + SLACK_MS + CLOCK_MS}
    assert compared(late, STATE) == (True, False, [])
    assert compared({**late, "captured_at_ms": late["captured_at_ms"] + 1}, STATE) is None


def test_a_state_that_ends_in_a_hole_is_not_compared() -> None:
    """Nobody knows until when it was valid."""
    assert compared(SHOWN, {**STATE, "end_offset": 20, "end_timestamp_ms": None}) is None


def test_a_topic_that_was_made_again_is_another_topic() -> None:
    gone = {**STATE, "end_offset": 20, "end_timestamp_ms": 1950}
    removal = {**STATE, "offset": 20, "timestamp_ms": 1950, "removed": True, "leader": None, "isr": None}
    again = {**STATE, "topic_id": "u", "offset": 21, "timestamp_ms": 1950, "leader": 2}
    states = gone, removal, again
    assert compared({**SHOWN, "leader": 2}, *states) == (False, True, [10])
    assert compared({**SHOWN, "leader": 2, "topic_id": "u"}, *states) == (True, True, [])
    assert compared({**SHOWN, "topic_id": "u"}, *states) == (False, True, [21])
    assert compared({**SHOWN, "topic_id": "v"}, *states) is None
    assert compared({**SHOWN, "partition": 1}, *states) is None


def test_every_printed_state_has_its_answer() -> None:
    shown = [SHOWN, {**SHOWN, "leader": 3}, {**SHOWN, "partition": 1}, SHOWN]
    found = printed_differences(history(STATE), printed(*shown), SLACK_MS, CLOCK_MS, LOG_END_MS)
    assert [row["same"] for row in found] == [True, False, True]
