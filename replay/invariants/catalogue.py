"""The catalogue of invariants that recorded state and the metadata log must satisfy, from catalogue.toml.

What the evidence does not show (min ISR without its configs, a broker or a feature level that no record names) violates
nothing.
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files

from replay.arrow.schemas import schema

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

INVARIANT_VIOLATIONS = schema("invariant_violations")
