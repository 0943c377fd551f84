"""Texts as Kafka and the JMX exporter write them, read as columns. A text with anything unusual in it is not read here
(None): the readers that go line by line are the reference, and whatever is in doubt is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from evidence.metrics import FUTURE_LABELS, MetricNames
from evidence.offset_columns import ENCODED

_LINE_END = ord("\n")
# No more digits than an int32 and an int64 hold, whatever they are.
_TOPIC, _PARTITION, _OFFSET = rb"[a-zA-Z0-9._-]{1,249}", rb"[0-9]{1,9}", rb"[0-9]{1,18}"
_CHECKPOINT = re.compile(rb"0\n([0-9]{1,9})\n((?:%s %s %s\n)++)" % (_TOPIC, _PARTITION, _OFFSET))
# As Java prints a double; of digits alone there are no more than a double holds exactly.
_DOUBLE = rb"[0-9]{1,15}(?:\.[0-9]{1,17})?(?:E[0-9]{1,2})?"
_METRIC = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)="')
_NO_ESCAPES = rb"[ !#-\[\]-~]*"


def clean_checkpoint(data: bytes, column: str) -> pa.RecordBatch | None:
    """A checkpoint file ("topic partition offset" a line) with one entry or more and nothing wrong. Columns: topic,
    partition, the one that is named, position; typed as in ENCODED."""
    found = _CHECKPOINT.fullmatch(data)
    if found is None:
        return None
    line_ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _LINE_END)
    starts = line_ends[1:-1] + 1
    if int(found[1]) != len(starts):
        return None
    words = found[2].split()
    return _columns(words[0::3], words[1::3], starts, {column: pa.array(_numbers(int, words[2::3]))})


def clean_metrics(data: bytes, names: MetricNames) -> pa.RecordBatch | None:
    """An exporter's text in which every sample of the metrics in `names` is plain: all have the same labels in one
    order, without escapes, a value that is an offset, and no timestamp. Columns: topic, partition, log_end_offset,
    log_start_offset, position; typed as in ENCODED. A text that has none of the metrics gives no rows."""
    fields = {metric.encode(): field for metric, field in names.fields().items()}
    metric = rb"(?:%s)(?![a-zA-Z0-9_:])" % b"|".join(map(re.escape, fields))
    if not all(map(_METRIC.fullmatch, fields)):
        return None
    mentions = len(re.findall(metric, data))
    if not mentions:
        return pa.RecordBatch.from_pylist([], schema=ENCODED)
    sample = _like_the_first(data, metric, names)
    found = list(sample.finditer(data)) if sample else []
    # Whatever names one of the metrics is a sample that was found, or a comment: nothing was passed over.
    comments = len(re.findall(rb"# (?:HELP|TYPE) " + metric, data))
    return _samples(data, fields, found) if found and len(found) + comments == mentions else None


def _like_the_first(data: bytes, metric: bytes, names: MetricNames) -> re.Pattern[bytes] | None:
    """A line with the labels of the first sample; None where these are not plain, or so long that the pattern would
    take its time."""
    first = re.search(metric + rb"\{([^\n]{1,1000})\} ", data)
    labels = [label.decode() for label in _LABEL.findall(first[1])] if first else []
    known = {names.topic_label: rb"(?P<topic>%s)" % _TOPIC, names.partition_label: rb"(?P<partition>%s)" % _PARTITION}
    unusual = [label for label in labels if label.startswith("__") or label in FUTURE_LABELS]
    if unusual or len(set(labels)) < len(labels) or len(known) < 2 or not known.keys() <= set(labels):
        return None
    plain = b",".join(rb'%s="%s"' % (label.encode(), known.get(label, _NO_ESCAPES)) for label in labels)
    return re.compile(rb"(?P<metric>%s)\{%s,?\} (?P<value>%s)\n" % (metric, plain, _DOUBLE))


def _samples(data: bytes, fields: dict[bytes, str], found: list[re.Match[bytes]]) -> pa.RecordBatch | None:
    """The columns of what was found; None if one does not begin its line or is no offset."""
    groups = (match.group("metric", "topic", "partition", "value") for match in found)
    metrics, topics, partitions, values = zip(*groups, strict=True)
    starts, numbers = np.array([match.start() for match in found]), _numbers(float, values)
    begin_lines = (starts == 0) | (np.frombuffer(data, dtype=np.uint8)[starts - 1] == _LINE_END)
    if not begin_lines.all() or (numbers % 1).any() or numbers.max() >= 2.0**63:
        return None
    field_of, offsets = np.array([fields[metric] for metric in metrics]), numbers.astype(np.int64)
    by_field = {field: pa.array(offsets, mask=field_of != field) for field in set(fields.values())}
    return _columns(topics, partitions, starts, by_field)


def _numbers(kind: type[int] | type[float], words: Sequence[bytes]) -> Any:
    return np.fromiter(map(kind, words), kind, len(words))


def _columns(
    topics: Sequence[bytes], partitions: Sequence[bytes], positions: Any, values: dict[str, pa.Array]
) -> pa.RecordBatch:
    texts = pa.array(topics, type=pa.binary()).cast(pa.string())
    same = {"topic": texts.dictionary_encode(), "partition": pa.array(_numbers(int, partitions)).cast(pa.int32())}
    return pa.RecordBatch.from_pydict({**same, "position": pa.array(positions), **values})
