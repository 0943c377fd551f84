"""Broker sessions: how each began, against what was really done to the brokers, and rule by rule."""

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from replay.arrow import schemas
from replay.cluster.broker_sessions import (
    EVIDENCE_LIMIT,
    SESSION_EVIDENCE,
    broker_history,
    registrations,
    session_evidence,
)
from tests.simulator.detection import sessions_of
from tests.simulator.faults import FAULTS, life
from tests.simulator.judge import groups
from tests.simulator.life import together as lived
from tests.support.paths import CAPTURES as FOLDER
from tests.support.pure import history_of
from tests.support.records import change, elr, record, register
from tests.support.scenario import states, together
from tests.support.window_table import beside, lines_of
from tests.unit.test_oracle import decoded as decoded_capture

Row = dict[str, Any]
CAPTURES = ["unclean", "elr", "churn", "diverge"]


def history_rows(records: list[Row], *partitions: pa.Table, files: tuple[Row, ...] = ()) -> list[Row]:
    partition_history = together(*partitions) if partitions else schemas.PARTITION_HISTORY.empty_table()
    evidence = session_evidence(partition_history, registrations(records))
    return broker_history(records, evidence, files).to_pylist()


def last_class(records: list[Row], *partitions: pa.Table, files: tuple[Row, ...] = ()) -> tuple[str, list[int]]:
    row = history_rows(records, *partitions, files=files)[-1]
    return row["restart_class"], row["restart_evidence"]


def restarts(name: str) -> list[Row]:
    """The first row of every session of a real capture."""
    decoded = decoded_capture(name)
    history, state = history_of(decoded)
    evidence = session_evidence(schemas.sorted_history(history.table), registrations(state.records))
    files = [r for r in decoded.offsets.to_pylist() if r["source"] == "clean_shutdown"]
    first: dict[tuple[int, int], Row] = {}
    for row in broker_history(state.records, evidence, files).to_pylist():
        if row["broker_epoch"] is not None:
            first.setdefault((row["broker_id"], row["broker_epoch"]), row)
    return list(first.values())


@pytest.mark.parametrize(("name", "told"), [("unclean", 5), ("elr", 5), ("churn", 3), ("diverge", 0)])
def test_no_restart_is_called_what_it_was_not(name: str, told: int) -> None:
    """stops.json has what was done to the captured clusters' brokers: [ms, broker, stop (clean) or kill]."""
    ends = json.loads((FOLDER / "stops.json").read_text())[name]
    decided = 0
    for row in restarts(name):
        before = [how for ms, broker, how in ends if broker == row["broker_id"] and ms < row["timestamp_ms"]]
        if not before:
            assert row["restart_class"] == "first"
            continue
        really = {"stop": "clean", "kill": "unclean"}[before[-1]]
        assert row["restart_class"] in (really, "unknown")
        decided += row["restart_class"] == really
    assert decided == told


def test_what_a_session_looks_like() -> None:
    records = [
        register(1, "a", rack="r1", logDirs=["d1", "d2"]),
        change(2, 1, fenced=-1),
        change(3, 1, logDirs=["d2"]),
        change(4, 1, inControlledShutdown=1),
        change(5, 1, fenced=1),
        record(6, "UNREGISTER_BROKER_RECORD", brokerId=1, brokerEpoch=1),
        register(7, "b"),
    ]
    rows = history_rows(records)
    names = ("offset", "incarnation_id", "fenced", "in_controlled_shutdown", "rack", "log_dirs", "end_offset")
    assert [tuple(r[n] for n in names) for r in rows] == [
        (1, "a", True, False, "r1", ["d1", "d2"], 2),
        (2, "a", False, False, "r1", ["d1", "d2"], 3),
        (3, "a", False, False, "r1", ["d2"], 4),
        (4, "a", False, True, "r1", ["d2"], 5),
        (5, "a", True, True, "r1", ["d2"], 6),
        (6, None, None, None, None, None, 7),
        (7, "b", True, False, None, None, None),
    ]
    assert [r["restart_class"] for r in rows] == ["first"] * 5 + [None, "unknown"]
    assert [r["position"] for r in rows] == [r["offset"] for r in rows]


RESTART = [elr(0), register(1, "a"), register(12, "b", batch=10)]


@pytest.mark.parametrize(("story", "answer"), lines_of(beside(__file__)))
def test_what_a_restart_is_taken_for(story: list[str], answer: str) -> None:
    cleared = [record(11, "CLEAR_ELR_RECORD", batch=10, topicName="t")] * ("cleared" in story)
    levels = {"no elr": [], "elr 7 off": [elr(0), elr(7, 0)]}.get(story[0], RESTART[:1])
    records = sorted([*levels, *RESTART[1:], *cleared], key=lambda row: row["offset"])
    proven = last_class(records, states(*(line for line in story if line[0].isdigit())))
    assert " ".join([proven[0], *map(str, proven[1])]) == answer


def test_proofs_that_contradict_each_other_prove_nothing() -> None:
    other = states("5 isr=2 elr=1 leader=2", partition=1)
    assert last_class(RESTART, states("5 isr=1", "11 isr= leader=-1 batch=10"), other) == ("unknown", [5, 11])


def test_the_same_incarnation_is_the_same_session() -> None:
    records = [elr(0), register(1, "a"), register(12, "a", batch=10)]
    rows = history_rows(records, states("5 isr=1", "11 isr= leader=-1 batch=10"))
    assert {r["restart_class"] for r in rows} == {"first"}


def test_a_clean_shutdown_file_counts_for_the_session_that_it_names() -> None:
    file = {"broker_id": 1, "broker_epoch": 1, "capture": "c", "path": ".kafka_cleanshutdown", "sha256": "ff"}
    row = history_rows(RESTART, files=(file,))[-1]
    assert (row["restart_class"], row["clean_shutdown_broker_epoch"]) == ("clean", 1)
    assert (row["clean_shutdown_path"], row["clean_shutdown_sha256"]) == (".kafka_cleanshutdown", "ff")
    assert last_class(RESTART, files=({**file, "broker_epoch": 12},)) == ("unknown", [])
    assert last_class(RESTART, files=({**file, "broker_id": 2},)) == ("unknown", [])
    assert last_class(RESTART, files=({**file, "broker_epoch": None},)) == ("unknown", [])
    # The log knows better: it may have started and died since.
    assert last_class(RESTART, states("5 isr=1", "11 isr= leader=-1 batch=10"), files=(file,))[0] == "unclean"


def test_a_broker_that_a_snapshot_brings_was_perhaps_there_before() -> None:
    records = [{**register(4, "a"), "place": 3}, {**register(4, "b", broker=2), "place": 4}, register(9, "c", broker=3)]
    rows = history_rows(records)
    assert [(r["broker_id"], r["restart_class"], r["origin"]) for r in rows] == [
        (1, "unknown", "checkpoint"),
        (2, "unknown", "checkpoint"),
        (3, "unknown", "log"),
    ]


def test_the_evidence_of_a_broker_with_many_partitions_is_bounded() -> None:
    many = [states("5 isr=1", "11 isr= leader=-1 batch=10", partition=p) for p in range(EVIDENCE_LIMIT + 5)]
    found = session_evidence(together(*many), registrations(RESTART))
    assert found.schema == SESSION_EVIDENCE
    assert len(found) == EVIDENCE_LIMIT


def test_of_several_copies_of_a_file_the_first_by_name_is_named() -> None:
    """A row of the lake depends on the evidence, not on the order in which its files are read."""
    copies = [
        {"broker_id": 1, "broker_epoch": 1, "capture": "c", "path": f"{n}/.kafka_cleanshutdown", "sha256": "ff"}
        for n in (3, 1, 2)
    ]
    for files in (copies, copies[::-1]):
        assert history_rows(RESTART, files=tuple(files))[-1]["clean_shutdown_path"] == "1/.kafka_cleanshutdown"


def test_no_restart_of_a_life_is_called_what_it_was_not() -> None:
    """What the simulated controller took each restart for, with ELR on; of those whose record was captured."""
    found = Counter[tuple[str, str]]()
    for fault in FAULTS:
        for group in groups(life(fault, seed) for seed in range(8)):
            restarts = ((each.gap, *restart) for each in group for restart in each.world.controller.restarts.items())
            truth = {at: how for gap, at, how in restarts if gap is None or not gap[0] <= at < gap[1]}
            rows = (row for row in sessions_of(group, lived(group)[0]) if row["offset"] in truth)
            found.update((row["restart_class"], truth[row["offset"]]) for row in rows)
    assert {said for said, true in found if said != true} == {"unknown"}
    assert min(found[said, true] for true in ("clean", "unclean") for said in ("unknown", true)) > 10
