"""Upper bounds of the high watermark that a leader had reached when its time ended, each with the inference that gives
it. A leader may write on after it was last seen, so without one of these the bound is open.

Sources: KIP-966 and KAFKA-15583 (below min ISR the high watermark stands still, from Kafka 3.7 on), Kafka's
Partition.maybeIncrementLeaderHW and its gauges UnderMinIsr and InSyncReplicasCount, LogManager.shutdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from replay.cluster.facts import Clock, read_by
from replay.offsets.evidence import OPEN, PROPAGATION_MS, Bound, Evidence, Scrape, running_log_ends

# metadata.version 3.7-IV0 as a level: brokers that know it let the high watermark stand still below min ISR.
WAITS_FOR_MIN_ISR_LEVEL = 15

CLEAN_STOP, STOOD_STILL, SAID_BY_LEADER = "ceiling_clean_stop", "ceiling_below_min_isr", "ceiling_leaders_own_word"


@dataclass(frozen=True, slots=True)
class LastTerm:
    """The last leader's time before an election, as far as its high watermark is concerned. Times in ms.

    session: (broker, broker epoch) that led; stopped_by_ms: its process surely had ended by then where that is known
    from the log (it registered again), else None. led_ms: from when to when it surely led. below_ms: since when
    |ISR| < min ISR without a break up to the election, None if it was not; known_by_ms: since when the leader surely
    knew it; waits: its release lets the high watermark stand still then. fixed_since: whether from a time on the ISR
    did not grow, and min ISR did not change, up to the election. last_alive_ms: up to then its process surely ran;
    started_by_ms: before that its process surely had started, None where not known. last_leader_epoch: the epoch that
    it led last.
    """

    leader: int
    session: tuple[int, int] | None
    stopped_by_ms: int | None
    led_ms: tuple[int, int]
    below_ms: int | None
    known_by_ms: int | None
    waits: bool
    fixed_since: Callable[[int], bool]
    last_alive_ms: int
    started_by_ms: int | None
    last_leader_epoch: int
    elected_ms: int

    def ran(self, scrape: Scrape, clock: Clock) -> bool:
        """Whether the scrape surely is of the process that was elected, not of one that came after a crash."""
        start = scrape.process_start_ms
        if self.started_by_ms is not None and start is not None and start + clock.error_ms <= self.started_by_ms:
            return True
        return read_by(scrape.row) + clock.error_ms <= self.last_alive_ms


def high_watermark_ceiling(evidence: Evidence, term: LastTerm | None, clock: Clock) -> Bound:
    """The lowest of the bounds that the evidence gives."""
    if term is None:
        return OPEN
    every = [
        *_left_behind(evidence, term, clock),
        *_stood_still(evidence, term, clock),
        *_own_word(evidence, term, clock),
    ]
    return min(every, key=lambda b: b.value or 0, default=OPEN)


def old_log_end(evidence: Evidence, term: LastTerm | None, clock: Clock) -> Bound:
    """Where the old leader's log ended when it stopped. Known if it stopped cleanly and what it left was captured, and
    nothing was cut or added since it led: no other leader had been elected before it stopped. It must have run in its
    term: where a broker is elected that has stopped already, the leader before goes on without it."""
    if term is None or term.last_alive_ms < term.led_ms[0] + PROPAGATION_MS:
        return OPEN
    return next(_left_behind(evidence, term, clock), OPEN)


def _left_behind(evidence: Evidence, term: LastTerm, clock: Clock) -> Iterator[Bound]:
    if term.session is None:
        return
    rows = []
    for row in evidence.left.get(term.session, []):
        stopped = term.stopped_by_ms is not None and term.stopped_by_ms <= term.elected_ms
        before = stopped or clock.surely_before(row, term.elected_ms)
        if before and row["last_written_leader_epoch"] in (None, term.last_leader_epoch):
            rows.append(row)
    ends = {row["log_end_offset"] for row in rows}
    if len(ends) == 1:
        yield Bound(ends.pop(), rows[0], inference=CLEAN_STOP)


def _stood_still(evidence: Evidence, term: LastTerm, clock: Clock) -> Iterator[Bound]:
    """While |ISR| < min ISR, as the log has it, and the leader knows it."""
    if term.below_ms is None or term.known_by_ms is None or not term.waits:
        return
    for scrape in running_log_ends(evidence, term.leader, term.known_by_ms, term.led_ms[1], clock):
        if term.ran(scrape, clock):
            yield Bound(scrape.log_end_offset, scrape.row, inference=STOOD_STILL)


def _own_word(evidence: Evidence, term: LastTerm, clock: Clock) -> Iterator[Bound]:
    """The leader itself says that it is below min ISR; a later reading of the same process shows its log end."""
    said: dict[int, Scrape] = {}
    for scrape in evidence.scrapes.get(term.leader, []):
        start = scrape.process_start_ms
        if start is None or not clock.surely_before(scrape.row, term.elected_ms):
            continue
        first = said.get(start)
        # It led, so its log is loaded: a log end of 0 is one.
        if first is not None and scrape.log_end_offset is not None and scrape.captured_at_ms > read_by(first.row):
            yield Bound(scrape.log_end_offset, scrape.row, inference=SAID_BY_LEADER)
        begin = scrape.captured_at_ms - clock.error_ms
        if (
            first is None
            and scrape.under_min_isr
            and (scrape.in_sync_replicas_count or 0) >= 1
            and begin > term.led_ms[0]
            and term.ran(scrape, clock)
            and term.waits
            and term.fixed_since(begin)
        ):
            said[start] = scrape
