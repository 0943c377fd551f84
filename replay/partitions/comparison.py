"""Compare replayed states with states that Kafka itself wrote (snapshots) or that its tools printed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import INT64_MAX, Array, Row, bools, to_matrix
from replay.arrow.runs import groups
from replay.arrow.schemas import PROVENANCE_NAMES
from replay.arrow.sets import same, same_set

_SETS = ("elr", "last_known_elr")
# The order in which differences are named.
_COMPARED = (
    *("replicas", "isr", "removing_replicas", "adding_replicas", "directories"),
    *("leader", "leader_epoch", "partition_epoch"),
)
_PRINTED = ("leader", "replicas", "isr", "elr", "last_known_elr")


def snapshot_differences(
    history: pa.Table, snapshot: pa.Table, end_offset: int, compare_elr: bool
) -> tuple[int, list[Row]]:
    """Compare the states before `end_offset` with a snapshot's. The ELR is compared only if `compare_elr`: without the
    feature, writers omit it from snapshots.

    history: schemas.PARTITION_HISTORY rows of whole partitions; snapshot: evidence.tables.PARTITION_CHANGE rows of the
    same topics, as columns. Returns the number of partition states compared, and for each one that differs, or is
    missing on one side, a dict with snapshot_end_offset, topic_id, partition, what.
    """
    ends = pc.fill_null(history["end_offset"], INT64_MAX)
    before = pc.and_(pc.less(history["offset"], end_offset), pc.greater_equal(ends, end_offset))
    states = history.filter(pc.and_(before, pc.invert(history["removed"])))
    replayed, expected = _keys(states, snapshot)
    _, own, other = np.intersect1d(replayed, expected, return_indices=True)
    pairs = states.take(pa.array(own)), snapshot.take(pa.array(other))
    sides = [
        (pairs[0], _differences(*pairs, compare_elr)),
        *(
            (table.filter(pa.array(alone)), [what] * int(alone.sum()))
            for table, alone, what in (
                (snapshot, ~np.isin(expected, replayed), "missing in the replay"),
                (states, ~np.isin(replayed, expected), "missing in the snapshot"),
            )
        ),
    ]
    found = []
    for table, what in sides:
        columns = (table["topic_id"].to_pylist(), table["partition"].to_pylist(), what)
        for topic_id, partition, text in zip(*columns, strict=True):
            if text:
                place = {"snapshot_end_offset": end_offset, "topic_id": topic_id, "partition": partition}
                found.append({**place, "what": text})
    return sum(len(table) for table, _ in sides), found


def _keys(*tables: pa.Table) -> list[Array]:
    """A number for each row of each table: equal numbers are the same partition."""
    topics = pa.concat_arrays([table["topic_id"].combine_chunks() for table in tables]).dictionary_encode()
    ends = np.cumsum([0, *(len(table) for table in tables)])
    codes = topics.indices.to_numpy().astype(np.int64) << 32
    return [codes[b:e] + t["partition"].to_numpy() for t, b, e in zip(tables, ends[:-1], ends[1:], strict=True)]


def _differences(states: pa.Table, snapshot: pa.Table, compare_elr: bool) -> list[str]:
    """The names of the columns that differ, for each pair of rows."""
    names = [*_COMPARED, "leader_recovery_state", *(_SETS if compare_elr else ())]
    recovering = pc.fill_null(pc.equal(snapshot["leader_recovery_state"], 1), False)
    shown = {"leader_recovery_state": pc.if_else(recovering, "RECOVERING", "RECOVERED")}
    differs = np.stack(
        [~_equal(shown.get(name, snapshot[name]), states[name], name in _SETS) for name in names], axis=1
    )
    return [", ".join(name for name, hit in zip(names, row, strict=True) if hit) for row in differs.tolist()]


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray, in_any_order: bool) -> Array:
    """Whether values, or lists, are equal; null equals null and no list."""
    if pa.types.is_list(left.type) and not pa.types.is_string(left.type.value_type):
        nulls = [bools(pc.is_null(column)) for column in (left, right)]
        equals = same_set if in_any_order else same
        return (nulls[0] == nulls[1]) & equals(to_matrix(left), to_matrix(right))
    if pa.types.is_list(left.type):  # ids of directories have no comma
        left, right = (pc.binary_join(column, ",") for column in (left, right))
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return bools(pc.or_(both_null, pc.fill_null(pc.equal(left, right), False)))


def printed_differences(history: pa.Table, printed: pa.Table, clock_error_ms: int, log_end_ms: int) -> list[Row]:
    """Compare each printed state with every replayed one from before the tool had read it. Any broker answers the tool,
    also one that is cut off from the controllers, or waits for a disk, and so does not know what came later (Kafka's
    MetadataCache).

    history: schemas.PARTITION_HISTORY rows of whole partitions; printed: evidence.tables.DESCRIBED_PARTITIONS rows with
    a time and with the id of a topic to compare with. log_end_ms: time of the log's last batch.

    Returns a dict for each printed state that equals a replayed one, or was printed while one was valid: printed (the
    row), same, within (whether the tool read before the log ended), states (the valid ones, by offset; empty if one is
    the same).
    """
    wanted = pc.is_in(history["topic_id"], printed["topic_id"].unique())
    live = history.filter(pc.and_(wanted, pc.invert(history["removed"])))
    keys = [*zip(live["topic_id"].to_pylist(), live["partition"].to_pylist(), strict=True)]
    rows_of = groups(range(len(keys)), keys.__getitem__)
    begins = live["timestamp_ms"].to_pylist()
    # A state with an end offset but no end time ends in a hole of the log, at an unknown time.
    ended = pc.if_else(pc.is_null(live["end_offset"]), log_end_ms, live["end_timestamp_ms"]).to_pylist()
    columns = ["offset", "topic", "topic_id", *_PRINTED, "leader_epoch", *PROVENANCE_NAMES]
    found = []
    for shown in printed.to_pylist():
        first = shown["captured_at_ms"] - clock_error_ms
        last = shown["captured_at_ms"] + (shown["uncertainty_ms"] or 0) + clock_error_ms
        known = [row for row in rows_of.get((shown["topic_id"], shown["partition"]), ()) if begins[row] <= last]
        states = live.take(pa.array(known, pa.int64())).select(columns).to_pylist()
        is_same = any(_is_printed(shown, state) for state in states)
        valid = [s for row, s in zip(known, states, strict=True) if ended[row] is not None and ended[row] >= first]
        if is_same or valid:
            states = [] if is_same else sorted(valid, key=lambda s: int(s["offset"]))
            found.append({"printed": shown, "same": is_same, "within": last <= log_end_ms, "states": states})
    return found


def _is_printed(shown: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Whether the printed state equals the replayed one in everything that was printed. ISR and ELR are sets. Kafka
    also prints no leader if the leader has no endpoint on the listener used (KRaftMetadataCache)."""
    if shown["leader"] not in (state["leader"], -1) or shown["replicas"] != state["replicas"]:
        return False
    if shown["leader_epoch"] not in (None, state["leader_epoch"]):
        return False
    members = ((shown[name], state[name]) for name in ("isr", *_SETS) if shown[name] is not None)
    return all(held is not None and sorted(own) == sorted(held) for own, held in members)
