"""Lower bounds on the high watermark of leaders that were alone in their ISR.

Such a leader's high watermark is at its log's end (Kafka's Partition.maybeIncrementLeaderHW).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from replay.arrow.ragged import members_of
from replay.loss.leader_terms import LeaderTerms
from replay.offsets.evidence import PROPAGATION_MS, Evidence, read_by
from replay.offsets.watermark_floor import Report


def alone_in_isr(terms: LeaderTerms, evidence: Evidence) -> Iterator[Report]:
    """High watermarks of leaders that were alone in their ISR and not below min ISR.

    The high watermark of such a leader is at its log's end: the log end that two successive readings of the same
    process show was acknowledged.
    """
    error = terms.cluster.clock.error_ms
    for broker, scrapes in evidence.scrapes.items():
        for number, scrape in enumerate(scrapes[:-1]):
            alone = scrape.in_sync_replicas_count == 1 and scrape.under_min_isr is False
            if not alone or not scrape.log_end_offset or scrape.process_start_ms is None:
                continue
            later = scrapes[number + 1]
            same = later.process_start_ms == scrape.process_start_ms and later.in_sync_replicas_count == 1
            if not same or later.log_end_offset != scrape.log_end_offset or later.under_min_isr is not False:
                continue
            begin, end = scrape.captured_at_ms - error, read_by(later.row) + error
            session = terms.sessions.last_begun(broker, begin)
            if session is None or not session.was_alone_until(later.captured_at_ms - error):
                continue
            epoch = _led_alone(terms, broker, begin - terms.cluster.heard_ms - PROPAGATION_MS, end)
            if epoch is not None and later.captured_at_ms > read_by(scrape.row):
                yield Report(scrape.log_end_offset, end, epoch, later.row, "floor_leader_alone")


def _led_alone(terms: LeaderTerms, broker: int, begin_ms: int, end_ms: int) -> int | None:
    """The leader epoch in which the metadata log shows the broker as leader and only member of the ISR, with every
    other replica fenced or shutting down, from begin_ms to end_ms; None if it does not show that."""
    states = terms.states
    first = bisect_right(terms.times, begin_ms) - 1
    last = bisect_right(terms.times, end_ms) - 1
    if (
        first < 0
        or not terms.known_at(end_ms)
        or terms.facts.anchored[terms.first + first + 1 : terms.first + last + 1].any()
    ):
        return None
    rows = range(terms.first + first, terms.first + last + 1)
    if any(states.leader[r] != broker or states.isr_size[r] != 1 for r in rows):
        return None
    # A leader re-evaluates its high watermark when something is written, not when min ISR is lowered.
    term_start = max(int(terms.facts.term_start[rows[0]]), terms.first)
    if (terms.facts.highest_min_isr[term_start : rows[-1] + 1] > 1).any():
        return None
    others = {b for r in rows for b in members_of(states.replicas[r])} - {broker}
    if any(terms.cluster.brokers.active_for(b, begin_ms, end_ms) > 0 for b in others):
        return None
    return int(states.leader_epoch[rows[0]])
