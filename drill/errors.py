"""The error of this room."""

from __future__ import annotations

from evidence.errors import KraftForensicsError


class DrillError(KraftForensicsError):
    """A drill that cannot start or go on: a scenario, jars, memory, or a node that does not do what the step needs."""
