"""Which high watermark reports still speak of the log at hand, election by election.

A report (replication-offset-checkpoint) outlives its broker and the log it speaks of: after an election whose winner
held less, an old report says nothing of what can be lost next. So every report gets the leader epoch that its log
surely had reached, and every election since lets pass only what is below its winner's log end. A report or an election
about which that is not known passes nothing on: missing evidence lowers the floor, it never raises it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from replay.cluster.facts import Clock
from replay.offsets.evidence import OPEN, Bound, Evidence, Row, read_by


@dataclass(frozen=True, slots=True)
class Step:
    """A leader change that asks for the floor before it. carries: everything acknowledged survives it, since the log
    stays with the running process that had it; else survives bounds what does (open: not known)."""

    leader_epoch: int
    at_ms: int
    carries: bool
    survives: Bound = OPEN


@dataclass(frozen=True, slots=True)
class Report:
    """A high watermark that the log of `leader_epoch` or of a later one had reached, read until end_ms. inference: as
    of `offsets.Bound`."""

    value: int
    end_ms: int
    leader_epoch: int
    row: Row
    inference: str | None = None


class EpochsShown:
    """Which leader epochs each broker's leader-epoch-checkpoint had shown by a time. rows: by broker, in order of
    capture."""

    def __init__(self, rows: Mapping[int, Sequence[Row]]) -> None:
        self._by_broker = {broker: self._highest(own) for broker, own in rows.items()}

    def highest(self, broker: int, since_ms: int, by_ms: int) -> int | None:
        """The highest epoch among what was surely read since one time and by another."""
        reads, begins, epochs = self._by_broker.get(broker, ([], [], []))
        index = bisect_right(reads, by_ms) - 1
        return epochs[index] if index >= 0 and begins[index] > since_ms else None

    @staticmethod
    def _highest(rows: Sequence[Row]) -> tuple[list[int], list[int], list[int]]:
        """(read by, begin of the round, epoch): of each round its highest line, in the order of reading."""
        rounds: dict[tuple[int, int], int] = {}
        for row in rows:
            place = read_by(row), row["captured_at_ms"]
            rounds[place] = max(rounds.get(place, -1), row["leader_epoch"])
        ordered = sorted(rounds.items())
        return [r for (r, _), _ in ordered], [b for (_, b), _ in ordered], [e for _, e in ordered]


def reports(
    evidence: Evidence,
    marks: Sequence[Row],
    created: tuple[int, int] | None,
    steps: Sequence[Step],
    settled: Callable[[Row], int | None],
    clock: Clock,
) -> list[Report]:
    """The high watermark reports with the leader epoch that each surely belongs to.

    marks: those of `evidence.high_watermarks` that surely are this partition's. created: (leader epoch, ms) of the
    partition's creation, if the log has it; what was read before is another partition's. settled: a leader epoch that
    the log of the row's replica surely had reached when the value was written, or None.
    """
    result = []
    written = _written_under(evidence)
    limiting = [s for s in steps if not s.carries]
    for row in marks:
        if created is not None and not clock.surely_after(row, created[1]):
            continue
        epoch = max(written.get(id(row), -1), -1 if created is None else created[0])
        following = bisect_right(limiting, epoch, key=lambda s: s.leader_epoch)
        # Asking costs: only where a later epoch would lift the report over a step.
        if following < len(limiting) and limiting[following].at_ms < row["captured_at_ms"]:
            epoch = max(epoch, -1 if (late := settled(row)) is None else late)
        if epoch >= 0:
            result.append(Report(row["high_watermark"], read_by(row) + clock.error_ms, epoch, row))
    return result


def _written_under(evidence: Evidence) -> dict[int, int]:
    """By id of a high watermark row: a leader epoch that its log had reached when the value was written.

    When a broker's file shows another value than in an earlier round, it was written since that round; and when the
    same broker's leader-epoch-checkpoint had shown an epoch before that round, the value is of that epoch's log or
    later.
    """
    result: dict[int, int] = {}
    by_broker: dict[int, list[Row]] = defaultdict(list)
    for row in evidence.high_watermarks:
        by_broker[row["broker_id"]].append(row)
    for broker, marks in by_broker.items():
        lines = sorted((read_by(r), r["leader_epoch"]) for r in evidence.epoch_rows.get(broker, []))
        ends, highest = [end for end, _ in lines], list(accumulate((e for _, e in lines), max))
        finished = sorted(marks, key=read_by)
        # For each row in order of its end: the latest begin of a row so far, and of one so far with another value.
        latest: list[tuple[int, int, int, int]] = []
        best, value, other, different = -1, -1, -1, -1
        for row in finished:
            begin, shown = row["captured_at_ms"], row["high_watermark"]
            if shown == value:
                best = max(best, begin)
            elif begin > best:
                best, value, other, different = begin, shown, best, value
            elif begin > other:
                other, different = begin, shown
            latest.append((best, value, other, different))
        finished_at = [read_by(r) for r in finished]
        for row in marks:
            earlier = bisect_left(finished_at, row["captured_at_ms"]) - 1
            if earlier < 0:
                continue
            best, value, other, _ = latest[earlier]
            since = best if value != row["high_watermark"] else other
            line = bisect_left(ends, since) - 1
            if line >= 0:
                result[id(row)] = highest[line]
    return result


def floors(steps: Sequence[Step], known: Sequence[Report]) -> list[Bound]:
    """For every step the largest high watermark that the partition's log surely had reached before it.

    steps: in offset order, leader epochs ascending. A report counts for a step if it was surely read before it, as far
    as every step in between, from the report's own leader epoch on, let it survive.
    """
    epochs = [s.leader_epoch for s in steps]
    times = list(accumulate((s.at_ms for s in steps), max))
    waiting: dict[int, list[tuple[int, Report]]] = defaultdict(list)
    for report in known:
        slot = bisect_right(epochs, report.leader_epoch)
        waiting[max(slot, bisect_right(times, report.end_ms))].append((slot, report))
    # A report of slot i passes through steps i, i + 1, ...: groups of slots that the same step limits most, by last
    # slot.
    lasts: list[int] = []
    caps: list[Bound] = []
    floor, result = OPEN, []
    for index, step in enumerate(steps):
        for slot, report in waiting[index]:
            group = bisect_left(lasts, slot)
            passed = _capped(
                Bound(report.value, report.row, inference=report.inference), caps[group] if group < len(lasts) else None
            )
            if passed.value is not None and (floor.value is None or passed.value > floor.value):
                floor = passed
        result.append(floor)
        if step.carries:
            continue
        while caps and _limit(caps[-1]) >= _limit(step.survives):
            lasts.pop()
            caps.pop()
        lasts.append(index)
        caps.append(step.survives)
        floor = _capped(floor, step.survives)
    return result


def likely_floor(rows: Iterable[Row], in_reign: Callable[[Row], bool], elected_ms: int, clock: Clock) -> Bound:
    """The largest high watermark that may have been reported before an election, of the log at hand: no proof, but a
    reason not to rule a loss out. in_reign: whether the row's broker followed or was the last leader when it was read.
    """
    near = [r for r in rows if r["captured_at_ms"] - clock.error_ms <= elected_ms and in_reign(r)]
    best = max(near, key=lambda r: r["high_watermark"], default=None)
    return OPEN if best is None else Bound(best["high_watermark"], best)


def _limit(cap: Bound) -> int:
    return -1 if cap.value is None else cap.value


def _capped(bound: Bound, cap: Bound | None) -> Bound:
    if cap is None or bound.value is None:
        return bound
    if cap.value is None:
        return OPEN
    return bound if bound.value <= cap.value else Bound(cap.value, bound.row, cap.row, bound.inference)
