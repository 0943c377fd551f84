"""Replayed states against snapshots and printed states, against the same compared one partition at a time."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.tables import DESCRIBED_PARTITIONS
from jobs.detect.task import printed_differences, snapshot_differences
from jobs.lake.tables import TABLES
from replay.arrow.schemas import PARTITION_HISTORY
from tests.support.window_table import Entry, beside, entries

Row = dict[str, Any]
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
    """The records of a snapshot of states of a history."""
    marks = {"RECOVERED": 0, "RECOVERING": 1}
    changes = [{**s, "leader_recovery_state": marks.get(s["leader_recovery_state"])} for s in states]
    place = {"snapshot_end_offset": END, "snapshot_epoch": 2}
    rows = [{**place, "offset": number, "partition_change": change} for number, change in enumerate(changes)]
    return pa.Table.from_pylist(rows, schema=TABLES["snapshot_records"].file_schema)


def test_only_the_state_that_is_valid_at_the_snapshot_is_compared() -> None:
    """A snapshot of END has what records before END made."""
    wrong = {**STATE, "leader": 9}
    ends = {"offset": 20, "end_offset": 30}, {"offset": 30, "end_offset": END}, {"offset": END, "end_offset": None}
    before, at, after = ({**wrong, **ends[0]}, {**STATE, **ends[1]}, {**wrong, **ends[2]})
    assert snapshot_differences(history(before, at, after), snapshot(STATE), {END: True}) == (1, [])
    lone = [{**STATE, "offset": END}, {**STATE, "end_offset": END - 1}, {**STATE, "removed": True}]
    for state in lone:
        compared, found = snapshot_differences(history(state), snapshot(STATE), {END: True})
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
    compared, found = snapshot_differences(history(*own), snapshot(*mixed), {END: compare_elr})
    assert compared == len(world)
    assert sorted(found, key=str) == sorted(expected, key=str)


# Printed states

CLOCK_MS, LOG_END_MS = 10, 5000
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


def changed(words: list[str]) -> Row:
    """What differs from a state or a printed one."""
    row: Row = {}
    for name, text in (word.split("=", 1) for word in words if "=" in word):
        is_list = name in ("replicas", "isr", "elr", "last_known_elr")
        numbers = [int(number) for number in text.split(",") if number.lstrip("-").isdigit()]
        row[name] = None if text == "-" else numbers if is_list else numbers[0] if numbers else text
    return row


def state_of(item: str) -> Row:
    offset, *words = item.split()
    row = {**STATE, "offset": int(offset)}
    for name, text in (word.split("=") for word in words if word.startswith(("from=", "until="))):
        if name == "from":
            row["timestamp_ms"] = int(text)
        else:
            end, _, end_ms = text.partition("/")
            row |= {"end_offset": int(end), "end_timestamp_ms": None if end_ms == "-" else int(end_ms)}
    row |= changed([word for word in words if not word.startswith(("from=", "until="))])
    return {**row, "removed": True, "leader": None, "isr": None} if "removed" in words else row


@pytest.mark.parametrize("entry", entries(beside(__file__)), ids=lambda entry: entry.name)
def test_printed_state(entry: Entry) -> None:
    for story, answer in entry.cases:
        items = story.split("; ")
        shown = {
            **SHOWN,
            **changed([word for item in items if item.startswith("printed") for word in item.split()[1:]]),
        }
        shown |= {"captured_at_ms": shown.pop("at", SHOWN["captured_at_ms"])}
        rows = history(*(state_of(item) for item in items if item[0].isdigit()))
        found = printed_differences(rows, printed(shown), CLOCK_MS, LOG_END_MS)
        if not found:
            assert answer == "nothing", story
            continue
        (row,) = found
        assert row["printed"].items() >= {k: v for k, v in shown.items() if v is not None}.items()
        offsets = ",".join(str(state["offset"]) for state in row["states"])
        parts = ("same" if row["same"] else "differs", offsets, "" if row["within"] else "late")
        assert " ".join(part for part in parts if part) == answer, story


def test_every_printed_state_has_its_answer() -> None:
    shown = [SHOWN, {**SHOWN, "leader": 3}, {**SHOWN, "partition": 1}, SHOWN]
    found = printed_differences(history(STATE), printed(*shown), CLOCK_MS, LOG_END_MS)
    assert [row["same"] for row in found] == [True, False, True]
