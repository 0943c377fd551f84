"""Whole random logs, transactions included: the cluster's resolution and the vectorised reducer against plain rules."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.arrow.schemas import CHANGES
from replay.cluster.state import CLUSTER_TYPES, changes_that_count, log_shape, resolve_cluster
from replay.partitions.reducer import build_history
from tests.support.random_logs import ABORT, BEGIN, END, Row, committed, records, topic_events
from tests.support.scalar_reducer import reduce_rows
from tests.unit.replay.partitions.test_reducer import without_configs


def batches(log: list[Row], sizes: list[int]) -> list[Row]:
    """Rows of log_batches that hold the log, of the given sizes as long as there are any."""
    ends, rows = [s - 1 for s in sizes if s <= len(log)] + [len(log) - 1], []
    for before, last in pairwise([-1, *sorted(set(ends))]):
        place = {"base_offset": before + 1, "last_offset": last, "crc": before + 1}
        rows.append({"epoch": 1, **place, "path": "log", "nodes": []})
    return rows


@settings(max_examples=100, deadline=None)
@given(records(), st.lists(st.integers(1, 50), max_size=6))
def test_what_counts_and_what_follows_from_it_equals_the_plain_rules(log: list[Row], cuts: list[int]) -> None:
    about_cluster = [r for r in log if r["type"] in CLUSTER_TYPES]
    state = resolve_cluster(log_shape(batches(log, cuts) if log else [], []), about_cluster, [], {})
    table = pa.Table.from_pylist([r["change"] for r in log if r["change"]], schema=CHANGES)
    history = build_history(changes_that_count(table, state), state.topic_events, state.configs)

    counts = committed(log)
    changes = [r["change"] for r in counts if r["change"]]
    expected, orphans = reduce_rows(changes, topic_events(counts))
    assert without_configs(history) == expected
    assert sorted(history.orphans["offset"].to_pylist()) == [o["offset"] for o in orphans]
    names = {r["data"]["topicId"]: r["data"]["name"] for r in counts if r["type"] == "TOPIC_RECORD"}
    assert state.configs.topic_names == names
    applied = [r["offset"] for r in state.records if r["type"] not in (BEGIN, END, ABORT)]
    assert applied == [r["offset"] for r in counts if r["type"] in CLUSTER_TYPES]
