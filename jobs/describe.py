"""`describe`: a cluster's partitions at any point of history, as `kafka-topics --describe` prints them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from evidence.errors import KraftForensicsError
from jobs.lake import Lake
from jobs.output import utc

COLUMNS = (
    "topic",
    "topic_id",
    "partition",
    "leader",
    "leader_epoch",
    "partition_epoch",
    "replicas",
    "isr",
    "elr",
    "last_known_elr",
    "adding_replicas",
    "removing_replicas",
    "leader_recovery_state",
    "min_isr",
    "min_isr_source",
    "offset",
    "timestamp_ms",
)


def partitions_at(
    lake: Lake, cluster: str, topic: str | None, at_offset: int | None, at_time_ms: int | None
) -> list[dict[str, Any]]:
    """The states in force after the record at an offset (or time); the newest ones without either.

    Errors: KraftForensicsError when the topic never existed.
    """
    history = lake.table("partition_history", cluster)
    if topic is not None:
        history = history.where(F.col("topic") == topic)
        if history.isEmpty():
            raise KraftForensicsError(
                f"topic {topic!r} never existed in cluster {cluster}, as far as the captured log goes"
            )
    point, begin, end = at_offset, "offset", "end_offset"
    if at_time_ms is not None:
        point, begin, end = at_time_ms, "timestamp_ms", "end_timestamp_ms"
    valid = F.col(end).isNull()
    if point is not None:
        valid = (F.col(begin) <= point) & (valid | (F.col(end) > point))
    rows = history.where(valid & ~F.col("removed")).select(*COLUMNS).orderBy("topic", "partition", "offset")
    result: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return result


def as_kafka_topics(rows: list[dict[str, Any]]) -> str:
    """The rows in the form of `kafka-topics --describe`: a line a topic, an indented line a partition."""
    lines = []
    last = None
    for row in rows:
        if row["topic_id"] != last:
            last = row["topic_id"]
            mine = [r for r in rows if r["topic_id"] == last]
            lines.append(
                f"Topic: {row['topic']}\tTopicId: {last}\tPartitionCount: {len(mine)}\t"
                f"ReplicationFactor: {len(mine[0]['replicas'])}"
            )
        leader = "none" if row["leader"] == -1 else row["leader"]
        fields = [
            f"Topic: {row['topic']}", f"Partition: {row['partition']}", f"Leader: {leader}",
            f"Replicas: {_ids(row['replicas'])}", f"Isr: {_ids(row['isr'])}", f"Elr: {_ids(row['elr'])}",
            f"LastKnownElr: {_ids(row['last_known_elr'])}",
        ]  # fmt: skip
        if row["adding_replicas"]:
            fields.append(f"Adding Replicas: {_ids(row['adding_replicas'])}")
        if row["removing_replicas"]:
            fields.append(f"Removing Replicas: {_ids(row['removing_replicas'])}")
        fields += [f"SinceOffset: {row['offset']}", f"Since: {utc(row['timestamp_ms'])}"]
        lines.append("\t" + "\t".join(fields))
    return "\n".join(lines)


def _ids(replicas: list[int]) -> str:
    return ",".join(map(str, replicas))
