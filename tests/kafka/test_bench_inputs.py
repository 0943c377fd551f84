"""The benchmark's inputs as Kafka's classes write them, whole, and the peers that go through all of them."""

from pathlib import Path

from bench.prepared import Prepared
from replay.controller.differences import check_rules
from replay.controller.predictions import predict_all
from replay.controller.transitions import Bucket
from replay.partitions.elections import build_elections
from tests.bench.inputs import CLASSES, DUMP_LOG, LOGS, PEERS, Maker, peer
from tests.bench.stages import STAGES
from tests.kafka.conftest import KAFKA
from tests.support.detection import cluster_of
from tests.support.pure import decode, history_of

TINY = 0.002


def test_stages_and_peers_go_through_all_records(tmp_path: Path) -> None:
    maker = Maker(tmp_path, KAFKA, scale=TINY)
    for name in ("p100k", "snapshot"):
        made = maker.make(name)
        inputs = Prepared(made.path, tmp_path / "made")
        for stage in ("crc", "frame", "decode"):
            assert sum(work.call() for work in STAGES[stage].run(inputs) if work.rows is None) == made.records
    log, changes = maker.make("p100k"), sum(round(count * TINY) for count in LOGS["p100k"])
    assert {n: peer(n, log, maker, 1)["rows"] for n in PEERS} == {DUMP_LOG: log.records, CLASSES: changes}


def test_a_controller_writes_such_changes(tmp_path: Path) -> None:
    """A log with changes that no rule explains has its elections judged as contradicted, one by one."""
    decoded = decode(Maker(tmp_path, KAFKA, scale=TINY).make("long").path)
    history, state = history_of(decoded)
    bucket = Bucket(history.table, cluster_of(decoded, state))
    elections = build_elections(bucket.history, bucket.states, bucket.facts)
    checked = check_rules(bucket, predict_all(bucket, bucket.changed_rows), elections)
    assert checked.predicted == round(LOGS["long"][1] * TINY)
    assert checked.differences.to_pylist() == []
