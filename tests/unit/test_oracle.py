"""Against the answers of Kafka's own classes, without Spark."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

import pytest

from evidence.inspect import inspect_file
from tests.support.paths import ORACLE, capture
from tests.support.pure import Decoded, decode, history_of

CAPTURES = ["unclean", "elr", "churn", "diverge"]
_STATE = (
    "replicas",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "leader",
    "leader_epoch",
    "partition_epoch",
)


def oracle_lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(ORACLE / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@cache
def decoded(name: str) -> Decoded:
    return decode(capture(name))


def test_inspect_equals_kafkas_json_of_every_record_type_and_version() -> None:
    expected = oracle_lines("every-record.jsonl.gz")
    names = ("offset", "timestamp", "type", "version", "data")
    actual = [{n: row[n] for n in names} for row in inspect_file(ORACLE / "every-record.log", show_secrets=True)]
    assert actual == expected


@pytest.mark.parametrize("name", CAPTURES)
def test_history_equals_kafkas_replay_row_for_row(name: str) -> None:
    history, _ = history_of(decoded(name))
    expected = oracle_lines(f"{name}-3000-replay.jsonl.gz")
    rows = {(r["offset"], r["topic_id"], r["partition"]): r for r in history.table.to_pylist() if not r["removed"]}
    states = [e for e in expected if not e.get("removed")]
    assert len(rows) == len(states)
    for want in states:
        row = rows[want["offset"], want["topic_id"], want["partition"]]
        assert row["timestamp_ms"] == want.pop("timestamp")
        # Kafka iterates a hash set: the ELR is a set.
        assert sorted(row["elr"]) == sorted(want.pop("elr"))
        assert {k: row[k] for k in want} == want


@pytest.mark.parametrize("name", CAPTURES)
def test_removals_equal_kafkas_replay(name: str) -> None:
    history, _ = history_of(decoded(name))
    expected = {
        (e["offset"], e["topic_id"], e["topic"])
        for e in oracle_lines(f"{name}-3000-replay.jsonl.gz")
        if e.get("removed")
    }
    removed = [r for r in history.table.to_pylist() if r["removed"]]
    assert {(r["offset"], r["topic_id"], r["topic"]) for r in removed} == expected
    assert all(r["isr"] is None and r["leader"] is None and r["min_isr"] is None for r in removed)


@pytest.mark.parametrize("name", CAPTURES)
def test_state_at_every_captured_checkpoint_equals_it(name: str) -> None:
    history, state = history_of(decoded(name))
    rows = history.table.to_pylist()
    compared = 0
    for end, epoch in decoded(name).snapshot_ends:
        live = {
            (r["topic_id"], r["partition"]): r
            for r in rows
            if r["offset"] < end and (r["end_offset"] is None or r["end_offset"] >= end) and not r["removed"]
        }
        records = [
            r["partition_change"]
            for r in decoded(name).snapshots
            if (r["snapshot_end_offset"], r["snapshot_epoch"]) == (end, epoch) and r["partition_change"]
        ]
        assert {(p["topic_id"], p["partition"]) for p in records} == set(live)
        for want in records:
            row = live[want["topic_id"], want["partition"]]
            assert {k: row[k] for k in _STATE} == {k: want[k] for k in _STATE}
            assert row["leader_recovery_state"] == ("RECOVERED", "RECOVERING")[want["leader_recovery_state"]]
            if state.elr_enabled(end - 1):
                assert sorted(row["elr"]) == sorted(want["elr"])
                assert row["last_known_elr"] == want["last_known_elr"]
            compared += 1
    assert compared > 0 or name in ("elr", "diverge")
