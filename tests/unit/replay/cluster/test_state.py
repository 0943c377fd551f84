"""The cluster-wide part of a replay: topics, configs, features, what a gap in the log means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replay.arrow.schemas import CHANGES
from replay.cluster.log import Hole
from replay.cluster.state import ClusterState, ConflictError, changes_that_count, log_shape, resolve_cluster
from replay.controller.profiles import PROFILES, possible_profiles
from tests.support.records import batch, config, elr, leader, record, register, registered, topic, unregistered

Row = dict[str, Any]


def in_snapshot(end: int, row: Row) -> Row:
    return {**row, "snapshot_end_offset": end, "snapshot_epoch": 1}


def resolve(*records: Row, batches: list[Row] | None = None, snapshot: list[Row] | None = None) -> ClusterState:
    snapshot = snapshot or []
    ends = sorted({(r["snapshot_end_offset"], r["snapshot_epoch"]) for r in snapshot})
    return resolve_cluster(log_shape(batches or [batch(0, 99)], ends), records, snapshot, {})


def min_isr(state: ClusterState, name: str, *offsets: int) -> list[str]:
    found = state.configs.min_isr.resolve([name], np.zeros(len(offsets), dtype=np.int64), np.array(offsets))
    return [found.pairs[i][0] for i in found.index]


def events(state: ClusterState) -> list[tuple[int, str, bool]]:
    return [(e["offset"], e["topic_id"], e["removes"]) for e in state.topic_events.to_pylist()]


def test_clear_elr_for_one_topic_and_for_all_that_exist_then() -> None:
    state = resolve(
        topic(1, "t", "T1"),
        topic(2, "u", "U1"),
        record(3, "CLEAR_ELR_RECORD", topicName="t"),
        record(4, "REMOVE_TOPIC_RECORD", topicId="T1"),
        record(5, "CLEAR_ELR_RECORD", topicName=""),
        topic(6, "t", "T2"),
        record(7, "CLEAR_ELR_RECORD", topicName="t"),
    )
    assert events(state) == [(3, "T1", False), (4, "T1", True), (5, "U1", False), (7, "T2", False)]
    assert state.topic_events["position"].to_pylist() == [3, 4, 5, 7]
    assert state.configs.topic_names == {"T1": "t", "U1": "u", "T2": "t"}
    assert state.problems == []


def test_records_about_topics_that_do_not_exist_are_problems() -> None:
    state = resolve(
        record(3, "CLEAR_ELR_RECORD", topicName="t"),
        record(4, "REMOVE_TOPIC_RECORD", topicId="T1"),
        topic(5, "t", "T1"),
        record(6, "REMOVE_TOPIC_RECORD", topicId="T1"),
        record(7, "REMOVE_TOPIC_RECORD", topicId="T1"),
    )
    assert [(p.kind, p.offset) for p in state.problems] == [("unknown_topic", o) for o in (3, 4, 7)]
    assert events(state) == [(6, "T1", True)]


def test_a_min_isr_that_is_no_number_is_a_problem() -> None:
    assert [(p.kind, p.offset) for p in resolve(config(5, "3"), config(6, "two")).problems] == [("bad_config", 6)]


def test_records_of_a_dropped_transaction_do_not_count() -> None:
    state = resolve(
        record(1, "BEGIN_TRANSACTION_RECORD"),
        topic(2, "t", "T1"),
        record(3, "ABORT_TRANSACTION_RECORD"),
        record(4, "BEGIN_TRANSACTION_RECORD"),
        topic(5, "u", "U1"),
        record(6, "END_TRANSACTION_RECORD"),
    )
    assert state.configs.topic_names == {"U1": "u"}


def test_records_of_a_branch_that_was_cut_off_do_not_count() -> None:
    batches = [batch(0, 9), batch(10, 19, epoch=1), batch(10, 30, epoch=2, crc=7)]
    state = resolve(topic(12, "t", "T1"), batches=batches)
    assert state.configs.topic_names == {"T1": "t"}
    cut = {**topic(12, "t", "T1"), "batch_base_offset": 10}
    later = {**topic(12, "u", "U1"), "batch_base_offset": 10, "epoch": 2}
    state = resolve(cut, later, batches=batches)
    assert state.configs.topic_names == {"U1": "u"}
    assert state.shape.truncated == [(1, 10)]


def test_elr_is_on_from_its_feature_record_on() -> None:
    state = resolve(elr(5, 1), elr(9, 0), record(6, "FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=29))
    assert [state.elr_enabled(o) for o in (4, 5, 8, 9)] == [False, True, True, False]


def test_one_epoch_with_two_contents_is_refused() -> None:
    with pytest.raises(ConflictError, match="offset 10 of epoch 1 has different bytes in a and b"):
        log_shape([batch(10, 19), batch(10, 19, crc=99, path="b")], [])


def test_records_in_a_gap_or_before_the_first_known_state_do_not_count() -> None:
    state = resolve(topic(12, "t", "T1"), batches=[batch(10, 19)])
    assert state.configs.topic_names == {}
    assert [p.kind for p in state.problems] == ["no_snapshot"]


def test_a_snapshot_behind_a_gap_takes_back_what_is_not_in_it() -> None:
    """Topic t was removed and created anew in the gap, u was removed, broker 2 was unregistered, ELR was turned off."""
    before = [
        elr(0, 1),
        register(1, "i1", 1, fenced=False),
        register(2, "i2", 2, fenced=False),
        topic(3, "t", "T1"),
        topic(4, "u", "U1"),
        topic(5, "v", "V1"),
        config(6, "3"),
        config(7, "4", "u"),
        config(8, "5", "v"),
        config(9, "6", "", 4),
    ]
    kept = [register(0, "i1", 1, fenced=False), topic(1, "t", "T2"), topic(2, "v", "V1"), config(3, "2")]
    snapshot = [in_snapshot(60, r) for r in kept]
    state = resolve(*before, batches=[batch(0, 49), batch(60, 99)], snapshot=snapshot)
    assert sorted(events(state)) == [(59, "T1", True), (59, "U1", True)]
    assert [min_isr(state, name, 58, 59) for name in ("t", "u", "v", "w")] == [
        ["3", "2"],
        ["4", "1"],
        ["5", "1"],
        ["6", "1"],
    ]
    assert [(state.brokers.active(b, 58), state.brokers.active(b, 59)) for b in (1, 2)] == [(True, True), (True, False)]
    assert [state.elr_enabled(o) for o in (58, 59)] == [True, False]
    assert [p.kind for p in state.problems] == ["offset_gap", "unknown_prefix"]


def test_a_snapshot_behind_a_gap_takes_back_controllers_that_are_not_in_it() -> None:
    """Controller 2 was unregistered in the gap, and leads after it; 3 was before."""
    before = [registered(1, 1), registered(2, 2), registered(3, 3), unregistered(4, 3)]
    terms = [leader(60 + 10 * term, leads, 2 + term) for term, leads in enumerate((1, 2, 3))]
    batches = [batch(0, 49), batch(60, 69, epoch=2), batch(70, 79, epoch=3), batch(80, 99, epoch=4)]
    state = resolve(*before, *terms, batches=batches, snapshot=[in_snapshot(60, registered(0, 1))])
    found = [r for r in state.records if r["type"] == "UNREGISTER_CONTROLLER_RECORD"]
    assert [(r["offset"], r["data"]["controllerId"]) for r in found] == [(4, 3), (59, 2)]
    assert [possible_profiles(state.controller_releases).at(o) for o in (60, 70, 80)] == [
        ("4.3",),
        tuple(PROFILES),
        tuple(PROFILES),
    ]
    assert [p.kind for p in state.problems] == ["offset_gap", "unknown_prefix"]


def test_unregistrations_that_kafka_refuses_are_problems() -> None:
    leads = leader(0, 1)
    state = resolve(
        leads, unregistered(1, 2), registered(2, 1), registered(3, 2), unregistered(4, 2), unregistered(5, 1)
    )
    assert [(p.kind, p.offset) for p in state.problems] == [
        ("unknown_controller", 1),
        ("active_controller_unregistered", 5),
    ]


def test_a_snapshot_that_the_log_begins_with_takes_nothing_back() -> None:
    snapshot = [in_snapshot(40, r) for r in (topic(0, "t", "T1"), config(1, "3"), register(2, "i1", 1, fenced=False))]
    state = resolve(batches=[batch(40, 99)], snapshot=snapshot)
    assert events(state) == []
    assert min_isr(state, "t", 39) == ["3"]
    assert state.brokers.active(1, 39)


def test_changes_that_count_lie_in_runs_and_outside_dropped_transactions() -> None:
    state = resolve(
        record(70, "BEGIN_TRANSACTION_RECORD"),
        record(75, "ABORT_TRANSACTION_RECORD"),
        batches=[batch(0, 49), batch(60, 99)],
        snapshot=[in_snapshot(60, topic(0, "t", "T1"))],
    )
    rows = [{"offset": o, "origin": "log"} for o in (10, 55, 60, 72, 76)] + [{"offset": 59, "origin": "checkpoint"}]
    changes = pa.Table.from_pylist(rows, schema=CHANGES)
    assert changes_that_count(changes, state)["offset"].to_pylist() == [10, 60, 76, 59]


@pytest.mark.parametrize("after", ["TOPIC_RECORD", "BEGIN_TRANSACTION_RECORD"])
def test_a_transaction_whose_end_is_in_a_gap_takes_nothing_behind_it(after: str) -> None:
    """Its End or Abort is in no captured file: the snapshot behind the gap is in no transaction."""
    state = resolve(
        topic(5, "s", "S1"),
        record(40, "BEGIN_TRANSACTION_RECORD"),
        topic(45, "t", "T1"),
        topic(70, "u", "U1"),
        *([record(80, after), topic(81, "v", "V1"), record(82, "END_TRANSACTION_RECORD")] if "BEGIN" in after else []),
        batches=[batch(0, 49), batch(60, 99)],
        snapshot=[in_snapshot(60, topic(0, "s", "S1")), in_snapshot(60, register(1, "i1", 1, fenced=False))],
    )
    later = {"V1": "v"} if "BEGIN" in after else {}
    assert state.configs.topic_names == {"S1": "s", "U1": "u", **later}
    assert state.brokers.active(1, 59)
    assert [(p.kind, p.offset) for p in state.problems if "transaction" in p.kind] == [("open_transaction", 40)]
    rows = [{"offset": o, "origin": "log"} for o in (39, 45, 70, 99)]
    kept = changes_that_count(pa.Table.from_pylist(rows, schema=CHANGES), state)
    assert kept["offset"].to_pylist() == [39, 70, 99]


def test_a_hole_counts_only_in_the_log_that_went_on() -> None:
    batches = [batch(0, 45), batch(46, 51), batch(46, 99, epoch=3, crc=7)]
    assert [(r.start, r.end) for r in log_shape(batches, [], [Hole(48, 1, "cut away")]).runs] == [(0, 100)]
    assert [(r.start, r.end) for r in log_shape(batches, [], [Hole(48, 3, "it counts")]).runs] == [(0, 48)]
