"""The benchmark's inputs as Kafka's classes write them, whole, and the peers that go through all of them."""

from __future__ import annotations

from pathlib import Path

from bench.prepared import Prepared
from tests.bench.inputs import CLASSES, DUMP_LOG, LOGS, PEERS, Maker, peer
from tests.bench.stages import STAGES
from tests.kafka.conftest import KAFKA

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
