"""What log-end-offset evidence says about one partition: bounds with the rows they stand on. Plain Python, a partition
at a time: only partitions that are already suspected come here.

Every rule below is one-sided on purpose: a value that cannot be ordered against an election is not used to prove.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

# How long a broker may go on under the old state before it learns of a new one (metadata propagation).
PROPAGATION_MS = 1_000


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on an offset and the row that gives it; value None: open."""

    value: int | None = None
    row: Row | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """How to order evidence by time. error_ms: the largest difference between two nodes' clocks."""

    error_ms: int = 0

    def surely_before(self, row: Row, timestamp_ms: int) -> bool:
        """True when the row's value was read before the time, whatever the clocks and the capture's duration did."""
        begin = row["captured_at_ms"]
        return begin is not None and begin + (row["uncertainty_ms"] or 0) + self.error_ms < timestamp_ms

    def surely_after(self, row: Row, timestamp_ms: int) -> bool:
        begin = row["captured_at_ms"]
        return begin is not None and begin - self.error_ms > timestamp_ms


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica as it was last seen before a time: its log end and the last leader epoch written in its log."""

    broker_id: int
    log_end_offset: int
    last_written_leader_epoch: int | None
    row: Row


def high_watermark_floor(rows: Iterable[Row], before_ms: int, clock: Clock) -> Bound:
    """The largest high watermark that any replica surely reported before the time: a high watermark never goes back
    under the same leader, and a checkpointed one is never above the true one."""
    known = [r for r in rows if r["high_watermark"] is not None and clock.surely_before(r, before_ms)]
    best = max(known, key=lambda r: r["high_watermark"], default=None)
    return Bound(best["high_watermark"], best) if best else Bound()


def high_watermark_ceiling(
    rows: Iterable[Row], frozen: tuple[int, int] | None, leaders: Sequence[int], before_ms: int, clock: Clock
) -> Bound:
    """An upper bound of the high watermark at the end of a stretch in which it could not advance.

    frozen: (start, end) in ms of the stretch with |ISR| < min ISR right before the election, None if there is none:
    then the bound is open, since a leader may have written after it was last seen. In the stretch the high watermark
    stands still (KIP-966; Kafka's Partition.maybeIncrementLeaderHW), and a leader's log end is never below it.
    """
    if frozen is None:
        return Bound()
    start, end = frozen
    seen = [
        r
        for r in rows
        if r["log_end_offset"] is not None
        and r["broker_id"] in leaders
        and clock.surely_after(r, start + PROPAGATION_MS)
        and clock.surely_before(r, min(end, before_ms))
    ]
    best = min(seen, key=lambda r: r["log_end_offset"], default=None)
    return Bound(best["log_end_offset"], best) if best else Bound()


def election_log_end(
    rows: Iterable[Row], leader: int, leader_epoch: int, term: tuple[int, int | None], clock: Clock
) -> tuple[Bound, Bound]:
    """(lower, upper) bound of the winner's log end when it was elected. term: (elected, replaced) in ms.

    The start offset of its epoch in its own leader-epoch-checkpoint is exact. Another replica's entry for that epoch,
    and the winner's log end while it led, are never below it.
    """
    rows = list(rows)
    entries = [r for r in rows if r["leader_epoch"] == leader_epoch and r["epoch_start_offset"] is not None]
    own = [r for r in entries if r["broker_id"] == leader]
    if own:
        exact = min(own, key=lambda r: r["epoch_start_offset"])
        bound = Bound(exact["epoch_start_offset"], exact)
        return bound, bound
    elected, replaced = term
    above = [(r["epoch_start_offset"], r) for r in entries]
    above += [
        (r["log_end_offset"], r)
        for r in rows
        if r["log_end_offset"] is not None
        and r["broker_id"] == leader
        and clock.surely_after(r, elected + PROPAGATION_MS)
        and (replaced is None or clock.surely_before(r, replaced))
    ]
    best = min(above, key=lambda pair: pair[0], default=None)
    return Bound(), Bound(best[0], best[1]) if best else Bound()


def last_seen(rows: Iterable[Row], broker: int, before_ms: int, clock: Clock) -> Replica | None:
    """The replica as it was last seen before the time, or None. Its epoch is read from the leader-epoch-checkpoint of
    the same round of capturing; an epoch that begins at the log's end was opened but not written."""
    rows = [r for r in rows if r["broker_id"] == broker and clock.surely_before(r, before_ms)]
    ends = [r for r in rows if r["log_end_offset"] is not None]
    latest = max(ends, key=lambda r: r["captured_at_ms"], default=None)
    if latest is None:
        return None
    end = latest["log_end_offset"]
    epochs = [
        r["leader_epoch"]
        for r in rows
        if r["epoch_start_offset"] is not None
        and r["captured_at_ms"] == latest["captured_at_ms"]
        and r["epoch_start_offset"] < end
    ]
    return Replica(broker, end, max(epochs, default=None), latest)


def fresh_high_watermark(rows: Iterable[Row], since_ms: int, leader_epoch: int, before_ms: int, clock: Clock) -> Bound:
    """The largest high watermark that surely belongs to the log of `leader_epoch` or later.

    A checkpoint file outlives its broker, so a copy taken after an election may still speak of the log before it. A
    value counts when the same replica showed another value after the election (the file was written since), and its
    leader-epoch-checkpoint of the same round has an epoch >= leader_epoch (it follows the new log).
    """
    after = [r for r in rows if clock.surely_after(r, since_ms) and clock.surely_before(r, before_ms)]
    current = {
        (r["broker_id"], r["captured_at_ms"])
        for r in after
        if r["epoch_start_offset"] is not None and r["leader_epoch"] >= leader_epoch
    }
    best = Bound()
    earlier: dict[int, set[int]] = {}
    for row in sorted((r for r in after if r["high_watermark"] is not None), key=lambda r: r["captured_at_ms"]):
        broker, value = row["broker_id"], row["high_watermark"]
        seen = earlier.setdefault(broker, set())
        rewritten = bool(seen - {value})
        seen.add(value)
        if rewritten and (broker, row["captured_at_ms"]) in current and (best.value is None or value > best.value):
            best = Bound(value, row)
    return best
