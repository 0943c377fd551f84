"""Long random logs with what `Oracle big` leaves out: removals, topics created anew, cleared ELRs, reassignments,
metadata transactions. Written byte by byte; Kafka's classes accept every record in it."""

import struct
from copy import deepcopy
from random import Random

from tests.support import writer

NAMES = ("orders", "mail", "audit")
BROKERS = (1, 2, 3, 4, 5, 2**31 - 1)
# What may lie in an open transaction, and how it goes on.
BEGIN, END, ABORT = (writer.frame(key, 0, writer.tagged()) for key in (23, 24, 25))


class RandomLog:
    """alive: topic name -> (topic id, partition -> number of replicas)."""

    names, brokers, partitions, epochs = NAMES, BROKERS, range(4), range(99)
    leaders: tuple[int, ...] = (-1, *BROKERS)

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.alive: dict[str, tuple[bytes, dict[int, int]]] = {}
        self.before: dict[str, tuple[bytes, dict[int, int]]] | None = None

    def segment(self, records: int) -> bytes:
        """A log that ends in a transaction, in batches of any size."""
        values = [self.record() for _ in range(records)]
        values.append(BEGIN)
        if self.before is not None:
            self.alive = self.before
        values += [self._create(), self._create()]
        batches, base = [], 0
        while base < len(values):
            part = values[base : base + self.random.randint(1, 40)]
            batches.append(writer.batch(part, base, 1 + base // 500, timestamp_ms=writer.TIMESTAMP_MS + 100 * base))
            base += len(part)
        return b"".join(batches)

    def record(self) -> bytes:
        kind = self.random.choices(
            (self._change, self._create, self._topic, self._remove, self._clear, self._transaction),
            (60, 15, 4, 2, 4, 5),
        )[0]
        return kind()

    def _transaction(self) -> bytes:
        choice = self.random.choice((BEGIN, END, END, ABORT))
        if self.before is None or choice == BEGIN:
            # A Begin inside an open transaction drops what is open.
            self.alive = self.alive if self.before is None else self.before
            self.before = deepcopy(self.alive)
            return BEGIN
        self.alive, self.before = (self.before if choice == ABORT else self.alive), None
        return choice

    def _topic(self) -> bytes:
        free = [name for name in self.names if name not in self.alive]
        if not free:
            return writer.no_op()
        name = self.random.choice(free)
        self.alive[name] = (self.random.randbytes(16), {})
        return writer.topic(name, self.alive[name][0])

    def _remove(self) -> bytes:
        if not self.alive:
            return writer.no_op()
        topic_id, _ = self.alive.pop(self.random.choice(sorted(self.alive)))
        return writer.frame(9, 0, topic_id + writer.tagged())

    def _clear(self) -> bytes:
        return writer.frame(28, 0, writer.string(self.random.choice(("", *sorted(self.alive)))) + writer.tagged())

    def _create(self) -> bytes:
        if not self.alive:
            return self._topic()
        topic_id, partitions = self.alive[self.random.choice(sorted(self.alive))]
        replicas, partition = self._brokers(1), self.random.choice(self.partitions)
        partitions[partition] = len(replicas)
        lists = b"".join(writer.int32s(v) for v in (replicas, self._brokers(), self._brokers(), self._brokers()))
        epochs = (self.random.choice(self.epochs) for _ in "ab")
        numbers = struct.pack(">iii", self.random.choice(self.leaders), *epochs)
        tags = {0: b"\x01"} if self.random.random() < 0.3 else {}
        tags |= {tag: writer.int32s(self._brokers()) for tag in (1, 2) if self.random.random() < 0.5}
        body = struct.pack(">i", partition) + topic_id + lists + numbers + self._directories(len(replicas))
        return writer.frame(3, 2, body + writer.tagged(tags))

    def _change(self) -> bytes:
        topics = [(topic_id, partitions) for topic_id, partitions in self.alive.values() if partitions]
        if not topics:
            return self._create()
        topic_id, partitions = self.random.choice(topics)
        partition = self.random.choice(sorted(partitions))
        fields = {tag: writer.int32s(self._brokers()) for tag in (0, 3, 4, 6, 7) if self.random.random() < 0.3}
        if self.random.random() < 0.4:
            fields[1] = struct.pack(">i", self.random.choice(self.leaders))
        if self.random.random() < 0.2:
            replicas = self._brokers(1)
            partitions[partition] = len(replicas)
            fields |= {2: writer.int32s(replicas), 8: self._directories(len(replicas))}
        elif self.random.random() < 0.2:
            fields[8] = self._directories(partitions[partition])
        if self.random.random() < 0.2:
            fields[5] = bytes([self.random.randrange(2)])
        value = struct.pack(">i", partition) + topic_id + writer.tagged(fields)
        return writer.frame(5, 2, value)

    def _brokers(self, least: int = 0) -> list[int]:
        return self.random.sample(self.brokers, self.random.randint(least, 4))

    def _directories(self, count: int) -> bytes:
        """One for each replica (MIGRATING, which is all zeros, among them) or none at all."""
        if self.random.random() < 0.2:
            count = 0
        ids = (self.random.choice((bytes(16), self.random.randbytes(16))) for _ in range(count))
        return writer.uvarint(count + 1) + b"".join(ids)
