"""What a real broker does whose disk was replaced: why the plan says not to start it (replay/plan/plan.py)."""

import shutil
from contextlib import suppress
from pathlib import Path
from signal import SIGTERM

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from drill.errors import DrillError
from drill.nodes import combined_nodes, format_storage, wait_for
from jobs.salvage.live import LiveCluster
from tests.kafka.conftest import SERVER, start, stop
from tests.kafka.test_salvage_live import CONFIGS


def test_the_last_member_leads_with_an_empty_log_from_a_later_start_on(tmp_path: Path) -> None:
    """Often from its first, mostly from its second: once the controller has heard of its new directory before it is
    unfenced (ReplicationControlManager.handleAssignReplicasToDirs, handleBrokerUnfenced; 4.3.1)."""
    (node,), servers = combined_nodes(tmp_path, SERVER, [1], {**CONFIGS, "metadata.log.dir": tmp_path / "metadata"})
    data = node.home / "data"
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def leader() -> int:
        return int(admin.list_topics(timeout=10).topics["ledger"].partitions[0].leader)

    try:
        start(node)
        admin.create_topics([NewTopic("ledger", 1, 1)])["ledger"].result(60)
        producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
        producer.produce("ledger", b"acknowledged")
        assert producer.flush(60) == 0
        stop(node, by=SIGTERM)
        shutil.rmtree(data)
        format_storage(node.home, SERVER, "--ignore-formatted")
        start(node)
        wait_for("the partition is there", lambda: (data / "ledger-0").is_dir())
        for _ in range(3):
            stop(node, by=SIGTERM)
            start(node)
            with suppress(DrillError):
                wait_for("it leads", lambda: leader() == 1, 30)
                break
        assert leader() == 1
        (log,) = LiveCluster(servers).logs([("ledger", 0)]).values()
        assert (log.start, log.end) == (0, 0)
    finally:
        stop(node)
