"""Read clean texts of Kafka and the JMX exporter as columns, many rows at a time.

A text with anything unusual gives None. It is left to the readers that go line by line, which are the reference.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evidence.offsets.columns import ENCODED
from evidence.offsets.jmx_exporter import (
    FUTURE_LABELS,
    IN_SYNC_REPLICAS_COUNT,
    OF_LEADERS,
    UNDER_MIN_ISR,
    MetricNames,
    is_of_collector,
)

_LINE_END = ord("\n")
# At most as many digits as always fit an int32 and an int64.
_TOPIC, _PARTITION, _OFFSET = rb"[a-zA-Z0-9._-]{1,249}", rb"[0-9]{1,9}", rb"[0-9]{1,18}"
_CHECKPOINT = re.compile(rb"0\n([0-9]{1,9})\n((?:%s %s %s\n)++)" % (_TOPIC, _PARTITION, _OFFSET))
# As Java prints a double; if it is digits only, no more than a double holds exactly.
_DOUBLE = rb"[0-9]{1,15}(?:\.[0-9]{1,17})?(?:E[0-9]{1,2})?"
_METRIC = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)="')
# Values from here on are impossible.
_BEYOND = {IN_SYNC_REPLICAS_COUNT: 2.0**31, UNDER_MIN_ISR: 2.0}
_BEYOND_OFFSETS = 2.0**63
_NO_ESCAPES = re.compile(rb"[ !#-\[\]-~]*")
_VALUE = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)="([^"]*)"')


def clean_checkpoint(data: bytes, column: str) -> pa.RecordBatch | None:
    """A checkpoint file ("topic partition offset" per line) with at least one entry and no error; else None.

    Columns: topic, partition, `column`, position; typed as in ENCODED.
    """
    found = _CHECKPOINT.fullmatch(data)
    if found is None:
        return None
    line_ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _LINE_END)
    starts = line_ends[1:-1] + 1
    if int(found[1]) != len(starts):
        return None
    words = found[2].split()
    partitions = _numbers(int, words[1::3])
    if len(set(zip(words[0::3], partitions.tolist(), strict=True))) < len(starts):
        return None
    values = {column: pa.array(_numbers(int, words[2::3]))}
    return _columns(words[0::3], partitions, starts, values)


def clean_metrics(data: bytes, names: MetricNames) -> pa.RecordBatch | None:
    """An exporter's text in which each sample of the metrics in `names` is plain; else None.

    Plain: all samples of a metric have the same labels in the same order, without escapes; the value is possible; there
    is no timestamp; a replica has one sample. Columns: topic, partition, position, and one for each metric in the text;
    typed as in ENCODED. A text with none of the metrics gives no rows.
    """
    fields = {metric.encode(): field for metric, field in names.fields().items()}
    if b"\0" in data or is_of_collector(data) or not all(map(_METRIC.fullmatch, fields)):
        return None
    found = [_samples_of(metric, field, data, names) for metric, field in fields.items()]
    if any(samples is None for samples in found):
        return None
    return _as_rows([samples for samples in found if samples is not None and samples.topics])


@dataclass(frozen=True, slots=True)
class _Samples:
    """The samples of one metric. topics: as in the text; the other arrays: int64."""

    field: str
    topics: Sequence[bytes] = ()
    partitions: Any = None
    positions: Any = None
    values: Any = None


def _samples_of(metric: bytes, field: str, data: bytes, names: MetricNames) -> _Samples | None:
    """All samples of a metric; None if one is not plain, or the metric's name occurs elsewhere, except in comments."""
    if metric not in data:
        return _Samples(field)
    # An exporter prints a metric's samples consecutively, so the rest of the text is skipped.
    begin, end = data.find(metric + b"{"), data.find(b"\n", data.rfind(metric)) + 1
    sample = _like_the_first(data, metric, begin, names) if begin >= 0 else None
    found = list(sample.finditer(data, begin, end)) if sample else []
    if len(found) != _mentions_at_most(metric, data) and len(found) != _mentions(metric, data):
        return None
    return _plain(data, field, found) if found else _Samples(field)


def _mentions_at_most(metric: bytes, data: bytes) -> int:
    """As `_mentions`, but also counts metrics whose names begin with this one's; faster."""
    return data.count(metric) - data.count(b"# HELP " + metric) - data.count(b"# TYPE " + metric)


def _mentions(metric: bytes, data: bytes) -> int:
    """The number of times a text names a metric, without its HELP and TYPE comments."""
    whole = metric + rb"(?![a-zA-Z0-9_:])"
    return len(re.findall(whole, data)) - len(re.findall(rb"# (?:HELP|TYPE) " + whole, data))


def _like_the_first(data: bytes, metric: bytes, begin: int, names: MetricNames) -> re.Pattern[bytes] | None:
    """A pattern for lines with the labels of the metric's first sample; None if the labels are not plain, or so long
    that the pattern would be slow."""
    first = re.compile(metric + rb"\{([^\n]{1,1000})\} ").match(data, begin)
    labels = [label.decode() for label in _LABEL.findall(first[1])] if first else []
    known = {names.topic_label: rb"(?P<topic>%s)" % _TOPIC, names.partition_label: rb"(?P<partition>%s)" % _PARTITION}
    unusual = [label for label in labels if label.startswith("__") or label in FUTURE_LABELS]
    if unusual or len(set(labels)) < len(labels) or len(known) < 2 or not known.keys() <= set(labels):
        return None
    values = dict(_VALUE.findall(first[1])) if first else {}
    if not all(_NO_ESCAPES.fullmatch(value) for value in values.values()):
        return None
    # Other labels tell what differs between processes: all samples have the same.
    texts = (known.get(label, re.escape(values.get(label.encode(), b""))) for label in labels)
    plain = b",".join(rb'%s="%s"' % (label.encode(), text) for label, text in zip(labels, texts, strict=True))
    return re.compile(rb"%s\{%s,?\} (?P<value>%s)\n" % (metric, plain, _DOUBLE))


def _plain(data: bytes, field: str, found: list[re.Match[bytes]]) -> _Samples | None:
    """The samples of the matches; None if one does not begin its line or has an impossible value, or if a replica has
    two."""
    topics, partitions, values = zip(*(m.group("topic", "partition", "value") for m in found), strict=True)
    starts, numbers = np.array([match.start() for match in found]), _numbers(float, values)
    begin_lines = (starts == 0) | (np.frombuffer(data, dtype=np.uint8)[starts - 1] == _LINE_END)
    if not begin_lines.all() or (numbers % 1).any() or numbers.max() >= _BEYOND.get(field, _BEYOND_OFFSETS):
        return None
    if len(set(zip(topics, partitions, strict=True))) < len(found):
        return None
    return _Samples(field, topics, _numbers(int, partitions), starts, numbers.astype(np.int64))


def _as_rows(found: list[_Samples]) -> pa.RecordBatch:
    """The samples in the order of the text, without a leader's metrics for partitions that this broker does not
    lead."""
    if not found:
        return pa.RecordBatch.from_pylist([], schema=ENCODED)
    found = sorted(found, key=lambda s: int(s.positions[0]))
    topics = [topic for s in found for topic in s.topics]
    partitions, positions, values = (
        np.concatenate([getattr(s, name) for s in found]) for name in ("partitions", "positions", "values")
    )
    of = {s.field: np.concatenate([np.full(len(o.topics), o.field == s.field) for o in found]) for s in found}
    by_field = {f: pa.array(values, mask=~rows).cast(ENCODED.field(f).type) for f, rows in of.items()}
    rows = _columns(topics, partitions, positions, by_field)
    nobody = np.zeros(len(rows), dtype=bool)
    follows = of.get(IN_SYNC_REPLICAS_COUNT, nobody) & (values == 0)
    if follows.any():
        places = rows["topic"].indices.to_numpy().astype(np.int64) << 32 | partitions
        kept = ~np.isin(places, places[follows])
        for field, is_of_field in of.items():
            kept |= is_of_field & (field not in OF_LEADERS)
        rows, positions = rows.filter(pa.array(kept)), positions[kept]
    in_order = (positions[1:] > positions[:-1]).all()
    return rows if in_order else rows.take(pa.array(np.argsort(positions)))


def _numbers(kind: type[int] | type[float], words: Sequence[bytes]) -> Any:
    return np.fromiter(map(kind, words), kind, len(words))


def _columns(topics: Sequence[bytes], partitions: Any, positions: Any, values: dict[str, pa.Array]) -> pa.RecordBatch:
    texts = pa.array(topics, type=pa.binary()).cast(pa.string())
    same = {"topic": texts.dictionary_encode(), "partition": pa.array(partitions).cast(pa.int32())}
    return pa.RecordBatch.from_pydict({**same, "position": pa.array(positions), **values})
