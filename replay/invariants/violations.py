"""Convert violations of an invariant to rows of INVARIANT_VIOLATIONS: consecutive states become one row."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import PAD, Array, Row
from replay.arrow.runs import run_starts
from replay.arrow.schemas import LIST_COLUMNS, PROVENANCE_NAMES
from replay.cluster.facts import CLUSTER_RECORDS
from replay.invariants.catalogue import INVARIANT_VIOLATIONS, INVARIANTS, MOST_EVIDENCE

_OF_STATE = ("topic_id", "topic", "partition", "end_offset", "end_timestamp_ms")


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
    at, places = broken.at, broken.places
    if not len(at):
        return INVARIANT_VIOLATIONS.empty_table()
    enters = run_starts(places.row)
    fresh = run_starts(at - np.arange(len(at))) | (enters & begins[places.row])[at]
    first = np.flatnonzero(fresh)
    last = at[np.append(first[1:], len(at)) - 1]
    following = np.minimum(last + 1, len(places.row) - 1)
    # Inside a state's validity a violation may end where something else changed.
    inside = np.where((following > last) & (places.row[following] == places.row[last]), places.offset[following], PAD)
    row, offset, end_row = places.row[at].tolist(), places.offset[at].tolist(), places.row[last].tolist()
    rows, first_rows = np.add.reduceat((enters[at] | fresh).astype(np.int64), first).tolist(), places.row[at[first]]
    states = _states(history, broken, np.concatenate([first_rows, first_rows - broken.changed, places.row[last]]))
    record_at = _records_at(history, records, np.append(places.offset[at[first]], inside))
    found = []
    for number, (begin, end) in enumerate(pairwise([*first.tolist(), len(at)])):
        state, ended, end_offset = states[row[begin]], states[end_row[number]], int(inside[number])
        record = state if offset[begin] == state["offset"] else record_at.get(offset[begin], {})
        few = slice(begin, min(end, begin + MOST_EVIDENCE))
        evidence = {*offset[few], *broken.earlier[few].tolist()} - {PAD}
        if end_offset != PAD:
            ended = {"end_offset": end_offset, "end_timestamp_ms": record_at.get(end_offset, {}).get("timestamp_ms")}
        found.append(
            {
                "invariant": broken.name,
                "severity": INVARIANTS[broken.name].severity,
                **{name: state[name] for name in ("topic_id", "topic", "partition")},
                **{name: record.get(name) for name in PROVENANCE_NAMES},
                "start_offset": offset[begin],
                "start_timestamp_ms": record.get("timestamp_ms"),
                **{name: ended[name] for name in ("end_offset", "end_timestamp_ms")},
                "rows": rows[number],
                "brokers": sorted({broker for broker in broken.brokers[begin:end].ravel().tolist() if broker >= 0}),
                "detail": " ".join(_detail(broken, begin, state, states.get(row[begin] - 1, state))),
                "evidence_offsets": sorted(evidence)[:MOST_EVIDENCE],
            }
        )
    return pa.Table.from_pylist(found, schema=INVARIANT_VIOLATIONS)


def _states(history: pa.Table, broken: Broken, rows: Array) -> dict[int, Row]:
    """Some states by row number, with what a row of the violation shows of them."""
    known = np.unique(np.maximum(rows, 0))
    names = {*_OF_STATE, *CLUSTER_RECORDS.names, *INVARIANTS[broken.name].shows}
    return dict(zip(known.tolist(), history.select(sorted(names)).take(pa.array(known)).to_pylist(), strict=True))


def _records_at(history: pa.Table, records: pa.Table, offset: Array) -> dict[int, Row]:
    """The record at each offset, from another partition of the history or from `records`, as far as they have it."""
    wanted = pa.array(np.unique(offset))
    near = (rows.filter(pc.is_in(rows["offset"], value_set=wanted)) for rows in (history, records))
    found = pa.concat_tables([rows.select(CLUSTER_RECORDS.names).cast(CLUSTER_RECORDS) for rows in near])
    return {row["offset"]: row for row in reversed(found.to_pylist())}


def _detail(broken: Broken, number: int, state: Row, before: Row) -> Iterator[str]:
    """name=value for every column that the invariant shows; name=before->after if it is about a change."""
    for name in INVARIANTS[broken.name].shows:
        earlier = f"{_text(name, before)}->" if broken.changed else ""
        yield f"{name}={earlier}{_text(name, state)}"
    yield from (f"{name}={values[number]}" for name, values in broken.more.items())


def _text(name: str, state: Row) -> str:
    value = state[name]
    if name in LIST_COLUMNS:
        return f"[{','.join(map(str, value or ()))}]"
    return "none" if value is None else str(value)
