"""Upper bounds on the high watermark that a leader had reached when its term ended, each with its inference.

A leader may go on writing after it was last observed, so without one of these inferences the bound is open.

Sources: KIP-966 and KAFKA-15583 (below min ISR the high watermark stands still, from Kafka 3.7 on), Kafka's
Partition.maybeIncrementLeaderHW and its gauges UnderMinIsr and InSyncReplicasCount, LogManager.shutdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from replay.cluster.facts import Clock, read_by
from replay.offsets.evidence import OPEN, Bound, Evidence, Scrape, running_log_ends

CLEAN_STOP, BELOW_MIN_ISR, REPORTED_BY_LEADER = (
    "ceiling_clean_stop",
    "ceiling_below_min_isr",
    "ceiling_leaders_own_word",
)


@dataclass(frozen=True, slots=True)
class LastTerm:
    """The last leader's term before an election: what bounds its high watermark. Times in ms.

    session: (broker, broker epoch) that led. stopped_by_ms: when its process had certainly ended because the log shows
    that it registered again; None if the log does not. led_ms: from when to when it certainly led. below_ms: since when
    |ISR| < min ISR without a break up to the election; None if it was not. known_by_ms: since when the leader certainly
    knew that. waits: its release does not advance the high watermark then. fixed_since: whether from a given time up to
    the election the ISR did not grow and min ISR did not change. last_alive_ms: its process certainly ran until then.
    started_by_ms: its process had certainly started before then; None if unknown. last_leader_epoch: the last epoch
    that it led. took_over: it certainly learned that it led, so that the leader before it no longer counts.
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
    took_over: bool

    def ran(self, scrape: Scrape, clock: Clock) -> bool:
        """Whether the scrape is certainly of the process that was elected, not of one that started after a crash."""
        start = scrape.process_start_ms
        if self.started_by_ms is not None and start is not None and start + clock.error_ms <= self.started_by_ms:
            return True
        return read_by(scrape.row) + clock.error_ms <= self.last_alive_ms


def high_watermark_ceiling(evidence: Evidence, term: LastTerm | None, clock: Clock) -> Bound:
    """The lowest upper bound that the evidence gives; open if there is none."""
    if term is None:
        return OPEN
    bounds = [
        *_after_clean_stop(evidence, term, clock),
        *_below_min_isr(evidence, term, clock),
        *_reported_by_leader(evidence, term, clock),
    ]
    return min(bounds, key=lambda b: b.value or 0, default=OPEN)


def old_log_end(evidence: Evidence, term: LastTerm | None, clock: Clock) -> Bound:
    """Where the old leader's log ended when it stopped; open if unknown.

    It is known if the leader stopped cleanly, what it left was captured, and nothing was truncated or appended since it
    led: no other leader had been elected before it stopped. The leader must have learned that it led: if a broker is
    elected that has already stopped, or is cut off from the controllers, the leader before it goes on without it.
    """
    if term is None or not term.took_over:
        return OPEN
    return next(_after_clean_stop(evidence, term, clock), OPEN)


def _after_clean_stop(evidence: Evidence, term: LastTerm, clock: Clock) -> Iterator[Bound]:
    """The log end that the leader's session left when it stopped cleanly."""
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


def _below_min_isr(evidence: Evidence, term: LastTerm, clock: Clock) -> Iterator[Bound]:
    """The leader's log ends while the metadata log shows |ISR| < min ISR and the leader knows it."""
    if term.below_ms is None or term.known_by_ms is None or not term.waits:
        return
    for scrape in running_log_ends(evidence, term.leader, term.known_by_ms, term.led_ms[1], clock):
        if term.ran(scrape, clock):
            yield Bound(scrape.log_end_offset, scrape.row, inference=BELOW_MIN_ISR)


def _reported_by_leader(evidence: Evidence, term: LastTerm, clock: Clock) -> Iterator[Bound]:
    """Log ends of the leader after it reported itself below min ISR, from later readings of the same process."""
    below: dict[int, Scrape] = {}  # by process start, the first scrape that reports it
    for scrape in evidence.scrapes.get(term.leader, []):
        start = scrape.process_start_ms
        if start is None or not clock.surely_before(scrape.row, term.elected_ms):
            continue
        first = below.get(start)
        # It led, so its log is loaded and a log end of 0 is real.
        if first is not None and scrape.log_end_offset is not None and scrape.captured_at_ms > read_by(first.row):
            yield Bound(scrape.log_end_offset, scrape.row, inference=REPORTED_BY_LEADER)
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
            below[start] = scrape
