"""Load what the evidence consists of: captures, their files and hashes, what was read of them, Kafka's release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from jobs.ingest.captures import named_releases
from jobs.lake.lake import Lake
from jobs.views.in_duckdb import ask
from replay.controller.profiles import kafka_release

Row = dict[str, Any]

MOST_FILES = 300


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
    of = lake, cluster
    printed = lake.read("node_boots", cluster, ("kafka_version",))["kafka_version"].unique().drop_null()
    versions = named_releases(lake.rows("captures", cluster)) or sorted(printed.to_pylist())
    features = lake.rows("feature_history", cluster, ("name", "level"), pc.field("end_offset").is_null())
    return Captured(
        releases=[v if (release := kafka_release(v)) == v else f"{release} ({v})" for v in versions],
        profiles=[row["profile"] for row in ask("incident/profiles", of)],
        features={row["name"]: row["level"] for row in sorted(features, key=lambda row: row["name"])},
        captures=ask("incident/captures", of),
        nodes=ask("incident/nodes", of, {"most": MOST_FILES}),
        files=ask("incident/files", of, {"most": MOST_FILES}),
        file_count=lake.count("evidence_files", cluster),
    )
