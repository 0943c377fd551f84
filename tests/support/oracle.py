"""A partition history against what Kafka's own classes replayed (`Oracle replay`), column by column."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from replay.arrow.schemas import INT32_LIST, PARTITION_HISTORY
from tests.support.paths import ORACLE

KEY = ("offset", "topic_id", "partition")
STATE = ("replicas", "isr", "removing_replicas", "adding_replicas", "elr", "last_known_elr", "leader")
STATE += ("leader_recovery_state", "leader_epoch", "partition_epoch", "directories")
_NAMES = (*KEY, "timestamp_ms", "controller_epoch", "topic", *STATE)
_TYPES = {"timestamp_ms": "timestamp"}
_LINES = pa.schema(
    [*(pa.field(_TYPES.get(n, n), PARTITION_HISTORY.field(n).type) for n in _NAMES), pa.field("removed", pa.bool_())]
)


def read_replay(lines: Path) -> pa.Table:
    """The oracle's lines, in their order; a field that this file does not know is an error, not left out."""
    parse = json.ParseOptions(explicit_schema=_LINES, unexpected_field_behavior="error")
    with pa.input_stream(lines, compression="gzip" if lines.suffix == ".gz" else None) as stream:
        table = json.read_json(stream, parse_options=parse)
    return table.rename_columns({"timestamp": "timestamp_ms"})


def captured_replay(capture: str, node: int) -> pa.Table:
    """What the oracle replayed from one controller's first checkpoint and segment of a real capture."""
    return read_replay(ORACLE / f"{capture}-{node}-replay.jsonl.gz")


def assert_equals_replay(history: pa.Table, expected: pa.Table) -> None:
    """Every state row for row, and every removal of every partition that the topic had.

    history: tables.PARTITION_HISTORY (further columns are ignored), in any order.
    """
    gone = history["removed"]
    removal = pc.fill_null(expected["removed"], False)
    states = _sorted(history.filter(pc.invert(gone)).select(_NAMES))
    wanted = _sorted(expected.filter(pc.invert(removal)).select(_NAMES))
    if len(states) != len(wanted):
        found, known = _keys(states), _keys(wanted)
        raise AssertionError(f"missing: {sorted(known - found)[:5]}; not Kafka's: {sorted(found - known)[:5]}")
    for name in _NAMES:
        # Kafka iterates a hash set: the ELR is a set.
        actual, want = (_as_sets(t[name]) if name == "elr" else t[name].combine_chunks() for t in (states, wanted))
        if not actual.equals(want):
            row = next(i for i in range(len(want)) if actual[i] != want[i])
            raise AssertionError(f"{name}: {actual[row]}, not {want[row]}, in\n{states.slice(row, 1).to_pylist()[0]}")
    removed = history.filter(gone)
    partitions = _per_removal(wanted, expected.filter(removal))
    assert sorted(zip(*(removed[n].to_pylist() for n in (*KEY, "topic")), strict=True)) == sorted(partitions)
    assert all(removed[name].null_count == len(removed) for name in (*STATE, "min_isr"))


def _sorted(table: pa.Table) -> pa.Table:
    schema = pa.schema([(name, PARTITION_HISTORY.field(name).type) for name in _NAMES])
    return table.cast(schema).sort_by([(name, "ascending") for name in KEY]).combine_chunks()


def _keys(table: pa.Table) -> set[tuple[int, str, int]]:
    return set(zip(*(table[name].to_pylist() for name in KEY), strict=True))


def _as_sets(column: pa.ChunkedArray) -> pa.Array:
    """Every list in ascending order."""
    lists = column.combine_chunks()
    lengths = pc.list_value_length(lists).to_numpy()
    values = pc.list_flatten(lists).to_numpy()
    order = np.lexsort((values, np.repeat(np.arange(len(lengths)), lengths)))
    offsets = pa.array(np.append(0, np.cumsum(lengths)), type=pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(values[order], type=pa.int32())).cast(INT32_LIST)


def _per_removal(states: pa.Table, removals: pa.Table) -> list[tuple[int, str, int, str]]:
    """Offset, topic id, partition and name, for each partition of every topic that was removed."""
    known = set(zip(states["topic_id"].to_pylist(), states["partition"].to_pylist(), strict=True))
    partitions: dict[str, list[int]] = {}
    for topic_id, partition in known:
        partitions.setdefault(topic_id, []).append(partition)
    events = zip(*(removals[n].to_pylist() for n in ("offset", "topic_id", "topic")), strict=True)
    return [(at, topic_id, p, name) for at, topic_id, name in events for p in partitions.get(topic_id, [])]
