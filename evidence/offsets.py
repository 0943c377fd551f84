"""Log-end offsets, high watermarks and leader epochs of replicas, from every source a capture has -> one table.

A source proves only what it says: replication-offset-checkpoint is the replica's high watermark (ReplicaManager),
leader-epoch-checkpoint's start offset of an epoch is the log end offset of that epoch's leader at its election.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from evidence import kinds, tables
from evidence.capture import EvidenceFile
from evidence.errors import Damage
from evidence.metrics import MetricNames, read_metrics
from evidence.segments import provenance
from evidence.text_files import MAX_INT32, Line, partition_topic_id, read_checkpoint

_CHECKPOINT_COLUMN = {
    kinds.REPLICATION_OFFSET: "high_watermark",
    kinds.RECOVERY_POINT: "recovery_point_offset",
    kinds.LOG_START_OFFSET: "log_start_offset",
}
SOURCES = (*_CHECKPOINT_COLUMN, kinds.LEADER_EPOCH, kinds.JMX_EXPORTER)

Row = dict[str, Any]


def read_offsets(
    capture: str, files: Iterable[EvidenceFile], names: MetricNames, uncertainty_ms: int
) -> tuple[pa.Table, dict[str, list[Damage]]]:
    """tables.LOG_END_OFFSETS of a capture, and the damage by file path.

    uncertainty_ms: how long one round of capturing may have taken: a value was read within that time after the time
    in its path. Rows of one replica and source are kept apart, nothing is joined here.
    """
    files = list(files)
    topic_ids = {
        str(PurePosixPath(f.path).parent): partition_topic_id(f.read())
        for f in files
        if f.kind == kinds.PARTITION_METADATA
    }
    rows: list[Row] = []
    damage: dict[str, list[Damage]] = {}
    for file in files:
        if file.kind not in SOURCES:
            continue
        topic_id = topic_ids.get(str(PurePosixPath(file.path).parent))
        found, bad = _read_file(file, names, topic_id)
        if file.node_id is None and found:
            message = (
                "nothing says which broker this is from: put meta.properties beside it or name the folder broker-<id>"
            )
            found, bad = [], [Damage(0, file.size_bytes, None, "unknown_node", message)]
        if bad:
            damage[file.path] = bad
        common: Row = {
            "broker_id": file.node_id,
            "source": file.kind,
            "captured_at_ms": file.captured_at_ms,
            "uncertainty_ms": None if file.captured_at_ms is None else uncertainty_ms,
        }
        rows += [{**common, **row, **provenance(capture, file, row["position"])} for row in found]
    return pa.Table.from_pylist(rows, schema=tables.LOG_END_OFFSETS), damage


def _read_file(file: EvidenceFile, names: MetricNames, topic_id: str | None) -> tuple[list[Row], list[Damage]]:
    data = file.read()
    if file.kind == kinds.JMX_EXPORTER:
        samples, damage = read_metrics(data, names)
        rows = [
            {"topic": s.topic, "partition": s.partition, s.field: s.value, "position": s.position}
            for s in samples
            if f"{s.topic}-{s.partition}" != kinds.METADATA_LOG_DIR
        ]
        return rows, damage
    if file.kind == kinds.LEADER_EPOCH:
        return _leader_epochs(file, data, topic_id)
    lines, damage = read_checkpoint(data, 2)
    column = _CHECKPOINT_COLUMN[file.kind]
    rows = []
    for line in lines:
        topic = line.words[0].decode("utf-8", "replace")
        partition, value = int(line.words[-2]), int(line.words[-1])
        if len(line.words) != 3 or not 0 <= partition <= MAX_INT32 or value < 0:
            damage.append(_not_an("offset", line))
        elif f"{topic}-{partition}" != kinds.METADATA_LOG_DIR:
            rows.append({"topic": topic, "partition": partition, column: value, "position": line.position})
    return rows, damage


def _leader_epochs(file: EvidenceFile, data: bytes, topic_id: str | None) -> tuple[list[Row], list[Damage]]:
    place = kinds.partition_of(PurePosixPath(file.path))
    if place is None:
        return [], [Damage(0, len(data), None, "unknown_partition", "the folder names no partition")]
    lines, damage = read_checkpoint(data, 2)
    rows = []
    for line in lines:
        epoch, start = (int(w) for w in line.words[-2:])
        if len(line.words) != 2 or not 0 <= epoch <= MAX_INT32 or start < 0:
            damage.append(_not_an("epoch", line))
            continue
        row = {"topic": place[0], "partition": place[1], "topic_id": topic_id, "position": line.position}
        rows.append({**row, "leader_epoch": epoch, "epoch_start_offset": start})
    return rows, damage


def _not_an(what: str, line: Line) -> Damage:
    message = f"not an entry with a valid {what}: {b' '.join(line.words)[:60]!r}"
    return Damage(line.position, line.length_bytes, None, "bad_checkpoint", message)
