"""The vectorised reducer: partition records -> every partition's state after every record that changes it.

Records are applied as written, even where they break a rule. Sources: Kafka's PartitionRegistration (constructor and
merge), TopicDelta / TopicsDelta (ClearElrRecord, RemoveTopicRecord).

Each field of a state has the last value that a record set; leader epoch and partition epoch are running counts. So the
whole history takes a few segmented forward fills over arrays, without a loop over records.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow import schemas
from replay.arrow.ragged import Array, sort_order, to_lengths, whole
from replay.arrow.runs import last_true, last_true_before, ranges, run_starts
from replay.arrow.schemas import LIST_COLUMNS
from replay.cluster.configs import ElectionConfigs
from replay.partitions.effective_configs import PartitionZero

MIGRATING = "AAAAAAAAAAAAAAAAAAAAAA"

# The kinds of rows that make a state.
_FULL, _CHANGE, _CLEAR, _REMOVE = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class History:
    """table: schemas.PARTITION_HISTORY, coded, sorted by (topic_id, partition, offset). orphans: schemas.CHANGES rows
    of partitions that were never created or were removed before; they are not applied."""

    table: pa.Table
    orphans: pa.Table


def build_history(changes: pa.Table, topic_events: pa.Table, context: ElectionConfigs) -> History:
    """Reduce one bucket. changes: CHANGES rows of whole topics, in any order. topic_events: TOPIC_EVENTS rows."""
    # Provenance stays in chunks: its text is long, and is gathered by dictionary codes.
    for number, name in enumerate(changes.column_names):
        if name not in schemas.PROVENANCE_NAMES:
            changes = changes.set_column(number, changes.field(number), pa.chunked_array([whole(changes[name])]))
    topic_ids, rows = in_order(changes, topic_events)
    state = reduce_state(rows, changes)
    orphans = changes.take(pa.array(state.orphans))
    return History(_assemble(state, changes, topic_events, topic_ids, context), orphans)


@dataclass(frozen=True, slots=True)
class ReducedState:
    """Every partition's state after each of its records, in order, column by column.

    rows: as from `in_order`, without orphans. filled: for each list column the row in `changes` that holds the value,
    -1 for an empty list. leader, leader_epoch, partition_epoch, recovery: the values (recovery: Kafka's code, -1 if
    unknown). orphans: rows of `changes` that are not applied.
    """

    rows: dict[str, Array]
    filled: dict[str, Array]
    leader: Array
    leader_epoch: Array
    partition_epoch: Array
    recovery: Array
    orphans: Array


def in_order(changes: pa.Table, topic_events: pa.Table) -> tuple[pa.Array, dict[str, Array]]:
    """The topic ids, and each partition's changes and events as parallel arrays by topic, partition and offset."""
    topic_ids, rows = _merge_events(changes, topic_events)
    order = sort_order(rows["topic"], rows["partition"], rows["offset"])
    return topic_ids, {name: values.take(order) for name, values in rows.items()}


def reduce_state(rows: dict[str, Array], changes: pa.Table) -> ReducedState:
    """Reduce rows to states: in each column the last value counts (PartitionRegistration.merge).

    rows: as from `in_order`. changes: with one chunk per column.
    """
    orphan = _orphans(rows)
    orphans = rows["source"][orphan & (rows["kind"] <= _CHANGE)]
    rows = _where(~orphan, rows)
    filled = {name: _fill(rows, changes, name) for name in LIST_COLUMNS}
    rows, filled = _drop_idle_clears(rows, filled, changes)
    full, every = rows["kind"] == _FULL, np.ones(len(rows["kind"]), dtype=bool)
    leader = _column(changes, "leader", rows, -2)
    recovery = _column(changes, "leader_recovery_state", rows, -1)
    return ReducedState(
        rows=rows,
        filled=filled,
        leader=_forward(leader, leader != -2),
        leader_epoch=_counter(_column(changes, "leader_epoch", rows, 0), full, leader != -2),
        partition_epoch=_counter(_column(changes, "partition_epoch", rows, 0), full, every),
        recovery=_forward(recovery, recovery != -1),
        orphans=orphans,
    )


def _merge_events(changes: pa.Table, events: pa.Table) -> tuple[pa.Array, dict[str, Array]]:
    """The topic ids; and every change, and every event once per partition of its topic, as parallel arrays.

    source is the row number in `changes` (in `events` for _CLEAR and _REMOVE).
    """
    encoded = whole(changes["topic_id"]).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    topic_ids = encoded.dictionary.take(order)
    topic = np.argsort(order.to_numpy())[encoded.indices.to_numpy()]
    partition = changes["partition"].to_numpy().astype(np.int64)
    kind = np.where(changes["full"].to_numpy(zero_copy_only=False), _FULL, _CHANGE)
    # A damaged record's partition may be negative: its 32 bits, not its value, go beside the topic.
    keys = np.unique(topic << 32 | partition & 0xFFFFFFFF) if len(events) else np.empty(0, dtype=np.int64)
    event_topic = pc.index_in(events["topic_id"], value_set=topic_ids).to_numpy()
    known = np.flatnonzero(~np.isnan(event_topic.astype(float)))
    code = event_topic[known].astype(np.int64)
    first = np.searchsorted(keys, code << 32)
    count = np.searchsorted(keys, (code + 1) << 32) - first
    which, at = ranges(first, count)
    which, key = known[which], keys[at]
    removes = events["removes"].to_numpy(zero_copy_only=False)[which].astype(bool)
    return topic_ids, {
        "topic": np.concatenate([topic, key >> 32]),
        "partition": np.concatenate([partition, _as_int32(key)]),
        "offset": np.concatenate([changes["offset"].to_numpy(), events["offset"].to_numpy()[which]]),
        "kind": np.concatenate([kind, np.where(removes, _REMOVE, _CLEAR)]),
        "source": np.concatenate([np.arange(len(changes)), which]),
    }


def _orphans(rows: dict[str, Array]) -> Array:
    """True for rows before the partition's first full record, or after its removal."""
    full = last_true(rows["kind"] == _FULL)
    orphan: Array = full < last_true(run_starts(rows["topic"], rows["partition"]))
    orphan |= last_true_before(rows["kind"] == _REMOVE) > full
    return orphan


def _fill(rows: dict[str, Array], changes: pa.Table, name: str) -> Array:
    """For every row, the row in `changes` that holds the list column's value; -1 for an empty list.

    Every partition begins with a full record, which sets every column (a null list is an empty one), so one running
    maximum over all rows is enough.
    """
    valid = np.append(whole(changes[name]).is_valid().to_numpy(zero_copy_only=False), False)
    given = valid.take(_change_of(rows, len(changes)))
    sets = given | (rows["kind"] == _FULL)
    if name in ("elr", "last_known_elr"):
        sets |= rows["kind"] == _CLEAR
    return _forward(np.where(given, rows["source"], -1), sets)


def _change_of(rows: dict[str, Array], missing: int) -> Array:
    """The row in `changes` that made each row; `missing` for an event's."""
    return np.where(rows["kind"] <= _CHANGE, rows["source"], missing)


def _where(keep: Array, arrays: dict[str, Array]) -> dict[str, Array]:
    """The elements of each array where the mask is true."""
    return arrays if keep.all() else {name: values[keep] for name, values in arrays.items()}


def _drop_idle_clears(
    rows: dict[str, Array], filled: dict[str, Array], changes: pa.Table
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Drop the ClearElrRecord rows of partitions whose ELR and LastKnownElr are already empty: no state changes."""
    idle = rows["kind"] == _CLEAR
    if not idle.any():
        return rows, filled
    for name in ("elr", "last_known_elr"):
        lengths = np.append(to_lengths(changes[name]), 0)
        idle[1:] &= lengths[filled[name][:-1]] == 0
    return _where(~idle, rows), _where(~idle, filled)


def _forward(values: Array, is_set: Array) -> Array:
    """Forward-fill: each row's last set value. The first row of every partition must be set."""
    return values.take(last_true(is_set))


def _as_int32(values: Array) -> Array:
    """The lowest 32 bits as a signed number: how Java's int overflows. int64."""
    return values.astype(np.int32).astype(np.int64)


def _counter(base: Array, full: Array, step: Array) -> Array:
    """A running count that restarts from `base` at every full record. It overflows as Kafka's int does."""
    total = np.cumsum(~full & step)
    start = last_true(full)
    return _as_int32(base[start] + total - total[start])


def _column(changes: pa.Table, name: str, rows: dict[str, Array], missing: int) -> Array:
    """A scalar column of the change that made each row; `missing` if it is null or an event made the row."""
    values = pc.fill_null(changes[name], missing).to_numpy().astype(np.int64)
    return np.append(values, missing).take(_change_of(rows, len(values)))


def _take_list(column: pa.ChunkedArray, index: Array) -> pa.Array:
    """Take lists by row number; index -1 gives an empty list."""
    values = pa.concat_arrays([*column.chunks, pa.array([[]], type=column.type)])
    return values.take(pa.array(np.where(index < 0, len(values) - 1, index)))


def _assemble(
    reduced: ReducedState, changes: pa.Table, events: pa.Table, topic_ids: pa.Array, context: ElectionConfigs
) -> pa.Table:
    rows = reduced.rows
    removed = rows["kind"] == _REMOVE
    lists = {name: _take_list(changes[name], reduced.filled[name]) for name in LIST_COLUMNS}
    lists["directories"] = _default_directories(lists["directories"], lists["replicas"])
    state: dict[str, pa.Array] = {
        **lists,
        "leader": pa.array(reduced.leader, type=pa.int32()),
        "leader_epoch": pa.array(reduced.leader_epoch, type=pa.int32()),
        "partition_epoch": pa.array(reduced.partition_epoch, type=pa.int32()),
        "leader_recovery_state": _recovery_names(reduced.recovery),
    }
    topic = pa.array(rows["topic"])
    names = [context.topic_names.get(i) for i in topic_ids.to_pylist()]
    state |= _configs(rows, [n or "" for n in names], lists["replicas"], context)
    gone = pa.array(removed)
    columns = state
    if removed.any():
        columns = {n: pc.if_else(gone, pa.scalar(None, a.type), a) for n, a in state.items()}
    columns |= {"topic_id": topic_ids.take(topic), "removed": gone}
    columns["topic"] = pa.array(names, type=pa.string()).take(topic)
    columns["partition"] = pa.array(rows["partition"], type=pa.int32())
    columns |= _from_records(rows, changes, events)
    columns |= _validity(rows, columns["timestamp_ms"])
    schema = schemas.coded(schemas.PARTITION_HISTORY)
    return pa.table({f.name: columns[f.name].cast(f.type) for f in schema}, schema=schema)


def _default_directories(directories: pa.Array, replicas: pa.Array) -> pa.Array:
    """Fit lists of only MIGRATING directories, and empty ones, to the current replicas: MIGRATING for each.

    Source: PartitionRegistration.defaultToMigrating.
    """
    count, known = to_lengths(replicas), to_lengths(directories)
    if (count == known).all():
        return directories
    values = pc.list_flatten(directories)
    named = np.append(0, np.cumsum(pc.not_equal(values, MIGRATING).to_numpy(zero_copy_only=False)))
    ends = np.cumsum(known)
    bare = named[ends] == named[ends - known]
    offsets = np.append(0, np.cumsum(np.where(bare, count, 0)))
    every = pa.array([MIGRATING]).take(pa.array(np.zeros(offsets[-1], dtype=np.int64)))
    migrating = pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), every)
    return pc.if_else(pa.array(bare), migrating.cast(directories.type), directories)


def _recovery_names(codes: Array) -> pa.Array:
    names = pa.array(["RECOVERED", "RECOVERING", "UNKNOWN"])
    return names.take(pa.array(np.where((codes == 0) | (codes == 1), codes, 2)))


def _from_records(rows: dict[str, Array], changes: pa.Table, events: pa.Table) -> dict[str, pa.Array]:
    """Offset, time, epoch, origin and provenance of the record (change or event) that made each row."""
    names = ("offset", "timestamp_ms", "controller_epoch", *schemas.BATCH_AND_PROVENANCE)
    events = events.select(names).append_column("origin", pa.array(["log"] * len(events), type=pa.string()))
    changes = changes.select([*names, "origin"])
    both = pa.concat_tables([changes, events.cast(changes.schema)]) if len(events) else changes
    index = pa.array(np.where(rows["kind"] <= _CHANGE, rows["source"], len(changes) + rows["source"]))
    return {name: _gathered(both[name], index) for name in both.column_names}


def _gathered(values: pa.ChunkedArray, index: pa.Array) -> pa.Array:
    """Take values by row; strings (files, captures), which repeat often, as codes."""
    if not (pa.types.is_string(values.type) or pa.types.is_dictionary(values.type)):
        return whole(values).take(index)
    encoded = whole(values.dictionary_encode())
    return pa.DictionaryArray.from_arrays(encoded.indices.take(index), encoded.dictionary)


def _validity(rows: dict[str, Array], timestamps: pa.Array) -> dict[str, pa.Array]:
    """Where each state ends: at the partition's next row."""
    last = np.append(run_starts(rows["topic"], rows["partition"]), True)[1:]
    following = np.minimum(np.arange(len(last)) + 1, max(len(last) - 1, 0))
    end_offset = pa.array(rows["offset"][following], mask=last)
    end_timestamp = pc.if_else(pa.array(last), None, timestamps.take(pa.array(following)))
    return {"end_offset": end_offset, "end_timestamp_ms": end_timestamp}


def _configs(
    rows: dict[str, Array], topics: Sequence[str], replicas: pa.Array, context: ElectionConfigs
) -> dict[str, pa.Array]:
    """Effective min ISR and unclean election, with the layers they come from (Kafka's getTopicEffectiveMinIsr)."""
    min_isr = context.min_isr.resolve(topics, rows["topic"], rows["offset"])
    unclean = context.unclean.resolve(topics, rows["topic"], rows["offset"])
    count, alive = to_lengths(replicas), rows["kind"] != _REMOVE
    zero = PartitionZero(len(topics), rows["topic"], rows["partition"], rows["offset"], count, alive)
    cap = zero.replicas(rows["topic"], rows["offset"], count)
    return {
        "min_isr": pa.array(np.minimum(min_isr.ints(), cap), type=pa.int32()),
        "min_isr_source": min_isr.sources(),
        "unclean_leader_election_enable": pa.array(unclean.bools()),
        "unclean_leader_election_enable_source": unclean.sources(),
    }
