"""The input fingerprint in a commit identifies the inputs of a derived table, which is rebuilt only if they changed."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from jobs.lake.lake import Lake

# Raise this when a code change changes what a stage writes.
CODE_VERSION = 10


def input_fingerprint(lake: Lake, inputs: Sequence[str], parameters: Sequence[object] = ()) -> str:
    """Hash of a stage's inputs: their Delta versions, the stage's parameters and CODE_VERSION."""
    text = "|".join([f"{name}@{lake.version(name)}" for name in inputs] + [str(p) for p in (*parameters, CODE_VERSION)])
    return sha256(text.encode()).hexdigest()[:16]
