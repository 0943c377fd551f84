"""Which topic a line of a broker's log is about that names the topic alone."""

import pyarrow as pa
import pytest

from evidence.tables import BROKER_LOG_EVENTS, LOG_END_OFFSETS
from jobs.detect.topic_ids import LIFETIMES, events_with_topic_ids, with_topic_ids

OLD, NEW = "O" * 22, "N" * 22
HOUR_MS, END_MS = 3_600_000, 360_000_000  # the log ends at the 100th hour


def lifetimes(*ids: str) -> pa.Table:
    return pa.table({"topic_id": ids, "topic": ["t"] * len(ids), "created_ms": [0] * len(ids)}, schema=LIFETIMES)


def events(*lines: tuple[str, int, str | None], node: int | None = 1) -> pa.Table:
    """(path, position, topic id) of lines about t-0."""
    common = {"capture": "c", "node_id": node, "topic": "t", "partition": 0, "logged_at_utc_ms": 1}
    rows = [{**common, "path": path, "position": position, "topic_id": i} for path, position, i in lines]
    return pa.Table.from_pylist(rows, schema=BROKER_LOG_EVENTS)


def found(table: pa.Table) -> list[tuple[int, str]]:
    return sorted((r["position"], r["topic_id"]) for r in table.to_pylist())


def test_between_two_lines_with_one_id_a_line_has_it() -> None:
    lines = events(("a", 1, OLD), ("a", 2, None), ("a", 3, OLD), ("a", 4, None), ("a", 5, NEW), ("a", 6, None))
    both = lifetimes(OLD, NEW)
    assert found(events_with_topic_ids(lines, both, END_MS)) == [(1, OLD), (2, OLD), (3, OLD), (5, NEW)]


def test_another_files_lines_do_not_count() -> None:
    lines = events(("a", 1, OLD), ("b", 2, None), ("a", 3, OLD))
    assert found(events_with_topic_ids(lines, lifetimes(OLD, NEW), END_MS)) == [(1, OLD), (3, OLD)]


def test_another_nodes_lines_do_not_count() -> None:
    """Log archives join what they get late: node 2 may not yet know that the topic is another one."""
    lines = pa.concat_tables([events(("a", 1, NEW), ("a", 3, NEW)), events(("a", 2, None), node=2)])
    assert found(events_with_topic_ids(lines, lifetimes(OLD, NEW), END_MS)) == [(1, NEW), (3, NEW)]
    unknown = events(("a", 1, NEW), ("a", 2, None), ("a", 3, NEW), node=None)
    assert found(events_with_topic_ids(unknown, lifetimes(OLD, NEW), END_MS)) == [(1, NEW), (3, NEW)]


def test_the_only_topic_that_ever_had_the_name() -> None:
    lines = events(("a", 1, None), ("a", 2, OLD))
    assert found(events_with_topic_ids(lines, lifetimes(OLD), END_MS)) == [(1, OLD), (2, OLD)]
    assert found(events_with_topic_ids(lines, lifetimes(OLD), None)) == [(2, OLD)]


def test_a_file_that_an_earlier_cluster_of_these_hosts_left_is_not_of_the_topic() -> None:
    lines = events(("a", 1, None), ("a", 2, OLD), ("a", 3, None), ("b", 4, None))
    assert found(events_with_topic_ids(lines, lifetimes(NEW), END_MS)) == [(2, OLD), (4, NEW)]


@pytest.mark.parametrize(
    ("kind", "utc_ms", "wall_ms", "is_used"),
    [
        ("isr_shrinking", 9 * HOUR_MS, None, False),
        ("isr_shrinking", 10 * HOUR_MS, None, True),
        # In no zone is this clock's time later in UTC; nor, without any time.
        ("isr_shrinking", None, 23 * HOUR_MS, False),
        ("isr_shrinking", None, 24 * HOUR_MS, True),
        ("isr_shrinking", None, None, False),
        # After the log's end the next topic of that name may have been created, and go through the same epochs.
        ("isr_shrinking", 100 * HOUR_MS + 1, None, False),
        ("isr_shrinking", None, 87 * HOUR_MS, False),
        # What keeps a loss from being excluded counts as long as it may be the topic's.
        ("corruption_found", 9 * HOUR_MS, None, False),
        ("corruption_found", None, -4 * HOUR_MS, True),
        ("corruption_found", None, -5 * HOUR_MS, False),
        *(("corruption_found", at_ms, None, True) for at_ms in (None, 101 * HOUR_MS)),
    ],
)
def test_a_line_from_before_the_topic_or_after_the_log_is_not_of_the_topic(
    kind: str, utc_ms: int | None, wall_ms: int | None, is_used: bool
) -> None:
    """Its server.log names no topic id up to the next start, and the new cluster goes on with that file. The topic was
    created at the tenth hour."""
    row = events(("a", 1, None)).to_pylist()[0]
    row |= {"kind": kind, "logged_at_utc_ms": utc_ms, "logged_at_ms": wall_ms}
    topics = pa.table({"topic_id": [NEW], "topic": ["t"], "created_ms": [10 * HOUR_MS]}, schema=LIFETIMES)
    line = pa.Table.from_pylist([row], schema=BROKER_LOG_EVENTS)
    assert found(events_with_topic_ids(line, topics, END_MS)) == [(1, NEW)] * is_used


def test_lines_about_no_topic_are_left_out() -> None:
    rows = [{**events(("a", 1, None)).to_pylist()[0], "topic": None, "partition": None}]
    table = pa.Table.from_pylist(rows, schema=BROKER_LOG_EVENTS)
    assert not len(events_with_topic_ids(table, lifetimes(OLD), END_MS))
    assert not len(events_with_topic_ids(table.slice(0, 0), lifetimes(OLD), END_MS))


def test_a_log_end_whose_topic_id_is_of_another_topic_is_left_out() -> None:
    topics = [{"topic_id": "A", "topic": "t"}, {"topic_id": "B", "topic": "other"}]
    named = [("t", "A"), ("t", "B"), (None, "B"), ("t", "unknown"), ("t", None)]
    rows = [{"topic": topic, "topic_id": own, "partition": n} for n, (topic, own) in enumerate(named)]
    tables = (pa.Table.from_pylist(rows, LOG_END_OFFSETS), pa.Table.from_pylist(topics, LIFETIMES))
    kept = with_topic_ids(*tables).select(["partition", "topic_id"]).to_pylist()
    assert [tuple(row.values()) for row in kept] == [(0, "A"), (2, "B"), (3, "unknown"), (4, "A")]
