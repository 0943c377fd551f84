"""What a real broker does whose disk was replaced: why the plan says not to start it (replay/plan/plan.py)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from jobs.salvage.live import LiveCluster
from tests.kafka.test_collect_live import kafka
from tests.kafka.test_salvage_live import CLUSTER_ID, configure, started, stopped, wait_for


def test_the_last_member_leads_with_an_empty_log_from_its_second_start_on(tmp_path: Path) -> None:
    """Often from its first: if its new directory is known to the controller before it is unfenced
    (ReplicationControlManager.handleAssignReplicasToDirs, handleBrokerUnfenced; 4.3.1)."""
    servers = configure(tmp_path)
    properties, data = tmp_path / "server.properties", tmp_path / "data"
    properties.write_text(properties.read_text() + f"metadata.log.dir={tmp_path}/metadata\n")
    shutil.rmtree(data)
    words = ["kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", CLUSTER_ID, "-c", properties]
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def leader() -> int:
        return int(admin.list_topics(timeout=10).topics["ledger"].partitions[0].leader)

    def format_and_start() -> subprocess.Popen[bytes]:
        subprocess.run(kafka(*words), check=True, capture_output=True)
        return started(tmp_path)

    process = format_and_start()
    try:
        admin.create_topics([NewTopic("ledger", 1, 1)])["ledger"].result(60)
        producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
        producer.produce("ledger", b"acknowledged")
        assert producer.flush(60) == 0
        stopped(process)
        shutil.rmtree(data)
        process = format_and_start()
        wait_for("the partition is there", lambda: (data / "ledger-0").is_dir())
        stopped(process)
        process = started(tmp_path)
        wait_for("it leads", lambda: leader() == 1)
        (log,) = LiveCluster(servers).logs([("ledger", 0)]).values()
        assert (log.start, log.end) == (0, 0)
    finally:
        stopped(process)
