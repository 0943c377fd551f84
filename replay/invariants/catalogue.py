"""The catalogue of invariants that recorded state and the metadata log must satisfy, from catalogue.toml.

What the evidence does not show (min ISR without its configs, a broker or a feature level that no record names) violates
nothing.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files

import pyarrow as pa

from replay.arrow.schemas import INT32_LIST, PARTITION_HISTORY, column

# The maximum number of evidence_offsets in a row of INVARIANT_VIOLATIONS.
MOST_EVIDENCE = 8


@dataclass(frozen=True, slots=True)
class Invariant:
    """definition: what must hold. meaning: what a violation means to an operator. source: where Kafka guarantees it.
    shows: the columns of the partition's state that a violation's `detail` quotes."""

    name: str
    severity: str
    definition: str
    meaning: str
    source: str
    shows: tuple[str, ...] = ()


def _read() -> dict[str, Invariant]:
    tables = tomllib.loads(files("replay.invariants").joinpath("catalogue.toml").read_text("utf-8"))
    return {n: Invariant(**{"name": n, **table, "shows": tuple(table.get("shows", ()))}) for n, table in tables.items()}


INVARIANTS = _read()

INVARIANT_VIOLATIONS = pa.schema(
    [
        column("invariant", pa.string(), "the violated invariant: a name in docs/invariants.md"),
        column("severity", pa.string(), "critical, high, medium or low"),
        *(PARTITION_HISTORY.field(name) for name in ("topic_id", "topic", "partition")),
        column("start_offset", pa.int64(), "metadata offset of the record from which it is violated"),
        column("start_timestamp_ms", pa.int64(), "timestamp of that record"),
        column(
            "end_offset",
            pa.int64(),
            "metadata offset from which it holds again or is unknown; null = never in this log",
        ),
        column("end_timestamp_ms", pa.int64(), "timestamp of the record at end_offset"),
        column("rows", pa.int64(), "number of consecutive states (batches or records of the log) that violate it"),
        column("brokers", INT32_LIST, "brokers (controllers, for the log) concerned, ascending"),
        column("detail", pa.string(), "the state at the start of the violation; before->after for a change"),
        column(
            "evidence_offsets",
            pa.list_(pa.int64()),
            "metadata offsets of the records that show it, the first 8",
        ),
        *(PARTITION_HISTORY.field(name) for name in ("capture", "path", "sha256", "position")),
    ]
)
