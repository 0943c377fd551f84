"""Upper bounds on the high watermark by the log ends of members of the ISR (docs/findings.md, E7).

While a leader counts a replica in its ISR, the high watermark is at most that replica's log end (Kafka's
Partition.maybeIncrementLeaderHW, 3.9 to 4.4). So where the high watermark could not advance after a member had left,
every later upper bound on the log that this member kept is one on the high watermark, up to where it follows the next
leader and truncates.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from replay.arrow.ragged import members_of
from replay.loss.leader_terms import LeaderTerm, LeaderTerms
from replay.loss.line_bounds import LineReader
from replay.loss.liveness import Session
from replay.loss.premises import had_everything
from replay.offsets.evidence import OPEN, PROPAGATION_MS, Bound, Evidence, read_by

MEMBERS_LOG_END = "ceiling_members_log_end"


def ceiling_by_members(reader: LineReader, evidence: Evidence, row: int) -> Bound:
    """The lowest log end that a member of the ISR certainly kept from the last leader's term to a reading; open if none
    is known. row: of the election in the history."""
    terms, term = reader.terms, reader.terms.last_term(row)
    if term is None or term.end > row or not term.kept or not terms.learned(term):
        return OPEN
    bounds = []
    for broker in members_of(terms.states.replicas[row]):
        rows = None if broker == term.leader else had_everything(terms, broker, row)
        if rows is not None and rows[1] >= term.first:
            member = _Member(reader, evidence, row, term, broker, *rows)
            bounds += [*member.stopped(), *member.loaded(), *member.followed()]
    return min(bounds, key=lambda b: b.value or 0, default=OPEN)


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of the ISR without a break in rows joined to last, of which the last is in the term. Since then the high
    watermark has not advanced without it."""

    reader: LineReader
    evidence: Evidence
    row: int
    term: LeaderTerm
    broker: int
    joined: int
    last: int

    @property
    def terms(self) -> LeaderTerms:
        return self.reader.terms

    @property
    def error_ms(self) -> int:
        return self.terms.cluster.clock.error_ms

    def at_ms(self, row: int) -> int:
        return int(self.terms.facts.timestamp_ms[row])

    def session(self, row: int) -> Session | None:
        return self.terms.sessions.at(self.broker, int(self.terms.facts.batch[row]))

    def stopped(self) -> Iterator[Bound]:
        """Its log end at a clean stop, after which no process of it fetched from the leader."""
        session = self.session(self.joined)
        if session is None or session != self.session(self.last):
            return
        rows = self.evidence.left.get((self.broker, session.broker_epoch), [])
        if len({row["log_end_offset"] for row in rows}) != 1 or not self._kept_log_dirs(session):
            return
        logged, clock = self.terms.cluster.processes.get((self.broker, session.broker_epoch)), self.terms.cluster.clock
        for row in (row for row in rows if row["captured_at_ms"] is not None):
            # Or all of its lines were read, also those that it wrote up to the stop.
            whole = logged is not None and logged.had_ended_by(read_by(row) + self.error_ms) and self._was_gone(session)
            late = clock.surely_after(row, self._left_ms())
            if late and (clock.surely_before(row, self.at_ms(self.row)) or whole):
                yield Bound(row["log_end_offset"], row, inference=MEMBERS_LOG_END)

    def loaded(self) -> Iterator[Bound]:
        """Its log end when its process ended, as the next process loaded it, which never followed the last leader."""
        session, now = self.session(self.joined), self.session(self.last)
        logged = None if now is None else self.terms.cluster.processes.get((self.broker, now.broker_epoch))
        if session is None or now is None or logged is None or not self._was_gone(now):
            return
        loads = self.reader.loads_of_the_next(self.broker, logged)
        late = all(load.at_ms - self.error_ms >= self.term.end_ms + PROPAGATION_MS for load in loads)
        if not loads:
            return
        if late and all(self._ran_on(session, load.at_ms) for load in loads):
            yield Bound(loads[0].log_end, loads[0].row, inference=MEMBERS_LOG_END)

    def followed(self) -> Iterator[Bound]:
        """Its log end when the process that had followed the last leader learned that this one had gone.

        The line is printed before the fetcher is removed, which may append once more: the leader's process had ended.
        """
        session, gone_ms = self.session(self.joined), self._leader_gone_ms()
        known = self.term.leader, int(self.terms.states.leader_epoch[self.term.end - 1])
        if session is None or gone_ms is None:
            return
        for line in self.reader.lines.followed:
            read = line.row["captured_at_ms"]
            if line.broker != self.broker or line.came_from != known or line.log_end is None or read is None:
                continue
            until_ms = read_by(line.row) + self.error_ms
            own = session.was_alone_until(until_ms) and self._kept_log_dirs(session)
            if read - self.error_ms >= gone_ms and (own or self._ran_on(session, until_ms)):
                yield Bound(line.log_end, line.row, inference=MEMBERS_LOG_END)

    def _left_ms(self) -> int:
        """From when on nothing that a new process of it fetches moves the high watermark: the leader certainly knew
        that it was no member, or that somebody else leads."""
        after, gone_ms = self.last + 1, self.term.end_ms + PROPAGATION_MS
        known_ms = self.at_ms(after) + self.terms.cluster.heard_ms + PROPAGATION_MS
        led_until_ms = min([self.term.end_ms, *self._leader_again_ms()])
        return min(gone_ms, known_ms) if after < self.term.end and known_ms <= led_until_ms else gone_ms

    def _was_gone(self, session: Session) -> bool:
        """Whether the session's process wrote its last line before it can have followed the leader that was elected."""
        logged = self.terms.cluster.processes.get((self.broker, session.broker_epoch))
        return logged is not None and logged.last_ms < self.at_ms(self.row) - self.error_ms

    def _leader_gone_ms(self) -> int | None:
        """When the process that led had certainly ended: another one of that broker had begun."""
        session = self.term.session
        if session is None:
            return None
        logged = self.terms.cluster.processes.get((self.term.leader, session.broker_epoch))
        times = [] if logged is None or logged.next_ms is None else [logged.next_ms[0] + self.error_ms]
        return min([*times, *self._leader_again_ms()], default=None)

    def _leader_again_ms(self) -> list[int]:
        """When the leader registered again after its term had begun; empty if it did not."""
        again = self.terms.sessions.begun(self.term.leader, int(self.terms.facts.batch[self.term.first]))
        return [session.begin_ms for session in again[:1]]

    def _kept_log_dirs(self, session: Session) -> bool:
        until_ms = self.at_ms(self.row) + PROPAGATION_MS
        return self.terms.cluster.brokers.kept_log_dirs(self.broker, self.at_ms(self.joined), until_ms)

    def _ran_on(self, session: Session, until_ms: int) -> bool:
        """Whether its log lost nothing from its joining on, and it was a replica all that time."""
        end = self.terms.first + bisect_right(self.terms.times, until_ms + PROPAGATION_MS)
        kept = self.terms.was_replica(self.broker, self.joined, end)
        return kept and self.terms.ran_on(self.broker, session, self.at_ms(self.joined), until_ms)
