"""What a lake says, whatever order and form the evidence came in: rows without their origin, and a digest of them."""

import hashlib

from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES

# What came first names the capture and the file that a row points at; the facts must not depend on it.
ORIGIN = frozenset({"capture", "path", "sha256", "position"})
EVIDENCE = (
    *("log_batches", "metadata_records", "snapshot_records", "log_end_offsets", "described_partitions"),
    *("quorum_reports", "static_configs"),
)


def facts(lake: Lake, name: str) -> list[str]:
    """A table's distinct rows without their origin, as sorted text."""
    kept = [column for column in TABLES[name].schema.names if column not in ORIGIN]
    return sorted({str(row) for row in lake.read(name, None, kept).to_pylist()})


def digests(lake: Lake) -> dict[str, str]:
    """A digest of every evidence table's facts."""
    return {name: hashlib.sha256("\n".join(facts(lake, name)).encode()).hexdigest()[:16] for name in EVIDENCE}
