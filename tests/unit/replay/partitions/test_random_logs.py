"""Whole random logs, transactions included: the cluster's resolution and the vectorised reducer against plain rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from replay.arrow.schemas import CHANGES
from replay.cluster.state import CLUSTER_TYPES, changes_that_count, log_shape, resolve_cluster
from replay.partitions.reducer import build_history
from tests.support.random_logs import ABORT, BEGIN, END, Row, committed, logs, records, topic_events
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


def _follows(kind: str, before: Row, after: Row) -> bool:
    """Whether a partition's next state follows from what the other properties must be about."""
    if before["removed"] or after["removed"]:
        return kind == ("deletion" if after["removed"] else "recreation")
    return {
        "the same leader elected": (
            after["leader"] == before["leader"] and after["leader_epoch"] == before["leader_epoch"] + 1
        ),
        "more replicas": len(after["replicas"]) > len(before["replicas"]),
        "fewer replicas": len(after["replicas"]) < len(before["replicas"]),
    }.get(kind, False)


def _has(kind: str, rows: list[Row]) -> bool:
    same = ((a, b) for a, b in pairwise(rows) if (a["topic_id"], a["partition"]) == (b["topic_id"], b["partition"]))
    return any(_follows(kind, a, b) for a, b in same)


SEARCH = settings(max_examples=2000, derandomize=True, database=None, phases=[Phase.generate])
HISTORIES = ["deletion", "recreation", "the same leader elected", "more replicas", "fewer replicas"]


def hold(strategy: st.SearchStrategy[Any], kinds: Mapping[str, Callable[[Any], Any]]) -> None:
    """Every kind occurs in what the strategy makes: one search for all of them."""
    missing = dict(kinds)

    def last_one(found: Any) -> bool:
        for kind in [kind for kind, has in missing.items() if has(found)]:
            del missing[kind]
        return not missing

    with suppress(NoSuchExample):
        find(strategy, last_one, settings=SEARCH)
    assert not missing


def test_random_changes_hold_every_kind() -> None:
    """What the properties of test_history.py are about occurs in what they try."""
    hold(logs().map(lambda log: reduce_rows(*log)[0]), {kind: partial(_has, kind) for kind in HISTORIES})


class Log:
    """A random log, and what of it counts."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows, self.counts = rows, committed(rows)
        kept = {r["offset"] for r in self.counts}
        self.dropped = [r for r in rows if r["offset"] not in kept]
        self.ends = [r["type"] for r in rows if r["type"] in (BEGIN, END, ABORT)]

    def clears(self, wanted: str) -> bool:
        """Whether a ClearElrRecord for this name changes a partition's state."""
        clears = {r["offset"] for r in self.counts if r["data"].get("topicName") == wanted}
        if not clears:
            return False
        history, _ = reduce_rows([r["change"] for r in self.counts if r["change"]], topic_events(self.counts))
        return any(r["offset"] in clears for r in history)


RECORDS: dict[str, Callable[[Log], Any]] = {
    "a committed change in a transaction": lambda log: any(
        a["type"] == BEGIN and b["change"] and c["type"] == END
        for a, b, c in zip(log.rows, log.rows[1:], log.rows[2:], strict=False)
    ),
    "an aborted change": lambda log: ABORT in log.ends and any(r["change"] for r in log.dropped),
    "an aborted removal": lambda log: any(r["type"] == "REMOVE_TOPIC_RECORD" for r in log.dropped),
    "an open end": lambda log: log.ends[-1:] == [BEGIN] and log.rows[-1]["change"],
    "a nested transaction": lambda log: any(a == b == BEGIN for a, b in pairwise(log.ends)),
    "a stray end": lambda log: log.ends[:1] == [END],
    "a stray abort": lambda log: log.ends[:1] == [ABORT],
    "a topic's ELRs cleared": lambda log: log.clears("orders"),
    "all ELRs cleared": lambda log: log.clears(""),
    "a topic created anew under its name": lambda log: (
        [r["data"]["name"] for r in log.counts if r["type"] == "TOPIC_RECORD"].count("orders") > 1
    ),
}


def test_random_logs_hold_every_kind() -> None:
    hold(records().map(Log), RECORDS)
