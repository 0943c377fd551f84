"""Derived tables are remade only when their inputs or the code's rules changed: the fingerprints are kept here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import sha256

import pyarrow as pa

from jobs.lake import Lake
from jobs.tables import STAGE_RUNS

# Raise when a change of code changes what a stage writes.
CODE_VERSION = 1


def fingerprint(lake: Lake, inputs: Sequence[str], parameters: Sequence[object] = ()) -> str:
    """Identifies a stage's inputs: their Delta versions, its parameters and the code's version."""
    text = "|".join([f"{name}@{lake.version(name)}" for name in inputs] + [str(p) for p in (*parameters, CODE_VERSION)])
    return sha256(text.encode()).hexdigest()[:16]


def is_done(lake: Lake, cluster: str, stage: str, mark: str) -> bool:
    """True when the stage last finished with this fingerprint."""
    return any(r["fingerprint"] == mark for r in lake.rows("stage_runs", cluster, ("stage", "fingerprint"), f"stage = '{stage}'"))


def mark_done(lake: Lake, cluster: str, stage: str, mark: str) -> None:
    """Record that a stage finished; written after its tables, so that a crash repeats it."""
    row = {"stage": stage, "fingerprint": mark, "finished_at_ms": time.time_ns() // 1_000_000}
    lake.merge("stage_runs", lake.frame("stage_runs", cluster, pa.Table.from_pylist([row], schema=STAGE_RUNS)), tuple(row)[1:])
