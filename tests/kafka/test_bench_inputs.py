"""The benchmark's inputs as Kafka's classes write them: whole, and the same for the same seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.prepared import Prepared, prepare
from evidence.metadata_log.inspect import inspect_file
from tests.bench.inputs import LOGS, Input, Maker
from tests.bench.peers import PEERS, peer
from tests.bench.stages import STAGES
from tests.kafka.conftest import KAFKA
from tests.support.pure import decode, history_of

TINY = 0.002


def records(made: Input, folder: Path) -> dict[str, int]:
    """How many rows each of these stages works on."""
    inputs = Prepared(made.path, folder)
    return {
        name: sum(work.call() for work in STAGES[name].run(inputs) if work.rows is None)
        for name in ("crc", "frame", "decode")
    }


@pytest.mark.parametrize("name", ["p100k", "long"])
def test_a_log_decodes_to_as_many_records_as_kafka_wrote(name: str, tmp_path: Path) -> None:
    made = Maker(tmp_path, KAFKA, scale=TINY).make(name)
    assert made.records
    assert set(records(made, tmp_path / "made").values()) == {made.records}
    prepare(made.path, tmp_path / "made")
    changes = sum(map(len, Prepared(made.path, tmp_path / "made").changes()))
    partitions = max(50, round(LOGS[name].partitions * TINY))
    assert changes == partitions + max(50, round(LOGS[name].changes * TINY))


def test_the_snapshot_is_the_state_at_the_end_of_its_log(tmp_path: Path) -> None:
    maker = Maker(tmp_path, KAFKA, scale=TINY)
    log, snapshot = maker.make("p100k"), maker.make("snapshot")
    assert set(records(snapshot, tmp_path / "made").values()) == {snapshot.records}
    history, _ = history_of(decode.__wrapped__(log.path))
    last = {(row["topic_id"], row["partition"]): row for row in history.table.to_pylist()}
    rows = [row["data"] for row in inspect_file(snapshot.path) if row["type"] == "PARTITION_RECORD"]
    fields = {"isr": "isr", "leader": "leader", "leaderEpoch": "leader_epoch", "partitionEpoch": "partition_epoch"}
    found = {(d["topicId"], d["partitionId"]): [d[name] for name in fields] for d in rows}
    assert found == {place: [row[name] for name in fields.values()] for place, row in last.items()}


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    makers = [Maker(tmp_path / folder, KAFKA, seed, TINY) for folder, seed in (("a", 5), ("b", 5), ("c", 6))]
    same, again, other = (maker.make("p10k").path.read_bytes() for maker in makers)
    assert same == again != other


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_goes_through_the_whole_file(name: str, tmp_path: Path) -> None:
    maker = Maker(tmp_path, KAFKA, scale=TINY)
    made = maker.make("p10k")
    partitions, changes = 50, round(LOGS["p10k"].changes * TINY)
    expected = made.records if name == "kafka-dump-log" else partitions + changes
    assert peer(name, made, maker, 1)["rows"] == expected
