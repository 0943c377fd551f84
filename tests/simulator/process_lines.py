"""What contiguous server.logs show of brokers' processes (replay.cluster.boots.Processes), by the product's tracker."""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evidence.broker_logs.boots import BootTracker
from replay.cluster.boots import LoggedProcess, processes_of
from tests.simulator.node_logs import HOUR_MS, Line, LogThinning
from tests.simulator.setup import Setup

Row = dict[str, Any]
STARTED = "Registered signal handlers for TERM, INT, HUP"


def processes(
    lines: Iterable[Line], crashes: Sequence[tuple[int, int]], setup: Setup, thinning: LogThinning | None
) -> Mapping[tuple[int, int], LoggedProcess]:
    """lines: everything that brokers logged, starts and registrations included. Nothing if the files have holes, or
    clocks that were set. crashes: (ms, broker), which take the last lines with them."""
    if thinning is None or thinning.share or thinning.missing or thinning.utc_off or thinning.stepped:
        return {}
    rng = random.Random(f"processes {thinning.seed}")
    rotated_ms = rng.choice((60_000, HOUR_MS, HOUR_MS))
    silent = {broker for broker in setup.brokers if rng.random() < thinning.silent}
    torn = [(at_ms - rng.choice((0, 0, 300, 3_000, 30_000)), at_ms, broker) for at_ms, broker in crashes]
    files: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for position, line in enumerate(sorted(lines, key=lambda each: each.at_ms)):
        lost = any(b == line.broker and begin < line.at_ms <= end for begin, end, b in torn)
        if line.broker in silent or lost or line.kind in thinning.silenced:
            continue
        at_ms = line.at_ms + setup.skew_ms(2 + setup.brokers.index(line.broker))
        row = {"kind": line.kind, "logged_at_ms": at_ms, "position": position, "message": STARTED, **line.values}
        files[line.broker, line.at_ms // rotated_ms].append(row)
    return processes_of((row for (broker, number), rows in files.items() for row in _boots(broker, number, rows)), {})


def _boots(broker: int, number: int, rows: Sequence[Row]) -> list[Row]:
    tracker, before = BootTracker(), None
    tracker.begin_file(rows[0])
    for row in rows:
        tracker.add(row, before)
        before = row
    tracker.end(before)
    return [{**row, "node_id": broker, "capture": "c", "path": str(number)} for row in tracker.rows]
