"""Convert violations of an invariant to rows of INVARIANT_VIOLATIONS: consecutive states become one row.

Vectorised over all partitions, without a loop over states.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import PAD, Array, grouped
from replay.arrow.runs import place_in_run, run_starts
from replay.arrow.schemas import INT32_LIST
from replay.cluster.facts import CLUSTER_RECORDS
from replay.invariants.catalogue import INVARIANT_VIOLATIONS, INVARIANTS, MOST_EVIDENCE


@dataclass(frozen=True, slots=True)
class CheckedStates:
    """Where states are checked, in the order of the history.

    Every history row occurs at its own offset, and again at each offset inside its validity where something else
    changed. row: its row number. offset: metadata offset.
    """

    row: Array
    offset: Array


@dataclass(frozen=True, slots=True)
class Broken:
    """Where one invariant is violated, one element per place.

    at: numbers of `places`, ascending. brokers: the brokers concerned, a matrix as from `ragged.to_matrix`. earlier:
    offset of an earlier record that shows it, PAD if there is none. changed: `detail` also shows the state before.
    more: further columns for `detail`.
    """

    name: str
    places: CheckedStates
    at: Array
    brokers: Array
    earlier: Array
    changed: bool = False
    more: dict[str, Array] = field(default_factory=dict)


def violation_rows(history: pa.Table, begins: Array, broken: Broken, records: pa.Table) -> pa.Table:
    """INVARIANT_VIOLATIONS of one invariant.

    history: schemas.PARTITION_HISTORY, sorted. begins: true for its rows that do not continue a known state. records:
    CLUSTER_RECORDS.
    """
    if not len(broken.at):
        return INVARIANT_VIOLATIONS.empty_table()
    at, places = broken.at, broken.places
    row = places.row[at]
    enters = run_starts(places.row)
    fresh = run_starts(at - np.arange(len(at))) | (enters & begins[places.row])[at]
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(at)) - 1
    number = np.cumsum(fresh) - 1
    invariant, count = INVARIANTS[broken.name], len(first)
    columns = {
        "invariant": pa.array([broken.name]).take(pa.array(np.zeros(count, dtype=np.int64))),
        "severity": pa.array([invariant.severity]).take(pa.array(np.zeros(count, dtype=np.int64))),
        **{name: history[name].take(pa.array(row[first])) for name in ("topic_id", "topic", "partition")},
        **_begin(history, places, at[first], records),
        **_end(history, places, at[last], records),
        "rows": pa.array(np.add.reduceat((enters[at] | fresh).astype(np.int64), first)),
        "brokers": _brokers(number, broken.brokers, count),
        "detail": _detail(history, row[first], first, broken),
        "evidence_offsets": _evidence(number, places.offset[at], broken.earlier, first),
    }
    return pa.table({f.name: columns[f.name] for f in INVARIANT_VIOLATIONS}, schema=INVARIANT_VIOLATIONS)


def _begin(history: pa.Table, places: CheckedStates, at: Array, records: pa.Table) -> dict[str, pa.Array]:
    """Offset, time and provenance of the record at which each violation begins."""
    row, offset = places.row[at], places.offset[at]
    own = history.select(CLUSTER_RECORDS.names).take(pa.array(row)).cast(CLUSTER_RECORDS)
    inside = offset != own["offset"].to_numpy()
    found = _records_at(history, records, np.where(inside, offset, PAD)) if inside.any() else own
    names = dict(
        zip(("start_offset", "start_timestamp_ms", *CLUSTER_RECORDS.names[2:]), CLUSTER_RECORDS.names, strict=True)
    )
    chosen = {name: pc.if_else(pa.array(inside), found[source], own[source]) for name, source in names.items()}
    return {**chosen, "start_offset": pa.array(offset)}


def _end(history: pa.Table, places: CheckedStates, at: Array, records: pa.Table) -> dict[str, pa.Array]:
    """Offset and time of the place after each violation."""
    after = np.minimum(at + 1, len(places.row) - 1)
    inside = (after > at) & (places.row[after] == places.row[at])
    own = history.select(["end_offset", "end_timestamp_ms"]).take(pa.array(places.row[at]))
    if not inside.any():
        return {name: own[name] for name in own.column_names}
    offset, mask = places.offset[after], pa.array(inside)
    found = _records_at(history, records, np.where(inside, offset, PAD))
    return {
        "end_offset": pc.if_else(mask, pa.array(offset), own["end_offset"]),
        "end_timestamp_ms": pc.if_else(mask, found["timestamp_ms"], own["end_timestamp_ms"]),
    }


def _records_at(history: pa.Table, records: pa.Table, offset: Array) -> pa.Table:
    """The record at each offset, from `records` or from another partition of the history; null if there is none."""
    wanted = pa.array(np.unique(offset))
    near = history.filter(pc.is_in(history["offset"], value_set=wanted))
    near, more = (rows.select(CLUSTER_RECORDS.names).cast(CLUSTER_RECORDS) for rows in (near, records))
    known = pa.concat_tables([near, more]).sort_by("offset").combine_chunks()
    offsets = known["offset"].to_numpy()
    if not len(offsets):
        return known.take(pa.nulls(len(offset), pa.int64()))
    index = np.minimum(np.searchsorted(offsets, offset), len(offsets) - 1)
    return known.take(pa.array(index, mask=offsets[index] != offset))


def _brokers(number: Array, brokers: Array, count: int) -> pa.Array:
    member = brokers >= 0
    numbers = np.broadcast_to(number[:, None], brokers.shape)[member]
    return _lists(numbers, brokers[member], count).cast(INT32_LIST)


def _evidence(number: Array, offset: Array, earlier: Array, first: Array) -> pa.Array:
    """The first offsets of each violation: of the records inside it, and of the earlier records that show it."""
    few = np.flatnonzero(place_in_run(number) < MOST_EVIDENCE)
    numbers, offsets = np.tile(number[few], 2), np.concatenate([offset[few], earlier[few]])
    known = offsets != PAD
    return _lists(numbers[known], offsets[known], len(first), MOST_EVIDENCE)


def _lists(number: Array, value: Array, count: int, most: int | None = None) -> pa.Array:
    """`count` lists of distinct values, ascending, at most `most` in each. number: the list that a value is for."""
    order = np.lexsort((value, number))
    number, value = number[order], value[order]
    new = run_starts(number, value)
    number, value = number[new], value[new]
    if most is not None:
        kept = place_in_run(number) < most
        number, value = number[kept], value[kept]
    return grouped(number, pa.array(value, type=pa.int64()), count)


def _detail(history: pa.Table, row: Array, first: Array, broken: Broken) -> pa.Array:
    """name=value for every column that the invariant shows; name=before->after if it is about a change."""
    shown = history.select(INVARIANTS[broken.name].shows)
    texts = {name: _text(shown[name].take(pa.array(row))) for name in shown.column_names}
    if broken.changed:
        earlier = {name: _text(shown[name].take(pa.array(np.maximum(row - 1, 0)))) for name in shown.column_names}
        texts = {name: _join(earlier[name], "->", text) for name, text in texts.items()}
    texts |= {name: _text(pa.array(values[first])) for name, values in broken.more.items()}
    columns = [_join(pa.scalar(f"{name}="), "", text) for name, text in texts.items()]
    return pc.binary_join_element_wise(*columns, " ")


def _text(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_list(column.type):
        joined = pc.binary_join(column.cast(pa.list_(pa.string())), ",")
        return pc.binary_join_element_wise("[", pc.fill_null(joined, ""), "]", "")
    return pc.fill_null(column.cast(pa.string()), "none")


def _join(left: pa.Array | pa.Scalar, separator: str, right: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(left, right, separator)
