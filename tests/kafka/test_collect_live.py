"""`collect` on a real cluster of three nodes that run, and what the capture says."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from drill.nodes import CLUSTER_ID as CLUSTER
from drill.nodes import Node, combined_nodes, wait_for
from evidence.capture.files import open_capture
from jobs.cli.commands import app
from jobs.lake.lake import Lake
from tests.kafka.conftest import SERVER, start, stop
from tests.support.nodes import ssh_like

# Nodes that are found by their processes: a drill beside this has others.
NODES = (71, 72, 73)
RECORDS = 50
CONFIGS = {
    "broker.session.timeout.ms": 60_000,
    "controller.quorum.fetch.timeout.ms": 30_000,
    "num.network.threads": 1,
    "num.io.threads": 2,
    "log.initial.task.delay.ms": 500,
    "log.flush.offset.checkpoint.interval.ms": 1000,
    "log.flush.start.offset.checkpoint.interval.ms": 1000,
    "ssl.keystore.password": "s3cret",
}


def has_checkpoints(home: Path) -> bool:
    """Whether the node's files say how far the topic's logs are replicated, and where they begin."""
    marks = home / "data" / "replication-offset-checkpoint"
    written = marks.read_text() if marks.exists() else ""
    held = sum(int(line.split()[2]) for line in written.splitlines() if line.startswith("orders "))
    others = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
    return held == RECORDS and all((home / "data" / name).exists() for name in others)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    """The nodes, which run, and a topic has records. However slow they are, none is fenced."""
    nodes, servers = combined_nodes(tmp_path_factory.mktemp("a cluster"), SERVER, NODES, CONFIGS)
    try:
        start(*nodes)
        client = {"bootstrap.servers": servers, "log_level": 0}
        admin = AdminClient(client)
        admin.create_topics([NewTopic("orders", 2, 3)])["orders"].result(60)
        producer = Producer({**client, "acks": "all"})
        for number in range(RECORDS):
            producer.produce("orders", bytes(20), partition=number % 2)
        assert producer.flush(60) == 0
        wait_for("every node has written its checkpoints", lambda: all(has_checkpoints(node.home) for node in nodes))
        yield nodes
    finally:
        stop(*nodes)


def test_a_live_cluster_is_collected_and_judged(cluster: list[Node], tmp_path: Path) -> None:
    capture = tmp_path / "live.tar.gz"
    # The first node by its folder, the others by the properties of the process that runs.
    words = ["--node", f"71=local:{cluster[0].home}", "--node", "72=via:two", "--node", "73=via:three"]
    options = ["--via", ssh_like("sh"), "--replica-tails", "orders", "--output", str(capture)]
    done = CliRunner().invoke(app, ["collect", *words, *options])
    assert (done.exit_code, done.stdout) == (0, f"{capture}\n"), done.stderr
    with open_capture(capture) as opened:
        assert (opened.cluster_id, opened.nodes) == (CLUSTER, set(NODES))
        assert not [f.path for f in opened.files if b"s3cret" in f.read()]
        kinds_of = {node: {f.kind for f in opened.files if f.node_id == node} for node in NODES}
        offsets = [f.read().decode() for f in opened.files if f.kind == "replication_offset"]
    of_each = {"metadata_segment", "quorum_state", "meta_properties", "server_properties", "leader_epoch", "boot_id"}
    of_each |= {"replication_offset", "recovery_point", "log_start_offset", "replica_segment", "batch_heads"}
    of_each |= {"server_log"}
    assert all(of_each <= kinds_of[node] for node in NODES)
    for text in offsets:
        held = [line.split() for line in text.splitlines() if line.startswith("orders ")]
        assert sum(int(mark) for _, _, mark in held) == RECORDS

    checked = CliRunner().invoke(app, ["check", str(capture), "--format", "json"])
    lacks = json.loads(checked.stdout)["lacks"]
    assert checked.exit_code == 0
    # Of a machine whose disks are its own, one capture is enough.
    of_machine = {"boot_ids_missing", "disks_not_local"}
    assert {lack["code"] for lack in lacks} - of_machine == {"no_metrics"}

    lake = tmp_path / "lake"
    ran = CliRunner().invoke(app, ["run", str(capture), "--lake", str(lake), "--fail-on", "low"])
    assert ran.exit_code == 0, (ran.stdout, ran.stderr)
    ends = Lake(lake).read("log_end_offsets", CLUSTER).to_pylist()
    by_replica = {
        (r["broker_id"], r["partition"]): r["log_end_offset"] for r in ends if r["source"] == "replica_segment"
    }
    assert {broker: sum(end for (b, _), end in by_replica.items() if b == broker) for broker in NODES} == dict.fromkeys(
        NODES, RECORDS
    )
