"""The job without Spark: evidence and replay put together by hand, for tests of the pure packages."""

import fcntl
import json
import os
import pickle
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from evidence.broker_logs.boot_ids import read_boot_ids
from evidence.broker_logs.read import read_broker_logs
from evidence.capture.files import open_capture
from evidence.capture.static_configs import static_configs
from evidence.errors import Damage
from evidence.metadata_log.rows import LOG, ByteRange, decode_range, work_of
from evidence.metadata_log.scan import batch_table, scan_files
from evidence.offsets.read import read_offsets
from evidence.tables import LOG_END_OFFSETS
from replay.arrow.schemas import CHANGES
from replay.cluster.state import ClusterState, changes_that_count, log_shape, resolve_cluster
from replay.partitions.reducer import History, build_history
from tests.support.metric_names import NAMES
from tests.support.paths import capture

Row = dict[str, Any]

# Names a folder in which the processes of one test run keep what they decoded.
SHARED = "TEST_RUN_DECODED"


@dataclass(frozen=True)
class Decoded:
    """A capture as rows: batches, records and snapshot records with `data` parsed, offsets, static configs, lines of
    the nodes' own logs, their processes, boot ids."""

    batches: list[Row]
    records: list[Row]
    snapshots: list[Row]
    offsets: pa.Table
    static: dict[int, dict[str, str]]
    events: pa.Table
    boot_ids: pa.Table
    node_boots: pa.Table

    @property
    def snapshot_ends(self) -> list[tuple[int, int]]:
        return sorted({(r["snapshot_end_offset"], r["snapshot_epoch"]) for r in self.snapshots})


@cache
def decode(location: Path) -> Decoded:
    """Everything that ingest would write, of one capture. An archive is decoded by one process of a test run for all of
    them: that takes seconds, and reading what it made does not."""
    folder = os.environ.get(SHARED)
    if folder is None or not location.is_file():
        return _decode(location)
    kept = Path(folder) / f"{location.name}.decoded"
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(pickle.dumps(_decode(location)))
        found: Decoded = pickle.loads(kept.read_bytes())
    return found


def _decode(location: Path) -> Decoded:
    with open_capture(location) as capture:
        scanned = scan_files(capture.files)
        rows = [row for work in work_of(scanned) for row in _rows(work)]
        static: dict[int, dict[str, str]] = defaultdict(dict)
        for row in static_configs(capture):
            static[row["node_id"]][row["name"]] = row["value"]
        logs = read_broker_logs(capture.name, capture.files, is_collected=capture.is_collected)
        return Decoded(
            batch_table(capture.name, scanned.batches).to_pylist(),
            [row for row in rows if row["holds"] == LOG],
            [row for row in rows if row["snapshot_end_offset"] is not None],
            read_offsets(capture.name, capture.files, NAMES, 5000).log_end_offsets.cast(LOG_END_OFFSETS),
            dict(static),
            logs.events,
            read_boot_ids(capture, 5000).rows,
            logs.boots,
        )


def _rows(work: ByteRange) -> list[Row]:
    rows = decode_range(work.source.read_bytes(), work, "test")
    good = (row for row in rows if not isinstance(row, Damage))
    return [{**row, "holds": work.holds, "data": json.loads(row["payload"])} for row in good]


def cluster_state(decoded: Decoded) -> ClusterState:
    shape = log_shape(decoded.batches, decoded.snapshot_ends)
    return resolve_cluster(shape, decoded.records, decoded.snapshots, decoded.static)


def changes_of(decoded: Decoded, state: ClusterState) -> pa.Table:
    """replay.partitions.reducer.CHANGES rows that count: of the surviving log, and of the snapshots that runs start
    from."""
    cut = set(state.shape.truncated)
    rows = [_change(r, r["offset"], "log") for r in decoded.records if (r["epoch"], r["batch_base_offset"]) not in cut]
    rows += [
        _change(r, r["snapshot_end_offset"] - 1, "checkpoint")
        for r in decoded.snapshots
        if state.bases.get((r["snapshot_end_offset"], r["snapshot_epoch"])) == r["sha256"]
    ]
    table = pa.Table.from_pylist([r for r in rows if r], schema=CHANGES)
    return changes_that_count(table, state)


def _change(record: Row, offset: int, origin: str) -> Row | None:
    if record["partition_change"] is None:
        return None
    full = record["type"] == "PARTITION_RECORD"
    row = {**record, **record["partition_change"], "offset": offset, "controller_epoch": record["epoch"]}
    return {**row, "full": full, "origin": origin}


def history_of(decoded: Decoded) -> tuple[History, ClusterState]:
    state = cluster_state(decoded)
    return build_history(changes_of(decoded, state), state.topic_events, state.configs), state


@cache
def replayed(name: str) -> tuple[History, ClusterState]:
    """Of a real capture, by name."""
    return history_of(decode(capture(name)))
