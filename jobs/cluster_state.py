"""Load the cluster-wide records of one cluster from the lake and resolve them (replay/cluster.py)."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from evidence.errors import KraftForensicsError
from jobs.lake import Lake
from replay.cluster import CLUSTER_TYPES, ClusterState, ConflictError, log_shape, resolve_cluster

_COLUMNS = (
    "offset",
    "epoch",
    "timestamp_ms",
    "type",
    "payload",
    "batch_base_offset",
    "capture",
    "path",
    "sha256",
    "position",
)


def load_cluster_state(lake: Lake, cluster: str) -> ClusterState:
    """Read and resolve. Errors: KraftForensicsError when captures contradict each other."""
    batches = lake.rows("log_batches", cluster, ("epoch", "base_offset", "last_offset", "crc", "path"))
    wanted = "type in ({})".format(", ".join(f"'{t}'" for t in sorted(CLUSTER_TYPES | {"SNAPSHOT_HEADER"})))
    snapshot = lake.rows("snapshot_records", cluster, ("snapshot_end_offset", "snapshot_epoch", *_COLUMNS), wanted)
    ends = sorted({(r["snapshot_end_offset"], r["snapshot_epoch"]) for r in snapshot})
    try:
        shape = log_shape(batches, ends)
    except ConflictError as error:
        raise KraftForensicsError(str(error)) from error
    static: dict[int, dict[str, str]] = defaultdict(dict)
    for row in lake.rows("static_configs", cluster, ("node_id", "name", "value")):
        static[row["node_id"]][row["name"]] = row["value"]
    logged = lake.rows("metadata_records", cluster, _COLUMNS, wanted)
    return resolve_cluster(shape, _parsed(logged), _parsed(snapshot), static)


def _parsed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "data": json.loads(row["payload"])} for row in rows]
