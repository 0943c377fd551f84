"""Histories at the edges: a million changes of one partition, broker ids at the ends of int32, hundreds of replicas."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from replay.arrow.schemas import CHANGES, LIST_COLUMNS, TOPIC_EVENTS
from replay.partitions.elections import states_of
from replay.partitions.reducer import History, build_history
from tests.support.random_logs import TOPICS, Row
from tests.support.scalar_reducer import reduce_rows
from tests.unit.replay.partitions.test_reducer import build, changed, context, created, without_configs

MILLION = 1_000_000


def million_changes() -> pa.Table:
    """A PartitionRecord and a million PartitionChangeRecords of one partition, every field given in some of them."""
    count = MILLION + 1
    rng = np.random.default_rng(5)
    offset = np.arange(count, dtype=np.int64) * 3 + 7
    columns: dict[str, Any] = {
        "offset": offset,
        "batch_base_offset": offset - 1,
        "timestamp_ms": offset * 10,
        "position": offset * 40,
        "controller_epoch": np.arange(count) // 250_000,
        "full": np.arange(count) == 0,
        "partition": np.zeros(count),
        "leader_epoch": pa.array([4], type=pa.int32()).take(first_only(count)),
        "partition_epoch": pa.array([9], type=pa.int32()).take(first_only(count)),
        # -2 and null both mean that the leader stays.
        "leader": pa.array([1, 2, 3, -1, -2, None], type=pa.int32()).take(drawn(rng, count, 6)),
        "leader_recovery_state": pa.array([0, 1, -1, None], type=pa.int8()).take(drawn(rng, count, 4)),
    }
    constant = {"origin": "log", "topic_id": TOPICS[0], "capture": "c", "path": "log", "sha256": "00"}
    columns |= {
        name: pa.array([value]).take(pa.array(np.zeros(count, dtype=np.int64))) for name, value in constant.items()
    }
    sets = [[1, 2, 3], [2, 3], [3], [], None, None, None]
    for name in LIST_COLUMNS[:-1]:
        pool = [[1, 2, 3], [3, 1, 2], [2, 3], *[None] * 9] if name == "replicas" else sets
        columns[name] = pa.array(pool, type=CHANGES.field(name).type).take(drawn(rng, count, len(pool)))
    directories = [["a", "b", "c"], ["b", "c", "d"], *[None] * 8]
    columns["directories"] = pa.array(directories, type=CHANGES.field("directories").type).take(drawn(rng, count, 10))
    return pa.table({f.name: pa.array(columns[f.name]).cast(f.type) for f in CHANGES}, schema=CHANGES)


def drawn(rng: np.random.Generator, count: int, among: int) -> pa.Array:
    """Random indices, the first of which is 0: the creation's."""
    return pa.array(np.append(0, rng.integers(0, among, count - 1)))


def first_only(count: int) -> pa.Array:
    return pa.array(np.zeros(count, dtype=np.int64), mask=np.arange(count) > 0)


def test_a_million_changes_of_one_partition() -> None:
    changes = million_changes()
    history = build_history(changes, TOPIC_EVENTS.empty_table(), context())
    table = history.table
    assert (len(table), len(history.orphans)) == (MILLION + 1, 0)

    elected = pc.fill_null(changes["leader"], -2).to_numpy() != -2
    assert (table["leader_epoch"].to_numpy() == 4 + np.cumsum(np.append(0, elected[1:]))).all()
    assert (table["partition_epoch"].to_numpy() == 9 + np.arange(MILLION + 1)).all()
    assert table["offset"].equals(changes["offset"])
    assert table["end_offset"].slice(0, MILLION).equals(changes["offset"].slice(1))
    assert table["end_offset"][MILLION].as_py() is None

    # From the creation on, and from a state far inside to the end, as the reducer of one record at a time has it.
    begin = reduce_rows(changes.slice(0, 501).to_pylist(), [])[0]
    assert shown(history, 0, 500) == begin[:500]
    for start in (MILLION // 2, MILLION - 500):
        state = table.slice(start, 1).to_pylist()[0]
        recovery = ("RECOVERED", "RECOVERING").index(state["leader_recovery_state"])
        base = {**state, "full": True, "leader_recovery_state": recovery}
        rows = reduce_rows([base, *changes.slice(start + 1, 501).to_pylist()], [])[0]
        assert shown(history, start, 500) == rows[:500]
    assert shown(history, MILLION, 1) == rows[-1:]


def shown(history: History, start: int, count: int) -> list[Row]:
    return without_configs(History(history.table.slice(start, count), history.orphans))


INT32 = 2**31
ids = st.one_of(st.integers(0, 140), st.sampled_from([INT32 - 1, INT32 - 2, 0, 1]), st.integers(0, INT32 - 1))
# In lists alone: no broker has such an id, but a record has room for it.
any_ids = ids | st.sampled_from([-INT32, -INT32 + 1, -2])


@st.composite
def wide_logs(draw: st.DrawFn) -> list[Row]:
    """Changes of two partitions with 1 to 130 replicas each, whose ids are anywhere in int32."""
    changes: list[Row] = []
    for partition in range(2):
        size = draw(st.sampled_from([1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 130]) | st.integers(1, 130))
        start = draw(st.sampled_from([0, -INT32, INT32 - 200]) | st.integers(-500, 500))
        replicas = draw(st.permutations(sorted({*range(start, start + size - 1), draw(any_ids)})))
        outside = draw(any_ids)
        member = st.sampled_from(replicas) | st.just(outside)
        some = st.lists(member, max_size=4, unique=True) | st.just(replicas) | st.just(replicas[1:])
        leader = st.sampled_from([r for r in [*replicas, outside] if r >= 0] or [7]) | st.just(-1)
        lists = {"replicas": replicas, "isr": draw(some), "elr": draw(some), "directories": []}
        offset = partition * 100
        changes.append(created(offset, partition=partition, **lists, last_known_elr=draw(some), leader=draw(leader)))
        for step in range(draw(st.integers(1, 8))):
            fields = {name: draw(st.none() | some) for name in ("isr", "elr", "last_known_elr")}
            fields["leader"] = draw(st.none() | leader)
            if draw(st.integers(0, 4)) == 0:
                fields |= {
                    "replicas": draw(st.permutations(replicas))[: draw(st.integers(1, len(replicas)))],
                    "directories": [],
                }
            changes.append(changed(offset + 1 + step, partition=partition, **fields))
    return changes


@given(wide_logs())
def test_any_ids_and_any_number_of_replicas(changes: list[Row]) -> None:
    history = build(changes, [])
    rows = history.table.to_pylist()
    assert without_configs(history) == reduce_rows(changes, [])[0]

    states = states_of(history.table)
    for name, found in (("isr", states.isr), ("elr", states.elr)):
        members = [set(of[is_one].tolist()) for of, is_one in zip(states.replicas, found, strict=True)]
        assert members == [set(row[name]) & set(row["replicas"]) for row in rows]
    assert states.isr_size.tolist() == [len(row["isr"]) for row in rows]
