"""Boot ids of brokers' machines: between two readings of the same id the machine ran without a break, so that a process
that was killed lost nothing of what it had written.

Source: Linux, /proc/sys/kernel/random/boot_id (a new random id at every start of the machine).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BootReading:
    """One reading of a machine's boot id, begun at captured_at_ms and done by read_by_ms, by the capturer's clock."""

    boot_id: str
    captured_at_ms: int
    read_by_ms: int


# What `boots_of` reads of a row.
BOOT_COLUMNS = ("node_id", "boot_id", "captured_at_ms", "uncertainty_ms")
Boots = Mapping[int, Sequence[BootReading]]


def boots_of(rows: Iterable[Mapping[str, Any]]) -> dict[int, list[BootReading]]:
    """By broker, its readings in order of time. rows: node_id, boot_id, captured_at_ms, uncertainty_ms; rows without
    one of the first three are left out."""
    result: dict[int, set[BootReading]] = defaultdict(set)
    for row in rows:
        node, boot_id, at = row["node_id"], row["boot_id"], row["captured_at_ms"]
        if node is not None and boot_id is not None and at is not None:
            result[node].add(BootReading(boot_id, at, at + (row["uncertainty_ms"] or 0)))
    return {node: sorted(own, key=lambda r: (r.captured_at_ms, r.read_by_ms)) for node, own in result.items()}


def is_same_boot(readings: Sequence[BootReading], since_ms: int, until_ms: int, error_ms: int) -> bool:
    """Whether the machine certainly ran without a break from since_ms to until_ms: a reading from before and one from
    after have the same id, and so have all readings between them."""
    before = bisect_right(readings, since_ms - error_ms, key=lambda r: r.read_by_ms) - 1
    after = bisect_left(readings, until_ms + error_ms, key=lambda r: r.captured_at_ms)
    if before < 0 or after >= len(readings):
        return False
    return len({r.boot_id for r in readings[before : after + 1]}) == 1
