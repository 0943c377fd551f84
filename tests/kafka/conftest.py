"""Kafka's own classes at work: logs that they wrote, and what they replayed from them.

`make test-kafka` puts Kafka's jars and the compiled Oracle.java into .kafka/.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from jobs.lake import Lake
from jobs.session import build_session
from jobs.settings import load_settings
from tests.support.paths import ROOT

KAFKA = ROOT / ".kafka"
CLUSTER = "kafka-oracle-cluster-1"


@dataclass(frozen=True)
class Made:
    """A capture of one controller, and the lines of `Oracle replay` about its log."""

    capture: Path
    log: Path
    replayed: Path


def oracle(*arguments: str | int | Path, output: Path | None = None) -> None:
    command = ["java", "-cp", f"{KAFKA}:{KAFKA}/*", "Oracle", *map(str, arguments)]
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


def replayed_by_kafka(log: Path, folder: Path) -> Made:
    oracle("replay", log, output=folder / "replay.jsonl")
    return Made(log.parents[3], log, folder / "replay.jsonl")


@pytest.fixture(scope="session")
def big(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int, int], Made]:
    """`Oracle big`: partitions, changes, seed -> a log as a controller writes it, by Kafka's PartitionChangeBuilder."""

    @cache
    def make(partitions: int, changes: int, seed: int) -> Made:
        folder = tmp_path_factory.mktemp(f"big-{seed}")
        log = controller(folder / f"big-{seed}")
        oracle("big", log, partitions, changes, seed)
        return replayed_by_kafka(log, folder)

    return make


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    lake = Lake(build_session(load_settings().spark), tmp_path_factory.mktemp("lake"))
    yield lake
    lake.spark.stop()
