"""Read clean texts of Kafka and the JMX exporter as columns, many rows at a time.

A text with anything unusual gives None. It is left to the readers that go line by line, which are the reference.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.offsets.columns import ENCODED
from evidence.offsets.jmx_exporter import (
    FUTURE_LABELS,
    HIGH_WATERMARK,
    IN_SYNC_REPLICAS_COUNT,
    INEXACT_FROM,
    OF_LEADERS,
    UNDER_MIN_ISR,
    MetricNames,
    is_of_collector,
)

_LINE_END = ord("\n")
# In RE2's syntax: many repetitions take long to compile. At most as many digits as always fit an int32 and an int64.
_MOST_TOPIC_CHARS = 249
_TOPIC, _PARTITION, _OFFSET = "(?P<topic>[a-zA-Z0-9._-]+)", "(?P<partition>[0-9]{1,9})", "(?P<value>[0-9]{1,18})"
_ENTRY = f"^{_TOPIC} {_PARTITION} {_OFFSET}\n$"
_HEAD = re.compile(rb"0\n([0-9]{1,9})\n")
# As Java prints a double; if it is digits only, no more than a double holds exactly.
_DOUBLE = r"(?P<value>[0-9]{1,15}(?:\.[0-9]{1,17})?(?:E[0-9]{1,2})?)"
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([ !#-\[\]-~]*)"(?:,|$)')
# Values from here on are impossible.
_BEYOND = {IN_SYNC_REPLICAS_COUNT: 2.0**31, UNDER_MIN_ISR: 2.0}


def clean_checkpoint(data: bytes, column: str) -> pa.RecordBatch | None:
    """A checkpoint file ("topic partition offset" per line) with at least one entry and no error; else None.

    Columns: topic, partition, `column`, position; typed as in ENCODED.
    """
    head = _HEAD.match(data)
    if head is None or not data.endswith(b"\n"):
        return None
    starts, lines = _lines(data)
    count = len(lines) - 2
    found = _replicas(lines[2:], _ENTRY) if count > 0 and int(head[1]) == count else None
    if found is None:
        return None
    values = {column: found.pop("value").cast(pa.int64())}
    return pa.RecordBatch.from_pydict({**found, "position": pa.array(starts[2:]), **values})


def clean_metrics(data: bytes, names: MetricNames) -> pa.RecordBatch | None:
    """An exporter's text in which each sample of the metrics in `names` is plain; else None.

    Plain: all samples of a metric have the same labels in the same order, without escapes; the value is possible; there
    is no timestamp; a replica has one sample. Columns: topic, partition, position, and one for each metric in the text;
    typed as in ENCODED. A text with none of the metrics gives no rows.
    """
    fields = names.fields()
    if b"\0" in data or is_of_collector(data) or not data.endswith(b"\n"):
        return None
    if not all(map(_METRIC.fullmatch, fields)):
        return None
    starts, lines = _lines(data)
    named = pc.extract_regex(lines, pattern=r"^(?:\xEF\xBB\xBF)?[ \t\r\f\v]*(?P<metric>[a-zA-Z_:][a-zA-Z0-9_:]*)")
    wanted = pc.index_in(pc.struct_field(named, "metric"), pa.array(list(fields), pa.large_binary()))
    pieces = []
    for number, (metric, field) in enumerate(fields.items()):
        at = np.flatnonzero(pc.fill_null(pc.equal(wanted, number), False).to_numpy(zero_copy_only=False))
        if not len(at):
            continue
        if field == HIGH_WATERMARK:
            return None
        samples = lines.take(pa.array(at))
        pattern = _like_the_first(samples[0].as_py(), metric, names)
        found = None if pattern is None else _replicas(samples, pattern)
        if found is None:
            return None
        values = found.pop("value").cast(pa.float64()).to_numpy()
        if (values % 1).any() or values.max() >= _BEYOND.get(field, INEXACT_FROM):
            return None
        value = pa.array(values.astype(np.int64)).cast(ENCODED.field(field).type)
        pieces.append(pa.table({**found, "position": pa.array(starts[at]), field: value}))
    if not pieces:
        return pa.RecordBatch.from_pylist([], schema=ENCODED)
    rows = pa.concat_tables(pieces, promote_options="default").unify_dictionaries().combine_chunks().to_batches()[0]
    return _led(rows.take(pa.array(np.argsort(rows["position"].to_numpy()))))


def _lines(data: bytes) -> tuple[Any, pa.Array]:
    """(Where each line begins, the lines with their ends). data: ends with one."""
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _LINE_END) + 1
    bounds = np.append(0, ends).astype(np.int64)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    return bounds[:-1], pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)


def _replicas(lines: pa.Array, pattern: str) -> dict[str, pa.Array] | None:
    """topic, partition and value (a text) of each line; None if one does not match, or if a replica has two."""
    found = pc.extract_regex(lines, pattern=pattern)
    if found.null_count or pc.max(pc.binary_length(pc.struct_field(found, "topic"))).as_py() > _MOST_TOPIC_CHARS:
        return None
    texts = {name: pc.struct_field(found, name).cast(pa.string()) for name in ("topic", "partition", "value")}
    replicas = texts | {"topic": texts["topic"].dictionary_encode(), "partition": texts["partition"].cast(pa.int32())}
    return replicas if len(np.unique(_places(replicas))) == len(lines) else None


def _places(rows: dict[str, pa.Array] | pa.RecordBatch) -> Any:
    """A number for each row: equal numbers are the same partition."""
    return rows["topic"].indices.to_numpy().astype(np.int64) << 32 | rows["partition"].to_numpy()


def _like_the_first(line: bytes, metric: str, names: MetricNames) -> str | None:
    """A pattern for lines with the labels of the metric's first sample; None if the labels are not plain, or so long
    that the pattern would be slow."""
    first = re.match(re.escape(metric) + r"\{([^\n]{1,1000})\} ", line.decode("latin-1"))
    text = first[1].removesuffix(",") if first else ""
    labels = dict(_LABEL.findall(text))
    known = {names.topic_label: _TOPIC, names.partition_label: _PARTITION}
    unusual = [label for label in labels if label.startswith("__") or label in FUTURE_LABELS]
    # Other labels tell what differs between processes: all samples have the same.
    same = ",".join(f'{label}="{value}"' for label, value in labels.items())
    if unusual or same != text or len(known) < 2 or not known.keys() <= labels.keys():
        return None
    plain = ",".join(f'{label}="{known.get(label, re.escape(value))}"' for label, value in labels.items())
    return rf"^{metric}\{{{plain},?\}} {_DOUBLE}\n$"


def _led(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without a leader's metrics for partitions that this broker does not lead."""
    of = {name: rows[name] for name in OF_LEADERS if name in rows.schema.names}
    follows = pc.fill_null(pc.equal(of.get(IN_SYNC_REPLICAS_COUNT, pa.nulls(len(rows), pa.int32())), 0), False)
    if not pc.any(follows).as_py():
        return rows
    places = _places(rows)
    is_of_leader = np.any([column.is_valid() for column in of.values()], axis=0)
    return rows.filter(pa.array(~(is_of_leader & np.isin(places, places[np.array(follows)]))))
