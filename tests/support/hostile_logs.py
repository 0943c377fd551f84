"""Captures whose numbers are at the ends of their types, in bytes that Kafka's format allows: for a seed, always the
same."""

import struct
from pathlib import Path
from random import Random

from evidence.limits import MAX_INT32, MAX_INT64, MAX_TIME_MS
from tests.kafka.random_log import RandomLog
from tests.support import writer

INT64 = (-MAX_INT64 - 1, -1, 0, 5, MAX_INT64)
EPOCHS = (-MAX_INT32 - 1, -1, 0, 1, 5, MAX_INT32 - 1, MAX_INT32)
PARTITIONS = (0, 1, -1, MAX_INT32, -MAX_INT32 - 1)
BROKERS = (1, 2, 3, MAX_INT32, -1, -MAX_INT32 - 1)
TIMES = (-MAX_INT64 - 1, -MAX_INT64, -1, 0, MAX_TIME_MS, MAX_TIME_MS + 1, 1 << 61, MAX_INT64)
MIN_ISR = (1, 2, -5, MAX_INT32, -MAX_INT32 - 1, -9999999999, 1 << 40, MAX_INT64, 10**25)
DURATIONS = (0, 5000, MAX_INT32, MAX_INT64, 10**30, 10**400)


def hostile_capture(seed: int, folder: Path) -> Path:
    """A controller's log (from 0, or from a snapshot near the last offset), checkpoints and logs of brokers."""
    random = Random(seed)
    node = folder / "controllers" / "3000"
    (node / "__cluster_metadata-0").mkdir(parents=True)
    (node / "meta.properties").write_text("node.id=3000\ncluster.id=hostile\n")
    (node / "server.properties").write_text(
        f"node.id=3000\nprocess.roles=controller\nmin.insync.replicas={random.choice(MIN_ISR)}\n"
        f"broker.session.timeout.ms={random.choice(DURATIONS)}\n"
        f"replica.high.watermark.checkpoint.interval.ms={random.choice(DURATIONS)}\n"
    )
    _write_log(random, node / "__cluster_metadata-0")
    for at_ms in (writer.TIMESTAMP_MS - 1000, writer.TIMESTAMP_MS + 3000, MAX_TIME_MS, 10**18):
        for broker in (1, 2, 3, MAX_INT32):
            _write_snapshot(random, folder / "snapshots" / str(at_ms) / f"broker-{broker}", broker)
    (folder / "logs" / "broker-1").mkdir(parents=True)
    (folder / "logs" / "broker-1" / "server.log").write_text(
        "[2026-11-22 10:00:00,000] INFO [Broker id=1] Leader orders-0 with topic id Some(AAECAwQFBgcICQoLDA0ODw) "
        f"starts at leader epoch {MAX_INT32} from offset {MAX_INT64} with partition epoch 2, high watermark "
        f"{random.choice((0, MAX_INT64))}, ISR [1,2], adding replicas [] and removing replicas []  (under-min-isr). "
        f"Previous leader Some(2) and previous leader epoch was {MAX_INT32}. (state.change.logger)\n"
    )
    return folder


def _write_snapshot(random: Random, folder: Path, broker: int) -> None:
    (folder / "orders-0").mkdir(parents=True)
    (folder / "meta.properties").write_text(f"node.id={broker}\ncluster.id=hostile\n")
    mark = random.choice((0, 5, 10, MAX_INT64 - 1, MAX_INT64, MAX_INT64 + 1))
    (folder / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {mark}\n")
    epoch, start = random.choice((2, 5, MAX_INT32)), random.choice((7, MAX_INT64 - 1, MAX_INT64))
    (folder / "orders-0" / "leader-epoch-checkpoint").write_text(f"0\n2\n{random.choice((0, 1))} 3\n{epoch} {start}\n")


def _write_log(random: Random, folder: Path) -> None:
    start, epoch = random.choice((0, 0, (1 << 53) + 1, MAX_INT64 - 60)), random.choice((1, MAX_INT32 - 5))
    written = HostileLog(random.randrange(1 << 30))
    created = [written.record() for _ in range(6)]
    if start:
        (folder / f"{start:020d}-{epoch:010d}.checkpoint").write_bytes(writer.snapshot(created, epoch))
    batches = [writer.control_batch(writer.LEADER_CHANGE, writer.leader_change(), start, epoch)]
    base = start + 1
    if not start:
        batches.append(writer.batch(created, base, epoch))
        base += len(created)
    for _ in range(25):
        values = [written.record() for _ in range(random.randint(1, 3))]
        if base + len(values) >= MAX_INT64:
            break
        usual = writer.TIMESTAMP_MS + base % 1000 * 100
        times = [random.choice(TIMES) if random.random() < 0.1 else usual for _ in range(2)]
        batches.append(writer.batch(values, base, epoch, timestamp_ms=times[0], max_timestamp_ms=times[1]))
        base += len(values)
    (folder / f"{start:020d}.log").write_bytes(b"".join(batches))


class HostileLog(RandomLog):
    """Records of partitions, brokers, features and configs."""

    names, brokers, partitions, epochs = ("orders",), BROKERS, PARTITIONS, EPOCHS
    leaders = (-MAX_INT32 - 1, -2, -1, 0, 1, 2, 3, MAX_INT32 - 1, MAX_INT32)

    def record(self) -> bytes:
        others = (super().record, super().record, self._registered, self._fenced, self._feature, self._config)
        return self.random.choice(others)()

    def _registered(self) -> bytes:
        head = struct.pack(">i", self.random.choice(BROKERS)) + b"\x00" + self.random.randbytes(16)
        epoch = struct.pack(">q", self.random.choice(INT64))
        return writer.frame(0, 3, head + epoch + b"\x01\x01\x00\x01\x00" + writer.tagged())

    def _fenced(self) -> bytes:
        who = struct.pack(">iq", self.random.choice(BROKERS), self.random.choice(INT64))
        return writer.frame(17, 2, who + writer.tagged({0: struct.pack(">b", self.random.choice((-1, 1)))}))

    def _feature(self) -> bytes:
        name = self.random.choice(("metadata.version", "eligible.leader.replicas.version"))
        level = struct.pack(">h", self.random.choice((-32768, 0, 1, 25, 27, 32767)))
        return writer.frame(12, 0, writer.string(name) + level + writer.tagged())

    def _config(self) -> bytes:
        return writer.config("min.insync.replicas", str(self.random.choice(MIN_ISR)))
