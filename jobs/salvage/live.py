"""The log of a running cluster as a consumer sees it: record by record, below the high watermark, by confluent-kafka
(the extra `produce`).

A consumer gets offset, leader epoch, timestamp, key, value and headers of a record. It gets no CRC, no producer id or
sequence, and no control batch: where one is, offsets are missing. Only reads: no group, no offset and no topic is made.

Sources: KIP-320 (a fetched record has its leader epoch; the answer to ListOffsets has the leader's), KIP-98 (isolation
levels; the last stable offset, up to which committed data is read), KIP-516 (topic ids); librdkafka's CONFIGURATION.md.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from evidence.errors import KraftForensicsError
from evidence.text_files import read_properties
from evidence.wire.data_records import NO_SEQUENCE, DataRecord
from evidence.wire.schema import uuid_text
from replay.offsets.parted_logs import NO_EPOCH

if TYPE_CHECKING:
    from confluent_kafka import Message

Place = tuple[str, int]  # topic, partition
_LEVELS = ("read_uncommitted", "read_committed")
# No consumer group is joined, and no offset committed. A consumer is given its partitions by `assign`.
_READER = {"group.id": "kraft-forensics", "enable.auto.commit": False, "enable.partition.eof": True}
_READER |= {"auto.offset.reset": "error", "fetch.wait.max.ms": 100}
_TIMEOUT, _TIMEOUT_MS = "socket.timeout.ms", 30_000


class LiveRecord(NamedTuple):
    """epoch: its leader epoch, -1 in message formats 0 and 1. record: without a sequence (-1)."""

    epoch: int
    record: DataRecord


@dataclass(slots=True)
class LiveLog:
    """Of one partition. start: its log start offset; end: its high watermark; stable_end: its last stable offset;
    epoch: its leader's epoch, -1 if the cluster does not say. notes: what could not be compared."""

    cluster: "LiveCluster"
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
    """bootstrap: HOST:PORT,... of brokers. file: properties of librdkafka; None: none. wait_s: how long an answer may
    take, socket.timeout.ms of the file or 30 s. config: properties of every client.

    Errors: SalvageError without confluent-kafka, for a file or a property that cannot be used, and of all methods if
    the cluster does not answer in time.
    """

    def __init__(self, bootstrap: str, file: Path | None = None) -> None:
        try:
            import confluent_kafka
            from confluent_kafka.admin import AdminClient
        except ImportError as error:
            raise SalvageError("confluent-kafka is missing: pip install 'kraft-forensics[produce]'.") from error
        self.kafka, self.bootstrap = confluent_kafka, bootstrap
        try:
            own = read_properties(file.read_bytes()) if file else {}
        except OSError as error:
            raise SalvageError(f"{file}: cannot be read: {error.strerror}") from error
        timeout = own.get(_TIMEOUT, str(_TIMEOUT_MS))
        if not timeout.isdecimal():
            raise SalvageError(f"{file}: {_TIMEOUT}={timeout} is no number of milliseconds.")
        self.wait_s = int(timeout) / 1000
        self._failures: list[str] = []
        self.config: dict[str, Any] = {**own, "bootstrap.servers": bootstrap, "log_level": 0}
        self.config["error_cb"] = lambda error: self._failures.append(error.str())
        self._consumers: dict[str, Any] = {}
        with self.errors_of(bootstrap):
            self._admin = AdminClient(self.config)

    def why(self, otherwise: str) -> str:
        """What failed last, by the library's own report."""
        return (self._failures[-1:] or [otherwise])[0]

    @contextmanager
    def errors_of(self, what: str) -> Iterator[None]:
        """Errors of the library as SalvageError that begins with `what`."""
        try:
            yield
        except self.kafka.KafkaException as error:
            raise SalvageError(f"{what}: {self.why(error.args[0].str())}") from error

    def logs(self, places: Iterable[Place]) -> dict[str, LiveLog]:
        """The logs of these partitions by name, without those that the cluster does not have."""
        wanted = sorted(set(places))
        ids = self.topic_ids({topic for topic, _ in wanted}) if wanted else {}
        if not (here := [place for place in wanted if place in ids]):
            return {}
        starts, ends, stable = (self._offsets(here, which) for which in ("earliest", "latest", "stable"))
        found = {}
        for at in here:
            (start, _), (end, epoch) = starts[at], ends[at]
            log = LiveLog(self, *at, ids[at], start, end, stable[at][0], epoch)
            found[log.name] = log
        return found

    def topic_ids(self, topics: set[str]) -> dict[Place, str | None]:
        """The topic id of each partition that the cluster has of these topics."""
        found: dict[Place, str | None] = {}
        names = self.kafka.TopicCollection(sorted(topics))
        for topic, answer in self._admin.describe_topics(names, request_timeout=self.wait_s).items():
            of = self._result(topic, answer, self.kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)
            if of is None:
                continue
            bits = (of.topic_id.get_most_significant_bits(), of.topic_id.get_least_significant_bits())
            raw = b"".join(part.to_bytes(8, signed=part < 0) for part in bits)
            found |= {(topic, each.id): uuid_text(raw) if any(raw) else None for each in of.partitions}
        return found

    def topic_config(self, topic: str) -> dict[str, str]:
        """The effective configs of a topic; {} if the user may not describe them."""
        from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined] # public by its documentation

        asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
        (answer,) = self._admin.describe_configs([asked], request_timeout=self.wait_s).values()
        found = self._result(topic, answer, self.kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED) or {}
        return {name: entry.value for name, entry in found.items() if entry.value is not None}

    def _offsets(self, places: list[Place], which: str) -> dict[Place, tuple[int, int]]:
        """(Offset, leader epoch) of each. which: earliest, latest or stable."""
        from confluent_kafka import IsolationLevel, admin

        specs: Any = admin
        spec = specs.OffsetSpec.earliest() if which == "earliest" else specs.OffsetSpec.latest()
        level = IsolationLevel.READ_COMMITTED if which == "stable" else IsolationLevel.READ_UNCOMMITTED
        asked = {self.kafka.TopicPartition(*place): spec for place in places}
        found = {}
        for at, answer in self._admin.list_offsets(asked, isolation_level=level, request_timeout=self.wait_s).items():
            of = self._result(f"{at.topic}-{at.partition}", answer)
            found[(at.topic, at.partition)] = (of.offset, NO_EPOCH if of.leader_epoch is None else of.leader_epoch)
        return found

    def _result(self, of: str, answer: Any, no_error: int | None = None) -> Any:
        """of: what the answer is about; no_error: a code for which it is None."""
        with self.errors_of(f"{of} at {self.bootstrap}"):
            try:
                return answer.result()
            except self.kafka.KafkaException as error:
                if error.args[0].code() == no_error:
                    return None
                raise
            finally:
                self._admin.poll(0)  # what failed is reported to error_cb here

    def records(self, log: LiveLog, begin: int, committed: bool) -> Generator[LiveRecord, None, None]:
        end, level = log.stable_end if committed else log.end, _LEVELS[committed]
        if begin >= end:
            return
        with self.errors_of(log.place):
            if level not in self._consumers:
                self._consumers[level] = self.kafka.Consumer({**self.config, **_READER, "isolation.level": level})
            consumer = self._consumers[level]
            consumer.assign([self.kafka.TopicPartition(log.topic, log.partition, begin)])
            try:
                while (message := self._next(consumer, log)) is not None and (message.offset() or 0) < end:
                    yield _record(message)
            finally:
                consumer.unassign()

    def _next(self, consumer: Any, log: LiveLog) -> Any:
        """The next record, None at the log's end."""
        message = consumer.poll(self.wait_s)
        if message is None:
            raise SalvageError(f"{log.place}: not read to its end within {self.wait_s:g} s: {self.why('no answer')}")
        if (error := message.error()) is None:
            return message
        if error.code() == self.kafka.KafkaError._PARTITION_EOF:
            return None
        raise SalvageError(f"{log.place}: {error.str()}")


def _record(message: "Message") -> LiveRecord:
    kind, time_ms = message.timestamp()
    offset, epoch, found = message.offset(), message.leader_epoch(), message.headers()
    headers: Any = tuple(found or ())
    record = DataRecord(offset or 0, time_ms if kind else -1, NO_SEQUENCE, message.key(), message.value(), headers)
    return LiveRecord(NO_EPOCH if epoch is None else epoch, record)


class SalvageError(KraftForensicsError):
    """Nothing can be salvaged: a copy, a cluster, an output or an option that cannot be used."""
