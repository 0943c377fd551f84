"""The leader terms of one partition: who led in which session, who was a member of ISR or ELR without a break, and
which leaders a replica can have followed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, takewhile

import numpy as np

from replay.arrow.ragged import Array, mask_of
from replay.cluster.boots import is_same_boot
from replay.cluster.facts import ClusterFacts
from replay.loss.facts import StateFacts
from replay.loss.liveness import Session, Sessions
from replay.offsets.evidence import PROPAGATION_MS, Row, read_by
from replay.offsets.shared_log import Leaders
from replay.partitions.elections import States

# A replica that has been in sync for this long, on a broker that ran all that time, follows its leader's log and has
# written its high watermark since (replica.lag.time.max.ms, 30 s; replica.high.watermark.checkpoint.interval.ms, 5 s).
SETTLED_MS = 60_000


@dataclass(frozen=True, slots=True)
class LeaderTerm:
    """A leader's time without a break: rows [first, end) of the history, and when it began and ended, in ms.

    session: the leader's session at the beginning; None if unknown. unbroken: one process led all that time; otherwise
    a process that started after a crash may have led from `session.alive_until_ms` on. kept: whichever process led had
    all that the leader had written: one process led, or its machine did not start again in that time.
    """

    leader: int
    first: int
    end: int
    begin_ms: int
    end_ms: int
    session: Session | None
    unbroken: bool
    kept: bool


class LeaderTerms:
    """The leader terms of one partition, rows [first, end) of the bucket's facts and states. stopped:
    `Evidence.stopped`; corrupted: `BrokerLines.corrupted`."""

    def __init__(
        self,
        facts: StateFacts,
        states: States,
        span: tuple[int, int],
        sessions: Sessions,
        cluster: ClusterFacts,
        end_ms: int,
        stopped: Mapping[tuple[int, int], int],
        corrupted: Mapping[int, Sequence[int | None]],
    ) -> None:
        self.stopped, self.corrupted = stopped, corrupted
        self.facts, self.states, self.sessions, self.cluster = facts, states, sessions, cluster
        self.first, self.end = span
        self.end_ms = end_ms
        self.times: list[int] = np.maximum.accumulate(facts.timestamp_ms[self.first : self.end]).tolist()
        self._leaders: dict[int, Leaders] = {}
        self._absences: dict[int, Array] = {}
        self._unsettled: dict[int, list[int]] = {}

    @property
    def sound(self) -> bool:
        """Whether leader epochs only rise. If not, two histories were mixed and evidence may be about either."""
        rows = slice(self.first, self.end)
        epochs = self.states.leader_epoch[rows][~self.states.removed[rows]]
        return bool((np.diff(epochs) >= 0).all())

    @cached_property
    def known_since_ms(self) -> int:
        """When the partition was created, or the time of the snapshot with which its history begins."""
        return int(self.facts.timestamp_ms[self.first])

    @cached_property
    def all_terms(self) -> list[LeaderTerm]:
        """All terms, in order. A leader that is elected again with no other in between continues its term."""
        rows = np.arange(self.first, self.end)
        leader, stretch = self.states.leader[rows], self.facts.stretch[rows]
        new = np.append(True, (leader[1:] != leader[:-1]) | (stretch[1:] != stretch[:-1]))
        starts = rows[new].tolist()
        ends = [*starts[1:], self.end]
        return [self._term(a, b) for a, b in zip(starts, ends, strict=True) if self.states.leader[a] >= 0]

    def _term(self, first: int, end: int) -> LeaderTerm:
        facts, leader = self.facts, int(self.states.leader[first])
        known = end < self.end and not self.states.begins[end]
        end_ms = self.end_ms
        if end < self.end:
            end_ms = int(facts.timestamp_ms[end if known else end - 1])
        session = self.sessions.at(leader, int(facts.batch[first]))
        unbroken = session is not None and known and session.ran_until(end_ms)
        # It led until it asked for its controlled shutdown; after that request it no longer leads.
        if session is not None and known and session.shutdown_batch is not None:
            unbroken |= session.shutdown_batch <= facts.batch[end]
        # Its .kafka_cleanshutdown was found after the term: nothing has started since (Kafka deletes it at a start).
        if session is not None and known and (leader, session.broker_epoch) in self.stopped:
            found_ms = self.stopped[leader, session.broker_epoch] - self.cluster.clock.error_ms
            unbroken |= found_ms >= end_ms
        begin_ms = int(facts.timestamp_ms[first])
        kept = bool(unbroken) or (known and self.ran_on(leader, session, begin_ms, end_ms))
        return LeaderTerm(leader, first, end, begin_ms, max(begin_ms, end_ms), session, bool(unbroken), kept)

    def ran_on(self, broker: int, session: Session | None, since_ms: int, until_ms: int) -> bool:
        """Whether a broker's log lost nothing from since_ms to until_ms, however often its process was killed: its
        machine did not start again (SIGKILL leaves what was written in the page cache), and it kept its log
        directories. The process of the session at since_ms, if there is one, certainly ran up to its last sign of
        life."""
        return self._same_log(broker, session, since_ms, until_ms) and not self._cut_damage(broker, since_ms, until_ms)

    def was_damaged(self, broker: int, session: Session | None, since_ms: int, until_ms: int) -> bool:
        """Whether only damage that a start cut off keeps `ran_on` from being true."""
        return self._same_log(broker, session, since_ms, until_ms) and self._cut_damage(broker, since_ms, until_ms)

    def _same_log(self, broker: int, session: Session | None, since_ms: int, until_ms: int) -> bool:
        since_ms = since_ms if session is None else max(since_ms, session.alive_until_ms)
        readings = self.cluster.boots.get(broker, ())
        error_ms = self.cluster.clock.error_ms
        kept = self.cluster.brokers.kept_log_dirs(broker, since_ms, until_ms + PROPAGATION_MS)
        return kept and is_same_boot(readings, since_ms, until_ms + PROPAGATION_MS, error_ms)

    def _cut_damage(self, broker: int, since_ms: int, until_ms: int) -> bool:
        error = self.cluster.clock.error_ms + PROPAGATION_MS
        times = self.corrupted.get(broker, ())
        return any(at is None or since_ms - error <= at <= until_ms + error for at in times)

    def last_term(self, row: int) -> LeaderTerm | None:
        """The last term that began before a row and within the row's stretch."""
        index = bisect_right(self.all_terms, row - 1, key=lambda r: r.first) - 1
        found = self.all_terms[index] if index >= 0 else None
        return found if found and found.first >= self.facts.stretch[row] else None

    def terms_within(self, first: int, end: int) -> Sequence[LeaderTerm]:
        """The terms that overlap rows [first, end)."""
        low = bisect_right(self.all_terms, first, key=lambda r: r.end)
        high = bisect_right(self.all_terms, end - 1, key=lambda r: r.first)
        return self.all_terms[low:high]

    @cached_property
    def _broken(self) -> list[LeaderTerm]:
        return [term for term in self.all_terms if not term.kept]

    def broken_within(self, row: int) -> Iterator[LeaderTerm]:
        """The terms in which a later process may have led with less than an earlier one, in the stretch of known states
        before a row."""
        first = int(self.facts.stretch[row])
        low = bisect_right(self._broken, first, key=lambda r: r.end)
        return takewhile(lambda term: term.first < row, islice(self._broken, low, None))

    def undisturbed(self, broker: int, term: LeaderTerm) -> bool:
        """Whether the broker's log was certainly neither truncated to, nor written by, a process other than the elected
        one, or a later one that had no less: the elected one led all the time, or the broker stopped while it certainly
        still ran and came back later.
        """
        if self.facts.anchored[term.first]:
            return False  # what happened in this term before the snapshot is not known
        if term.kept:
            return True
        session = term.session
        if session is None or broker == term.leader:
            return False
        batch = int(self.facts.batch[min(term.end, self.end - 1)])
        own = [s for s in self.sessions.begun(broker, -1, batch) if s.begin_batch < batch]
        if not own or own[-1].shutdown_ms is None or own[-1].shutdown_ms > session.alive_until_ms:
            return False
        after = self.sessions.begun(broker, own[-1].begin_batch)
        return not after or after[0].begin_ms - PROPAGATION_MS >= term.end_ms

    def has_its_log(self, broker: int, term: LeaderTerm, row: int) -> bool:
        """Whether equal lines mean equal records in the broker's log and in that of the last term before a row: it is
        the leader's own log, or no process but the elected ones can have written any of its records."""
        if not self.undisturbed(broker, term):
            return False
        earlier = (t for t in self.broken_within(row) if t is not term)
        return broker == term.leader or not (self.facts.anchored[self.facts.stretch[row]] or any(earlier))

    def leaders(self, stretch: int) -> Leaders:
        """The leaders of the stretch of known states that begins with that row."""
        if stretch not in self._leaders:
            states, facts = self.states, self.facts
            rows = np.arange(stretch, self.end)
            rows = rows[facts.stretch[rows] == stretch]
            opened = rows[(states.leader[rows] >= 0) & (facts.changes[rows] | (rows == stretch))]
            broken = self.broken_within(int(rows[-1]))
            self._leaders[stretch] = Leaders(
                states.leader_epoch[opened].tolist(),
                states.leader[opened].tolist(),
                known_from=int(states.leader_epoch[stretch]) + int(facts.anchored[stretch]),
                written_twice=frozenset(e for t in broken for e in states.leader_epoch[t.first : t.end].tolist()),
            )
        return self._leaders[stretch]

    def absent(self, broker: int) -> Array:
        """For every row of the partition, the number of the last row up to it in which the broker was no member; -1 for
        none. Members are in the ISR, or in the ELR while the feature was on and the high watermark did not advance."""
        if broker not in self._absences:
            inside = slice(self.first, self.end)
            states, facts = self.states, self.facts
            bit = mask_of(states.replicas[inside], np.full(self.end - self.first, broker))
            held = (bit & states.isr[inside]) != 0
            held |= ((bit & states.elr[inside]) != 0) & facts.elr_on[inside] & facts.below[inside]
            index = np.arange(self.first, self.end)
            self._absences[broker] = np.maximum.accumulate(np.where(held, -1, index))
        return self._absences[broker]

    def in_isr(self, broker: int, row: int) -> bool:
        """Whether the broker is in the row's ISR."""
        bit = mask_of(self.states.replicas[row : row + 1], np.array([broker]))
        return bool(bit[0] & self.states.isr[row])

    def settled(self, row: Row) -> int | None:
        """The leader epoch under which the row's replica had been in sync, on a running broker, for SETTLED_MS when the
        row was read; None if it had not, or that is unknown."""
        broker, error = row["broker_id"], self.cluster.clock.error_ms
        return self.in_sync_since(broker, row["captured_at_ms"] - SETTLED_MS - error, read_by(row) + error)

    def in_sync_since(self, broker: int, begin_ms: int, end_ms: int) -> int | None:
        """The leader epoch at begin_ms if from then to end_ms the metadata log shows the broker running and in the ISR,
        under a leader; None if it does not."""
        first, last = bisect_right(self.times, begin_ms) - 1, bisect_right(self.times, end_ms) - 1
        if first < 0 or self.breaks(broker)[last] >= first or not self.known_at(end_ms):
            return None
        if not self.cluster.brokers.steady(broker, begin_ms, end_ms):
            return None
        return int(self.states.leader_epoch[self.first + first])

    def known_at(self, timestamp_ms: int) -> bool:
        """Whether the partition's state at a time is known: it is not if the log ended before, or if the next row is a
        snapshot's, which follows a hole in the log."""
        following = bisect_right(self.times, timestamp_ms)
        if following == len(self.times):
            return timestamp_ms <= self.end_ms
        return not self.facts.anchored[self.first + following] or timestamp_ms <= self.times[following - 1]

    def breaks(self, broker: int) -> list[int]:
        """For every row of the partition (counted from its first), the last one up to it without a leader, without the
        broker in the ISR, or (counted from the next row on) followed by unknown states; -1 for none."""
        if broker in self._unsettled:
            return self._unsettled[broker]
        inside, states = slice(self.first, self.end), self.states
        replicas = states.replicas[inside]
        in_sync = (mask_of(replicas, np.full(len(replicas), broker)) & states.isr[inside]) != 0
        index = np.arange(len(replicas))
        out = np.where(in_sync & (states.leader[inside] >= 0), -1, index)
        out = np.where(self.facts.anchored[inside], np.maximum(out, index - 1), out)
        return self._unsettled.setdefault(broker, np.maximum.accumulate(out).tolist())
