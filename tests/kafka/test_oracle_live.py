"""Decode and replay of logs that Kafka's classes write now, against what the same classes make of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.config.settings import load_settings
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from jobs.replay.stage import replay
from tests.kafka.conftest import CLUSTER, KAFKA, RELEASES, Made, controller, replayed_by_kafka
from tests.kafka.random_log import RandomLog
from tests.support.oracle import assert_equals_replay, read_replay
from tests.support.pure import decode, history_of

Big = Callable[..., Made]
NEWEST = KAFKA / "releases" / RELEASES[-1]

MANY_CHANGES = (1_000, 60_000)
MANY_PARTITIONS = (10_000, 50_000)


@pytest.mark.parametrize(
    ("partitions", "changes", "seed", "classes"),
    [
        (*MANY_CHANGES, 11, KAFKA),
        (*MANY_CHANGES, 12, NEWEST),
        (*MANY_PARTITIONS, 13, KAFKA),
        (*MANY_PARTITIONS, 14, NEWEST),
    ],
)
def test_history_equals_kafkas_replay(big: Big, partitions: int, changes: int, seed: int, classes: Path) -> None:
    made = big(partitions, changes, seed, classes)
    expected = read_replay(made.replayed)
    assert len(expected) == partitions + changes
    history, state = history_of(decode.__wrapped__(made.capture))  # not kept: a gigabyte of rows
    assert state.problems == []
    assert len(history.orphans) == 0
    assert_equals_replay(history.table, expected)


def test_the_stages_give_kafkas_replay(big: Big, tmp_path: Path) -> None:
    """In several buckets of partitions. By Spark the tables are the same: tests/slow/test_standalone.py."""
    made, lake = big(*MANY_PARTITIONS, 13), Lake(tmp_path / "lake")
    settings = load_settings()
    buckets = settings.model_copy(update={"replay": settings.replay.model_copy(update={"partitions_per_bucket": 3000})})
    ingested = ingest(lake, made.capture, buckets, lambda _: None)
    assert (ingested.cluster_id, ingested.quarantined) == (CLUSTER, [])
    replayed = replay(lake, CLUSTER, buckets, lambda _: None)
    assert replayed.rows == sum(MANY_PARTITIONS)
    assert_equals_replay(lake.read("partition_history", CLUSTER), read_replay(made.replayed))


@pytest.mark.parametrize(("seed", "classes"), [(31, KAFKA), (32, KAFKA), (33, NEWEST), (34, NEWEST)])
def test_removals_transactions_and_cleared_elrs_equal_kafkas_replay(tmp_path: Path, seed: int, classes: Path) -> None:
    log = controller(tmp_path / "random")
    log.write_bytes(RandomLog(seed).segment(6_000))
    made = replayed_by_kafka(log, tmp_path, classes)
    expected = read_replay(made.replayed)
    history, state = history_of(decode.__wrapped__(made.capture))
    kinds = {p.kind for p in state.problems}
    assert kinds == {"nested_transaction", "open_transaction"}
    assert len(history.orphans) == 0
    assert len(state.transactions.dropped) > 20
    assert expected["removed"].drop_null().length() > 20
    assert_equals_replay(history.table, expected)
