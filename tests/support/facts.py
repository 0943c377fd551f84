"""What a lake says, whatever order and form the evidence came in: rows without their origin, and a digest of them."""

from __future__ import annotations

import hashlib

from tests.support.spark_lake import SparkLake

# What came first names the capture and the file that a row points at; the facts must not depend on it.
ORIGIN = frozenset({"capture", "path", "sha256", "position"})
EVIDENCE = (
    "log_batches",
    "metadata_records",
    "snapshot_records",
    "log_end_offsets",
    "described_partitions",
    "quorum_reports",
    "static_configs",
)


def facts(lake: SparkLake, name: str, leave_out: frozenset[str] = frozenset()) -> list[str]:
    """A table's distinct rows without their origin, as sorted text."""
    table = lake.table(name).toArrow()
    kept = [c for c in table.column_names if c not in ORIGIN | leave_out]
    return sorted({str(row) for row in table.select(kept).to_pylist()})


def digests(lake: SparkLake) -> dict[str, str]:
    """A digest of every evidence table's facts."""
    return {name: hashlib.sha256("\n".join(facts(lake, name)).encode()).hexdigest()[:16] for name in EVIDENCE}
