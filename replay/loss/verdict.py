"""The judgement of one election: whether the high watermark went back, by how much, and on which evidence.

loss_min = max(0, high watermark floor - log end of the winner); loss_max is the same with the high watermark's ceiling
and the end of what the winner had. proven: loss_min > 0. excluded: loss_max = 0, or the winner held the high
watermark by protocol, premise by premise; and nothing in the lake contradicts that. possible: the bounds include 0.
undetermined: nothing bounds the loss. Missing evidence only ever widens the bounds. docs/findings.md lists the numbered
rules with a case for each.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from replay.cluster.facts import Clock
from replay.loss.line_bounds import LineBounds
from replay.loss.verdicts import EXCLUDED, POSSIBLE, PROVEN, UNDETERMINED
from replay.loss.watermark_bounds import LastTerm, high_watermark_ceiling, old_log_end
from replay.offsets.evidence import (
    OPEN,
    PROPAGATION_MS,
    Bound,
    Evidence,
    higher,
    last_seen,
    lower,
    old_log_floor,
    read_by,
)
from replay.terms.premises import NO_MEMBER, OLD_LOG_ENDS, Membership, Premise

RULE = "hwm_regression"
RULE_VERSION = 30
BOUNDS = Premise("bounds_contradict", False)


@dataclass(frozen=True, slots=True)
class Election:
    """The election to judge. Times in ms.

    membership: the winner's, right before the election. term: the last leader's term before it, None if there was no
    leader. cut_by_itself: the last leader's log went down in it although no leader truncates its log.
    unbroken_term: (leader, since when its log is the term's, when the election was) of that term, in ms; None unless
    one process led all of it. contradictions: what else in the lake contradicts the winner's log. doubts: why its log
    may differ from the partition's although their lines are the same. likely_floor: see
    `watermark_floor.likely_floor`.
    log_start: where the last leader's log began, as its exporter showed in its term, or a file that or later.
    logged: what brokers' own log lines say of it. by_members: a ceiling by what members of the ISR kept.
    is_passed_over, may_serve_with_less: see `premises`.
    """

    leader: int
    leader_epoch: int
    elected_ms: int
    membership: Membership = NO_MEMBER
    joined_ms: int = 0
    term: LastTerm | None = None
    cut_by_itself: bool = False
    unbroken_term: tuple[int, int, int] | None = None
    contradictions: tuple[Premise, ...] = ()
    doubts: tuple[Premise, ...] = ()
    likely_floor: Bound = OPEN
    log_start: Bound = OPEN
    logged: LineBounds = field(default_factory=LineBounds)
    by_members: Bound = OPEN
    is_passed_over: bool = False
    may_serve_with_less: bool = False

    @property
    def elected_clean(self) -> bool:
        """Whether the log shows the election of a member of the ISR or ELR, neither marked RECOVERING nor registered in
        the same batch."""
        distrusted = self.membership.failing & {"not_held_marked", "not_held_registered_with_it"}
        return (self.membership.joined is not None or self.membership.taken_in) and not distrusted


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict with its bounds.

    loss_max None: no upper bound. log_end_min: up to where the winner's log was the partition's log;
    log_end_max: upper bound on its log end. old_log_min, old_log_max: bounds on the old leader's log end. unacked_min,
    unacked_max: bounds on the offsets of the old leader's log that the winner's log lacks, acknowledged by all in-sync
    replicas or not; None if unknown. log_start: the lost offsets below it had been deleted before. by_protocol:
    excluded by protocol. against: the premises that fail, and what contradicts it.
    """

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
    log_start: Bound = OPEN
    by_protocol: bool = False
    against: tuple[Premise, ...] = ()

    @property
    def is_contradicted(self) -> bool:
        """Whether evidence shows that the election lost records, or contradicts that it lost none. Damage that a start
        cut off only voids what a boot id shows."""
        codes = {p.code for p in self.against} - {"contradicted_by_corruption"}
        return self.verdict == PROVEN or any(code.startswith("contradicted") for code in codes)

    @property
    def rests_on_old_log_ends(self) -> bool:
        """Whether a leader may have counted on log ends that its followers no longer had, so that a member of the ISR
        may lack what was acknowledged."""
        return self.verdict != EXCLUDED and any(p.code == OLD_LOG_ENDS for p in self.against)

    @property
    def first_lost_offset(self) -> int | None:
        """Where the loss begins; None unless it is proven and the winner's log end is exact."""
        exact = self.log_end_min.value == self.log_end_max.value
        return self.log_end_min.value if self.verdict == PROVEN and exact else None


def judge(
    election: Election, evidence: Evidence, floor: Bound, log_end_min: Bound, log_end_max: Bound, clock: Clock
) -> Judgement:
    """Judge an election.

    floor: of the high watermark before it (`watermark_floor.floors`); log_end_min: from `shared_log`; log_end_max: from
    `log_end_ceiling`.
    """
    ceiling = lower(high_watermark_ceiling(evidence, election.term, clock), election.logged.ceiling)
    ceiling = lower(ceiling, election.by_members)
    if election.cut_by_itself:
        ceiling = OPEN  # it contradicts the log end that the leader had had
    contradict = [BOUNDS] if _lacks(floor, ceiling) else []
    if contradict:
        ceiling = floor = OPEN
    log_end_min = higher(log_end_min, election.logged.shared)
    if _lacks(log_end_min, log_end_max):
        log_end_min, log_end_max, contradict = OPEN, OPEN, [BOUNDS]
    elif election.membership.may_differ or election.may_serve_with_less:
        log_end_min = OPEN
    loss_min = 0 if election.is_passed_over else _lacks(floor, log_end_max)
    loss_max = None
    if ceiling.value is not None and log_end_min.value is not None:
        loss_max = max(0, ceiling.value - log_end_min.value)
    elif ceiling.value == 0:
        loss_max = 0  # nothing was below the high watermark
    contradictions = tuple(_contradictions(election, evidence, floor, (log_end_min, log_end_max), clock))
    held = election.membership.holds
    if loss_min > 0:
        verdict = PROVEN
    elif (held or loss_max == 0) and not contradictions:
        verdict, loss_max = EXCLUDED, 0
    elif floor.value is None and log_end_max.value is None:
        verdict = UNDETERMINED
    else:
        verdict = POSSIBLE
    if verdict != EXCLUDED and (loss_max == 0 or (contradictions and verdict != PROVEN)):
        loss_max = None  # something contradicts it
    bounds = (floor, ceiling, log_end_min, log_end_max)
    log_start = election.log_start if loss_min and (election.log_start.value or 0) > (log_end_max.value or 0) else OPEN
    unacked = _unacked(election, evidence, bounds, clock)
    judgement = Judgement(verdict, loss_min, loss_max, *bounds, *unacked, log_start)
    failing = [*contradict, *(p for p in election.membership.premises if not p.holds)]
    if verdict != EXCLUDED and log_end_min.value is None:
        failing += [doubt for doubt in election.doubts if doubt not in failing]
    return replace(judgement, by_protocol=held and verdict == EXCLUDED, against=(*failing, *contradictions))


def _lacks(reached: Bound, log_end: Bound) -> int:
    """By how much a log ended below an offset at least."""
    known = reached.value is not None and log_end.value is not None
    return max(0, (reached.value or 0) - (log_end.value or 0)) if known else 0


def _contradictions(
    election: Election, evidence: Evidence, floor: Bound, ends: tuple[Bound, Bound], clock: Clock
) -> Iterator[Premise]:
    """What keeps a loss from being excluded although it does not prove one."""
    yield from election.contradictions
    is_back = election.is_passed_over and _lacks(floor, ends[1]) > 0
    member_ms = election.joined_ms, election.elected_ms
    was_member = election.membership.since is not None
    if is_back or (was_member and is_seen_below(floor, election.leader, member_ms, evidence, clock)):
        yield Premise("contradicted", False)
    likely = election.likely_floor.value
    known = [end.value for end in ends if end.value is not None]
    if likely is not None and known and likely > max(known):
        yield Premise("contradicted_by_high_watermark", False)


def _unacked(
    election: Election, evidence: Evidence, bounds: tuple[Bound, Bound, Bound, Bound], clock: Clock
) -> tuple[Bound, Bound, int | None, int | None]:
    """(old_log_min, old_log_max, unacked_min, unacked_max).

    Records below the high watermark were in the old leader's log too, so they count even if its log end was not
    observed.
    """
    floor, _, log_end_min, log_end_max = bounds
    observed = old_log_floor(evidence, election.unbroken_term, clock)
    ended = lower(old_log_end(evidence, election.term, clock), election.logged.old_log_end)
    reached = max((b for b in (observed, floor) if b.value is not None), key=lambda b: b.value or 0, default=OPEN)
    if reached.value is not None and ended.value is not None and ended.value < reached.value:
        ended = OPEN  # it contradicts the lower bound
    least = most = None
    if reached.value is not None and log_end_max.value is not None and not election.is_passed_over:
        least = _lacks(reached, log_end_max)
    if ended.value is not None and log_end_min.value is not None:
        most = max(0, ended.value - log_end_min.value)
    return reached, ended, least, most


def is_seen_below(floor: Bound, broker: int, member_ms: tuple[int, int], evidence: Evidence, clock: Clock) -> bool:
    """Whether a member's log was last seen to end below the floor, after the floor was reported. member_ms: since when
    it was in the ISR or ELR, and when it was elected."""
    joined_ms, elected_ms = member_ms
    replica = last_seen(evidence, broker, elected_ms, clock)
    if replica is None or floor.value is None or floor.row is None or replica.log_end_offset >= floor.value:
        return False
    if floor.row["captured_at_ms"] is None:
        return False
    reported_ms = read_by(floor.row) + clock.error_ms
    return clock.surely_after(replica.row, max(reported_ms, joined_ms + PROPAGATION_MS))
