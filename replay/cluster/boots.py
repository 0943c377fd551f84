"""Boot ids of brokers' machines: between two readings of the same id the machine ran without a break, so that a process
that was killed lost nothing of what it had written. And when the machines started, by their uptime.

Source: Linux, /proc/sys/kernel/random/boot_id (a new random id at every start of the machine), /proc/uptime.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BootReading:
    """One reading of a machine's boot id, begun at captured_at_ms and done by read_by_ms, by the capturer's clock.

    booted_by_ms: when the machine had started at the latest, by the same clock. machine_id, node_name: which machine;
    local_disks: whether all log directories are on disks of that machine. None: unknown, also the boot id.
    """

    boot_id: str | None
    captured_at_ms: int
    read_by_ms: int
    booted_by_ms: int | None = None
    machine_id: str | None = None
    node_name: str | None = None
    local_disks: bool | None = None


# What `boots_of` reads of a row.
_MACHINE = ("booted_by_ms", "machine_id", "node_name", "local_disks")
BOOT_COLUMNS = ("node_id", "boot_id", "captured_at_ms", "uncertainty_ms", *_MACHINE)
Boots = Mapping[int, Sequence[BootReading]]


def boots_of(rows: Iterable[Mapping[str, Any]]) -> dict[int, list[BootReading]]:
    """By broker, its readings in order of time. rows: BOOT_COLUMNS, of which those of the machine may be missing; rows
    without node_id or captured_at_ms, or with neither boot_id nor booted_by_ms, are left out."""
    result: dict[int, set[BootReading]] = defaultdict(set)
    for row in rows:
        node, boot_id, at = row["node_id"], row["boot_id"], row["captured_at_ms"]
        machine = [row.get(name) for name in _MACHINE]
        if node is not None and at is not None and (boot_id is not None or machine[0] is not None):
            result[node].add(BootReading(boot_id, at, at + (row["uncertainty_ms"] or 0), *machine))
    return {node: sorted(own, key=lambda r: (r.captured_at_ms, r.read_by_ms)) for node, own in result.items()}


def is_same_boot(readings: Sequence[BootReading], since_ms: int, until_ms: int, error_ms: int) -> bool:
    """Whether the machine certainly ran without a break from since_ms to until_ms: a reading from before and one from
    after have the same id, and so have all readings between them. Readings without an id count for nothing."""
    readings = [r for r in readings if r.boot_id is not None]
    before = bisect_right(readings, since_ms - error_ms, key=lambda r: r.read_by_ms) - 1
    after = bisect_left(readings, until_ms + error_ms, key=lambda r: r.captured_at_ms)
    if before < 0 or after >= len(readings):
        return False
    return len({r.boot_id for r in readings[before : after + 1]}) == 1
