"""KIP-966's metrics: the running sums against a plain count of every partition at every offset."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replay.arrow import schemas
from replay.cluster.log import LogRange, clip_validity
from replay.cluster.state import ClusterState
from replay.partitions import metrics
from replay.partitions.elections import states_of
from replay.partitions.metrics import ClusterCourse, anchors, course_of, electable_replicas, moves
from replay.partitions.reducer import History
from tests.support.paths import capture
from tests.support.pure import decode, replayed

Row = dict[str, Any]
CAPTURES = ["unclean", "elr", "churn", "diverge"]


def running(history: History, state: ClusterState, course: ClusterCourse) -> dict[str, list[Row]]:
    """Every metric's moves in offset order, summed up within each section."""
    table = schemas.sorted_history(history.table)
    found: dict[str, list[Row]] = {}
    rows = [*anchors(course).to_pylist(), *moves(table, states_of(table), state.configs, course).to_pylist()]
    for row in sorted(rows, key=lambda r: (r["metric"], r["section"], r["offset"])):
        steps = found.setdefault(row["metric"], [])
        again = bool(steps) and steps[-1]["section"] == row["section"]
        total = (steps[-1]["total"] if again else 0) + (row["delta"] or 0)
        steps.append({**row, "total": total})
    return found


def value_at(steps: list[Row], offset: int) -> int | None:
    now = [s for s in steps if s["offset"] <= offset]
    return None if not now or now[-1]["delta"] is None else now[-1]["total"]


def config(timeline: Any, topic: str, offset: int) -> str:
    found = timeline.resolve([topic], np.array([0]), np.array([offset]))
    return str(found.pairs[found.index[0]][0])


def counted(rows: list[Row], state: ClusterState, offset: int) -> dict[str, int]:
    """The gauges at an offset, one partition at a time."""
    now = [r for r in rows if r["offset"] <= offset and (r["end_offset"] is None or r["end_offset"] > offset)]
    live = [r for r in now if not r["removed"]]
    zero = {r["topic_id"]: len(r["replicas"]) for r in live if r["partition"] == 0}
    count = dict.fromkeys((metrics.UNDER_MIN_ISR, metrics.RECOVERING, metrics.MANUAL), 0)
    wanted = {topic: int(config(state.configs.min_isr, topic, offset)) for topic in {r["topic"] for r in live}}
    for r in live:
        most = zero.get(r["topic_id"], len(r["replicas"]))
        count[metrics.UNDER_MIN_ISR] += len(r["isr"]) < min(wanted[r["topic"]], most)
        if r["leader"] == -1:
            nobody = not r["isr"] and not r["elr"]
            known = len(r["last_known_elr"]) == 1 and r["last_known_elr"][0] >= 0
            recovers = config(state.configs.unclean, r["topic"], offset) == "true" or (nobody and known)
            count[metrics.RECOVERING] += recovers
            count[metrics.MANUAL] += nobody and not recovers
    return count


def offsets_of(rows: list[Row], state: ClusterState) -> Iterable[int]:
    return sorted({r["offset"] for r in rows} | {r["offset"] for r in state.records})


@pytest.mark.parametrize("name", CAPTURES)
def test_gauges_equal_a_count_of_the_partitions_at_every_offset(name: str) -> None:
    history, state = replayed(name)
    rows = history.table.to_pylist()
    steps = running(history, state, course_of(state))
    checked = [(offset, counted(rows, state, offset)) for offset in offsets_of(rows, state)]
    for offset, expected in checked:
        assert {metric: value_at(steps[metric], offset) for metric in expected} == expected, offset
    assert max(e[metrics.UNDER_MIN_ISR] for _, e in checked) > 0


def test_what_was_lost_in_unclean_was_under_unclean_recovery_and_every_recovery_is_counted() -> None:
    history, state = replayed("unclean")
    steps = running(history, state, course_of(state))
    assert max(s["total"] for s in steps[metrics.RECOVERING]) >= 2
    rows = history.table.to_pylist()
    marked = {(r["topic_id"], r["partition"], r["leader_epoch"]) for r in rows if _just_elected_uncleanly(r)}
    assert sum(s["delta"] or 0 for s in steps[metrics.FINISHED]) == len(marked) >= 3


def _just_elected_uncleanly(row: Row) -> bool:
    return row["leader_recovery_state"] == "RECOVERING" and row["leader"] >= 0


def test_a_new_controller_counts_finished_recoveries_from_0() -> None:
    history, state = replayed("churn")
    course = course_of(state)
    steps = running(history, state, course)[metrics.FINISHED]
    assert len(course.took_over) > 2
    assert [value_at(steps, offset) for offset in course.took_over] == [0] * len(course.took_over)
    assert max(s["total"] for s in steps) > 0


def test_behind_a_hole_nothing_is_known_until_a_snapshot_says_it_all_anew() -> None:
    history, state = replayed("unclean")
    last = max(r["offset"] for r in history.table.to_pylist() if r["leader"] == -1)
    course = course_of(state)
    runs = [LogRange(0, last + 1, None), LogRange(last + 9, course.log_end, (last + 9, 1))]
    holed = ClusterCourse(runs, course.log_end, [], course.records)
    cut = clip_validity(history.table, runs, holed.log_end)
    before = cut.filter(pa.array(cut["offset"].to_numpy() <= last))
    steps = running(History(before, history.orphans), state, holed)
    for metric, rows in steps.items():
        assert value_at(rows, last) is not None, metric
        assert value_at(rows, last + 1) is None, metric
        # Nobody speaks behind the hole in this history.
        assert value_at(rows, last + 8) == 0, metric
    assert value_at(steps[metrics.RECOVERING], last) not in (None, 0)


@pytest.mark.parametrize("name", CAPTURES)
def test_electable_replicas_are_isr_and_elr_of_every_state(name: str) -> None:
    history, _ = replayed(name)
    table = schemas.sorted_history(history.table)
    rows = electable_replicas(table, states_of(table)).to_pylist()
    for state in table.to_pylist():
        mine = [r for r in rows if (r["topic_id"], r["partition"]) == (state["topic_id"], state["partition"])]
        at = state["offset"]
        valid = [r["value"] for r in mine if r["offset"] <= at and (r["end_offset"] is None or r["end_offset"] > at)]
        assert valid == ([] if state["removed"] else [len(state["isr"]) + len(state["elr"])])
    for row, following in pairwise(rows):
        if (row["topic_id"], row["partition"]) == (following["topic_id"], following["partition"]):
            assert row["value"] != following["value"] or row["end_offset"] != following["offset"]


def test_moves_point_at_the_record_that_made_them() -> None:
    history, state = replayed("elr")
    steps = running(history, state, course_of(state))[metrics.UNDER_MIN_ISR]
    records = {r["offset"]: r for r in decode(capture("elr")).records}
    moved = [s for s in steps if s["delta"]]
    assert moved
    assert all(s["position"] == records[s["offset"]]["position"] and s["path"] for s in moved)


def test_no_partitions_give_no_moves() -> None:
    history, state = replayed("elr")
    nothing = history.table.slice(0, 0)
    assert len(moves(nothing, states_of(nothing), state.configs, course_of(state))) == 0


# Sums of moves, against a plain loop.

_PLACE = ("timestamp_ms", "controller_epoch", "origin", "batch_base_offset", "capture", "path", "sha256", "position")


def move(metric: str, section: int, offset: int, delta: int | None, has_record: bool = True) -> Row:
    numbers = dict.fromkeys(("controller_epoch", "batch_base_offset", "position"), offset)
    record = {
        "timestamp_ms": offset * 10,
        **numbers,
        **dict.fromkeys(("origin", "capture", "path", "sha256"), str(offset)),
    }
    return {"metric": metric, "section": section, "offset": offset, "delta": delta, **(record if has_record else {})}


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=metrics.MOVES)


def plain_sums(rows: list[Row]) -> list[Row]:
    sums: dict[tuple[str, int, int], Row] = {}
    for row in rows:
        key = row["metric"], row["offset"], row["section"]
        before = sums.get(key)
        full = {name: row.get(name) for name in metrics.MOVES.names}
        if before is not None:
            unknown = before["delta"] is None or row["delta"] is None
            delta = None if unknown else before["delta"] + row["delta"]
            full = {**{n: before[n] if before[n] is not None else full[n] for n in full}, "delta": delta}
        sums[key] = full
    return [sums[key] for key in sorted(sums)]


def plain_course(rows: list[Row]) -> list[Row]:
    """Rows of cluster_metrics, one move after the other."""
    found: list[Row] = []
    section, total = None, 0
    for row in plain_sums(rows):
        last = found[-1] if found and found[-1]["metric"] == row["metric"] else None
        if last is None or row["section"] != section:
            section, total = row["section"], 0
        total += row["delta"] or 0
        value = None if row["delta"] is None else total
        if last is not None and last["value"] == value:
            continue
        if last is not None:
            last["end_offset"], last["end_timestamp_ms"] = row["offset"], row["timestamp_ms"]
        place = {name: row[name] for name in ("metric", "offset", *_PLACE)}
        found.append({**dict.fromkeys(schemas.CLUSTER_METRICS.names), **place, "value": value})
    return found


@st.composite
def courses(draw: st.DrawFn) -> list[Row]:
    """Moves of some metrics in several sections, each opened by an anchor; a section may end in a hole."""
    rows: list[Row] = []
    for metric in draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True)):
        offset = 0
        for section in range(draw(st.integers(1, 4))):
            offset += draw(st.integers(0 if rows and rows[-1]["delta"] is None else 1, 3))
            rows.append(move(metric, section, offset, 0, draw(st.booleans())))
            for _ in range(draw(st.integers(0, 6))):
                offset += draw(st.integers(0, 2))
                rows.append(move(metric, section, offset, draw(st.integers(-2, 2))))
            if draw(st.booleans()):
                offset += draw(st.integers(0, 2))
                rows.append(move(metric, section, offset, None, has_record=False))
    return draw(st.permutations(rows))


# A section begins with the value before it, and a move in a later band takes nothing from it.
SAME_AGAIN = [(0, 1, 0), (0, 1, 1), (1, 2, 0), (1, 2, 1), (1, 3, 0)]


@example(rows=[move("a", *each) for each in SAME_AGAIN], cut=0, width=1)
@given(rows=courses(), cut=st.integers(0, 30), width=st.integers(1, 40))
def test_running_sums_equal_a_plain_loop(rows: list[Row], cut: int, width: int) -> None:
    """Also where tasks have summed their part up before, and band by band."""
    assert metrics.summed(table_of(rows)).to_pylist() == plain_sums(rows)
    parts = [metrics.bands(metrics.summed(table_of(part)), width) for part in (rows[:cut], rows[cut:])]
    bands = [[part[band] for part in parts if band in part] for band in sorted(parts[0].keys() | parts[1].keys())]
    found = [row for piece in metrics.running(map(pa.concat_tables, bands)) for row in piece.to_pylist()]
    assert sorted(found, key=lambda row: (row["metric"], row["offset"])) == plain_course(rows)
