"""Read a broker's metrics about its replicas from a JMX exporter's text (Prometheus or OpenMetrics text format), and
partitions' high watermarks from the text of an exporter of consumer lag.

Facts: kafka.log's LogEndOffset and LogStartOffset exist for each replica. kafka.cluster's InSyncReplicasCount and
UnderMinIsr (Kafka's Partition) are the leader's own view; a broker that does not lead shows 0 for both. Exporter rules
differ between sites, so the metric and label names are configurable: MetricNames.

An exporter of consumer lag asks the leaders for the latest offset, like a consumer, when it is scraped: kafka_exporter
(danielqsj, Exporter.Collect) and kminion (Exporter.Collect, ListOffsetsCached: once for each scrape). kafka_exporter
answers a scrape that begins while another one runs with what that one read, and a broker that is down delays it:
OLDER_MS. kafka-lag-exporter is not read: after a failed poll it repeats its last values for as long as polls fail.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from evidence.errors import Damage
from evidence.limits import MAX_INT32, MAX_INT64, MAX_TIME_MS, int32_of
from evidence.redaction import reason_for
from evidence.tables import Row
from evidence.text_files import text_lines

_METRIC = re.compile(rb"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)")
FUTURE_LABELS = ("is-future", "is_future", "isFuture")
IN_SYNC_REPLICAS_COUNT, UNDER_MIN_ISR = "in_sync_replicas_count", "under_min_isr"
# The leader's metrics: they are meaningless for a partition that this broker does not lead.
OF_LEADERS = (IN_SYNC_REPLICAS_COUNT, UNDER_MIN_ISR)
HIGH_WATERMARK = "high_watermark"
# The JMX exporter prints doubles: from here on, that of the next offset may be the same.
INEXACT_FROM = 2.0**53
# How long before its scrape a value of an exporter of consumer lag may have been read, and how long after its begin.
OLDER_MS, SCRAPE_MS = 300_000, 60_000
# field -> (the largest value, the error message for others); other fields are offsets.
_VALUES = {IN_SYNC_REPLICAS_COUNT: (MAX_INT32, "not a number of replicas"), UNDER_MIN_ISR: (1, "neither 0 nor 1")}
_OFFSET = (MAX_INT64, "not an offset")
# Labels by which Prometheus and other collectors tell the processes apart that they read.
_TARGETS = ("instance", "pod", "kubernetes_pod_name", "host", "hostname", "node", "broker", "broker_id")
# September 2001; in seconds a time is smaller.
_LEAST_MS = 10**12
Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class MetricNames:
    """The site's names of the metrics and labels that are read: the settings [metrics]. A metric may have several.

    high_watermark: of an exporter of consumer lag, each with its labels for topic and partition.
    """

    log_end_offset: tuple[str, ...]
    log_start_offset: tuple[str, ...]
    in_sync_replicas_count: tuple[str, ...]
    under_min_isr: tuple[str, ...]
    process_start_time_seconds: tuple[str, ...]
    topic_label: str
    partition_label: str
    high_watermark: Mapping[str, tuple[str, str]]

    def fields(self) -> dict[str, str]:
        """Metric -> column of tables.LOG_END_OFFSETS, for each metric that has a value per partition."""
        columns = ("log_end_offset", "log_start_offset", *OF_LEADERS, HIGH_WATERMARK)
        return {metric: column for column in columns for metric in getattr(self, column)}


def read_metrics(data: bytes, names: MetricNames) -> tuple[list[Row], list[Damage]]:
    """A log_end_offsets row for each sample of the metrics in `names`, with its replica and its value, at its line;
    and damage for each of their lines that cannot be read, and for each with zero bytes, which may have been one.

    The leader's metrics are left out for each partition with an InSyncReplicasCount of 0: this broker did not lead it.
    A sample with a timestamp has its own time (Prometheus' /federate, and others that repeat what they have read). A
    text of several processes, as these give, is damage as a whole: nothing says which broker a sample is from. So is
    one of several scrapes: of a replica's two values nothing says when each was read; and one of a collector without
    timestamps. High watermarks, which are of no broker, may come without timestamps, but of one cluster only and with
    none of a broker's metrics.
    """
    wanted = names.fields()
    rows: list[Row] = []
    damage: list[Damage] = []
    of_place: dict[tuple[str, str, int], Labels] = {}
    values: dict[tuple[object, ...], object] = {}
    targets: set[Labels] = set()
    from_collector = is_of_collector(data)
    for position, raw, ended in text_lines(data):
        if b"\0" in raw:
            message = "zero bytes: a stretch that was not written, or a text in UTF-16"
            damage.append(Damage(position, len(raw), None, "bad_metric", message))
            continue
        found = _METRIC.match(raw)
        metric = found[1].decode() if found else ""
        if metric not in wanted:
            continue
        try:
            if not ended:
                raise ValueError("the line does not end: its value may lack digits")
            sample = _sample(raw.decode("utf-8").strip())
            if any(sample.labels.get(label) == "true" for label in FUTURE_LABELS):
                continue
            row = row_of(sample, wanted[metric], names)
            others = {k: v for k, v in sample.labels.items() if k not in _place(metric, names)}
            labels = frozenset(others.items() - {(label, "false") for label in FUTURE_LABELS})
            of_lag = metric in names.high_watermark
            targets.add(
                labels | {("", metric)} if of_lag else frozenset(pair for pair in labels if pair[0] in _TARGETS)
            )
            if of_place.setdefault((metric, row["topic"], row["partition"]), labels) != labels or len(targets) > 1:
                message = "samples of several processes: nothing says which one each is from; store a text of each"
                return [], [Damage(0, len(data), None, "several_processes", message)]
            if from_collector and not of_lag and "captured_at_ms" not in row:
                message = "samples of a collector without timestamps: nothing says when it read the broker's"
                return [], [Damage(0, len(data), None, "several_processes", message)]
            at = (metric, row["topic"], row["partition"], row.get("captured_at_ms"))
            if values.setdefault(at, row[wanted[metric]]) != row[wanted[metric]]:
                message = f"byte {position}: another value of {metric} for one replica: store a text of each scrape"
                return [], [Damage(0, len(data), None, "several_scrapes", message)]
            rows.append({**row, "position": position})
        except (ValueError, LookupError, ArithmeticError) as error:
            message = f"not a sample of {metric}: {reason_for(error, raw)}"
            damage.append(Damage(position, len(raw), None, "bad_metric", message))
    not_led = {(row["topic"], row["partition"]) for row in rows if row.get(IN_SYNC_REPLICAS_COUNT) == 0}
    kept = [r for r in rows if r.keys().isdisjoint(OF_LEADERS) or (r["topic"], r["partition"]) not in not_led]
    return kept, damage


def is_of_collector(data: bytes) -> bool:
    """Whether a text has metrics of a runtime that no broker has: of a collector (Telegraf's prometheus_client), which
    read the broker's some time before, and started by itself."""
    return any(b"\n" + runtime in data or data.startswith(runtime) for runtime in (b"go_", b"python_"))


def process_start_ms(data: bytes, names: MetricNames) -> int | None:
    """The start time of the scraped process (process_start_time_seconds), by its own clock, in ms since the Unix epoch.
    None if the text has no such time, different ones, one outside 1970 to 9999, or is of no Java process."""
    if is_of_collector(data):
        return None
    found = {ms for line in _lines_of(data, names.process_start_time_seconds) if (ms := _start_ms(line)) is not None}
    return found.pop() if len(found) == 1 else None


def _lines_of(data: bytes, metrics: tuple[str, ...]) -> Iterator[bytes]:
    """The complete lines that begin with one of the metrics."""
    for metric in metrics:
        for found in re.finditer(rb"%s(?![a-zA-Z0-9_:])[^\n]*\n" % re.escape(metric.encode()), data):
            before = data[data.rfind(b"\n", 0, found.start()) + 1 : found.start()]
            if not before.strip():
                yield found[0]


def _start_ms(line: bytes) -> int | None:
    try:
        value = _sample(line.decode("utf-8").strip()).value
        start_ms = round(value * 1000) if math.isfinite(value) else 0
    except (ValueError, LookupError, ArithmeticError):
        return None
    return start_ms if 0 < start_ms <= MAX_TIME_MS else None


def _sample(text: str) -> Sample:
    (family,) = text_string_to_metric_families(text + "\n")
    (sample,) = family.samples
    # Of an exemplar the parser gives the exemplar's time.
    return sample._replace(timestamp=None) if " # " in text else sample


def _place(metric: str, names: MetricNames) -> tuple[str, str]:
    """The metric's labels of topic and partition."""
    return names.high_watermark.get(metric, (names.topic_label, names.partition_label))


def row_of(sample: Sample, field: str, names: MetricNames) -> Row:
    """The replica and the value of a sample, and its own time if it has one."""
    value = int(sample.value)
    maximum, problem = _VALUES.get(field, _OFFSET)
    is_exact = isinstance(sample.value, int) or sample.value < INEXACT_FROM
    if value != sample.value or not 0 <= value <= maximum or not is_exact:
        raise ValueError(f"{sample.value} is {problem}")
    place = _place(sample.name, names)
    for label in place:
        if label not in sample.labels:
            raise ValueError(f"label {label!r} is missing; metric and label names are settings")
    topic, partition = (sample.labels[label] for label in place)
    number = int32_of(partition)
    if not topic or number is None:
        raise ValueError(f"topic {topic!r}, partition {partition!r} is not a partition")
    row: Row = {"topic": topic, "partition": number, field: bool(value) if field == UNDER_MIN_ISR else value}
    return row if sample.timestamp is None else {**row, "captured_at_ms": _time_ms(float(sample.timestamp))}


def _time_ms(seconds: float) -> int | None:
    """The time of a sample; None for one that cannot be. seconds: as read from Prometheus' text, which prints ms;
    OpenMetrics prints seconds."""
    ms = round(seconds * 1000)
    ms = ms if ms >= _LEAST_MS else round(seconds * 1_000_000)
    return ms if _LEAST_MS <= ms <= MAX_TIME_MS else None
