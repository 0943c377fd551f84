"""The input fingerprint in a commit identifies the inputs of a derived table, which is rebuilt only if they changed."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from jobs.lake.conflicts import ChangedMeanwhileError
from jobs.lake.lake import Lake

# Raise this when a code change changes what a stage writes.
CODE_VERSION = 9


def input_fingerprint(lake: Lake, cluster: str, inputs: Sequence[str], parameters: Sequence[object] = ()) -> str:
    """Hash of a stage's inputs: how often the cluster's rows of each table were changed, the stage's parameters and
    CODE_VERSION."""
    versions = [f"{name}@{lake.cluster_version(name, cluster)}" for name in inputs]
    text = "|".join(versions + [str(p) for p in (*parameters, CODE_VERSION)])
    return sha256(text.encode()).hexdigest()[:16]


def require_unchanged(
    before: str, lake: Lake, cluster: str, inputs: Sequence[str], parameters: Sequence[object] = ()
) -> None:
    """Check, before results are committed, that all of them were worked out from the same rows. before: the
    fingerprint from before the first row was read. Errors: ChangedMeanwhileError."""
    if input_fingerprint(lake, cluster, inputs, parameters) != before:
        raise ChangedMeanwhileError(f"{lake.root}: another run has changed the evidence of {cluster} meanwhile.")
