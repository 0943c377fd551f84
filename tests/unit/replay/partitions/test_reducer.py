"""The vectorised reducer against the scalar one, on random histories."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from replay.arrow.schemas import CHANGES, TOPIC_EVENTS
from replay.cluster.configs import MIN_ISR, UNCLEAN_LEADER_ELECTION, ConfigChange, ElectionConfigs, config_timeline
from replay.partitions.elections import states_of
from replay.partitions.reducer import History, build_history
from tests.support.random_logs import LISTS, TOPICS, logs, provenance
from tests.support.scalar_reducer import reduce_rows

Row = dict[str, Any]


def context(topics: dict[str, str] | None = None, changes: list[ConfigChange] | None = None) -> ElectionConfigs:
    names = {topic: f"name-{topic[-1]}" for topic in TOPICS} if topics is None else topics
    return ElectionConfigs(
        names, *(config_timeline(key, changes or [], [], {}) for key in (MIN_ISR, UNCLEAN_LEADER_ELECTION))
    )


def build(changes: list[Row], events: list[Row], about: ElectionConfigs | None = None) -> History:
    table = pa.Table.from_pylist(changes, schema=CHANGES)
    return build_history(table, pa.Table.from_pylist(events, schema=TOPIC_EVENTS), about or context())


def without_configs(history: History) -> list[Row]:
    derived = ("topic", "min_isr", "min_isr_source")
    derived += ("unclean_leader_election_enable", "unclean_leader_election_enable_source")
    return [{k: v for k, v in row.items() if k not in derived} for row in history.table.to_pylist()]


# Where a sum of an offset, an epoch or a time with a small number leaves its type.
LAST_OFFSET, LAST_MS, EDGE_PARTITIONS = (1 << 63) - 2, 253_402_300_799_999, (-(1 << 31), -1, (1 << 31) - 1)


def at_the_edges(rows: list[Row]) -> list[Row]:
    """The rows with offsets, times, partitions and epochs as large, or as small, as they can be."""
    moved = []
    for row in rows:
        new = {n: LAST_OFFSET - 80 + row[n] for n in ("offset", "batch_base_offset")}
        new |= {"timestamp_ms": LAST_MS - row["offset"] if row["offset"] % 3 else -LAST_MS, "position": LAST_OFFSET}
        new |= {"controller_epoch": (1 << 31) - 1 - row["controller_epoch"]}
        if "partition" in row:
            new["partition"] = EDGE_PARTITIONS[row["partition"]]
            epochs = {n: row[n] for n in ("leader_epoch", "partition_epoch") if row[n] is not None}
            new |= {n: (1 << 31) - 1 - value if value % 2 else value - (1 << 31) for n, value in epochs.items()}
        moved.append({**row, **new})
    return moved


@given(logs(), st.booleans(), st.randoms(use_true_random=False))
def test_equals_the_scalar_reducer_whatever_the_order_of_rows(
    log: tuple[list[Row], list[Row]], where_numbers_end: bool, rng: Any
) -> None:
    changes, events = map(at_the_edges, log) if where_numbers_end else log
    expected, orphans = reduce_rows(changes, events)
    history = build(rng.sample(changes, len(changes)), rng.sample(events, len(events)))
    assert without_configs(history) == expected
    found = sorted((r["offset"], r["topic_id"]) for r in history.orphans.to_pylist())
    assert found == sorted((r["offset"], r["topic_id"]) for r in orphans)
    # A partition's states are told apart from those of all others.
    keys = states_of(history.table).key
    assert (np.diff(keys) >= 0).all()
    assert (keys >= 0).all()  # -1 means that there is no such partition
    assert len(np.unique(keys)) == len({(row["topic_id"], row["partition"]) for row in expected})


@given(logs(), st.integers(0, 80))
def test_snapshot_and_tail_give_the_same_as_the_whole_log(log: tuple[list[Row], list[Row]], end: int) -> None:
    changes, events = log
    whole = without_configs(build(changes, events))
    base = []
    for row in whole:
        alive = row["offset"] < end and (row["end_offset"] is None or row["end_offset"] >= end) and not row["removed"]
        if alive:
            state = ("RECOVERED", "RECOVERING").index(row["leader_recovery_state"])
            at = {"offset": end - 1, "batch_base_offset": end - 1, "origin": "checkpoint", "full": True}
            base.append({**row, **at, "leader_recovery_state": state})
    tail = [c for c in changes if c["offset"] >= end]
    resumed = without_configs(build([*base, *tail], [e for e in events if e["offset"] >= end]))
    assert [r for r in resumed if r["offset"] >= end] == [r for r in whole if r["offset"] >= end]
    anchors = [r for r in resumed if r["origin"] == "checkpoint"]
    assert len(anchors) == len(base)
    assert all(r["offset"] == end - 1 and not r["removed"] for r in anchors)


def test_no_rows_give_an_empty_history() -> None:
    history = build([], [])
    assert len(history.table) == 0
    assert len(history.orphans) == 0


def created(offset: int, topic: str = TOPICS[0], partition: int = 0, **fields: Any) -> Row:
    state = {"replicas": [1, 2, 3], "isr": [1, 2, 3], **{n: [] for n in LISTS[1:]}, "directories": ["a", "b", "c"]}
    counts = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0, "leader_recovery_state": 0}
    place = {"topic_id": topic, "partition": partition, "origin": "log", "full": True}
    here = {"offset": offset, "batch_base_offset": offset, **provenance(offset)}
    return {**here, **place, **state, **counts, **fields}


def changed(offset: int, topic: str = TOPICS[0], partition: int = 0, **fields: Any) -> Row:
    place = {"topic_id": topic, "partition": partition, "origin": "log", "full": False}
    return {"offset": offset, "batch_base_offset": offset, **provenance(offset), **place, **fields}


def event(offset: int, topic: str = TOPICS[0], removes: bool = False) -> Row:
    return {"offset": offset, "batch_base_offset": offset, **provenance(offset), "topic_id": topic, "removes": removes}


def test_null_lists_of_a_full_record_are_empty_and_nothing_leaks_from_the_partition_before() -> None:
    changes = [created(1, elr=[2], last_known_elr=[3]), created(2, partition=1, elr=None, last_known_elr=None)]
    rows = build(changes, []).table.to_pylist()
    assert (rows[1]["elr"], rows[1]["last_known_elr"]) == ([], [])


def test_a_topic_created_anew_is_another_topic() -> None:
    new = TOPICS[1]
    about = context({TOPICS[0]: "orders", new: "orders"})
    rows = build(
        [created(1), changed(4, isr=[1]), created(9, topic=new)], [event(6, removes=True)], about
    ).table.to_pylist()
    assert [(r["offset"], r["topic_id"], r["removed"], r["end_offset"]) for r in rows] == [
        (1, TOPICS[0], False, 4),
        (4, TOPICS[0], False, 6),
        (6, TOPICS[0], True, None),
        (9, new, False, None),
    ]
    assert {r["topic"] for r in rows} == {"orders"}
    assert rows[2]["isr"] is None
    assert rows[2]["min_isr"] is None


def test_min_isr_is_capped_by_the_replicas_of_partition_0() -> None:
    wanted = ConfigChange(0, 2, "name-x", MIN_ISR, "3")
    changes = [
        created(1),
        created(2, partition=1, replicas=[1], isr=[1], directories=["a"]),
        changed(5, partition=1, isr=[1]),
        # Partition 0 shrinks to two replicas: from then on the whole topic is capped by two.
        changed(6, replicas=[1, 2], isr=[1, 2], directories=["a", "b"]),
        changed(7, partition=1, isr=[1]),
    ]
    rows = build(changes, [], context(changes=[wanted])).table.to_pylist()
    assert {r["offset"]: (r["min_isr"], r["min_isr_source"]) for r in rows} == {
        1: (3, "topic"),
        2: (3, "topic"),
        5: (3, "topic"),
        6: (2, "topic"),
        7: (2, "topic"),
    }


def test_min_isr_is_capped_by_own_replicas_where_partition_0_is_not_known() -> None:
    wanted = ConfigChange(0, 2, "name-x", MIN_ISR, "9")
    rows = build([created(1, partition=4)], [], context(changes=[wanted])).table.to_pylist()
    assert rows[0]["min_isr"] == 3


def test_topic_without_a_name_has_the_cluster_defaults() -> None:
    rows = build([created(1)], [], context(topics={})).table.to_pylist()
    assert (rows[0]["topic"], rows[0]["min_isr"], rows[0]["min_isr_source"]) == (None, 1, "assumed_default")
