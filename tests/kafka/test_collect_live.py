"""`collect` on a real cluster of three nodes that run, and what the capture says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from typer.testing import CliRunner

from drill.network import free_ports
from drill.nodes import CLUSTER_ID as CLUSTER
from drill.nodes import wait_for
from evidence.capture.files import open_capture
from jobs.cli import app
from jobs.lake.lake import Lake
from tests.kafka.conftest import KAFKA
from tests.support.nodes import ssh_like

NODES = (1, 2, 3)
RECORDS = 50


def kafka(*words: str | Path, memory: str = "160m") -> list[str]:
    jvm = ["java", f"-Xmx{memory}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{KAFKA}/*"]
    return [*jvm, *map(str, words)]


def configure(folder: Path) -> str:
    """A folder for each node, with properties, formatted; returns the brokers' addresses."""
    ports = dict(zip(NODES, zip(*[iter(free_ports(2 * len(NODES)))] * 2, strict=True), strict=True))
    voters = ",".join(f"{node}@127.0.0.1:{ports[node][1]}" for node in NODES)
    for node in NODES:
        home = folder / f"node {node}"
        (home / "logs").mkdir(parents=True)
        (home / "server.properties").write_text(f"""process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{ports[node][0]},CONTROLLER://127.0.0.1:{ports[node][1]}
controller.listener.names=CONTROLLER
log.dirs={home}/data
num.network.threads=1
num.io.threads=2
offsets.topic.num.partitions=1
log.initial.task.delay.ms=500
log.flush.offset.checkpoint.interval.ms=1000
log.flush.start.offset.checkpoint.interval.ms=1000
ssl.keystore.password=s3cret
""")
        command = kafka("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", home / "server.properties")
        subprocess.run(command, check=True, capture_output=True)
    return ",".join(f"127.0.0.1:{ports[node][0]}" for node in NODES)


def start(home: Path) -> subprocess.Popen[bytes]:
    simple = "-Dorg.slf4j.simpleLogger"
    options = (f"{simple}.showDateTime=true", f"{simple}.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS")
    log = f"{simple}.logFile={home}/logs/server.log"
    command = kafka(*options, log, f"-Dkafka.logs.dir={home}/logs", "kafka.Kafka", "server.properties", memory="256m")
    out: IO[bytes]
    with (home / "out.log").open("wb") as out:
        return subprocess.Popen(command, cwd=home, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)


def has_checkpoints(home: Path) -> bool:
    """Whether the node's files say how far the topic's logs are replicated, and where they begin."""
    marks = home / "data" / "replication-offset-checkpoint"
    written = marks.read_text() if marks.exists() else ""
    held = sum(int(line.split()[2]) for line in written.splitlines() if line.startswith("orders "))
    others = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
    return held == RECORDS and all((home / "data" / name).exists() for name in others)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The nodes' folders, while the nodes run and a topic has records."""
    folder = tmp_path_factory.mktemp("cluster")
    servers = configure(folder)
    homes = [folder / f"node {node}" for node in NODES]
    processes = [start(home) for home in homes]
    try:
        for node in NODES:
            log = folder / f"node {node}" / "logs" / "server.log"
            wait_for(f"node {node}", lambda log=log: log.exists() and "Kafka Server started" in log.read_text())
        create = ("--create", "--topic", "orders", "--partitions", "2", "--replication-factor", "3")
        tools = "org.apache.kafka.tools"
        subprocess.run(
            kafka(f"{tools}.TopicCommand", "--bootstrap-server", servers, *create), check=True, capture_output=True
        )
        producer = ("--producer-props", f"bootstrap.servers={servers}", "acks=all")
        size = ("--num-records", str(RECORDS), "--record-size", "20", "--throughput", "-1")
        subprocess.run(
            kafka(f"{tools}.ProducerPerformance", "--topic", "orders", *size, *producer),
            check=True,
            capture_output=True,
        )
        wait_for("every node has written its checkpoints", lambda: all(map(has_checkpoints, homes)))
        yield folder
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def test_a_live_cluster_is_collected_and_judged(cluster: Path, tmp_path: Path) -> None:
    capture = tmp_path / "live.tar.gz"
    # Node 1 by its folder, nodes 2 and 3 by the properties of the process that runs.
    words = ["--node", f"1=local:{cluster / 'node 1'}", "--node", "2=via:two", "--node", "3=via:three"]
    options = ["--via", ssh_like("sh"), "--replica-tails", "orders", "--output", str(capture)]
    done = CliRunner().invoke(app, ["collect", *words, *options])
    assert (done.exit_code, done.stdout) == (0, f"{capture}\n"), done.stderr
    with open_capture(capture) as opened:
        assert (opened.cluster_id, opened.nodes) == (CLUSTER, set(NODES))
        assert not [f.path for f in opened.files if b"s3cret" in f.read()]
        kinds_of = {node: {f.kind for f in opened.files if f.node_id == node} for node in NODES}
        offsets = [f.read().decode() for f in opened.files if f.kind == "replication_offset"]
    of_each = {"metadata_segment", "quorum_state", "meta_properties", "server_properties", "leader_epoch", "boot_id"}
    of_each |= {
        "replication_offset",
        "recovery_point",
        "log_start_offset",
        "replica_segment",
        "batch_heads",
        "server_log",
    }
    assert all(of_each <= kinds_of[node] for node in NODES)
    for text in offsets:
        held = [line.split() for line in text.splitlines() if line.startswith("orders ")]
        assert sum(int(mark) for _, _, mark in held) == RECORDS

    checked = CliRunner().invoke(app, ["check", str(capture), "--format", "json"])
    lacks = json.loads(checked.stdout)["lacks"]
    assert checked.exit_code == 0
    # Of a machine whose disks are its own, one capture is enough.
    of_machine = {"boot_ids_missing", "disks_not_local"}
    assert {lack["code"] for lack in lacks} - of_machine == {"no_broker_log", "no_metrics"}

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
