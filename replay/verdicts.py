"""Judge one election: did the high watermark go back, by how much, and on which evidence.

loss_min = max(0, high watermark floor - log end of the winner); loss_max is the same with the high watermark's ceiling
and the end of what the winner surely had. proven: loss_min > 0; excluded: loss_max = 0, or the winner held the high
watermark by protocol and nothing contradicts that; possible: the bounds straddle 0; undetermined: nothing bounds it.
Evidence that is missing only ever widens the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from replay.offsets import (
    OPEN,
    PROPAGATION_MS,
    Bound,
    Clock,
    Evidence,
    high_watermark_ceiling,
    last_seen,
    log_end_ceiling,
    old_log_end,
    old_log_floor,
    read_by,
)

PROVEN, POSSIBLE, EXCLUDED, UNDETERMINED = "proven", "possible", "excluded", "undetermined"
# Worst first.
VERDICTS = (PROVEN, POSSIBLE, UNDETERMINED, EXCLUDED)
SEVERITIES = ("critical", "high", "medium", "low", "info")
SEVERITY = {PROVEN: "critical", POSSIBLE: "medium", UNDETERMINED: "medium", EXCLUDED: "info"}

RULE = "hwm_regression"
RULE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Election:
    """The election to judge. Times in ms; until_ms: up to when its leader surely led, without a restart.

    frozen: see `high_watermark_ceiling`. held: the winner was in the ISR or ELR before the election, without a break
    since joined_ms, the metadata offset joined_offset. restarted: it registered a new incarnation since then, and
    nothing vouches for its log. taken_in: see `elections.States`. old_epoch: the leader epoch of the leader before, -1
    if there was none; reign: (leader, start, end) of its last time as leader, up to the election or its restart;
    session: its (broker, broker epoch), if it went away.
    """

    leader: int
    leader_epoch: int
    elected_ms: int
    until_ms: int
    frozen: tuple[int, int, int] | None
    held: bool
    joined_ms: int
    restarted: bool
    taken_in: bool = False
    joined_offset: int | None = None
    old_epoch: int = -1
    reign: tuple[int, int, int] | None = None
    session: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict with its bounds. loss_max None: no upper bound. log_end_min: up to where the winner's log surely was
    the partition's log; log_end_max: what its log end was at most. old_log_min, old_log_max: bounds of the old leader's
    log end. unacked_min, unacked_max: offsets of the old leader's log that the winner's does not have, acknowledged by
    all or not; None where not known."""

    verdict: str
    loss_min: int
    loss_max: int | None
    floor: Bound
    ceiling: Bound
    log_end_min: Bound
    log_end_max: Bound
    old_log_min: Bound
    old_log_max: Bound
    unacked_min: int | None
    unacked_max: int | None

    @property
    def first_lost_offset(self) -> int | None:
        exact = self.log_end_min.value == self.log_end_max.value
        return self.log_end_min.value if self.verdict == PROVEN and exact else None


def judge(election: Election, evidence: Evidence, floor: Bound, log_end_min: Bound, clock: Clock) -> Judgement:
    """Judge an election. floor: of the high watermark before it (`lineage.floors`); log_end_min: `exact_log_end`."""
    ceiling = high_watermark_ceiling(evidence, election.frozen, clock)
    if ceiling.value is not None and floor.value is not None and ceiling.value < floor.value:
        ceiling = OPEN  # the two contradict each other: neither closes the range
    term = (election.elected_ms, election.until_ms)
    log_end_max = log_end_ceiling(evidence, election.leader, election.leader_epoch, term, clock)
    if log_end_min.value is not None and log_end_max.value is not None and log_end_min.value > log_end_max.value:
        log_end_min = OPEN
    loss_min = 0
    if floor.value is not None and log_end_max.value is not None:
        loss_min = max(0, floor.value - log_end_max.value)
    loss_max = None
    if ceiling.value is not None and log_end_min.value is not None:
        loss_max = max(0, ceiling.value - log_end_min.value)
    protected = election.held and not election.restarted and not _seen_short(election, evidence, floor, clock)
    if loss_min > 0:
        verdict = PROVEN
    elif protected or loss_max == 0:
        verdict, loss_max = EXCLUDED, 0
    elif floor.value is None and log_end_max.value is None:
        verdict = UNDETERMINED
    else:
        verdict = POSSIBLE
    bounds = (floor, ceiling, log_end_min, log_end_max)
    return Judgement(verdict, loss_min, loss_max, *bounds, *_unacked(election, evidence, bounds, clock))


def _unacked(
    election: Election, evidence: Evidence, bounds: tuple[Bound, Bound, Bound, Bound], clock: Clock
) -> tuple[Bound, Bound, int | None, int | None]:
    """(old_log_min, old_log_max, unacked_min, unacked_max). Records below the high watermark were in the old leader's
    log, too: where its own log end was not seen, they still count."""
    floor, _, log_end_min, log_end_max = bounds
    seen = old_log_floor(evidence, election.reign, clock)
    ended = old_log_end(evidence, election.session, election.old_epoch)
    reached = max((b for b in (seen, floor) if b.value is not None), key=lambda b: b.value or 0, default=OPEN)
    if reached.value is not None and ended.value is not None and ended.value < reached.value:
        ended = OPEN  # the two contradict each other
    least = most = None
    if reached.value is not None and log_end_max.value is not None:
        least = max(0, reached.value - log_end_max.value)
    if ended.value is not None and log_end_min.value is not None:
        most = max(0, ended.value - log_end_min.value)
    return reached, ended, least, most


def _seen_short(election: Election, evidence: Evidence, floor: Bound, clock: Clock) -> bool:
    """The winner's log was seen to end below the floor after that was reported, while it was in the ISR or ELR."""
    seen = last_seen(evidence, election.leader, election.elected_ms, clock)
    if seen is None or floor.value is None or floor.row is None or seen.log_end_offset >= floor.value:
        return False
    reported_ms = read_by(floor.row) + clock.error_ms
    return clock.surely_after(seen.row, max(reported_ms, election.joined_ms + PROPAGATION_MS))
