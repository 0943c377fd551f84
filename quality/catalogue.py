"""All checks."""

from __future__ import annotations

from hashlib import sha256

from quality.check import Check
from quality.checks import coverage, findings, histories, log, nodes, offsets, results, values

_ROOMS = (values, log, nodes, offsets, coverage, histories, results, findings)
CHECKS: tuple[Check, ...] = tuple(check for room in _ROOMS for check in room.checks())


def fingerprint(table: str) -> str:
    """Identifies what is expected of a table: it changes with its expectations' names and meanings."""
    lines = [f"{c.name}|{c.kind}|{c.meaning}|{c.warns}" for c in CHECKS if c.table == table]
    return sha256("\n".join(lines).encode()).hexdigest()[:16]
