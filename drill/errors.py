"""The error of this room, and commands that raise it."""

from __future__ import annotations

import subprocess

from evidence.errors import KraftForensicsError


class DrillError(KraftForensicsError):
    """A drill that cannot start or go on: a scenario, jars, memory, or a node that does not do what the step needs."""


def call(*words: str) -> str:
    """What a command prints. Errors: DrillError if it fails or is not installed."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise DrillError(f"a drill needs {words[0]}, which is not installed") from None
    if done.returncode:
        told = " ".join(f"{done.stderr} {done.stdout}".split())
        raise DrillError(f"{' '.join(words[:4])} failed: {told[-400:]}")
    return done.stdout
