"""`python -m tests.bench.nights`: how a lake grows night by night. Prints a row for each night: what `run` took, what
the tables then have.

Each night's capture is what `collect` brings of each cluster: the metadata log of the last week from three controllers,
a snapshot, and of each broker its high watermarks and leader epochs. One broker is restarted each night, and the active
controller once a week. Days have no other length than the log's times: nothing waits.
"""

import argparse
import json
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import google_crc32c

from bench.measure import ROOT
from jobs.lake.lake import Lake
from jobs.queries.status import status_of
from tests.support import writer

writer.crc32c = google_crc32c.value
_DAY_MS, _KEPT_NIGHTS = 86_400_000, 7
_CONTROLLERS, _REPLICAS, _PARTITIONS = (3000, 3001, 3002), 3, 10
_METADATA_3_9 = 21


@dataclass
class Partition:
    topic: int
    number: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0


@dataclass
class Cluster:
    """A cluster whose log goes on from night to night. idle_ms: between two no-ops (metadata.max.idle.interval.ms)."""

    number: int
    brokers: int
    partitions: list[Partition]
    idle_ms: int
    start: datetime
    end: int = 0
    last_ms: int = 0
    epoch: int = 0
    epochs: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, number: int, brokers: int, partitions: int, idle_ms: int, start: datetime) -> "Cluster":
        found = []
        for place in range(partitions):
            replicas = [(place + step) % brokers for step in range(_REPLICAS)]
            found.append(Partition(place // _PARTITIONS, place % _PARTITIONS, replicas, list(replicas), replicas[0]))
        return cls(number, brokers, found, idle_ms, start)

    @property
    def id(self) -> str:
        return f"cluster-{self.number:014d}"

    def topic_id(self, topic: int) -> bytes:
        return UUID(int=(self.number + 1 << 64) + topic + 1).bytes

    def batch(self, values: list[bytes], now_ms: int) -> bytes:
        data = writer.batch(values, self.end, self.epoch, timestamp_ms=now_ms)
        self.end, self.last_ms = self.end + len(values), now_ms
        return data

    def _registered(self, broker: int, night: int, fenced: bool) -> bytes:
        incarnation = UUID(int=(night + 1 << 32) + broker).bytes
        epoch = self.epochs.setdefault(broker, self.end)
        body = struct.pack(">i16sq", broker, incarnation, epoch) + b"\x01\x01" + writer.string(None)
        return writer.frame(0, 1, body + struct.pack(">??", fenced, False) + writer.tagged())

    def _partition(self, of: Partition) -> bytes:
        body = struct.pack(">i16s", of.number, self.topic_id(of.topic)) + writer.int32s(of.replicas)
        body += writer.int32s(of.isr) + writer.int32s(()) * 2
        return writer.frame(
            3, 0, body + struct.pack(">iii", of.leader, of.leader_epoch, of.partition_epoch) + writer.tagged()
        )

    def _state(self, night: int) -> list[bytes]:
        level = struct.pack(">h", _METADATA_3_9)
        values = [writer.frame(12, 0, writer.string("metadata.version") + level + writer.tagged())]
        values += [self._registered(broker, night, False) for broker in range(self.brokers)]
        topics = range(self.partitions[-1].topic + 1)
        values += [writer.topic(f"topic-{topic}", self.topic_id(topic)) for topic in topics]
        return values + [self._partition(each) for each in self.partitions]

    def _change(self, of: Partition, isr: list[int]) -> bytes:
        fields = {0: writer.int32s(isr)}
        of.isr, of.partition_epoch = isr, of.partition_epoch + 1
        if of.leader not in isr:
            of.leader, of.leader_epoch = next(r for r in of.replicas if r in isr), of.leader_epoch + 1
            fields[1] = struct.pack(">i", of.leader)
        return writer.partition_change(of.number, fields, self.topic_id(of.topic))

    def night(self, night: int) -> tuple[bytes, bytes, tuple[str, str]]:
        """The segment of a night and day, the snapshot before it, and the names of both files."""
        names = f"{self.end:020d}.log", f"{self.end:020d}-{self.epoch:010d}.checkpoint"
        now_ms, parts = round(self.start.timestamp() * 1000) + night * _DAY_MS, []
        snapshot = b"" if night == 0 else writer.snapshot(self._state(night), self.epoch, time_ms=self.last_ms)
        if night % _KEPT_NIGHTS == 0:
            self.epoch += 1
            change = writer.record(writer.leader_change(3000), key=struct.pack(">hh", 0, writer.LEADER_CHANGE))
            head = (self.end, self.epoch)
            parts.append(writer.batch((), *head, control=True, count=1, records=change, timestamp_ms=now_ms))
            self.end += 1
        if night == 0:
            parts.append(self.batch(self._state(0), now_ms))
        broker = night % self.brokers
        mine = [each for each in self.partitions if broker in each.replicas]
        parts.append(self.batch([self._change(p, [b for b in p.isr if b != broker]) for p in mine], now_ms + 1000))
        self.epochs.pop(broker)
        parts.append(self.batch([self._registered(broker, night, True)], now_ms + 30_000))
        unfence = struct.pack(">iq", broker, self.epochs[broker]) + writer.tagged({0: struct.pack(">b", -1)})
        parts.append(self.batch([writer.frame(17, 1, unfence)], now_ms + 31_000))
        parts.append(self.batch([self._change(p, [*p.isr, broker]) for p in mine], now_ms + 40_000))
        idle = range(now_ms + 60_000, now_ms + _DAY_MS, self.idle_ms)
        parts += [self.batch([writer.no_op()], at_ms) for at_ms in idle]
        return b"".join(parts), snapshot, names


def kept_files(
    files: list[tuple[str, bytes]], names: tuple[str, str], segment: bytes, snapshot: bytes
) -> list[tuple[str, bytes]]:
    """The files of the metadata log after a night: Kafka keeps those of a week."""
    added = [(names[1], snapshot), (names[0], segment)] if snapshot else [(names[0], segment)]
    return [*files, *added][-2 * _KEPT_NIGHTS :]


def write_capture(folder: Path, cluster: Cluster, logs: list[tuple[str, bytes]], night: int) -> None:
    """Write a capture. logs: the files of the metadata log."""
    at_ms = round((cluster.start + timedelta(days=night + 1)).timestamp() * 1000)
    for controller in _CONTROLLERS:
        home = folder / "controllers" / str(controller) / "__cluster_metadata-0"
        home.mkdir(parents=True)
        for name, data in logs:
            (home / name).write_bytes(data)
        text = f"version=1\nnode.id={controller}\ncluster.id={cluster.id}\n"
        (home.parent / "meta.properties").write_text(text, encoding="utf-8")
    for broker in range(cluster.brokers):
        home = folder / "snapshots" / str(at_ms) / f"broker-{broker}"
        own = [each for each in cluster.partitions if broker in each.replicas]
        ends = [(f"topic-{p.topic}", p.number, 1000 * (night + 1) + p.number) for p in own]
        home.mkdir(parents=True)
        lines = "".join(f"{topic} {partition} {end}\n" for topic, partition, end in ends)
        (home / "replication-offset-checkpoint").write_text(f"0\n{len(own)}\n{lines}", encoding="utf-8")
        for each in own:
            place = home / f"topic-{each.topic}-{each.number}"
            place.mkdir()
            (place / "leader-epoch-checkpoint").write_text(f"0\n1\n{each.leader_epoch} {1000 * night}\n", "utf-8")


def grown(work: Path, clusters: list[Cluster], nights: int, judge: int, every: int, forget: int) -> Iterator[str]:
    """A line of CSV for each night. judge, every: nights from one `run`, one maintenance to the next. forget: what is
    older then, in days, is forgotten; 0: nothing."""
    lake, logs = str(work / "lake"), {cluster.number: list[tuple[str, bytes]]() for cluster in clusters}
    yield "night,command,seconds,mib,maintain_seconds,rows,files,bytes,records,findings,commits"
    for night in range(nights):
        captures = []
        for cluster in clusters:
            segment, snapshot, names = cluster.night(night)
            logs[cluster.number] = kept_files(logs[cluster.number], names, segment, snapshot)
            captures.append(work / f"{cluster.start + timedelta(days=night):%Y-%m-%d}-{cluster.number}")
            write_capture(captures[-1], cluster, logs[cluster.number], night)
        command = "run" if night in (0, nights - 1) or night % judge == judge - 1 else "ingest"
        took, most = _ran(command, *map(str, captures), "--lake", lake)
        for capture in captures:
            shutil.rmtree(capture)
        kept_s = 0.0
        if night % every == every - 1:
            if forget:
                age = f"{forget + nights - 1 - night}d"
                kept_s += _ran("forget", "--older-than", age, "--keep-findings", "--yes", "--lake", lake)[0]
            kept_s += _ran("maintain", "--lake", lake, "--retention-days", "0")[0]
        yield ",".join(map(str, (night + 1, command, f"{took:.1f}", most, f"{kept_s:.1f}", *_sizes(Lake(Path(lake))))))


def _sizes(lake: Lake) -> list[int]:
    """Rows, files and bytes of all tables, records, findings, commits of evidence_files."""
    tables = status_of(lake, 0)["tables"]
    sums = [sum(table[name] for table in tables) for name in ("rows", "files", "bytes")]
    rows = {table["table"]: table["rows"] for table in tables}
    return [*sums, rows["metadata_records"], rows.get("findings", 0), lake.version("evidence_files")]


def _ran(*words: str) -> tuple[float, int]:
    """How long a command took, in seconds, and the most memory of its process, in MiB."""
    began, python = time.monotonic(), (sys.executable, "-m")
    measured = [*python, "tests.faults.measured", *python, "jobs.cli", *words]
    done = json.loads(subprocess.run(measured, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    if done["code"] not in (0, 4):
        raise SystemExit(f"{' '.join(words)}: exit code {done['code']}\n{done['said'][-3000:]}")
    return time.monotonic() - began, done["peak_mib"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.nights", description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for the captures and the lake")
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--clusters", type=int, default=1)
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--idle-ms", type=int, default=500, help="between two no-ops of the metadata log")
    parser.add_argument("--judge", type=int, default=1, help="nights from one run to the next; `ingest` between them")
    parser.add_argument("--maintain", type=int, default=7, help="nights from one maintenance to the next")
    parser.add_argument("--forget", type=int, default=0, help="then also forget what is older, in days; 0: nothing")
    given = parser.parse_args()
    start = datetime.now(UTC) - timedelta(days=given.nights)
    of = (given.brokers, given.partitions, given.idle_ms, start)
    clusters = [Cluster.of(number, *of) for number in range(given.clusters)]
    for line in grown(given.work.resolve(), clusters, given.nights, given.judge, given.maintain, given.forget):
        print(line, flush=True)


if __name__ == "__main__":
    main()
