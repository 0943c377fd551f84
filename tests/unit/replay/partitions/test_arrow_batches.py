"""How Arrow cuts a table into batches changes nothing: Spark hands buckets over in batches of any size."""

from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.arrow.schemas import CHANGES, TOPIC_EVENTS
from replay.cluster.log import clip_validity
from replay.cluster.state import ClusterState, changes_that_count
from replay.partitions.elections import build_elections, states_of
from replay.partitions.reducer import build_history
from tests.support.paths import capture
from tests.support.pure import changes_of, decode, history_of
from tests.support.random_logs import Row, logs
from tests.support.scenario import facts_with
from tests.unit.replay.partitions.test_reducer import context

SIZES = [1, 2, 7]


def cut(table: pa.Table, rows: int) -> pa.Table:
    return pa.Table.from_batches(table.to_batches(max_chunksize=rows), table.schema)


@settings(max_examples=20)
@given(st.sampled_from(SIZES), logs(), st.booleans())
def test_random_logs(size: int, log: tuple[list[Row], list[Row]], backwards: bool) -> None:
    order = -1 if backwards else 1
    changes = pa.Table.from_pylist(log[0][::order], schema=CHANGES)
    events = pa.Table.from_pylist(log[1][::order], schema=TOPIC_EVENTS)
    whole = build_history(changes, events, context())
    in_batches = build_history(cut(changes, size), cut(events, size), context())
    assert in_batches.table.equals(whole.table)
    assert in_batches.orphans.equals(whole.orphans)


@cache
def churn() -> tuple[pa.Table, ClusterState]:
    """Changes of a real capture and what holds for its cluster: with deletions, reassignments and cleared ELRs."""
    decoded = decode(capture("churn"))
    _, state = history_of(decoded)
    return changes_of(decoded, state), state


@pytest.mark.parametrize("size", SIZES)
def test_a_real_capture(size: int) -> None:
    changes, state = churn()
    whole = build_history(changes, state.topic_events, state.configs).table
    counts = changes_that_count(cut(changes, size), state)
    assert counts["offset"].num_chunks > len(changes) // 8
    history = build_history(counts, cut(state.topic_events, size), state.configs).table
    assert len(whole) > 480
    assert history.equals(whole)
    # What is made of a history in batches: its validity, its elections.
    shape = state.shape
    clipped = clip_validity(cut(history, size), shape.runs, shape.log_end)
    assert clipped.equals(clip_validity(whole, shape.runs, shape.log_end))
    chunked = cut(whole, size)
    states, of_whole = states_of(chunked), states_of(whole)
    elections = build_elections(whole, of_whole, facts_with(state.brokers))
    assert build_elections(chunked, states, facts_with(state.brokers)).equals(elections)
    assert len(elections) > 100
