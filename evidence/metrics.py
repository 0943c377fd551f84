"""Log-end offsets from the text that a JMX exporter serves (Prometheus or OpenMetrics text format).

Exporter rules differ from site to site, so the metric and label names are configurable: MetricNames.
"""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from evidence.errors import Damage


@dataclass(frozen=True, slots=True)
class MetricNames:
    """How this site's exporter spells what is read. Several spellings of a metric may be given."""

    log_end_offset: tuple[str, ...] = ("kafka_log_Log_LogEndOffset", "kafka_log_log_logendoffset")
    log_start_offset: tuple[str, ...] = ("kafka_log_Log_LogStartOffset", "kafka_log_log_logstartoffset")
    topic_label: str = "topic"
    partition_label: str = "partition"


@dataclass(frozen=True, slots=True)
class Sample:
    """One replica's value: field is 'log_end_offset' or 'log_start_offset', position the byte position of its line."""

    position: int
    field: str
    topic: str
    partition: int
    value: int


def read_metrics(data: bytes, names: MetricNames) -> tuple[list[Sample], list[Damage]]:
    """The samples of the metrics in `names`, other metrics left aside; damage for a line of them that cannot be read."""
    wanted = dict.fromkeys(names.log_end_offset, "log_end_offset") | dict.fromkeys(names.log_start_offset, "log_start_offset")
    samples: list[Sample] = []
    damage: list[Damage] = []
    position = 0
    for raw in data.splitlines(keepends=True):
        start, position = position, position + len(raw)
        metric = raw.split(b"{", 1)[0].split(b" ", 1)[0].decode("utf-8", "replace")
        if metric not in wanted:
            continue
        try:
            samples.append(_sample(raw.decode("utf-8").strip(), start, wanted[metric], names))
        except (ValueError, KeyError, UnicodeDecodeError) as error:
            damage.append(Damage(start, len(raw), None, "bad_metric", f"not a sample of {metric}: {error!r}"))
    return samples, damage


def _sample(text: str, position: int, field: str, names: MetricNames) -> Sample:
    (family,) = text_string_to_metric_families(text + "\n")
    (sample,) = family.samples
    value = int(sample.value)
    if value != sample.value or value < 0:
        raise ValueError(f"{sample.value} is not an offset")
    return Sample(position, field, sample.labels[names.topic_label], int(sample.labels[names.partition_label]), value)
