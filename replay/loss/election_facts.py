"""What recorded history says about the elections to judge: who led before, whether the winner held everything by
protocol, where the high watermark stood still. Partition by partition.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from replay.arrow.ragged import PAD, members_of
from replay.cluster.facts import ClusterFacts
from replay.loss.ceilings import WAITS_FOR_MIN_ISR_LEVEL, LastTerm
from replay.loss.contradictions import Contradictions
from replay.loss.facts import StateFacts
from replay.loss.leader_terms import LeaderTerm, LeaderTerms
from replay.loss.liveness import Session, Sessions
from replay.loss.premises import Membership, Premise, membership
from replay.loss.verdict import Election
from replay.offsets.evidence import (
    OPEN,
    PROPAGATION_MS,
    Bound,
    Evidence,
    Leaders,
    Row,
    exact_log_end,
    index_rows,
    read_by,
)
from replay.offsets.watermark_floor import EpochsShown, Report, Step, floors, likely_floor, reports
from replay.partitions.elections import States


@dataclass(frozen=True, slots=True)
class Case:
    """An election to judge (row: its row in the history). last_epoch: the leader epoch of the last leader before it;
    -1 if there was none. leaderless_ms: since when nobody led, None if somebody led up to the election. memberships: of
    every replica right before it; sessions: of their brokers at it; undisturbed: see `LeaderTerms.undisturbed`."""

    row: int
    election: Election
    evidence: Evidence
    floor: Bound
    log_end_min: Bound
    previous_leader: int
    last_epoch: int
    leaderless_ms: int | None
    memberships: dict[int, Membership]
    sessions: dict[int, Session | None]
    undisturbed: frozenset[int]


def partition_cases(
    facts: StateFacts,
    states: States,
    span: tuple[int, int],
    rows: Iterable[int],
    evidence: Evidence,
    against: Contradictions,
    around: tuple[ClusterFacts, Sessions, int],
    directories: Sequence[Sequence[str] | None],
) -> list[Case]:
    """The cases of one partition. span: its rows in the history [first, behind); rows: the elections to judge;
    against: what else in the lake speaks against an election; around: the cluster, its brokers' sessions,
    and the time after which no state is known; directories: of the span's rows, ids in the order of the replicas."""
    cluster, sessions, end_ms = around
    sessions = sessions.seen_alive(evidence.scrapes, cluster.clock)
    course = LeaderTerms(facts, states, span, sessions, cluster, end_ms, evidence.stopped)
    return _Partition(course, evidence, against, directories).cases(list(rows))


class _Partition:
    """One partition's rows, with what several of its cases share."""

    def __init__(
        self,
        course: LeaderTerms,
        evidence: Evidence,
        against: Contradictions,
        directories: Sequence[Sequence[str] | None],
    ) -> None:
        self.course, self.facts, self.states = course, course.facts, course.states
        self.sessions, self.cluster, self.clock = course.sessions, course.cluster, course.cluster.clock
        self.first, self.behind = course.first, course.behind
        self.evidence = evidence if course.sound else index_rows([])
        self.against, self.directories = against, directories
        self.leaders: dict[int, Leaders] = {}

    def cases(self, rows: list[int]) -> list[Case]:
        facts, states = self.facts, self.states
        inside = np.arange(self.first, self.behind)
        asked = inside[(facts.changes[inside] & (states.leader[inside] >= 0)) | facts.anchored[inside]].tolist()
        steps = [self._step(row) for row in asked]
        found = dict(zip(asked, floors(steps, self._reports(steps)), strict=True))
        return [self._case(row, found[row]) for row in rows]

    def _reports(self, steps: Sequence[Step]) -> list[Report]:
        created = None
        if not self.facts.anchored[self.first]:
            created = (int(self.states.leader_epoch[self.first]), self.course.known_since_ms)
        marks = [row for row in self.evidence.high_watermarks if self._of_this_topic(row)]
        known = reports(self.evidence, marks, created, steps, self._latest_epoch, self.clock)
        return known + list(self._alone())

    def _of_this_topic(self, row: Row) -> bool:
        """Whether a value that names its topic only by name surely is of this partition, not of one that had the name
        before: the broker is a replica, and was up since the partition is known for long enough to have written its
        checkpoint files anew."""
        broker, known_ms = row["broker_id"], self.course.known_since_ms + self.clock.error_ms
        if broker not in self._ever_replicas:
            return False
        needed = self.cluster.checkpoint_interval_ms + PROPAGATION_MS
        until = row["captured_at_ms"] - self.clock.error_ms
        return self.cluster.brokers.active_for(broker, known_ms, until) >= needed

    @cached_property
    def _ever_replicas(self) -> set[int]:
        replicas = self.states.replicas[self.first : self.behind]
        return set(np.unique(replicas[replicas != PAD]).tolist())

    def _latest_epoch(self, row: Row) -> int | None:
        """A leader epoch that the log of a high watermark's replica surely had reached when the value was written."""
        known = [e for e in (self.course.settled(row), self._written_anew(row)) if e is not None]
        return max(known, default=None)

    def _written_anew(self, row: Row) -> int | None:
        """A running broker writes its high watermarks again and again: what was read a checkpoint interval after its
        leader-epoch-checkpoint had shown an epoch is of a log that had reached that epoch, if the broker surely ran for
        that long."""
        needed, error = self.cluster.checkpoint_interval_ms + PROPAGATION_MS, self.clock.error_ms
        session = self.sessions.last_begun(row["broker_id"], row["captured_at_ms"] - error)
        if session is None:
            return None
        by = min(row["captured_at_ms"] - error, session.alive_until_ms) - needed - error
        return self._lines.highest(row["broker_id"], session.begin_ms + error, by)

    @cached_property
    def _lines(self) -> EpochsShown:
        return EpochsShown(self.evidence.epoch_rows)

    def _alone(self) -> Iterable[Report]:
        """A leader that is alone in its ISR, and not below min ISR, has its high watermark at its log's end: what it
        had in a later reading of the same process was acknowledged."""
        error = self.clock.error_ms
        for broker, scrapes in self.evidence.scrapes.items():
            for number, scrape in enumerate(scrapes[:-1]):
                alone = scrape.in_sync_replicas_count == 1 and scrape.under_min_isr is False
                if not alone or not scrape.log_end_offset or scrape.process_start_ms is None:
                    continue
                later = scrapes[number + 1]
                same = later.process_start_ms == scrape.process_start_ms and later.in_sync_replicas_count == 1
                if not same or later.log_end_offset != scrape.log_end_offset or later.under_min_isr is not False:
                    continue
                begin, end = scrape.captured_at_ms - error, read_by(later.row) + error
                epoch = self._led_alone(broker, begin - self.cluster.heard_ms - PROPAGATION_MS, end)
                if epoch is not None and later.captured_at_ms > read_by(scrape.row):
                    yield Report(scrape.log_end_offset, end, epoch, later.row, "floor_leader_alone")

    def _led_alone(self, broker: int, begin_ms: int, end_ms: int) -> int | None:
        """The leader epoch in which the broker led, as the log has it, with nobody else in the ISR and every other
        replica fenced or shutting down, for all of a time."""
        course, states = self.course, self.states
        first = bisect_right(course.times, begin_ms) - 1
        last = bisect_right(course.times, end_ms) - 1
        if (
            first < 0
            or end_ms > course.end_ms
            or self.facts.anchored[self.first + first + 1 : self.first + last + 1].any()
        ):
            return None
        rows = range(self.first + first, self.first + last + 1)
        if any(states.leader[r] != broker or states.isr_size[r] != 1 for r in rows):
            return None
        # A leader looks at its high watermark again when something is written, not when min ISR is lowered.
        reign = max(int(self.facts.reign[rows[0]]), self.first)
        if (self.facts.highest_min_isr[reign : rows[-1] + 1] > 1).any():
            return None
        others = {b for r in rows for b in members_of(states.replicas[r])} - {broker}
        if any(self.cluster.brokers.active_for(b, begin_ms, end_ms) > 0 for b in others):
            return None
        return int(states.leader_epoch[rows[0]])

    def _case(self, row: int, floor: Bound) -> Case:
        facts, states = self.facts, self.states
        led = int(facts.led[row - 1])
        leaderless = None if led == row - 1 else int(facts.timestamp_ms[max(led + 1, facts.stretch[row])])
        reign = self.course.last_reign(row)
        winner, replicas = int(states.leader[row]), members_of(states.replicas[row])
        memberships = {broker: membership(self.course, broker, row, self._directory_of) for broker in replicas}
        calm = {broker for broker in replicas if reign is None or self.course.undisturbed(broker, reign)}
        return Case(
            row=row,
            election=self._election(row, reign, memberships[winner]),
            evidence=self.evidence,
            floor=floor,
            log_end_min=self._log_end(row),
            previous_leader=int(facts.previous_leader[row]),
            last_epoch=int(states.leader_epoch[led]) if led >= 0 else -1,
            leaderless_ms=leaderless,
            memberships=memberships,
            sessions={broker: self.sessions.at(broker, int(facts.batch[row])) for broker in replicas},
            undisturbed=frozenset(calm),
        )

    def _election(self, row: int, reign: LeaderTerm | None, own: Membership) -> Election:
        facts, states = self.facts, self.states
        winner, batch = int(states.leader[row]), int(facts.batch[row])
        elected_ms, until_ms = int(facts.timestamp_ms[row]), int(facts.until_ms[row])
        session = self.sessions.at(winner, batch)
        later = self.sessions.begun(winner, batch)
        if later:
            until_ms = min(until_ms, later[0].begin_ms)
        joined = row - 1 if own.joined is None else own.joined
        return Election(
            leader=winner,
            leader_epoch=int(states.leader_epoch[row]),
            elected_ms=elected_ms,
            knows_by_ms=elected_ms + self.cluster.heard_ms + PROPAGATION_MS,
            until_ms=until_ms,
            closed=bool(facts.closed[row]),
            session=session,
            membership=own,
            joined_ms=int(facts.timestamp_ms[joined]),
            term=None if reign is None else self._term(row, reign),
            # Another process may have led after a crash, with less: what the first one had is not what was lost here.
            reign=self._led(row, reign) if reign is not None and reign.unbroken else None,
            contradictions=tuple(self._contradictions(row, own)),
            likely_floor=OPEN if reign is None else self._likely_floor(reign, elected_ms),
        )

    def _led(self, row: int, reign: LeaderTerm) -> tuple[int, int, int]:
        """(leader, from, to) of the reign, up to its leader's restart."""
        restarts = self.sessions.begun(reign.leader, int(self.facts.batch[reign.first]), int(self.facts.batch[row]))
        end = min([int(self.facts.timestamp_ms[row]), *(s.begin_ms for s in restarts[:1])])
        return reign.leader, reign.begin_ms, end

    def _term(self, row: int, reign: LeaderTerm) -> LastTerm:
        facts, session = self.facts, reign.session
        led_last = min(reign.behind, row) - 1
        below = max(int(facts.frozen[row - 1]), reign.first)
        below_ms = int(facts.timestamp_ms[below]) if below <= led_last else None
        restarts = self.sessions.begun(reign.leader, int(facts.batch[reign.first]), int(facts.batch[row]))
        waits = below <= led_last and bool(facts.elr_on[below])
        waits |= session is not None and (session.newest_level or 0) >= WAITS_FOR_MIN_ISR_LEVEL
        margin_ms = self.cluster.heard_ms + PROPAGATION_MS
        return LastTerm(
            leader=reign.leader,
            session=(reign.leader, session.broker_epoch) if session and not self._led_in_two(reign, restarts) else None,
            stopped_by_ms=restarts[0].begin_ms if restarts else None,
            led_ms=(reign.begin_ms, min([reign.end_ms, *(s.begin_ms for s in restarts[:1])])),
            below_ms=below_ms,
            known_by_ms=None if below_ms is None else below_ms + margin_ms,
            waits=waits,
            fixed_since=lambda at_ms: self._fixed(at_ms - margin_ms, led_last),
            last_alive_ms=session.alive_until_ms if session else -1,
            started_by_ms=session.begin_ms if session and session.registered else None,
            last_leader_epoch=int(self.states.leader_epoch[led_last]),
            elected_ms=int(facts.timestamp_ms[row]),
        )

    def _led_in_two(self, reign: LeaderTerm, restarts: Sequence[Session]) -> bool:
        """Whether the leader began another session while the log still had it as leader."""
        last = int(self.facts.batch[reign.behind - 1])
        return bool(restarts) and restarts[0].begin_batch <= last

    def _fixed(self, since_ms: int, last: int) -> bool:
        """Whether from a time on, up to a row, the ISR took in nobody and min ISR was the same."""
        facts, states = self.facts, self.states
        first = self.first + bisect_right(self.course.times, since_ms) - 1
        rows = np.arange(max(first, self.first), last + 1)
        if first < facts.stretch[last] or (states.min_isr[rows] != states.min_isr[last]).any():
            return False
        same = (states.replicas[rows] == states.replicas[last]).all()
        grown = (states.isr[rows][1:] & ~states.isr[rows][:-1]).any()
        return bool(same and not grown and (facts.lowest_min_isr[rows] == states.min_isr[last]).all())

    def _contradictions(self, row: int, own: Membership) -> Iterable[Premise]:
        facts = self.facts
        joined_ms = int(facts.timestamp_ms[row - 1 if own.joined is None else own.joined])
        elected_ms = int(facts.timestamp_ms[row])
        first = max(int(facts.stretch[row]), row - 1 if own.joined is None else own.joined)
        concerned = {int(self.states.leader[row]), *(r.leader for r in self.course.reigns_within(first, row))}
        if int(facts.offset[row]) in self.against.changes:
            yield Premise("contradicted_by_rules", False, offset=int(facts.offset[row]))
        for span in self.against.truncated.get(int(self.states.key[row]), ()):
            overlaps = span.begin_ms <= elected_ms and (span.end_ms is None or span.end_ms >= joined_ms)
            if overlaps and span.broker in concerned:
                yield Premise("contradicted_by_truncation", False, brokers=(span.broker,))

    def _directory_of(self, row: int, broker: int) -> str | None:
        directories = self.directories[row - self.first]
        replicas = members_of(self.states.replicas[row])
        if not directories or len(directories) != len(replicas) or broker not in replicas:
            return None
        return directories[replicas.index(broker)]

    def _likely_floor(self, reign: LeaderTerm, elected_ms: int) -> Bound:
        """Of what was read since the reign began, of its leader and those who followed it."""
        needed, error = self.cluster.checkpoint_interval_ms + PROPAGATION_MS, self.clock.error_ms
        marks = self.evidence.high_watermarks
        since = bisect_left(marks, reign.begin_ms + needed + error, key=lambda r: r["captured_at_ms"])

        def in_reign(row: Row) -> bool:
            broker, at = row["broker_id"], row["captured_at_ms"]
            if broker == reign.leader:
                return reign.end_ms - reign.begin_ms >= needed
            return self.course.in_sync_since(broker, at - needed - error, at + error) is not None

        return likely_floor(marks[since:], in_reign, elected_ms, self.clock)

    def _step(self, row: int) -> Step:
        facts, epoch = self.facts, int(self.states.leader_epoch[row])
        at_ms = int(facts.timestamp_ms[row])
        if facts.anchored[row]:
            return Step(epoch, at_ms, carries=False)
        winner = int(self.states.leader[row])
        if facts.previous_leader[row] == winner:
            reign = int(facts.reign[facts.led[row - 1]])
            session = self.sessions.at(winner, int(facts.batch[row]))
            same = not self.sessions.begun(winner, int(facts.batch[reign]), int(facts.batch[row]))
            # As one process: what came after a crash inside the session may have less.
            if same and session is not None and session.ran_until(at_ms):
                return Step(epoch, at_ms, carries=True)
        return Step(epoch, at_ms, carries=False, survives=self._log_end(row))

    def _log_end(self, row: int) -> Bound:
        """Up to where the winner's log was the partition's: open where its log, or the log of the leader before, may
        have been written by another process than the one that was elected."""
        stretch, winner = int(self.facts.stretch[row]), int(self.states.leader[row])
        reign = self.course.last_reign(row)
        if reign is not None and not self.course.undisturbed(winner, reign):
            return OPEN
        if stretch not in self.leaders:
            inside = np.arange(stretch, self.behind)
            inside = inside[self.facts.stretch[inside] == stretch]
            opened = inside[(self.states.leader[inside] >= 0) & (self.facts.changes[inside] | (inside == stretch))]
            epochs, brokers = self.states.leader_epoch[opened].tolist(), self.states.leader[opened].tolist()
            self.leaders[stretch] = Leaders(epochs, brokers)
        return exact_log_end(self.evidence, self.leaders[stretch], winner, int(self.states.leader_epoch[row]))
