"""Judge one election: did the high watermark go back, by how much, and on which evidence.

EVIDENCE.md 2: loss_min = max(0, HWM floor - LEO of the winner), loss_max the same with the HWM ceiling. proven: loss_min
> 0; excluded: loss_max = 0, or the winner held the high watermark by protocol; possible: bounds straddle 0;
undetermined: nothing bounds it. Evidence that is missing only ever widens the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from replay.offsets import (
    Bound,
    Clock,
    Row,
    election_log_end,
    fresh_high_watermark,
    high_watermark_ceiling,
    high_watermark_floor,
)

PROVEN, POSSIBLE, EXCLUDED, UNDETERMINED = "proven", "possible", "excluded", "undetermined"
SEVERITY = {PROVEN: "critical", POSSIBLE: "medium", UNDETERMINED: "medium", EXCLUDED: "info"}

RULE = "hwm_regression"
RULE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Election:
    """The election to judge. times in ms; replaced_ms None: its leader is the last one known.

    frozen: see `high_watermark_ceiling`; leaders: who led in that stretch. held: the winner was in the ISR or ELR before
    the election. restarted: it has registered a new incarnation since it joined, and nothing vouches for its log.
    """

    leader: int
    leader_epoch: int
    elected_ms: int
    replaced_ms: int | None
    frozen: tuple[int, int] | None
    leaders: tuple[int, ...]
    held: bool
    restarted: bool


@dataclass(frozen=True, slots=True)
class Lineage:
    """What is known of the high watermark from earlier elections: `floor` survived the last unsafe one, at since_ms
    with leader_epoch. None since_ms: no election so far was unsafe, every earlier report counts."""

    floor: Bound = Bound()
    since_ms: int | None = None
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict with its bounds. loss_max None: no upper bound. lineage: what the next election may build on."""

    verdict: str
    loss_min: int
    loss_max: int | None
    floor: Bound
    ceiling: Bound
    log_end_min: Bound
    log_end_max: Bound
    lineage: Lineage

    @property
    def first_lost_offset(self) -> int | None:
        return self.log_end_min.value if self.verdict == PROVEN and self.log_end_min == self.log_end_max else None


def judge(election: Election, rows: list[Row], lineage: Lineage, clock: Clock) -> Judgement:
    """Judge an election from a partition's LOG_END_OFFSETS rows."""
    floor = _floor(election, rows, lineage, clock)
    ceiling = high_watermark_ceiling(rows, election.frozen, election.leaders, election.elected_ms, clock)
    if ceiling.value is not None and floor.value is not None and ceiling.value < floor.value:
        ceiling = Bound()  # the two contradict each other: neither closes the range
    term = (election.elected_ms, election.replaced_ms)
    lower, upper = election_log_end(rows, election.leader, election.leader_epoch, term, clock)
    loss_min = max(0, floor.value - upper.value) if floor.value is not None and upper.value is not None else 0
    loss_max = max(0, ceiling.value - lower.value) if ceiling.value is not None and lower.value is not None else None
    protected = election.held and not election.restarted
    if loss_min > 0:
        verdict = PROVEN
    elif protected or loss_max == 0:
        verdict, loss_max = EXCLUDED, 0
    elif floor.value is None and upper.value is None:
        verdict = UNDETERMINED
    else:
        verdict = POSSIBLE
    following = lineage if verdict == EXCLUDED else _after(election, floor, lower)
    return Judgement(verdict, loss_min, loss_max, floor, ceiling, lower, upper, following)


def _floor(election: Election, rows: list[Row], lineage: Lineage, clock: Clock) -> Bound:
    if lineage.since_ms is None:
        return high_watermark_floor(rows, election.elected_ms, clock)
    fresh = fresh_high_watermark(rows, lineage.since_ms, lineage.leader_epoch, election.elected_ms, clock)
    known = [b for b in (lineage.floor, fresh) if b.value is not None]
    return max(known, key=lambda b: b.value or 0, default=Bound())


def _after(election: Election, floor: Bound, log_end: Bound) -> Lineage:
    """Below the winner's log end everything acknowledged is still there; above it only newer reports count."""
    kept = Bound()
    if floor.value is not None and log_end.value is not None:
        kept = min(floor, log_end, key=lambda b: b.value or 0)
    return Lineage(kept, election.elected_ms, election.leader_epoch)
