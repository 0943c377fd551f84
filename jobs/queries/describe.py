"""`describe`: show a cluster's partitions at any point in history, as `kafka-topics --describe` prints them."""

from itertools import groupby
from typing import Any

import pyarrow.compute as pc
from rich.cells import cell_len

from jobs.console.output import printable, utc
from jobs.incident.lookup import require_topic
from jobs.lake.lake import Lake

COLUMNS = (
    *("cluster_id", "topic", "topic_id", "partition"),
    *("leader", "leader_epoch", "partition_epoch"),
    *("replicas", "isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas", "leader_recovery_state"),
    *("min_isr", "min_isr_source", "offset", "timestamp_ms"),
)


def partitions_at(
    lake: Lake, cluster: str, topic: str | None, at_offset: int | None, at_time_ms: int | None
) -> list[dict[str, Any]]:
    """The states after the record at an offset, or at a time, as far as they are known; without either, the newest
    states. Starts no JVM.

    Errors: as `require_topic`.
    """
    point, begin, end = at_offset, pc.field("offset"), pc.field("end_offset")
    goes_on = end.is_null()
    if at_time_ms is not None:
        # Of a state that ends at a gap only the offset of its end is known.
        later = lake.read("log_batches", cluster, ("base_offset",), pc.field("max_timestamp_ms") >= at_time_ms)
        first = pc.min(later["base_offset"])
        point, begin, end = at_time_ms, pc.field("timestamp_ms"), pc.field("end_timestamp_ms")
        goes_on |= end.is_null() & (pc.field("end_offset") > first)
    valid = goes_on if point is None else (begin <= point) & (goes_on | (end > point))
    wanted = valid & ~pc.field("removed")
    wanted = wanted if topic is None else wanted & (pc.field("topic") == topic)
    rows = lake.read("partition_history", cluster, COLUMNS, wanted)
    if not len(rows):
        require_topic(lake, cluster, topic)
    order = [(name, "ascending") for name in ("topic", "topic_id", "partition", "offset")]
    return rows.sort_by(order).to_pylist()


def outside_log(log: dict[str, Any], at_offset: int | None, at_time_ms: int | None) -> str | None:
    """A sentence if an offset or time lies outside the captured log; None if it does not. log: of `log_range`."""
    names = ("first_offset", "last_offset") if at_time_ms is None else ("from_ms", "until_ms")
    point, (first, last) = at_offset if at_time_ms is None else at_time_ms, (log[name] for name in names)
    if point is None:
        return None
    if first is None or last is None:
        return "no batch of the metadata log was captured: the states are those of a snapshot"
    begin, end = utc(log["from_ms"]), utc(log["until_ms"])
    what = f"metadata offset {point}" if at_time_ms is None else utc(point)
    span = f"it goes from {begin} (metadata offset {log['first_offset']}) to {end} ({log['last_offset']})"
    if point > last:
        return f"{what} is after the end of the captured log: {span}. Later states are not known."
    if point < first:
        return f"{what} is before the start of the captured log: {span}. Only what a snapshot holds is known of then."
    return None


def as_kafka_topics(rows: list[dict[str, Any]], width: int | None = None) -> str:
    """Format rows like `kafka-topics --describe`: a line per topic, an indented line per partition. width: of the
    terminal, None if it is not known: longer lines are broken between two fields."""
    lines = []
    for topic_id, group in groupby(rows, key=lambda r: r["topic_id"]):
        partitions = list(group)
        counts = f"PartitionCount: {len(partitions)}", f"ReplicationFactor: {len(partitions[0]['replicas'])}"
        lines.append(_line([f"Topic: {partitions[0]['topic']}", f"TopicId: {topic_id}", *counts], "", width))
        lines += [_line(_partition(row), "\t", width) for row in partitions]
    return "\n".join(lines)


def _partition(row: dict[str, Any]) -> list[str]:
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
    return [*fields, f"Since: {utc(row['timestamp_ms'])}", f"SinceOffset: {row['offset']}"]


def _line(fields: list[str], indent: str, width: int | None) -> str:
    """Join fields with tabs; characters in a captured name that could end the line or a field are escaped. width: of
    the terminal: a longer line is broken between two fields."""
    first, *others = map(printable, fields)
    lines = [indent + first]
    for text in others:
        longer = f"{lines[-1]}\t{text}"
        if width is None or cell_len(longer.expandtabs()) <= width:
            lines[-1] = longer
        else:
            lines.append(f"{indent}\t{text}")
    return "\n".join(lines)


def _ids(replicas: list[int]) -> str:
    return ",".join(map(str, replicas))
