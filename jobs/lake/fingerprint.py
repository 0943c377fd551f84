"""Derived tables are remade only when their inputs or the code's rules changed: a mark in the commit says from what."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from jobs.lake.lake_files import LakeFiles

# Raise when a change of code changes what a stage writes.
CODE_VERSION = 7


def input_fingerprint(lake: LakeFiles, inputs: Sequence[str], parameters: Sequence[object] = ()) -> str:
    """Identifies a stage's inputs: their Delta versions, its parameters and the code's version."""
    text = "|".join([f"{name}@{lake.version(name)}" for name in inputs] + [str(p) for p in (*parameters, CODE_VERSION)])
    return sha256(text.encode()).hexdigest()[:16]
