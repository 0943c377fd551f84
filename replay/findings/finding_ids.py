"""Stable ids of findings."""

from __future__ import annotations

import hashlib


def finding_id(*parts: object) -> str:
    """The same cluster, kind, partition and place give the same id whenever it is computed."""
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:16]
