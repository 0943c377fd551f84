"""Lower bounds on the high watermark before each election: which reports are still about the partition's log.

A report (replication-offset-checkpoint) outlives its broker and its log: after an election whose winner held less, an
old report says nothing about what can be lost next. So every report gets the leader epoch that its log had certainly
reached, and every later election passes on only what is below its winner's log end. A report or an election for which
that is unknown passes nothing on: missing evidence lowers the floor and never raises it.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from replay.cluster.facts import Clock
from replay.offsets.evidence import OPEN, Bound, Row, read_by


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A leader change for which the floor before it is needed.

    carries: everything acknowledged survives it, because the log stays with the running process that had it. Otherwise
    `survives` bounds what survives (open: unknown).
    """

    leader_epoch: int
    at_ms: int
    carries: bool
    survives: Bound = OPEN


@dataclass(frozen=True, slots=True)
class Report:
    """A high watermark that the log of `leader_epoch` or of a later epoch had reached, read by end_ms. inference: as in
    `evidence.Bound`. before_epoch: it was reached before the election of that leader epoch or a later one, whenever it
    was read; None: only end_ms shows when."""

    value: int
    end_ms: int
    leader_epoch: int
    row: Row
    inference: str | None = None
    before_epoch: int | None = None


class EpochsShown:
    """The leader epochs that each broker's leader-epoch-checkpoint had shown by a time. rows: by broker, in order of
    capture."""

    def __init__(self, rows: Mapping[int, Sequence[Row]]) -> None:
        self._by_broker = {broker: self._highest(own) for broker, own in rows.items()}

    def highest(self, broker: int, since_ms: int, by_ms: int) -> int | None:
        """The highest epoch of the last round of reading finished by by_ms, if it began after since_ms; else None."""
        reads, begins, epochs = self._by_broker.get(broker, ([], [], []))
        index = bisect_right(reads, by_ms) - 1
        return epochs[index] if index >= 0 and begins[index] > since_ms else None

    @staticmethod
    def _highest(rows: Sequence[Row]) -> tuple[list[int], list[int], list[int]]:
        """(end, begin, highest epoch) of each round of reading, as three lists in order of reading. Times in ms."""
        rounds: dict[tuple[int, int], int] = {}
        for row in rows:
            place = read_by(row), row["captured_at_ms"]
            rounds[place] = max(rounds.get(place, -1), row["leader_epoch"])
        ordered = sorted(rounds.items())
        return [r for (r, _), _ in ordered], [b for (_, b), _ in ordered], [e for _, e in ordered]


def reports(
    rows: Sequence[Row],
    created: tuple[int, int] | None,
    steps: Sequence[LeaderChange],
    settled: Callable[[Row], int | None],
    clock: Clock,
) -> list[Report]:
    """The high watermark reports, each with a leader epoch that its log had reached.

    rows: of `Evidence.high_watermarks`, those that are this partition's. created: (leader epoch, ms) of the partition's
    creation, if the log has it; what was read before that is another partition's. settled: returns a leader epoch that
    the log of the row's replica had reached when the value was written, or None.
    """
    result = []
    limiting = [s for s in steps if not s.carries]
    for row in rows:
        if created is not None and not clock.surely_after(row, created[1]):
            continue
        epoch = -1 if created is None else created[0]
        following = bisect_right(limiting, epoch, key=lambda s: s.leader_epoch)
        # `settled` is costly: call it only if a later epoch would move the report past a step.
        if following < len(limiting) and limiting[following].at_ms < row["captured_at_ms"]:
            epoch = max(epoch, -1 if (late := settled(row)) is None else late)
        if epoch >= 0:
            result.append(Report(row["high_watermark"], read_by(row) + clock.error_ms, epoch, row))
    return result


def floors(steps: Sequence[LeaderChange], known: Sequence[Report]) -> list[Bound]:
    """For every step, the largest high watermark that the partition's log had reached before it.

    steps: in offset order, leader epochs ascending. A report counts for a step if it was reached before it,
    capped by every step in between, from the report's own leader epoch on.
    """
    epochs = [s.leader_epoch for s in steps]
    times = list(accumulate((s.at_ms for s in steps), max))
    waiting: dict[int, list[tuple[int, Report]]] = defaultdict(list)
    for report in known:
        slot = bisect_right(epochs, report.leader_epoch)
        timely = bisect_right(times, report.end_ms)
        if report.before_epoch is not None:
            timely = bisect_left(epochs, report.before_epoch)
        waiting[max(slot, timely)].append((slot, report))
    # A report of slot i passes through steps i, i + 1, ... Slots that the same step limits most form a group: `lasts`
    # has each group's last slot, `caps` its limit.
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


def likely_floor(rows: Iterable[Row], in_term: Callable[[Row], bool], elected_ms: int, clock: Clock) -> Bound:
    """The largest high watermark that may have been reported before an election about this log: no proof, but a reason
    not to exclude a loss. in_term: whether the row's broker was or followed the last leader when the row was read.
    """
    candidates = [r for r in rows if r["captured_at_ms"] - clock.error_ms <= elected_ms and in_term(r)]
    best = max(candidates, key=lambda r: r["high_watermark"], default=None)
    return OPEN if best is None else Bound(best["high_watermark"], best)


def _limit(cap: Bound) -> int:
    return -1 if cap.value is None else cap.value


def _capped(bound: Bound, cap: Bound | None) -> Bound:
    if cap is None or bound.value is None:
        return bound
    if cap.value is None:
        return OPEN
    return bound if bound.value <= cap.value else Bound(cap.value, bound.row, cap.row, bound.inference)
