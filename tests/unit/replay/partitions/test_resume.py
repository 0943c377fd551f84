"""Going on from an earlier replay: the same as replaying everything, and only where nothing before it changed."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from replay.arrow.schemas import CHANGES, TOPIC_EVENTS
from replay.cluster.configs import BROKER, MIN_ISR, TOPIC, ConfigChange
from replay.cluster.log import LogRange
from replay.cluster.state import ClusterState, log_shape, resolve_cluster
from replay.partitions.reducer import build_history
from replay.partitions.resume import ResumePoint, as_base, can_resume, news, resume_point
from tests.support.paths import capture
from tests.support.pure import cluster_state, decode
from tests.support.random_logs import logs
from tests.unit.replay.partitions.test_reducer import context

Row = dict[str, Any]
CONTEXT = context(
    changes=[
        ConfigChange(5, TOPIC, "name-x", MIN_ISR, "3"),
        ConfigChange(31, BROKER, "", MIN_ISR, "2"),
        ConfigChange(44, TOPIC, "name-x", MIN_ISR, None),
    ]
)


def build(changes: pa.Table, events: list[Row]) -> pa.Table:
    return build_history(changes, pa.Table.from_pylist(events, schema=TOPIC_EVENTS), CONTEXT).table


@given(logs(), st.integers(1, 80))
def test_an_extended_history_is_the_history_of_the_whole_log(log: tuple[list[Row], list[Row]], offset: int) -> None:
    rows, events = log
    changes = pa.Table.from_pylist(rows, schema=CHANGES)
    tail = changes.filter(pc.greater_equal(changes["offset"], offset))
    late = [e for e in events if e["offset"] >= offset]
    # A topic id is never used again (Kafka's TopicRecord).
    removed = {e["topic_id"] for e in events if e["removes"] and e["offset"] < offset}
    assume(not removed & {*tail["topic_id"].to_pylist()})
    whole = build(changes, events)
    history = build(changes.filter(pc.less(changes["offset"], offset)), [e for e in events if e["offset"] < offset])
    # As the job does: only topics that something is said of.
    touched = {*tail["topic_id"].to_pylist(), *(e["topic_id"] for e in late)}
    valid = pc.and_(pc.is_null(history["end_offset"]), pc.invert(history["removed"]))
    base = history.filter(pc.and_(valid, pc.is_in(history["topic_id"], pa.array(sorted(touched), pa.string()))))
    more = news(build(pa.concat_tables([as_base(base), tail]), late), offset)
    key = ("topic_id", "partition", "offset")
    merged = {tuple(r[k] for k in key): r for r in history.to_pylist()}
    for row in more.to_pylist():
        place = tuple(row[k] for k in key)
        ends = {k: row[k] for k in ("end_offset", "end_timestamp_ms")}
        merged[place] = {**merged[place], **ends} if place in merged else row
    assert sorted(merged.values(), key=lambda r: [r[k] for k in key]) == whole.to_pylist()


def cut_at(state: ClusterState, offset: int) -> ClusterState:
    """The state of the same log as it was when it ended at an offset (a batch's base)."""
    batches = [b for b in state.shape.batches if b["last_offset"] < offset]
    return resolve_cluster(log_shape(batches, []), [r for r in state.records if r["offset"] < offset], [], {})


@pytest.mark.parametrize("name", ["unclean", "elr", "churn", "diverge"])
def test_a_log_that_only_grew_is_gone_on_with(name: str) -> None:
    whole = replace(decode(capture(name)), snapshots=[], static={})
    state = cluster_state(whole)
    points = 0
    for batch in sorted(whole.batches, key=lambda b: b["base_offset"])[1::7]:
        earlier = cut_at(state, batch["base_offset"])
        point = resume_point(earlier)
        if (batch["epoch"], batch["base_offset"]) in state.shape.truncated or point is None:
            continue
        points += 1
        assert point.offset <= batch["base_offset"]
        assert can_resume(state, point)
        assert can_resume(earlier, point)
        assert not can_resume(replace(state, static={3000: {"min.insync.replicas": "2"}}), point), (
            "a file that was not there"
        )
        assert not can_resume(state, ResumePoint(point.offset, "other")), "another past"
        assert not can_resume(earlier, ResumePoint(point.offset + 1, point.digest)), "beyond the log"
    assert points > 3


def test_a_suffix_that_is_cut_off_later_is_not_gone_on_with() -> None:
    """diverge's node 3001 ends in offsets that the other two replaced."""
    whole = replace(decode(capture("diverge")), snapshots=[], static={})
    alone = replace(
        whole,
        batches=[{**b, "nodes": [3001]} for b in whole.batches if 3001 in b["nodes"]],
        records=[r for r in whole.records if r["epoch"] == 1],
    )
    point = resume_point(cluster_state(alone))
    assert point is not None
    assert point.offset == 52
    assert not can_resume(cluster_state(whole), point)


def test_a_hole_behind_the_point_is_no_going_on() -> None:
    state = cluster_state(replace(decode(capture("unclean")), snapshots=[], static={}))
    point = resume_point(state)
    assert point is not None
    runs = [*state.shape.runs, LogRange(point.offset + 10, point.offset + 20, (point.offset + 10, 9))]
    later = replace(state, shape=replace(state.shape, runs=runs, log_end=point.offset + 20))
    assert not can_resume(later, point)


def test_a_snapshot_newer_than_the_log_or_no_log_at_all_is_no_point() -> None:
    state = cluster_state(replace(decode(capture("unclean")), snapshots=[], static={}))
    end = state.shape.log_end
    ahead = replace(
        state, shape=replace(state.shape, runs=[*state.shape.runs, LogRange(end + 5, end + 5, (end + 5, 1))])
    )
    assert resume_point(ahead) is None
    assert resume_point(replace(state, shape=replace(state.shape, runs=[]))) is None


def test_an_open_transaction_is_read_again() -> None:
    place = {"capture": "c", "path": "log", "sha256": "00", "position": 0}
    marker = {"offset": 7, "epoch": 1, "timestamp_ms": 1, "batch_base_offset": 7, "data": {}, **place}
    batches = [
        {"base_offset": o, "last_offset": o, "epoch": 1, "crc": 5, "path": "log", "nodes": [1]} for o in range(10)
    ]
    opened = resolve_cluster(log_shape(batches, []), [{**marker, "type": "BEGIN_TRANSACTION_RECORD"}], [], {})
    point = resume_point(opened)
    assert point is not None
    assert point.offset == 7
    assert can_resume(resolve_cluster(log_shape(batches, []), [], [], {}), point)
