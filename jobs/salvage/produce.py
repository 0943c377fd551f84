"""Produce salvaged records again: idempotent, with their own timestamps and headers and one that names their origin, at
most once however often it is repeated. Needs the extra `produce` (confluent-kafka).

A ledger beside the records has the ends of the target's partitions before the first record was sent, and each record
that was acknowledged. A repeated run reads the target from those ends on: what it finds there by its origin was sent.

Sources: librdkafka's CONFIGURATION.md (enable.idempotence, message.timeout.ms), KIP-32 (timestamps; a topic with
message.timestamp.type=LogAppendTime replaces them).
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from jobs.salvage.live import LiveCluster, LiveLog, SalvageError
from jobs.salvage.output import RECORDS, SUMMARY
from replay.offsets.parted_logs import ABORTED, OPEN_TRANSACTION

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

Row = dict[str, Any]
_CLEANUP, _COMPACT = "cleanup.policy", "compact"
LEDGER, ORIGIN = "produced.jsonl", "kraft-forensics-origin"
_SETTLE_S, _AT_ONCE = 5.0, 1000


@dataclass(slots=True)
class Produced:
    """Numbers of records. left_out: by reason; before: were sent by an earlier run."""

    to_send: int
    left_out: Counter[str]
    before: int = 0
    sent: int = 0


def produce(
    folder: Path,
    cluster: LiveCluster,
    topic: str,
    send: bool,
    into_original: bool = False,
    superseded: bool | None = None,
) -> Produced:
    """Send the records of a folder that `salvage` wrote to a topic; with send false only count them, and ask for the
    topic. into_original: allow the topic that the records are from. superseded: also send a record whose key has a
    newer value; None: unless the topic is known to be compacted.

    Errors: SalvageError at the first record that is not acknowledged, or for a topic that cannot be used.
    """
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SalvageError(f"{folder}: holds no records that `salvage --output` wrote: {error}") from error
    topics = {row["topic"] for row in summary["partitions"]}
    if len(topics) != 1:
        raise SalvageError(f"{folder}: has {len(topics)} topics: salvage one at a time (--partition) to produce them.")
    if topic in topics and not into_original:
        raise SalvageError(f"{topic} is the topic that lost the records: --into-original allows that.")
    logs = _logs(cluster, topic)
    config = cluster.topic_config(topic)
    if superseded is None and into_original and _COMPACT in config.get(_CLEANUP, _COMPACT):
        superseded = False
    left_out = Counter[str]()
    chosen = partial(_chosen, folder, summary, superseded, left_out)
    result = Produced(sum(1 for _ in chosen()), left_out)
    _refuse_short_retention(topic, config, chosen())
    missing = [row["partition"] for row in summary["partitions"] if row["partition"] not in logs]
    if missing:
        raise SalvageError(f"{topic} has {len(logs)} partitions, and none with number {missing[0]}.")
    ledger = _Ledger(folder / LEDGER, topic)
    if send:
        ledger.begin({number: log.end for number, log in sorted(logs.items())})
    sent = set(ledger.sent)
    for number, end in (ledger.ends or {}).items():
        headers = (h for each in logs[number].records(end) for h in each.record.headers) if number in logs else ()
        sent |= {value.decode() for name, value in headers if name == ORIGIN and value}
    result.before = sum(1 for row in chosen() if _origin(row) in sent)
    if send:
        result.sent = _send(cluster, (row for row in chosen() if _origin(row) not in sent), ledger)
    return result


def _refuse_short_retention(topic: str, config: dict[str, str], chosen: Iterator[Row]) -> None:
    """Errors: SalvageError for records that the broker would delete again. By the time that they keep they are as old
    as they were (UnifiedLog.deleteRetentionMsBreachedSegments, 4.3.1)."""
    kept_ms = int(config.get("retention.ms", -1))
    deletes = "delete" in config.get(_CLEANUP, "") and config.get("message.timestamp.type") != "LogAppendTime"
    if not deletes or kept_ms < 0:
        return
    oldest_ms = time.time() * 1000 - kept_ms
    old = sum(1 for row in chosen if row["timestamp_ms"] is not None and row["timestamp_ms"] < oldest_ms)
    if old:
        raise SalvageError(
            f"{topic}: {old} of the records are older than its retention.ms={kept_ms}: it would delete them again. Set "
            "retention.ms=-1 for it, or name another topic."
        )


def _origin(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}@{row['offset']}"


def _chosen(folder: Path, summary: Row, superseded: bool | None, left_out: Counter[str]) -> Iterator[Row]:
    """The records to send, partition by partition in order of their offsets. left_out: is filled with why others are
    not."""
    left_out.clear()
    for of in summary["partitions"]:
        send_all = not of["compacted"] if superseded is None else superseded
        path = folder / f"{of['topic']}-{of['partition']}" / RECORDS
        for part in pq.ParquetFile(path).iter_batches(_AT_ONCE):
            for row in part.to_pylist():
                if (why := _why_not(row, send_all)) is None:
                    yield row
                else:
                    left_out[why] += 1


def _why_not(row: Row, superseded: bool) -> str | None:
    if row["transaction"] in (ABORTED, OPEN_TRANSACTION):
        return f"in an {row['transaction']} transaction"
    if row["sent_again_offset"] is not None:
        return "sent again by its producer"
    return "its key has a newer value" if row["newer_offset"] is not None and not superseded else None


class _Ledger:
    """ends: of the target's partitions before the first record was sent; None before that. sent: origins of records
    that were acknowledged."""

    def __init__(self, path: Path, topic: str) -> None:
        self.path, self.topic = path, topic
        self.ends: dict[int, int] | None = None
        self.sent = set[str]()
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else ():
            with suppress(ValueError):  # a line that was being written when the program ended
                row = json.loads(line)
                if "topic" not in row:
                    self.sent.add(row["sent"])
                elif row["topic"] != topic:
                    raise SalvageError(f"{path}: these records were sent to {row['topic']} before, not to {topic}.")
                else:
                    self.ends = {int(number): end for number, end in row["ends"].items()}

    def begin(self, ends: dict[int, int]) -> None:
        if self.ends is None:
            self.ends = ends
            self.write({"topic": self.topic, "ends": ends})

    def write(self, *rows: Row) -> None:
        """On the disk when it returns."""
        torn = self.path.exists() and self.path.read_bytes()[-1:] not in (b"", b"\n")
        with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as out:
            out.write(("\n" if torn else "") + "".join(json.dumps(row) + "\n" for row in rows))
            out.flush()
            os.fsync(out.fileno())


def _logs(cluster: LiveCluster, topic: str) -> dict[int, LiveLog]:
    """The topic's logs, by their partitions' numbers."""
    deadline = time.monotonic() + _SETTLE_S  # a broker may not have heard yet of a topic that was just created
    while not (places := cluster.topic_ids({topic})):
        if time.monotonic() > deadline:
            raise SalvageError(f"{topic}: the cluster does not have it. Create the topic first.")
        time.sleep(0.2)
    return {log.partition: log for log in cluster.logs(places).values()}


def _send(cluster: LiveCluster, rows: Iterator[Row], ledger: _Ledger) -> int:
    """Send to the ledger's topic in order; each thousand is acknowledged before the next is sent. Returns how many
    were."""
    own = {"enable.idempotence": True, "acks": "all", "compression.type": "none", "linger.ms": 5}
    with cluster.errors_of(ledger.topic):
        producer = cluster.kafka.Producer({**cluster.config, **own})
    count = 0
    while batch := list(islice(rows, _AT_ONCE)):
        count += _send_batch(cluster, producer, batch, ledger)
    return count


def _send_batch(cluster: LiveCluster, producer: Any, rows: list[Row], ledger: _Ledger) -> int:
    acknowledged, failed = list[Row](), list[str]()

    def answered(origin: str, error: "KafkaError | None", message: "Message") -> None:
        if error is None:
            acknowledged.append({"sent": origin, "partition": message.partition(), "offset": message.offset()})
        else:
            failed.append(f"{origin}: {error.str()}")

    try:
        for row in rows:
            origin = _origin(row)
            headers = [*((h["key"], h["value"]) for h in row["headers"]), (ORIGIN, origin.encode())]
            time_ms = {"timestamp": row["timestamp_ms"]} if row["timestamp_ms"] else {}
            producer.produce(
                ledger.topic,
                row["value"],
                row["key"],
                row["partition"],
                headers=headers,
                on_delivery=lambda error, message, origin=origin: answered(origin, error, message),
                **time_ms,
            )
            producer.poll(0)
            if failed:
                break
        if failed:
            producer.purge()
        producer.flush()
    except (cluster.kafka.KafkaException, BufferError) as error:
        failed.append(str(error))
    finally:
        ledger.write(*acknowledged)
    if failed or len(acknowledged) != len(rows):
        why = failed[0] if failed else cluster.why("not acknowledged")
        raise SalvageError(f"{ledger.topic}: stopped at the first error: {why}. Run it again to continue.")
    return len(acknowledged)
