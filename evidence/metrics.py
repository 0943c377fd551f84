"""Log-end offsets from the text that a JMX exporter serves (Prometheus or OpenMetrics text format).

Exporter rules differ from site to site, so the metric and label names are configurable: MetricNames.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from evidence.errors import Damage
from evidence.text_files import MAX_INT32, MAX_INT64, text_lines

_METRIC = re.compile(rb"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)")
FUTURE_LABELS = ("is-future", "is_future", "isFuture")
_PARTITION = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class MetricNames:
    """How this site's exporter spells what is read. Several spellings of a metric may be given."""

    log_end_offset: tuple[str, ...] = ("kafka_log_Log_LogEndOffset", "kafka_log_log_logendoffset")
    log_start_offset: tuple[str, ...] = ("kafka_log_Log_LogStartOffset", "kafka_log_log_logstartoffset")
    topic_label: str = "topic"
    partition_label: str = "partition"

    def fields(self) -> dict[str, str]:
        """Metric -> Sample.field, of every metric that is read."""
        return {
            **dict.fromkeys(self.log_end_offset, "log_end_offset"),
            **dict.fromkeys(self.log_start_offset, "log_start_offset"),
        }


@dataclass(frozen=True, slots=True)
class Sample:
    """One replica's value: field is 'log_end_offset' or 'log_start_offset', position the byte position of its line."""

    position: int
    field: str
    topic: str
    partition: int
    value: int


def read_metrics(data: bytes, names: MetricNames) -> tuple[list[Sample], list[Damage]]:
    """The samples of the metrics in `names`, others left aside; damage for each line of those that cannot be read."""
    wanted = names.fields()
    samples: list[Sample] = []
    damage: list[Damage] = []
    for position, raw, ended in text_lines(data):
        found = _METRIC.match(raw)
        metric = found[1].decode() if found else ""
        if metric not in wanted:
            continue
        try:
            if not ended:
                raise ValueError("the line does not end: its value may lack digits")
            sample = _sample(raw.decode("utf-8").strip(), position, wanted[metric], names)
            if sample is not None:
                samples.append(sample)
        except (ValueError, LookupError, ArithmeticError) as error:
            damage.append(Damage(position, len(raw), None, "bad_metric", f"not a sample of {metric}: {error}"))
    return samples, damage


def _sample(text: str, position: int, field: str, names: MetricNames) -> Sample | None:
    """The sample of a line; None for a future replica, which is not yet one (KIP-113)."""
    (family,) = text_string_to_metric_families(text + "\n")
    (sample,) = family.samples
    if any(sample.labels.get(label) == "true" for label in FUTURE_LABELS):
        return None
    value = int(sample.value)
    if value != sample.value or not 0 <= value <= MAX_INT64:
        raise ValueError(f"{sample.value} is not an offset")
    for label in (names.topic_label, names.partition_label):
        if label not in sample.labels:
            raise ValueError(f"it has no label {label!r}; the names of metrics and labels are settings")
    topic, partition = sample.labels[names.topic_label], sample.labels[names.partition_label]
    if not topic or not _PARTITION.fullmatch(partition) or int(partition) > MAX_INT32:
        raise ValueError(f"topic {topic!r}, partition {partition!r} is no partition")
    return Sample(position, field, topic, int(partition), value)
