"""Captures whose numbers are at the ends of their types, in bytes that Kafka's format allows: for a seed, always the
same."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

from evidence.limits import MAX_INT32, MAX_INT64, MAX_TIME_MS
from tests.support import writer

INT32 = (-MAX_INT32 - 1, -2, -1, 0, 1, 2, 3, MAX_INT32 - 1, MAX_INT32)
INT64 = (-MAX_INT64 - 1, -1, 0, 5, MAX_INT64)
EPOCHS = (-MAX_INT32 - 1, -1, 0, 1, 5, MAX_INT32 - 1, MAX_INT32)
PARTITIONS = (0, 1, -1, MAX_INT32, -MAX_INT32 - 1)
BROKERS = (1, 2, 3, MAX_INT32, -1, -MAX_INT32 - 1)
TIMES = (-MAX_INT64 - 1, -MAX_INT64, -1, 0, MAX_TIME_MS, MAX_TIME_MS + 1, 1 << 61, MAX_INT64)
MIN_ISR = (1, 2, -5, MAX_INT32, -MAX_INT32 - 1, -9999999999, 1 << 40, MAX_INT64, 10**25)
DURATIONS = (0, 5000, MAX_INT32, MAX_INT64, 10**30, 10**400)
TOPIC = writer.TOPIC_ID


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
    created = [writer.topic("orders"), *(_created(random, partition) for partition in PARTITIONS)]
    if start:
        (folder / f"{start:020d}-{epoch:010d}.checkpoint").write_bytes(writer.snapshot(created, epoch))
    batches = [writer.control_batch(writer.LEADER_CHANGE, writer.leader_change(), start, epoch)]
    base = start + 1
    if not start:
        batches.append(writer.batch(created, base, epoch))
        base += len(created)
    for _ in range(25):
        values = [random.choice(_RECORDS)(random) for _ in range(random.randint(1, 3))]
        if base + len(values) >= MAX_INT64:
            break
        usual = writer.TIMESTAMP_MS + base % 1000 * 100
        times = [random.choice(TIMES) if random.random() < 0.1 else usual for _ in range(2)]
        batches.append(writer.batch(values, base, epoch, timestamp_ms=times[0], max_timestamp_ms=times[1]))
        base += len(values)
    (folder / f"{start:020d}.log").write_bytes(b"".join(batches))


def _created(random: Random, partition: int) -> bytes:
    replicas = random.sample(BROKERS, 3)
    lists = b"".join(writer.int32s(v) for v in (replicas, random.sample(replicas, 2), [], []))
    numbers = struct.pack(">iii", random.choice(replicas), random.choice(EPOCHS), random.choice(EPOCHS))
    return writer.frame(3, 2, struct.pack(">i", partition) + TOPIC + lists + numbers + b"\x01" + writer.tagged())


def _changed(random: Random) -> bytes:
    tags = {0: random.sample(BROKERS, 2), 6: random.sample(BROKERS, 1), 7: random.sample(BROKERS, 1)}
    fields = {tag: writer.int32s(brokers) for tag, brokers in tags.items() if random.random() < 0.4}
    if random.random() < 0.6:
        fields[1] = struct.pack(">i", random.choice(INT32))
    return writer.frame(5, 2, struct.pack(">i", random.choice(PARTITIONS)) + TOPIC + writer.tagged(fields))


def _registered(random: Random) -> bytes:
    head = struct.pack(">i", random.choice(BROKERS)) + b"\x00" + random.randbytes(16)
    body = head + struct.pack(">q", random.choice(INT64)) + b"\x01\x01\x00\x01\x00" + writer.tagged()
    return writer.frame(0, 3, body)


def _fenced(random: Random) -> bytes:
    tags = writer.tagged({0: struct.pack(">b", random.choice((-1, 1)))})
    return writer.frame(17, 2, struct.pack(">iq", random.choice(BROKERS), random.choice(INT64)) + tags)


def _feature(random: Random) -> bytes:
    name = random.choice(("metadata.version", "eligible.leader.replicas.version"))
    level = struct.pack(">h", random.choice((-32768, 0, 1, 25, 27, 32767)))
    return writer.frame(12, 0, writer.string(name) + level + writer.tagged())


_RECORDS: tuple[Callable[[Random], bytes], ...] = (
    _changed,
    _changed,
    _changed,
    lambda random: _created(random, random.choice(PARTITIONS)),
    _registered,
    _fenced,
    _feature,
    lambda random: writer.config("min.insync.replicas", str(random.choice(MIN_ISR))),
    # The topic is removed, and its partitions are created again under the same id.
    lambda _: writer.frame(9, 0, TOPIC + writer.tagged()),
    lambda _: writer.frame(28, 0, writer.string("") + writer.tagged()),
)
