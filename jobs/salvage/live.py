"""The log of a running cluster as a consumer sees it: record by record, below the high watermark.

A consumer gets offset, leader epoch, timestamp, key, value and headers of a record. It gets no CRC, no producer id or
sequence, and no control batch: where one is, offsets are missing. Only reads: no group, no offset and no topic is made.

Sources: KIP-320 (a fetched record has its leader epoch; the answer to ListOffsets has the leader's), KIP-98 (isolation
levels; the last stable offset, up to which committed data is read), KIP-516 (topic ids).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from evidence.offsets.replica_copy import ReplicaCopy
from evidence.wire.data_records import NO_SEQUENCE, DataRecord
from evidence.wire.schema import uuid_text
from jobs.salvage.client import Connection
from jobs.salvage.errors import SalvageError
from replay.offsets.parted_logs import NO_EPOCH

if TYPE_CHECKING:
    from confluent_kafka import Message

_LEVELS = ("read_uncommitted", "read_committed")


class LiveRecord(NamedTuple):
    """epoch: its leader epoch, -1 in message formats 0 and 1. record: without a sequence (-1)."""

    epoch: int
    record: DataRecord


@dataclass(slots=True)
class LiveLog:
    """Of one partition. start: its log start offset; end: its high watermark; stable_end: its last stable offset;
    epoch: its leader's epoch, -1 if the cluster does not say. notes: what could not be compared."""

    cluster: LiveCluster
    topic: str
    partition: int
    topic_id: str | None
    start: int
    end: int
    stable_end: int
    epoch: int
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def place(self) -> str:
        return f"{self.name} at {self.cluster.bootstrap}"

    def note(self, text: str) -> None:
        self.notes.append(text)

    def records(self, begin: int, committed: bool = False) -> Generator[LiveRecord, None, None]:
        """From an offset to the end that it had when it was found. committed: without aborted and open transactions, to
        stable_end. Errors: SalvageError if the cluster does not give them in time, or no longer has the offset."""
        yield from self.cluster.records(self, max(begin, self.start), committed)

    def first(self, begin: int) -> LiveRecord | None:
        """The first record at or after an offset."""
        with closing(self.records(begin)) as found:
            return next(found, None)


class LiveCluster:
    """Errors: SalvageError, also of its methods, if it does not answer in time."""

    def __init__(self, bootstrap: str, config: Path | None = None) -> None:
        self._connection = Connection(bootstrap, config)
        from confluent_kafka.admin import AdminClient

        self._kafka, self.bootstrap = self._connection.kafka, bootstrap
        self._consumers: dict[str, Any] = {}
        with self._connection.errors_of(bootstrap):
            self._admin = AdminClient(self._connection.config)

    def logs(self, copies: Iterable[ReplicaCopy]) -> dict[str, LiveLog]:
        """The logs of these partitions by name, without those that the cluster does not have."""
        places = sorted({(copy.topic, copy.partition) for copy in copies})
        ids = self._topic_ids({topic for topic, _ in places}) if places else {}
        if not (here := [place for place in places if place in ids]):
            return {}
        starts, ends, stable = (self._offsets(here, which) for which in ("earliest", "latest", "stable"))
        found = {}
        for at in here:
            (start, _), (end, epoch) = starts[at], ends[at]
            log = LiveLog(self, *at, ids[at], start, end, stable[at][0], epoch)
            found[log.name] = log
        return found

    def _topic_ids(self, topics: set[str]) -> dict[tuple[str, int], str | None]:
        """By topic and partition."""
        found: dict[tuple[str, int], str | None] = {}
        names = self._kafka.TopicCollection(sorted(topics))
        asked = self._admin.describe_topics(names, request_timeout=self._connection.wait_s)
        for topic, answer in asked.items():
            with self._connection.errors_of(f"{topic} at {self.bootstrap}"):
                try:
                    of = self._result(answer)
                except self._kafka.KafkaException as error:
                    if error.args[0].code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue
                    raise
            bits = (of.topic_id.get_most_significant_bits(), of.topic_id.get_least_significant_bits())
            raw = b"".join(part.to_bytes(8, signed=part < 0) for part in bits)
            found |= {(topic, each.id): uuid_text(raw) if any(raw) else None for each in of.partitions}
        return found

    def _offsets(self, places: list[tuple[str, int]], which: str) -> dict[tuple[str, int], tuple[int, int]]:
        """(Offset, leader epoch) of each. which: earliest, latest or stable."""
        from confluent_kafka import IsolationLevel, admin

        specs: Any = admin
        spec = specs.OffsetSpec.earliest() if which == "earliest" else specs.OffsetSpec.latest()
        level = IsolationLevel.READ_COMMITTED if which == "stable" else IsolationLevel.READ_UNCOMMITTED
        asked = {self._at(topic, number): spec for topic, number in places}
        answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=self._connection.wait_s)
        found = {}
        for at, answer in answers.items():
            with self._connection.errors_of(f"{at.topic}-{at.partition} at {self.bootstrap}"):
                of = self._result(answer)
            found[(at.topic, at.partition)] = (of.offset, NO_EPOCH if of.leader_epoch is None else of.leader_epoch)
        return found

    def _result(self, answer: Any) -> Any:
        try:
            return answer.result()
        finally:
            self._admin.poll(0)  # what failed is reported to error_cb here

    def records(self, log: LiveLog, begin: int, committed: bool) -> Generator[LiveRecord, None, None]:
        end = log.stable_end if committed else log.end
        if begin >= end:
            return
        with self._connection.errors_of(log.place):
            consumer = self._consumer(_LEVELS[committed])
            consumer.assign([self._at(log.topic, log.partition, begin)])
            try:
                while (message := self._next(consumer, log)) is not None and (message.offset() or 0) < end:
                    yield _record(message)
            finally:
                consumer.unassign()

    def _consumer(self, level: str) -> Any:
        if level not in self._consumers:
            own = {"isolation_level": level, "auto_offset_reset": "error", "fetch_wait_max_ms": 100}
            self._consumers[level] = self._connection.consumer(**own)
        return self._consumers[level]

    def _next(self, consumer: Any, log: LiveLog) -> Any:
        """The next record, None at the log's end."""
        message = consumer.poll(self._connection.wait_s)
        if message is None:
            why = self._connection.why("no answer")
            raise SalvageError(f"{log.place}: not read to its end within {self._connection.wait_s:g} s: {why}")
        if (error := message.error()) is None:
            return message
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            return None
        raise SalvageError(f"{log.place}: {error.str()}")

    def _at(self, topic: str, partition: int, offset: int = 0) -> Any:
        return self._kafka.TopicPartition(topic, partition, offset)


def _record(message: Message) -> LiveRecord:
    kind, time_ms = message.timestamp()
    offset, epoch, found = message.offset(), message.leader_epoch(), message.headers()
    headers: Any = tuple(found or ())
    record = DataRecord(offset or 0, time_ms if kind else -1, NO_SEQUENCE, message.key(), message.value(), headers)
    return LiveRecord(NO_EPOCH if epoch is None else epoch, record)
