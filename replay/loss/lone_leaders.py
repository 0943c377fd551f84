"""Lower bounds on the high watermark of leaders that were alone in their ISR.

Such a leader's high watermark is at its log's end, unless a replica that is not fenced and has just caught up holds it
back. It moves when the leader applies a partition record and after every append (Kafka's Partition.makeLeader,
appendRecordsToLeader and maybeIncrementLeaderHW, 3.9 to 4.3), not when a broker is fenced.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from replay.arrow.ragged import members_of
from replay.loss.leader_terms import LeaderTerm, LeaderTerms
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
    if not _was_left_by_all(terms, rows, end_ms):
        return None
    return int(states.leader_epoch[rows[0]])


def _was_left_by_all(terms: LeaderTerms, rows: range, end_ms: int) -> bool:
    """Whether every other replica was fenced or shutting down when the first row's record was written, and up to
    end_ms."""
    states, brokers = terms.states, terms.cluster.brokers
    batch, begin_ms = int(terms.facts.batch[rows[0]]), int(terms.facts.timestamp_ms[rows[0]])
    others = {b for r in rows for b in members_of(states.replicas[r])} - {int(states.leader[rows[0]])}
    return not any(brokers.active(b, batch) or brokers.active_for(b, begin_ms, end_ms) > 0 for b in others)


def logs_of_lone_leaders(terms: LeaderTerms, evidence: Evidence) -> Iterator[Report]:
    """High watermarks of leaders that were alone up to the end of their term, from the last batches of their logs,
    whenever those were read: all but as many batches as request threads can have appended and not yet committed."""
    error_ms = terms.cluster.clock.error_ms
    for term in terms.all_terms:
        threads = terms.cluster.request_threads.get(term.leader)
        logs = [] if threads is None else evidence.log_ends.get(term.leader, [])
        logs = [row for row in logs if len(row["last_batch_offsets"] or ()) >= (threads or 1)]
        if threads is None or not logs or not _knew_that_it_was_alone(terms, term):
            continue
        epochs = set(terms.states.leader_epoch[term.first : term.end].tolist())
        last = max(epochs)
        for row in logs:
            if row["last_written_leader_epoch"] in epochs and row["captured_at_ms"] - error_ms >= term.begin_ms:
                floor = row["last_batch_offsets"][-threads]
                yield Report(floor, read_by(row) + error_ms, last, row, "floor_lone_leaders_log", before_epoch=last + 1)


def _knew_that_it_was_alone(terms: LeaderTerms, term: LeaderTerm) -> bool:
    """Whether one process led the term, was alone up to its end, with min ISR 1, and certainly knew that."""
    facts, states, session = terms.facts, terms.states, term.session
    rows = np.arange(term.first, term.end)
    if session is None or facts.anchored[rows].any() or not terms.served_by_one(term):
        return False
    if (facts.highest_min_isr[rows] > 1).any() or not (facts.shared[rows].all() or _needs_no_other(terms, term.leader)):
        return False
    alone = rows[np.minimum.accumulate((states.isr_size[rows] == 1)[::-1])[::-1]]
    left = (row for row in alone.tolist() if _was_left_by_all(terms, range(row, term.end), term.end_ms))
    since = next(left, None)
    if since is None:
        return False
    error_ms = terms.cluster.clock.error_ms
    # Its session was valid up to the term's end, so the controller heard of it until shortly before.
    heard_ms = int(facts.timestamp_ms[since]) + terms.cluster.heard_ms + PROPAGATION_MS
    was_valid = terms.cluster.brokers.active(term.leader, int(facts.batch[since]))
    if was_valid and heard_ms <= term.end_ms:
        return True
    # Or it logged that partition epoch, or a later one, and ran on.
    epochs, epoch = terms.recorded.partition_epochs, set(states.leader_epoch[rows].tolist())
    said = [
        read_by(line.row) + error_ms
        for line in terms.lines.led
        if line.broker == term.leader
        and line.leader_epoch in epoch
        and line.row["captured_at_ms"] is not None
        and line.row["captured_at_ms"] - error_ms >= session.begin_ms
        and line.partition_epoch >= epochs[since - terms.first]
    ]
    return bool(said) and session.ran_until(min(said) + PROPAGATION_MS)


def _needs_no_other(terms: LeaderTerms, leader: int) -> bool:
    """Whether min.insync.replicas was 1 on the leader, by every value that its own config ever had."""
    own = terms.cluster.broker_min_isr.get(leader)
    return own is not None and all(value == "1" for value, _ in own.cluster.values)
