"""Load what the evidence consists of: captures, their files and hashes, what was read of them, Kafka's release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evidence.kinds import DUMP_LOG, METADATA_CHECKPOINT, METADATA_SEGMENT
from jobs.ingest.captures import named_releases
from jobs.lake.lake import Lake
from jobs.views.in_duckdb import rows_of
from replay.controller.profiles import kafka_release

Row = dict[str, Any]

MOST_FILES = 300
_BYTES = ("size_bytes", "parsed_bytes", "quarantined_bytes", "trailing_bytes")
_FILE = (
    "capture",
    "path",
    "kind",
    "sha256",
    "node_id",
    "captured_at_ms",
    "base_offset",
    "end_offset",
    "status",
    "note",
)
# Kinds of files that hold the metadata log come first, then files that were not read completely.
_LOG_KINDS = (METADATA_SEGMENT, METADATA_CHECKPOINT, DUMP_LOG)
_MOST_KINDS = 12
_MANIFEST = ("kafka_release", "clock_error_ms", "sha256")
_CAPTURES = f"""
select capture, count(*) as files, {", ".join(f"sum({name}) as {name}" for name in _BYTES)},
    min(captured_at_ms) as first_ms, max(captured_at_ms) as last_ms
from given group by capture order by capture
"""
# What was captured of each node.
_NODES = f"""
select capture, node_id, list_sort(list(distinct kind))[:{_MOST_KINDS}] as kinds,
    greatest(count(distinct kind) - {_MOST_KINDS}, 0) as more_kinds, count(*) as files,
    min(base_offset) as base_offset, max(end_offset) as end_offset, sum(quarantined_bytes) as quarantined_bytes
from given group by capture, node_id order by capture, node_id limit {MOST_FILES}
"""


@dataclass(frozen=True, slots=True)
class Captured:
    """What the evidence consists of. releases: names of Kafka releases in manifests, else those that nodes printed as
    they started, Confluent's as "4.1 (8.1.0-ccs)"; profiles: rule profiles that the
    controllers may have run (docs/rules.md); features: name -> level at the log's end; captures: rows {capture,
    kafka_release, clock_error_ms, sha256 (of the manifest), files, size_bytes, parsed_bytes, quarantined_bytes,
    trailing_bytes, first_ms, last_ms}; nodes: rows {capture, node_id, kinds, more_kinds, files, base_offset,
    end_offset, quarantined_bytes}; files: EVIDENCE_FILES, the first MOST_FILES; file_count: of all."""

    releases: Sequence[str] = ()
    profiles: Sequence[str] = ()
    features: Mapping[str, int] = field(default_factory=dict)
    captures: Sequence[Row] = ()
    nodes: Sequence[Row] = ()
    files: Sequence[Row] = ()
    file_count: int = 0


def load_captured(lake: Lake, cluster: str) -> Captured:
    """What the evidence of a cluster consists of."""
    files = lake.read("evidence_files", cluster, (*_FILE, *_BYTES))
    manifests = lake.rows("captures", cluster)
    open_end = pc.field("end_offset").is_null()
    features = lake.rows("feature_history", cluster, ("name", "level"), open_end)
    return Captured(
        releases=[_shown(name) for name in named_releases(manifests) or _printed_releases(lake, cluster)],
        profiles=_profiles(lake, cluster),
        features={row["name"]: row["level"] for row in sorted(features, key=lambda row: row["name"])},
        captures=_captures(files, manifests),
        nodes=rows_of(_NODES, files),
        files=_listed(files),
        file_count=len(files),
    )


def _shown(version: str) -> str:
    release = kafka_release(version)
    return version if release == version else f"{release} ({version})"


def _printed_releases(lake: Lake, cluster: str) -> list[str]:
    found = lake.read("node_boots", cluster, ("kafka_version",))["kafka_version"].unique().drop_null()
    return sorted(found.to_pylist())


def _profiles(lake: Lake, cluster: str) -> list[str]:
    found: set[str] = set()
    for part in lake.parts("elections", cluster, ("predictions",)):
        predictions = pc.list_flatten(part["predictions"])
        if len(predictions):
            found |= set(pc.unique(pc.struct_field(predictions, "profile")).to_pylist())
    return sorted(name for name in found if name is not None)


def _captures(files: pa.Table, manifests: Sequence[Row]) -> list[Row]:
    by_name = {row["capture"]: row for row in manifests}
    return [
        {"capture": row["capture"]} | {name: by_name.get(row["capture"], {}).get(name) for name in _MANIFEST} | row
        for row in rows_of(_CAPTURES, files)
    ]


def _listed(files: pa.Table) -> list[Row]:
    log = pc.fill_null(pc.index_in(files["kind"], value_set=pa.array(_LOG_KINDS)), len(_LOG_KINDS))
    complete = pc.fill_null(pc.equal(files["quarantined_bytes"], 0), True).cast(pa.int8())
    table = files.append_column("log", log).append_column("complete", complete)
    order = [(name, "ascending") for name in ("log", "complete", "capture", "path")]
    rows: list[Row] = table.sort_by(order).slice(0, MOST_FILES).drop_columns(["log", "complete"]).to_pylist()
    return rows
