"""Kafka's own classes at work: logs that they wrote, and what they replayed from them.

`make test-kafka` puts Kafka's jars and the compiled Oracle.java into .kafka/, and those of each release that
releases.txt lists into a folder of .kafka/releases/, with the compiled EveryRecord.java, PolicyCases.java and
ControllerLives.java; with Oracle.java, too, if it is the last of the list, the newest.
"""

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from drill.nodes import WAIT_S, Node, wait_for
from tests.support.paths import ROOT

KAFKA = ROOT / ".kafka"
# KAFKA_RELEASE: one that is not in the list yet (`make new-release`).
LISTED = (ROOT / "tests" / "kafka" / "releases.txt").read_text().split()
RELEASES = list(dict.fromkeys((*LISTED, *os.environ.get("KAFKA_RELEASE", "").split())))
CLUSTER = "kafka-oracle-cluster-1"
# Those of live clusters and of drills: of the newest release.
DRILL = KAFKA / "drill"
SERVER = DRILL / LISTED[-1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drills, which take longest, begin first, in one process: two clusters at once may miss Kafka's time limits."""
    items.sort(key=lambda item: "test_drill.py" not in item.nodeid)


@dataclass(frozen=True)
class Made:
    """A capture of one controller, and the lines of `Oracle replay` about its log."""

    capture: Path
    log: Path
    replayed: Path


def java(folder: Path, *arguments: str | int | Path) -> list[str]:
    """The command that runs a class with the jars and classes of a folder. Of programs that run for seconds, more
    compilation than this takes longer than it saves: two thirds of the processor's time."""
    return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{folder}/*", *map(str, arguments)]


def start(*nodes: Node) -> None:
    """Start nodes at once, and wait until they have started."""
    for node in nodes:
        node.begin(SERVER)
    for node in nodes:
        wait_for(f"node {node.id} starts", node.has_started)


def stop(*nodes: Node, by: signal.Signals = signal.SIGKILL) -> None:
    for node in nodes:
        node.end(by, WAIT_S)


def run_java(release: str, *arguments: str | int | Path) -> None:
    """Run one of the programs of tests/kafka with the classes of a release."""
    subprocess.run(java(KAFKA / "releases" / release, *arguments), check=True, stdout=subprocess.DEVNULL)


def output_of(release: str, *arguments: str | int | Path) -> bytes:
    """As run_java; returns what the program printed."""
    command = java(KAFKA / "releases" / release, *arguments)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def oracle(*arguments: str | int | Path, output: Path | None = None, classes: Path = KAFKA) -> None:
    """Run Oracle.java with the classes of a folder; what it prints goes to `output`."""
    command = java(classes, "Oracle", *arguments)
    if output is None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return
    with output.open("wb") as stream:
        subprocess.run(command, check=True, stdout=stream)


def controller(folder: Path) -> Path:
    """The path of the first segment of a controller's folder, which is made."""
    home = folder / "controllers" / "3000"
    (home / "__cluster_metadata-0").mkdir(parents=True)
    (home / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=3000\n")
    return home / "__cluster_metadata-0" / f"{0:020d}.log"


def replayed_by_kafka(log: Path, folder: Path, classes: Path = KAFKA) -> Made:
    oracle("replay", log, output=folder / "replay.jsonl", classes=classes)
    return Made(log.parents[3], log, folder / "replay.jsonl")


@pytest.fixture(scope="session")
def big(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Made]:
    """`Oracle big`: partitions, changes, seed -> a log as a controller writes it, by Kafka's PartitionChangeBuilder.

    classes: the folder of them, that of kafka-tools' release unless given."""

    @cache
    def make(partitions: int, changes: int, seed: int, classes: Path = KAFKA) -> Made:
        folder = tmp_path_factory.mktemp(f"big-{seed}")
        log = controller(folder / f"big-{seed}")
        oracle("big", log, partitions, changes, seed, classes=classes)
        return replayed_by_kafka(log, folder, classes)

    return make
