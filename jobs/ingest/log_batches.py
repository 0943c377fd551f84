"""log_batches: every distinct batch, the nodes that hold it, and its commit state, derived from all the evidence."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evidence.capture.files import Capture
from evidence.metadata_log.scan import DistinctBatch, batch_table
from jobs.ingest.records import VOTER_TYPES
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from replay.cluster.branches import Point, commit_states

Row = dict[str, Any]
_VOTERS = pc.field("type").isin(VOTER_TYPES) & pc.field("offset").is_valid()


def write_batches(
    lake: Lake, capture: Capture, cluster: str, batches: list[DistinctBatch], aside: pa.Table
) -> DataFrame:
    """Merge the batches into log_batches; returns (epoch, batch_base_offset, batch_crc, commit_state) of all batches of
    the cluster. aside: jobs.ingest.records.read_aside of this capture. Its snapshots and quorum reports must already be
    in the lake.

    The result depends on the evidence, not on the order in which it was ingested.
    """
    schema = pa.schema([f for f in TABLES["log_batches"].schema if f.name != "cluster_id"])
    known = sorted(lake.rows("log_batches", cluster, schema.names), key=_key)
    old = {_key(r): r for r in known}
    merged = dict(old)
    for row in batch_table(capture.name, batches).to_pylist():
        before = old.get(_key(row))
        merged[_key(row)] = {**before, "nodes": sorted({*row["nodes"], *before["nodes"]})} if before else row
    rows = [merged[key] for key in sorted(merged)]
    states = _judge(lake, cluster, capture, rows, aside)
    rows = [{**row, "commit_state": state} for row, state in zip(rows, states, strict=True)]
    table = pa.Table.from_pylist(rows, schema=schema)
    keys = [F.col("epoch"), F.col("base_offset").alias("batch_base_offset"), F.col("crc").alias("batch_crc")]
    judged = lake.frame("log_batches", cluster, table).select("cluster_id", *keys, "commit_state")
    changed = [k for row in rows if (k := _key(row)) in old and old[k]["commit_state"] != row["commit_state"]]
    if changed:
        lake.update("metadata_records", judged, ("epoch", "batch_base_offset", "batch_crc"), ("commit_state",))
    if rows != known:  # written after the records: a run that crashed in between repeats both
        lake.put("log_batches", cluster, table)
    return judged.drop("cluster_id")


def _key(row: Row) -> tuple[int, int, int]:
    return row["epoch"], row["base_offset"], row["crc"]


def _judge(lake: Lake, cluster: str, capture: Capture, rows: list[Row], aside: pa.Table) -> list[str]:
    names = ("epoch", "base_offset", "last_offset")
    epoch, base, last = (np.array([r[n] for r in rows], dtype=np.int64) for n in names)
    reports = lake.rows("quorum_reports", cluster)
    points = [*_snapshot_points(lake, cluster, capture), *_reported_points(reports)]
    return commit_states(epoch, base, last, [r["nodes"] for r in rows], _voters(lake, cluster, aside, reports), points)


def _voters(lake: Lake, cluster: str, aside: pa.Table, reports: list[Row]) -> frozenset[int]:
    """The newest voter set in the log (KRaftVotersRecord, else LeaderChangeMessage), else in a quorum report."""
    columns = ("epoch", "offset", "payload")
    logged = aside.filter(aside["type"].is_valid()).select(columns).to_pylist()
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
