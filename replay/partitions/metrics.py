"""KIP-966's metrics (section Metrics), computed from recorded state at every record that changes one.

No release implements the KIP's unclean recovery, so "under unclean recovery" and "waits for a user" are defined here in
terms of recorded state (docs/metrics.md):

- global_under_min_isr_partition_count: partitions with |ISR| < effective min ISR.
- unclean_recovery_partitions_count: leaderless partitions for which the controller may elect a leader from outside ISR
  and ELR by itself: unclean election is enabled, or ISR and ELR are empty and one last known leader is stored.
- manual_leader_election_required_partition_count: other leaderless partitions with an empty ISR and ELR.
- unclean_recovery_finished_count: elections of a leader from outside ISR and ELR since the active controller took over.
- electable_replicas_count: |ISR| + |ELR| of one partition.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow import schemas
from replay.arrow.ragged import Array, to_lengths, to_matrix
from replay.arrow.runs import last_true, next_true, run_starts
from replay.cluster.configs import ElectionConfigs
from replay.cluster.log import LogRange
from replay.cluster.state import ClusterState
from replay.partitions.effective_configs import Points, config_keys, config_points
from replay.partitions.elections import States, leader_changes

UNDER_MIN_ISR = "global_under_min_isr_partition_count"
RECOVERING = "unclean_recovery_partitions_count"
MANUAL = "manual_leader_election_required_partition_count"
FINISHED = "unclean_recovery_finished_count"
ELECTABLE = "electable_replicas_count"
_BAND_OFFSETS = 1 << 23  # whose moves are held at once: some 10 % of records move a metric of the whole cluster
_GAUGES = (UNDER_MIN_ISR, RECOVERING, MANUAL)

_RECORD = ("timestamp_ms", "controller_epoch", "origin", "batch_base_offset", "capture", "path", "sha256", "position")
_METRICS = schemas.coded(schemas.CLUSTER_METRICS)
_RECORD_FIELDS = [_METRICS.field(name) for name in ("offset", *_RECORD)]

# How much one record changes a cluster-wide metric. Within a section the deltas add up from 0. Null delta: the value is
# unknown from here on.
MOVES = pa.schema(
    [pa.field("metric", pa.string()), pa.field("section", pa.int64()), pa.field("delta", pa.int64()), *_RECORD_FIELDS]
)


@dataclass(frozen=True, slots=True)
class ClusterCourse:
    """The cluster-wide input of running values.

    runs: of the log. log_end: exclusive. took_over: offsets at which a controller became active. records: those that
    change configs or the controller (offset, and columns as in MOVES).
    """

    runs: list[LogRange]
    log_end: int
    took_over: list[int]
    records: pa.Table


def course_of(state: ClusterState) -> ClusterCourse:
    """The course of a resolved cluster with its records (not from `for_tasks`)."""
    rows = [
        {**r, "controller_epoch": r["epoch"], "origin": "checkpoint" if "place" in r else "log"}
        for r in state.records
        if r["type"] in ("CONFIG_RECORD", "LEADER_CHANGE")
    ]
    took_over = [r["offset"] for r in state.records if r["type"] == "LEADER_CHANGE" and "place" not in r]
    return ClusterCourse(
        state.shape.runs, state.shape.log_end, took_over, pa.Table.from_pylist(rows, schema=pa.schema(_RECORD_FIELDS))
    )


def moves(history: pa.Table, states: States, context: ElectionConfigs, course: ClusterCourse) -> pa.Table:
    """MOVES of whole topics. history: schemas.PARTITION_HISTORY, sorted by (topic_id, partition, offset); states: the
    same as arrays."""
    if not len(history):
        return MOVES.empty_table()
    points = config_points(history, config_keys(history, context))
    places = pa.concat_tables([history.select(["offset", *_RECORD]), course.records])
    key, run = states.key[points.row], _section(points.offset, _run_starts(course))
    fresh = run_starts(key, run)
    found = []
    for metric, holds in zip(_GAUGES, _gauges(history, states, points), strict=True):
        value = holds.astype(np.int64)
        before = np.where(fresh, 0, np.append(0, value[:-1]))
        at = np.flatnonzero(value != before)
        found.append((metric, run[at], points.offset[at], (value - before)[at]))
    recovered = _recovered(states)
    offset = history["offset"].to_numpy()[recovered]
    found.append((FINISHED, _section(offset, _takeovers(course)), offset, np.ones(len(offset), dtype=np.int64)))
    return _moves(found, places)


def anchors(course: ClusterCourse) -> pa.Table:
    """MOVES that start each metric of every section at 0, and make it unknown where a hole in the log begins."""
    begun, ended = [], []
    ends = np.array([run.end for run in course.runs if run.end < course.log_end], dtype=np.int64)
    for metric in (*_GAUGES, FINISHED):
        starts = _takeovers(course) if metric == FINISHED else _run_starts(course)
        begun.append((metric, np.arange(len(starts)), starts, np.zeros(len(starts), dtype=np.int64)))
        ended.append((metric, _section(ends - 1, starts), ends, np.zeros(len(ends), dtype=np.int64)))
    unknown = _moves(ended, course.records)
    nulls = pa.nulls(len(unknown), pa.int64())
    unknown = unknown.set_column(MOVES.get_field_index("delta"), MOVES.field("delta"), nulls)
    return pa.concat_tables([_moves(begun, course.records), unknown])


def electable_replicas(history: pa.Table, states: States) -> pa.Table:
    """schemas.CLUSTER_METRICS rows of electable_replicas_count, where a partition's value changes.

    history, states: as in `moves`.
    """
    value = to_lengths(history["isr"]) + to_lengths(history["elr"])
    new = run_starts(value) | states.begins | states.removed
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(value)) - 1
    shown = ~states.removed[first]
    first, last = first[shown], last[shown]
    begin = history.select(["offset", *_RECORD, "topic_id", "topic", "partition"]).take(pa.array(first))
    end = history.select(["end_offset", "end_timestamp_ms"]).take(pa.array(last))
    columns = dict(zip(begin.column_names, begin.columns, strict=True))
    columns |= zip(end.column_names, end.columns, strict=True)
    columns |= {"metric": pa.repeat(ELECTABLE, len(first)), "value": pa.array(value[first])}
    return pa.table({f.name: columns[f.name] for f in _METRICS}, schema=_METRICS)


def summed(found: pa.Table) -> pa.Table:
    """MOVES with one row for each (metric, section, offset), in that order: the sum of all partitions' moves at a
    record. The delta of an unknown value stays null. Strings are dictionary-encoded: a large cluster has millions of
    these rows, and few strings."""
    rows = _encoded(found)
    metric, delta = _ranks(rows["metric"]), rows["delta"]
    section, offset = rows["section"].to_numpy(), rows["offset"].to_numpy()
    # Of moves at one offset, some may lack its record: one that has it comes last.
    at = np.lexsort((pc.fill_null(rows["position"], -1).to_numpy(), offset, section, metric))
    first = np.flatnonzero(run_starts(metric[at], section[at], offset[at]))
    last = pa.array(at[np.append(first[1:], len(at))[: len(first)] - 1])
    # Column by column: a copy of all takes as much memory again.
    columns = {name: rows[name].combine_chunks().take(last) for name in rows.column_names}
    known = [delta.is_valid().to_numpy().astype(np.int64), pc.fill_null(delta, 0).to_numpy()]
    count, total = (np.add.reduceat(values[at], first) if len(first) else values[:0] for values in known)
    columns["delta"] = pa.array(total, mask=count < np.diff(np.append(first, len(at))))
    return pa.table({field.name: columns[field.name] for field in MOVES})


def _encoded(rows: pa.Table) -> pa.Table:
    """With dictionaries instead of strings, one for each column."""
    columns = [column.dictionary_encode() if pa.types.is_string(column.type) else column for column in rows.columns]
    return pa.table(columns, names=rows.column_names).unify_dictionaries()


def _ranks(column: pa.ChunkedArray) -> Array:
    """int64: dictionary-encoded strings, none of them null, by their places among the sorted ones."""
    whole = column.combine_chunks()
    return pc.rank(whole.dictionary).to_numpy().astype(np.int64)[whole.indices.to_numpy()]


def bands(found: pa.Table, width: int = _BAND_OFFSETS) -> dict[int, pa.Table]:
    """MOVES by the band of so many offsets that they are in."""
    band = found["offset"].to_numpy() // width
    return {int(number): found.filter(pa.array(band == number)) for number in np.unique(band)}


def running(found: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """schemas.CLUSTER_METRICS of the whole cluster: the running sum of each metric within a section, with a row only
    where the value changes. Strings are dictionary-encoded. found: MOVES of all partitions, and `anchors`, `summed` or
    not, band by band in the order of their offsets. A piece for each band, and one more."""
    newest = _encoded(MOVES.empty_table())
    for band in found:
        # The last value of a metric holds until a later band: there it begins the sum.
        at = _changes(pa.concat_tables([newest, band]))
        rows = _intervals(at)
        has_end = rows["end_offset"].is_valid()
        yield rows.filter(has_end)
        newest = at.filter(pc.invert(has_end))
    yield _intervals(newest)


def _changes(found: pa.Table) -> pa.Table:
    """MOVES where a metric's value changes, in the order of `summed`, with the value as delta."""
    at = summed(found).combine_chunks()
    metric = _ranks(at["metric"])
    delta = at["delta"].combine_chunks()
    known, step = delta.is_valid().to_numpy(zero_copy_only=False), pc.fill_null(delta, 0).to_numpy()
    # Sections follow each other in offset order, so a running sum within one is a difference of running sums.
    total = np.cumsum(step)
    value = total - (total - step)[last_true(run_starts(metric, at["section"].to_numpy()))]
    before, before_known = np.append(0, value[:-1]), np.append(False, known[:-1])
    new = run_starts(metric) | (known != before_known) | (known & (value != before))
    at = at.set_column(MOVES.get_field_index("delta"), MOVES.field("delta"), pa.array(value, mask=~known))
    # A later section may begin with the value before it, which is then its own: the next band's moves add to it.
    latest = at["section"].take(pa.array(next_true(run_starts(metric[::-1])[::-1])))
    at = at.set_column(MOVES.get_field_index("section"), MOVES.field("section"), latest)
    return at.filter(pa.array(new))


def _intervals(at: pa.Table) -> pa.Table:
    """schemas.CLUSTER_METRICS of `_changes`: each value ends where the next one of its metric begins."""
    last = run_starts(_ranks(at["metric"])[::-1])[::-1]
    following = pa.array(np.arange(1, len(at) + 1), mask=last)
    columns = {name: at[name] for name in ("offset", "metric", *_RECORD)} | {"value": at["delta"]}
    columns |= {f"end_{name}": at[name].take(following) for name in ("offset", "timestamp_ms")}
    columns |= {n: pa.nulls(len(at), schemas.CLUSTER_METRICS.field(n).type) for n in ("topic_id", "topic", "partition")}
    return pa.table({f.name: columns[f.name] for f in schemas.CLUSTER_METRICS})


def _gauges(history: pa.Table, states: States, points: Points) -> tuple[Array, Array, Array]:
    """Three bool arrays over the points: under min ISR, under unclean recovery, waiting for a user."""
    known = to_matrix(history["last_known_elr"])
    one_known = ((known >= 0).sum(axis=1) == 1) & (to_lengths(history["last_known_elr"]) == 1)
    elr_size = to_lengths(history["elr"])
    row = points.row
    leaderless = ~states.removed[row] & (states.leader[row] < 0)
    empty = (states.isr_size[row] == 0) & (elr_size[row] == 0)
    recovering = leaderless & (points.unclean | (empty & one_known[row]))
    under = ~states.removed[row] & (states.isr_size[row] < points.min_isr)
    return under, recovering, leaderless & empty & ~recovering


def _recovered(states: States) -> Array:
    """Row numbers that elect a leader from outside the ISR and ELR of the previous row."""
    rows = leader_changes(states)
    return rows[(states.leader[rows] >= 0) & ~states.led_by_holder(rows)]


def _run_starts(course: ClusterCourse) -> Array:
    """The first offset with known states of each run; states of a base snapshot have the offset before its start."""
    return np.array([run.start - (run.snapshot is not None) for run in course.runs], dtype=np.int64)


def _takeovers(course: ClusterCourse) -> Array:
    return np.unique(np.concatenate([_run_starts(course), np.array(course.took_over, dtype=np.int64)]))


def _section(offset: Array, starts: Array) -> Array:
    return np.searchsorted(starts, offset, side="right") - 1


def _moves(found: Sequence[tuple[str, Array, Array, Array]], places: pa.Table) -> pa.Table:
    """MOVES rows with the columns of the record at each offset; null if `places` has none. found: (metric, section,
    offset, delta) of several metrics."""
    metrics = [metric for metric, _, offset, _ in found for _ in range(len(offset))]
    section, offset, delta = (np.concatenate([each[n] for each in found]) for n in (1, 2, 3))
    known = places["offset"].to_numpy()
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known[order], offset), max(len(known) - 1, 0))
    index = pa.array(order[at], mask=known[order][at] != offset) if len(known) else pa.nulls(len(offset), pa.int64())
    taken = places.take(index)
    columns = {"metric": pa.array(metrics, type=pa.string()), "section": pa.array(section)}
    columns |= {"delta": pa.array(delta), "offset": pa.array(offset), **{name: taken[name] for name in _RECORD}}
    return pa.table({f.name: columns[f.name] for f in MOVES}, schema=MOVES)
