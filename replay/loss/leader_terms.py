"""One partition over time: who led it in which session, who was a member of ISR or ELR without a break, and whom a
replica can have followed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, takewhile

import numpy as np

from replay.arrow.ragged import Array, mask_of
from replay.cluster.facts import ClusterFacts
from replay.loss.facts import StateFacts
from replay.loss.liveness import Session, Sessions
from replay.offsets.evidence import PROPAGATION_MS, Row, read_by
from replay.partitions.elections import States

# A replica that has been in sync for so long, on a broker that ran all the time, follows its leader's log, and has
# written its high watermark since (replica.lag.time.max.ms, 30 s, and replica.high.watermark.checkpoint.interval.ms, 5
# s).
SETTLED_MS = 60_000


@dataclass(frozen=True, slots=True)
class LeaderTerm:
    """A leader's time without a break: rows [first, behind) of the history, and when it began and ended, in ms.
    session: its leader's when it began, None where that is not known. unbroken: one process led all that time; else one
    that came after a crash may have, from `session.alive_until_ms` on."""

    leader: int
    first: int
    behind: int
    begin_ms: int
    end_ms: int
    session: Session | None
    unbroken: bool


class LeaderTerms:
    """The course of one partition: its rows [first, behind) in the bucket's facts and states. stopped: of
    `offsets.Evidence`."""

    def __init__(
        self,
        facts: StateFacts,
        states: States,
        span: tuple[int, int],
        sessions: Sessions,
        cluster: ClusterFacts,
        end_ms: int,
        stopped: Mapping[tuple[int, int], int],
    ) -> None:
        self.stopped = stopped
        self.facts, self.states, self.sessions, self.cluster = facts, states, sessions, cluster
        self.first, self.behind = span
        self.end_ms = end_ms
        self.times: list[int] = np.maximum.accumulate(facts.timestamp_ms[self.first : self.behind]).tolist()
        self._absences: dict[int, Array] = {}
        self._unsettled: dict[int, list[int]] = {}

    @property
    def sound(self) -> bool:
        """Leader epochs only ever rise. Where they do not, two histories were mixed, and evidence speaks of either."""
        rows = slice(self.first, self.behind)
        epochs = self.states.leader_epoch[rows][~self.states.removed[rows]]
        return bool((np.diff(epochs) >= 0).all())

    @cached_property
    def known_since_ms(self) -> int:
        """When the partition was created, or the snapshot was made that its history begins with."""
        return int(self.facts.timestamp_ms[self.first])

    @cached_property
    def reigns(self) -> list[LeaderTerm]:
        """In order. A leader that is elected again without another in between goes on."""
        rows = np.arange(self.first, self.behind)
        leader, stretch = self.states.leader[rows], self.facts.stretch[rows]
        new = np.append(True, (leader[1:] != leader[:-1]) | (stretch[1:] != stretch[:-1]))
        starts = rows[new].tolist()
        ends = [*starts[1:], self.behind]
        return [self._reign(a, b) for a, b in zip(starts, ends, strict=True) if self.states.leader[a] >= 0]

    def _reign(self, first: int, behind: int) -> LeaderTerm:
        facts, leader = self.facts, int(self.states.leader[first])
        known = behind < self.behind and not self.states.begins[behind]
        end = self.end_ms
        if behind < self.behind:
            end = int(facts.timestamp_ms[behind if known else behind - 1])
        session = self.sessions.at(leader, int(facts.batch[first]))
        unbroken = session is not None and known and session.ran_until(end)
        # It led until it asked for its shutdown, and nobody leads after that.
        if session is not None and known and session.shutdown_batch is not None:
            unbroken |= session.shutdown_batch <= facts.batch[behind]
        # Its clean stop's file, found after its time, with nothing started since (Kafka deletes it at the next start).
        if session is not None and known and (leader, session.broker_epoch) in self.stopped:
            found_ms = self.stopped[leader, session.broker_epoch] - self.cluster.clock.error_ms
            unbroken |= found_ms >= end
        begin = int(facts.timestamp_ms[first])
        return LeaderTerm(leader, first, behind, begin, max(begin, end), session, bool(unbroken))

    def last_reign(self, row: int) -> LeaderTerm | None:
        """The last one that began before a row and within its stretch."""
        index = bisect_right(self.reigns, row - 1, key=lambda r: r.first) - 1
        found = self.reigns[index] if index >= 0 else None
        return found if found and found.first >= self.facts.stretch[row] else None

    def reigns_within(self, first: int, behind: int) -> Sequence[LeaderTerm]:
        """Those that overlap rows [first, behind)."""
        low = bisect_right(self.reigns, first, key=lambda r: r.behind)
        high = bisect_right(self.reigns, behind - 1, key=lambda r: r.first)
        return self.reigns[low:high]

    @cached_property
    def _broken(self) -> list[LeaderTerm]:
        return [term for term in self.reigns if not term.unbroken]

    def broken_within(self, row: int) -> Iterator[LeaderTerm]:
        """The terms that more than one process may have led, in the stretch of known states before a row."""
        first = int(self.facts.stretch[row])
        low = bisect_right(self._broken, first, key=lambda r: r.behind)
        return takewhile(lambda term: term.first < row, islice(self._broken, low, None))

    def undisturbed(self, broker: int, reign: LeaderTerm) -> bool:
        """Whether the broker's log surely was not cut back to, or written by, another process than the one that was
        elected: that one led all the time, or the broker had stopped while it surely still ran, and came back later."""
        if reign.unbroken:
            return True
        session = reign.session
        if session is None or broker == reign.leader:
            return False
        batch = int(self.facts.batch[min(reign.behind, self.behind - 1)])
        own = [s for s in self.sessions.begun(broker, -1, batch) if s.begin_batch < batch]
        if not own or own[-1].shutdown_ms is None or own[-1].shutdown_ms > session.alive_until_ms:
            return False
        after = self.sessions.begun(broker, own[-1].begin_batch)
        return not after or after[0].begin_ms - PROPAGATION_MS >= reign.end_ms

    def absent(self, broker: int) -> Array:
        """For every row of the partition the last row up to it where the broker was in neither ISR nor, while the
        feature was on and the high watermark stood still, the ELR; the row's number in the history, -1 for none."""
        if broker not in self._absences:
            inside = slice(self.first, self.behind)
            states, facts = self.states, self.facts
            bit = mask_of(states.replicas[inside], np.full(self.behind - self.first, broker))
            held = (bit & states.isr[inside]) != 0
            held |= ((bit & states.elr[inside]) != 0) & facts.elr_on[inside] & facts.below[inside]
            index = np.arange(self.first, self.behind)
            self._absences[broker] = np.maximum.accumulate(np.where(held, -1, index))
        return self._absences[broker]

    def in_isr(self, broker: int, row: int) -> bool:
        """Whether the broker is in the ISR of a row."""
        bit = mask_of(self.states.replicas[row : row + 1], np.array([broker]))
        return bool(bit[0] & self.states.isr[row])

    def settled(self, row: Row) -> int | None:
        """The leader epoch under which the row's replica has been in sync, on a running broker, for SETTLED_MS."""
        broker, error = row["broker_id"], self.cluster.clock.error_ms
        return self.in_sync_since(broker, row["captured_at_ms"] - SETTLED_MS - error, read_by(row) + error)

    def in_sync_since(self, broker: int, begin_ms: int, end_ms: int) -> int | None:
        """The leader epoch at the begin of a time for all of which the log has the broker in the ISR, under a leader,
        and running; None where it was not, or that is not known."""
        first, last = bisect_right(self.times, begin_ms) - 1, bisect_right(self.times, end_ms) - 1
        if first < 0 or self.breaks(broker)[last] >= first:
            return None
        if not self.cluster.brokers.steady(broker, begin_ms, end_ms):
            return None
        return int(self.states.leader_epoch[self.first + first])

    def breaks(self, broker: int) -> list[int]:
        """For every row of the partition (counted from its first) the last one up to it without a leader or without the
        broker in the ISR, or before which states are unknown."""
        if broker in self._unsettled:
            return self._unsettled[broker]
        inside, states = slice(self.first, self.behind), self.states
        replicas = states.replicas[inside]
        in_sync = (mask_of(replicas, np.full(len(replicas), broker)) & states.isr[inside]) != 0
        index = np.arange(len(replicas))
        out = np.where(in_sync & (states.leader[inside] >= 0), -1, index)
        out = np.where(self.facts.anchored[inside], np.maximum(out, index - 1), out)
        return self._unsettled.setdefault(broker, np.maximum.accumulate(out).tolist())
