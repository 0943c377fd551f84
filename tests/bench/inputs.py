"""Make the inputs of the benchmarks: once in the work folder, the same bytes for the same seed.

Logs and the snapshot are written by Kafka's own classes (tests/kafka/Oracle.java). Offsets are files as brokers and the
JMX exporter write them.
"""

import json
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.prepared import files_of
from tests.support.paths import captured_file

METADATA_LOG, SEGMENT = "__cluster_metadata-0", f"{0:020d}.log"
BROKERS, PARTITIONS_PER_TOPIC, REPLICAS = 60, 50, 3
_START_MS, _ROUND_MS = 1_790_000_000_000, 60_000


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the stages. path: the log, the snapshot, or a folder. records: of the log, or values; None:
    unknown."""

    name: str
    path: Path
    records: int | None = None

    @property
    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in files_of(self.path))


# Metadata logs: the number of partitions, and of changes to them afterwards. About 46 bytes per change and 125 per
# partition. `long` has few partitions, hence small batches: 91 bytes per change.
LOGS = {
    "p10k": (10_000, 200_000),
    "p100k": (100_000, 2_000_000),
    "p1m": (1_000_000, 18_000_000),
    "gb": (100_000, 21_300_000),
    "long": (100, 2_000_000),
}
# Of the end of p100k's log.
SNAPSHOT = "snapshot"
OFFSETS, OFFSET_PARTITIONS, OFFSET_ROUNDS = "offsets", 100_000, 17
# A broker's own log.
SERVER_LOG, SERVER_LOG_BYTES = "server-log", 1_000_000_000
# Made by the stages themselves.
RANDOM = "random"
# Kafka's own programs for the same file: the tool that prints a log, and its classes replaying one.
DUMP_LOG, CLASSES = PEERS = "kafka-dump-log", "kafka-classes"


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes inputs in a folder. kafka: Kafka's jars and the compiled Oracle. scale: size of each input; 1: full
    size."""

    work: Path
    kafka: Path | None
    seed: int = 5
    scale: float = 1.0

    def make(self, name: str) -> Input:
        """The input of that name. Errors: SystemExit when Kafka's classes are needed and missing."""
        if name in LOGS:
            return self._log(name)
        if name == SNAPSHOT:
            return self._snapshot()
        if name == OFFSETS:
            count, rounds = self._scaled(OFFSET_PARTITIONS), OFFSET_ROUNDS
            named = f"{name}-{count}-{rounds}-{self.seed}"
            return Input(name, *self._once(named, lambda folder: write_offsets(folder, count, rounds, self.seed)))
        if name == SERVER_LOG:
            size = round(SERVER_LOG_BYTES * self.scale)
            return Input(name, *self._once(f"{name}-{size}", lambda folder: write_server_log(folder, size)))
        return Input(name, self.work)

    def java(self, *arguments: str) -> list[str]:
        """A Java command with Kafka's classes."""
        if self.kafka is None:
            raise SystemExit("bench: this input or peer needs Kafka's classes: give --kafka (make bench does)")
        return ["java", "-Xmx2g", "-cp", f"{self.kafka}:{self.kafka}/*", *arguments]

    def _scaled(self, count: int) -> int:
        """The scaled count, but at least one topic: with few partitions the brokers would have almost nothing to
        change."""
        return max(PARTITIONS_PER_TOPIC, round(count * self.scale))

    def _log(self, name: str) -> Input:
        partitions, changes = map(self._scaled, LOGS[name])

        def write(folder: Path) -> int:
            (folder / METADATA_LOG).mkdir(parents=True)
            log = str(folder / METADATA_LOG / SEGMENT)
            return self._oracle("big", log, str(partitions), str(changes), str(self.seed))

        folder, records = self._once(f"log-{partitions}-{changes}-{self.seed}", write)
        return Input(name, folder / METADATA_LOG / SEGMENT, records)

    def _snapshot(self) -> Input:
        log = self._log("p100k").path

        def write(folder: Path) -> int:
            (folder / METADATA_LOG).mkdir(parents=True)
            return self._oracle("snapshot", str(log), str(folder / METADATA_LOG))

        folder, records = self._once(f"snapshot-of-{log.parents[1].name}", write)
        (path,) = (folder / METADATA_LOG).glob("*.checkpoint")
        return Input(SNAPSHOT, path, records)

    def _oracle(self, *arguments: str) -> int:
        """Run the Oracle. Returns the number of records that it printed last."""
        output = subprocess.run(self.java("Oracle", *arguments), check=True, stdout=subprocess.PIPE, text=True).stdout
        return int(output.split()[-1])

    def _once(self, name: str, write: Callable[[Path], int]) -> tuple[Path, int]:
        """The folder of that name and the count that `write` returned; a folder that was not finished is made again."""
        folder, count_file = self.work / "inputs" / name, self.work / "inputs" / f"{name}.json"
        if not count_file.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            count_file.write_text(json.dumps({"records": write(folder)}), encoding="utf-8")
        return folder, int(json.loads(count_file.read_text(encoding="utf-8"))["records"])


def write_offsets(folder: Path, partitions: int, rounds: int, seed: int) -> int:
    """Write a copy of each broker's files, round by round: high watermarks (replication-offset-checkpoint) and log ends
    (a scrape of the JMX exporter). Returns the number of values."""
    chance = random.Random(seed)
    partitions_of: list[list[int]] = [[] for _ in range(BROKERS)]
    for partition in range(partitions):
        for broker in chance.sample(range(BROKERS), REPLICAS):
            partitions_of[broker].append(partition)
    ends = [chance.randrange(1_000_000) for _ in range(partitions)]
    values = 0
    for number in range(rounds):
        ends = [end + chance.randrange(1000) for end in ends]
        for broker, own in enumerate(partitions_of):
            home = folder / "snapshots" / str(_START_MS + number * _ROUND_MS) / f"broker-{broker}"
            home.mkdir(parents=True)
            places = [(f"topic-{p // PARTITIONS_PER_TOPIC}", p % PARTITIONS_PER_TOPIC, ends[p]) for p in own]
            lines = "".join(f"{topic} {partition} {end - end % 10}\n" for topic, partition, end in places)
            (home / "replication-offset-checkpoint").write_text(f"0\n{len(own)}\n{lines}", encoding="utf-8")
            samples = (f'kafka_log_Log_LogEndOffset{{topic="{t}",partition="{p}",}} {end}.0\n' for t, p, end in places)
            (home / "jmx.prom").write_text("".join(samples), encoding="utf-8")
            values += 2 * len(own)
    return values


def write_server_log(folder: Path, size_bytes: int) -> int:
    """Write one broker's server.log of about that size: a real one, again and again. Returns the number of lines."""
    captured = captured_file("logs-churn", "logs/broker-1/server.log")
    (folder / "logs" / "broker-1").mkdir(parents=True)
    times = max(1, size_bytes // len(captured))
    with (folder / "logs" / "broker-1" / "server.log").open("wb") as file:
        file.writelines(captured for _ in range(times))
    return times * captured.count(b"\n")


def peer(name: str, made: Input, maker: Maker, runs: int) -> dict[str, Any]:
    """Time a peer that writes its output to a file, JVM start included.

    DUMP_LOG prints each record. CLASSES prints, as JSON lines, a partition's state after each record that changes one
    (PartitionRegistration).
    """
    log = str(made.path)
    tool = ("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", log)
    command = maker.java(*tool) if name == DUMP_LOG else maker.java("Oracle", "replay", log)
    output = maker.work / f"{name}.txt"
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        with output.open("w") as out:
            subprocess.run(command, check=True, stdout=out, stderr=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begin)
    start = b"| offset" if name == DUMP_LOG else b"{"
    with output.open("rb") as lines:
        rows = sum(line.startswith(start) for line in lines)
    output.unlink()
    return {"stage": name, "seconds": seconds, "rows": rows, "peak_mib": None}
