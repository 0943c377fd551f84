"""log_batches: every distinct batch, the nodes that hold it, and its commit state, derived from all the evidence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.capture.files import Capture
from evidence.metadata_log.scan import DistinctBatches, batch_table
from evidence.tables import INT32_LIST
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from replay.arrow.ragged import Array
from replay.cluster.branches import COMMIT_STATES, Holders, Point, commit_states

Row = dict[str, Any]
BatchKey = tuple[int, int, int]  # epoch, base offset, CRC

# Records that name the quorum's voters.
VOTER_TYPES = ("KRAFT_VOTERS", "LEADER_CHANGE")
_VOTERS = pc.field("type").isin(VOTER_TYPES) & pc.field("offset").is_valid()


@dataclass(frozen=True, slots=True)
class CommitStates:
    """The commit state of every batch of a cluster. usual: of all batches that are not in `others`. changed: the new
    states of batches whose records in the lake have another one. batches: the rows of log_batches; None if they are in
    the lake already. since: as in Lake.commit."""

    usual: str
    others: dict[BatchKey, str]
    changed: dict[BatchKey, str]
    batches: pa.Table | None
    since: int


Keys = tuple[Array, Array, Array]  # epochs, base offsets and CRCs of batches, as int64


@dataclass(frozen=True, slots=True)
class HeldBatches:
    """The batches that the lake has records of. counts: of the records. states: the place of their commit state in
    COMMIT_STATES; -1: they differ."""

    keys: Keys
    counts: Array
    states: Array


def keys_of(batches: Array | pa.Table) -> Keys:
    """The keys of batches, as columns epoch, base_offset and crc."""
    epoch, base, crc = (np.asarray(batches[name]).astype(np.int64) for name in ("epoch", "base_offset", "crc"))
    return epoch, base, crc


def places_of(keys: Keys, among: Keys) -> Array:
    """For each key its place among others, which are distinct; -1: it is none of them."""
    columns = [np.concatenate(pair) for pair in zip(keys, among, strict=True)]
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(order), dtype=bool)
    for column in columns:
        new[1:] |= column[order][1:] != column[order][:-1]
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(new)
    place = np.full(len(order) + 1, -1, dtype=np.int64)
    place[group[len(keys[0]) :]] = np.arange(len(among[0]))
    return place[group[: len(keys[0])]]


def merged_batches(
    lake: Lake, capture: Capture, cluster: str, batches: DistinctBatches, control: pa.Table, held: HeldBatches
) -> CommitStates:
    """Merge a capture's batches with log_batches and judge all of them. control: DECODED rows of its control records.
    held: the batches that the lake has records of. The capture's snapshots and quorum reports must already be in the
    lake.

    The result depends on the evidence, not on the order in which it was ingested.
    """
    schema, since = TABLES["log_batches"].file_schema, lake.cluster_version("log_batches", cluster)
    known = _in_order(lake.read("log_batches", cluster, schema.names))
    rows, holders = _merged(known.drop_columns("commit_state"), batch_table(capture.name, batches))
    found = _judge(lake, cluster, capture, rows, holders, control)
    states = np.array([COMMIT_STATES.index(state) for state in found], dtype=np.int64)
    usual = int(np.bincount(states).argmax()) if len(states) else -1
    rows = rows.append_column("commit_state", pa.array(found, pa.string())).select(schema.names).cast(schema)
    keys = keys_of(rows)
    at = places_of(held.keys, keys)
    changed = (at >= 0) & (np.append(states, -1)[at] != held.states)
    return CommitStates(
        COMMIT_STATES[usual] if usual >= 0 else "",
        _states_of(keys, states, states != usual),
        _states_of(held.keys, np.append(states, -1)[at], changed),
        rows if not rows.equals(known.cast(schema)) else None,
        since,
    )


def _states_of(keys: Keys, states: Array, mask: Array) -> dict[BatchKey, str]:
    chosen = zip(*(column[mask].tolist() for column in keys), states[mask].tolist(), strict=True)
    return {(epoch, base, crc): COMMIT_STATES[state] for epoch, base, crc, state in chosen}


def _in_order(rows: pa.Table) -> pa.Table:
    return rows.take(pa.array(np.lexsort(keys_of(rows)[::-1])))


def _merged(known: pa.Table, current: pa.Table) -> tuple[pa.Table, Holders]:
    """The batches of both tables, in order, and who holds them. A batch of both has the place of the known one."""
    at = places_of(keys_of(current), keys_of(known))
    rows = pa.concat_tables([known, current.filter(pa.array(at < 0)).select(known.column_names).cast(known.schema)])
    holders = Holders.of_column(rows["nodes"])
    more = Holders.of_column(current.filter(pa.array(at >= 0))["nodes"])
    sets = {nodes: place for place, nodes in enumerate(holders.sets)}
    places, of = at[at >= 0], holders.of.copy()
    # Few pairs of sets are distinct.
    pairs, which = np.unique(np.stack([of[places], more.of]), axis=1, return_inverse=True)
    joined = [tuple(sorted({*holders.sets[a], *more.sets[b]})) for a, b in pairs.T.tolist()]
    of[places] = np.array([sets.setdefault(nodes, len(sets)) for nodes in joined], dtype=np.int64)[which.reshape(-1)]
    order = np.lexsort(keys_of(rows)[::-1])
    nodes = pa.array(list(sets), INT32_LIST).take(pa.array(of[order]))
    rows = rows.take(pa.array(order))
    return rows.set_column(rows.schema.get_field_index("nodes"), rows.schema.field("nodes"), nodes), Holders(
        list(sets), of[order]
    )


def commit_column(records: pa.Table, usual: str, others: Mapping[BatchKey, str]) -> pa.Array:
    """The commit state of each record (columns epoch, batch_base_offset, batch_crc)."""
    return _by_batch(records, lambda key, _: others.get(key, usual))


def updated_column(records: pa.Table, changed: Mapping[BatchKey, str]) -> pa.Array:
    """The column commit_state with the states that have changed."""
    before = records["commit_state"].to_numpy(zero_copy_only=False)
    return _by_batch(records, lambda key, row: changed.get(key, before[row]))


def _by_batch(records: pa.Table, state_of: Callable[[BatchKey, int], str]) -> pa.Array:
    """A column: each record of a stretch of one batch gets state_of(key of the batch, number of the stretch's first
    row)."""
    names = ("epoch", "batch_base_offset", "batch_crc")
    columns: list[Array] = [pc.fill_null(records[n].cast(pa.int64()), -1).to_numpy() for n in names]
    first = np.ones(len(records), dtype=bool)
    first[1:] = np.any([c[1:] != c[:-1] for c in columns], axis=0)
    at = np.flatnonzero(first)
    keys = zip(*(c[at].tolist() for c in columns), strict=True)
    states = pa.array([state_of(key, row) for key, row in zip(keys, at.tolist(), strict=True)], pa.string())
    return states.take(pa.array(np.cumsum(first) - 1))


def _judge(
    lake: Lake, cluster: str, capture: Capture, rows: pa.Table, holders: Holders, control: pa.Table
) -> list[str]:
    epoch, base, last = (rows[name].to_numpy().astype(np.int64) for name in ("epoch", "base_offset", "last_offset"))
    reports = lake.rows("quorum_reports", cluster)
    points = [*_snapshot_points(lake, cluster, capture), *_reported_points(reports)]
    return commit_states(epoch, base, last, holders, _voters(lake, cluster, control, reports), points)


def _voters(lake: Lake, cluster: str, control: pa.Table, reports: list[Row]) -> frozenset[int]:
    """The newest voter set in the log (KRaftVotersRecord, else LeaderChangeMessage), else in a quorum report."""
    columns = ("epoch", "offset", "payload")
    logged = control.filter(pc.is_in(control["type"], pa.array(VOTER_TYPES))).select(columns).to_pylist()
    rows = [*lake.rows("metadata_records", cluster, columns, _VOTERS), *logged]
    newest: frozenset[int] = frozenset()
    for row in sorted(rows, key=lambda r: (r["epoch"], r["offset"])):
        newest = frozenset(v["voterId"] for v in json.loads(row["payload"]).get("voters", [])) or newest
    if newest:
        return newest
    named = [r for r in reports if r["voters"] and r["leader_epoch"] is not None]
    return frozenset(max(named, key=lambda r: r["leader_epoch"])["voters"]) if named else frozenset()


def _snapshot_points(lake: Lake, cluster: str, capture: Capture) -> list[Point]:
    """A point per snapshot: a snapshot has only committed records, and the logs of the nodes that hold it led to it."""
    columns = ("snapshot_end_offset", "snapshot_epoch", "sha256")
    known = lake.read("snapshot_records", cluster, columns, pc.field("snapshot_end_offset").is_valid())
    found = known.group_by(columns).aggregate([]).to_pylist()
    holders: dict[str, set[int]] = {}
    files = lake.rows("evidence_files", cluster, ("sha256", "node_id"), pc.field("node_id").is_valid())
    held = [(r["sha256"], r["node_id"]) for r in files] + [(f.sha256, f.node_id) for f in capture.files]
    for sha256, node in held:
        if node is not None:
            holders.setdefault(sha256, set()).add(node)
    return [Point(r[columns[0]], r[columns[1]], frozenset(holders.get(r["sha256"], ()))) for r in found]


def _reported_points(reports: list[Row]) -> list[Point]:
    named = [r for r in reports if r["high_watermark"] and r["leader_epoch"] is not None]
    return [Point(r["high_watermark"], r["leader_epoch"]) for r in named]
