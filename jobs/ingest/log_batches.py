"""log_batches: every distinct batch, the nodes that hold it, and its commit state, derived from all the evidence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.capture.files import Capture
from evidence.metadata_log.scan import DistinctBatch, batch_table
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from replay.arrow.ragged import Array
from replay.cluster.branches import Point, commit_states

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


def merged_batches(
    lake: Lake,
    capture: Capture,
    cluster: str,
    batches: list[DistinctBatch],
    control: pa.Table,
    held: Mapping[BatchKey, str | None],
) -> CommitStates:
    """Merge a capture's batches with log_batches and judge all of them. control: DECODED rows of its control records.
    held: the commit state of each batch's records in the lake; None: they differ. The capture's snapshots and quorum
    reports must already be in the lake.

    The result depends on the evidence, not on the order in which it was ingested.
    """
    schema, since = TABLES["log_batches"].file_schema, lake.cluster_version("log_batches", cluster)
    known = sorted(lake.rows("log_batches", cluster, schema.names), key=_key)
    old = {_key(r): r for r in known}
    merged = dict(old)
    for row in batch_table(capture.name, batches).to_pylist():
        before = old.get(_key(row))
        merged[_key(row)] = {**before, "nodes": sorted({*row["nodes"], *before["nodes"]})} if before else row
    rows = [merged[key] for key in sorted(merged)]
    found = _judge(lake, cluster, capture, rows, control)
    rows = [{**row, "commit_state": state} for row, state in zip(rows, found, strict=True)]
    states = {_key(row): row["commit_state"] for row in rows}
    usual = Counter(found).most_common(1)[0][0] if found else ""
    return CommitStates(
        usual,
        {key: state for key, state in states.items() if state != usual},
        {key: states[key] for key, state in held.items() if key in states and state != states[key]},
        pa.Table.from_pylist(rows, schema=schema) if rows != known else None,
        since,
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


def _key(row: Row) -> BatchKey:
    return row["epoch"], row["base_offset"], row["crc"]


def _judge(lake: Lake, cluster: str, capture: Capture, rows: list[Row], control: pa.Table) -> list[str]:
    names = ("epoch", "base_offset", "last_offset")
    epoch, base, last = (np.array([r[n] for r in rows], dtype=np.int64) for n in names)
    reports = lake.rows("quorum_reports", cluster)
    points = [*_snapshot_points(lake, cluster, capture), *_reported_points(reports)]
    return commit_states(
        epoch, base, last, [r["nodes"] for r in rows], _voters(lake, cluster, control, reports), points
    )


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
