"""The leader terms of one partition: who led in which session, who was a member of ISR or ELR without a break, and
which leaders a replica can have followed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise, takewhile, zip_longest

import numpy as np

from replay.arrow.once import once_each
from replay.arrow.ragged import INT64_MAX, PAD, Array
from replay.arrow.runs import run_starts
from replay.offsets.evidence import PROPAGATION_MS, Row, read_by
from replay.offsets.shared_log import Leaders
from replay.terms.facts import TOPIC
from replay.terms.liveness import Session
from replay.terms.replica_logs import ReplicaLogs


@dataclass(frozen=True)
class LeaderTerm:
    """A leader's time without a break: rows [first, end) of the history, and when it began and ended, in ms.

    session: the leader's session at the beginning; None if unknown. unbroken: one process led all that time; otherwise
    another one may have led in its own eyes from `session.alive_until_ms` on, and its files and lines may be that
    one's.
    """

    leader: int
    first: int
    end: int
    begin_ms: int
    end_ms: int
    session: Session | None
    unbroken: bool
    _kept: Callable[[], bool] = field(repr=False, compare=False)

    @cached_property
    def kept(self) -> bool:
        """Whether whoever else has a record of the term has it from one log: one process led, only one was registered
        and so reached by anybody, or the machine did not start again in that time."""
        return self.unbroken or self._kept()


@dataclass(frozen=True, slots=True)
class Unserved:
    """When a broker's high watermark may come from a process that led in its own eyes only: from row `first` and
    begin_ms on, up to row `end` and end_ms (None: to the end of what is known)."""

    first: int
    begin_ms: int
    end: int
    end_ms: int | None


@dataclass(eq=False)
class LeaderTerms(ReplicaLogs):
    """The leader terms of one partition."""

    @cached_property
    def all_terms(self) -> list[LeaderTerm]:
        """All terms, in order. A leader that is elected again with no other in between continues its term."""
        rows = np.arange(self.first, self.end)
        leader, stretch = self.states.leader[rows], self.facts.stretch[rows]
        new = run_starts(leader, stretch)
        starts = rows[new].tolist()
        ends = [*starts[1:], self.end]
        return [self._term(a, b) for a, b in zip(starts, ends, strict=True) if self.states.leader[a] >= 0]

    @cached_property
    def _term_begins(self) -> list[int]:
        """The first row of each term."""
        return [term.first for term in self.all_terms]

    def _term(self, first: int, end: int) -> LeaderTerm:
        facts, leader = self.facts, int(self.states.leader[first])
        known = end < self.end and not self.states.begins[end]
        end_ms = self.end_ms
        if end < self.end:
            end_ms = int(facts.timestamp_ms[end if known else end - 1])
        session, begin_ms = self.session_at(leader, first), int(facts.timestamp_ms[first])
        unbroken = False
        if session is not None and known:
            # It ran when it asked for its controlled shutdown, and that event took the lead from it. It may lead on, or
            # again, and have died since: of a large event the controller may write the first batches and fail
            # (QuorumController.appendRecords, 3.9.1 to 4.3.1), and 4.0 elects one that has asked (KAFKA-19522).
            ended_in = int(self.cluster.split.begin_of(facts.batch[[end]])[0])
            unbroken = ended_in == session.shutdown_batch or session.was_alone_until(end_ms)
            # Its .kafka_cleanshutdown was found after the term: nothing started since (Kafka deletes it at a start).
            if (found_ms := self.stopped.get((leader, session.broker_epoch))) is not None:
                later = self.sessions.begun(leader, session.begin_batch)
                # Else it is in a directory that is no longer in log.dirs, or was put back.
                is_current = not later or found_ms + self.cluster.clock.error_ms < later[0].begin_ms
                unbroken |= is_current and found_ms - self.cluster.clock.error_ms >= end_ms

        def kept() -> bool:
            by_one = known and self._served_by_one(leader, session, first, end)
            return by_one or (known and self.kept_log(leader, session, begin_ms, end_ms))

        return LeaderTerm(leader, first, end, begin_ms, max(begin_ms, end_ms), session, unbroken, kept)

    def served_by_one(self, term: LeaderTerm) -> bool:
        """Whether one process of the leader was registered all through a term that is known to have ended, and only
        clients and that process wrote to the topic."""
        ended = term.end < self.end and not self.states.begins[term.end]
        return ended and self._served_by_one(term.leader, term.session, term.first, term.end)

    def _served_by_one(self, leader: int, session: Session | None, first: int, end: int) -> bool:
        """Whether one process of the leader was registered, and so could be reached, in rows [first, end): no new
        incarnation registered after the batch of the first row and before that of the end. One with ZooKeeper serves
        before it is registered: it leads as soon as a controller asks it to (KafkaServer.startup, ZkBrokerEpochManager,
        3.9.1)."""
        if session is None or session.has_zookeeper:
            return False
        if self.facts.anchored[first] or not self.is_written_by_clients:
            return False
        inside = self.begun_within(leader, first, end)
        return not inside and self.sessions.excludes_a_second_process(leader, session)

    def led_in_two(self, term: LeaderTerm) -> bool:
        """Whether the leader began another session while the log still showed it as leader."""
        return bool(self.begun_within(term.leader, term.first, term.end))

    def lost_inside(self, row: int) -> bool:
        """Whether the leader of the row may have served on with less than it was elected with: another process of it
        registered within its term, and nothing shows that its log kept everything. Such a loss is of no election. The
        elected one may have been dead already: what it lost counts from its last sign of life on."""
        term = self.term_at(row)
        if term is None or not self.led_in_two(term):
            return False
        alive_ms = term.begin_ms if term.session is None else min(term.begin_ms, term.session.alive_until_ms)
        return not (term.kept and self.kept_log(term.leader, term.session, alive_ms, term.end_ms))

    def kept_log(self, broker: int, session: Session | None, since_ms: int, until_ms: int) -> bool:
        """Whether its machine `ran_on`, and no start emptied the log, which was the partition's at since_ms. One does
        where it ends below what the file of log starts says: the broker had truncated it below where an earlier leader
        had deleted up to, and was killed before it wrote that file again (LogLoader, UnifiedLog.truncateTo,
        LogManager.checkpointLogStartOffsets, 3.9.1 to 4.3.1)."""
        if not self.ran_on(broker, session, since_ms, until_ms):
            return False
        lost = [self.times[row - self.first] for row, _ in self.lost_by_others(broker, until_ms)]
        if not lost:
            return True
        # It had truncated when a leader took it in, or when it had the partition's log.
        joined = (int(self.facts.timestamp_ms[row]) for row in self.taken_in(broker))
        cut_ms = min([since_ms, *(at for at in joined if at >= lost[-1])])
        ended_ms = since_ms if session is None else max(since_ms, session.alive_until_ms + self.cluster.heard_ms)
        rewritten = self.ran_as_replica(broker, ended_ms, self.rewritten_after_cut_ms, cut_ms)
        return lost[-1] <= since_ms and rewritten

    def is_one_process(self, broker: int, first: int, row: int) -> bool:
        """Whether the broker's process at row `first` still ran at an election in `row`, with all its directories."""
        session, now = self.session_at(broker, first), self.session_at(broker, row)
        first_ms, elected_ms = self.facts.timestamp_ms[[first, row]].tolist()
        is_one = session is not None and session == now and session.was_alone_until(elected_ms + PROPAGATION_MS)
        return is_one and self.cluster.brokers.kept_log_dirs(broker, first_ms, elected_ms + PROPAGATION_MS)

    def lost_by_others(self, broker: int, until_ms: int) -> list[tuple[int, int]]:
        """Those of `may_have_lost` up to a time in which another broker leads."""
        others = (each for each in self.may_have_lost if each[1] != broker)
        return [each for each in others if self.times[each[0] - self.first] < until_ms]

    @cached_property
    def may_have_lost(self) -> list[tuple[int, int]]:
        """(row, leader) of leader epochs in which something below the high watermark may have been lost, as far as the
        metadata log shows, or a start's line of damage: of a leader that was no member, or whose restarts since it
        joined were not clean ones (H4, H5), or that lacks what a leader counted since (H10). And of snapshots, before
        which the log does not show it."""
        facts, states, found = self.facts, self.states, list[tuple[int, int]]()
        rows = np.arange(self.first, self.end)
        rows = rows[(facts.changes[rows] & (states.leader[rows] >= 0) & (rows > self.first)) | facts.anchored[rows]]
        for row, following in pairwise([*rows.tolist(), self.end]):
            if facts.anchored[row]:
                found.append((row, -1))
                continue
            leader = int(states.leader[row])
            since = max(int(self.absent(leader)[row - 1 - self.first]) + 1, self.first)
            again = self.begun_within(leader, since, following)
            with_it = any(session.begin_batch == facts.batch[row] for session in again)  # KAFKA-19522
            joined = since < row and self.in_isr(leader, since) and (states.leader[since] >= 0 or facts.anchored[since])
            joined &= not self.may_have_joined_earlier(leader, since)
            counted = self.counts_old_log_ends(leader, since, row) is not None
            if again:
                times = facts.timestamp_ms[[since, row]].tolist()
                is_clean = bool(facts.elr_on[since:following].all()) and self.kept_directory(leader, since, row)
                is_clean &= not self.cut_unasked(leader, *times) and not self.cluster.may_have_new_copy(leader, *times)
            if not joined or with_it or counted or (again and not is_clean):
                found.append((row, leader))
        return found

    @once_each
    def elected_with_registration(self, broker: int) -> list[int]:
        """The rows in which the broker was elected in the batch in which it registered: its stop was not clean, and 4.0
        does not ask whether the last known leader may lead (KAFKA-19522, PartitionChangeBuilder.canElectLastKnownLeader
        4.0.1; 4.1.0 does)."""
        rows = np.arange(self.first, self.end)
        rows = rows[self.facts.changes[rows] & (self.states.leader[rows] == broker)]
        begun = [session.begin_batch for session in self.sessions.by_broker.get(broker, ())]
        return rows[np.isin(self.facts.batch[rows], begun)].tolist()

    def carries(self, row: int) -> bool:
        """Whether the row's leader led last, and still had the log of the process that led.

        Otherwise what was lost of it counts as lost with this leader epoch, although nobody else served in between.
        """
        winner, led = int(self.states.leader[row]), int(self.facts.led[row - 1])
        if self.facts.previous_leader[row] != winner or not self.was_replica(winner, led, row):
            return False
        begin, session = int(self.facts.term_start[led]), self.session_at(winner, row)
        if session is None or self.begun_by(winner, begin, row):
            return False
        return session.was_alone_until(int(self.facts.timestamp_ms[row]) + PROPAGATION_MS)

    @once_each
    def unserved(self, broker: int) -> list[Unserved]:
        """When a high watermark of the broker may be one that no client ever had.

        A process that starts inside its predecessor's session leads in its own eyes. Alone in the ISR and not below min
        ISR it sets its high watermark to its log's end, and writes that down. It is gone when the broker has followed
        another leader, which takes it into the ISR, or when it leads again as a registered process. It applies what
        partitions are before the cluster's default of min ISR, but not before the topic's (BrokerMetadataPublisher,
        LogManager.startup).
        """
        terms = [term for term in self.all_terms if term.leader == broker]
        found = [*(self._unserved_in(term) for term in terms), *self._read_again_alone(broker)]
        return [each for each in found if each is not None]

    def _read_again_alone(self, broker: int) -> Iterator[Unserved]:
        """The same of processes that, after a power failure, may have read again of a time at which the broker was
        alone in the ISR (see `replay.terms.read_again`)."""
        rows = np.arange(self.first, self.end)
        alone = rows[(self.states.leader[rows] == broker) & (self.states.isr_size[rows] == 1)]
        if not len(alone):
            return
        own = self.sessions.by_broker.get(broker, [])
        for session, later in zip_longest(own, own[1:]):
            ended_ms = max(session.alive_until_ms, session.alone_until_ms)
            begun_ms = self.end_ms if later is None else later.begin_ms
            first = self.first + max(bisect_right(self.times, ended_ms) - 1, 0)
            may_read_again = self.cluster.may_have_new_copy(broker, session.begin_ms, begun_ms)
            may_read_again |= not self.ran_on(broker, session, session.begin_ms, begun_ms)
            if alone[0] >= first or not may_read_again:
                continue
            # Before it registers it may be taken in for what the one before had fetched.
            since = self.first + bisect_right(self.times, begun_ms)
            yield Unserved(first, ended_ms, *self._until_served(broker, since))

    def _unserved_in(self, term: LeaderTerm) -> Unserved | None:
        facts, session = self.facts, term.session
        alive_ms = term.begin_ms if session is None else session.alive_until_ms
        alone_ms = -1 if session is None else session.alone_until_ms
        # The next process may read of the term when it has gone, if the one that led had not read that far.
        later = term.unbroken and alive_ms < term.end_ms <= alone_ms
        if term.unbroken and not later:
            return None
        waits = session is not None and session.waits_for_min_isr
        rows = np.arange(term.first, term.end)
        held = self._surely_below[rows - self.first] & (facts.layer[rows] == TOPIC) & (waits | facts.elr_on[rows])
        alone = (self.states.isr_size[rows] == 1) & ~held
        until = np.append(facts.timestamp_ms[rows[1:]], term.end_ms + PROPAGATION_MS)
        found = rows[alone & (until + PROPAGATION_MS > (alive_ms if later else max(alive_ms, alone_ms)))]
        if not len(found):
            return None
        first = term.end if later else int(found[0])
        end, end_ms = self._until_served(term.leader, term.end)
        return Unserved(first, max(alive_ms, alone_ms, int(facts.timestamp_ms[found[0]])), end, end_ms)

    @cached_property
    def _raised(self) -> Array:
        """Rows in which a process leads, or may come to lead, that may have set its high watermark to its log's end
        when it started, although |ISR| < min ISR by the cluster's default (see `unserved`)."""
        rows = np.arange(self.first, self.end)
        alone = (self.states.isr_size[rows] == 1) & (self.facts.layer[rows] != TOPIC)
        result = np.zeros(len(rows), dtype=bool)
        if not alone.any():
            return result
        may_have: dict[int, list[Session | None]] = {}
        for term in self.all_terms:
            inside = slice(term.first - self.first, term.end - self.first)
            earlier = may_have.setdefault(term.leader, [])
            again = self.led_in_two(term) and alone[inside].any()
            result[inside] = again or any(session != term.session for session in earlier)
            if alone[inside].any() and not term.unbroken:
                earlier.append(term.session)
        return result

    def _until_served(self, broker: int, row: int) -> tuple[int, int | None]:
        """`end` and `end_ms` of Unserved: the first row from this one on with which the broker served again."""
        again = self._served_again(broker)
        end = again[bisect_left(again, row)]
        written_ms = self.cluster.checkpoint_interval_ms + PROPAGATION_MS
        return end, None if end == self.end else int(self.facts.timestamp_ms[end]) + written_ms

    @once_each
    def _served_again(self, broker: int) -> list[int]:
        """The rows, in order, from which on the broker's high watermark is a serving leader's; last, the end."""
        again = [t.first for t in self.all_terms if t.leader == broker and self.learned(t)]
        return sorted({*self.taken_in(broker), *again, self.end})

    def took_over(self, term: LeaderTerm) -> bool:
        """Whether no earlier leader can go on: this one learned that it leads, or there was none.

        An earlier one in whose ISR it is waits for what it fetches. But its next process may read the metadata again
        (see `replay.terms.read_again`), follow that leader, and fetch more than this one had."""
        return (term.first == self.first and not self.facts.anchored[term.first]) or self.learned(term)

    def learned(self, term: LeaderTerm) -> bool:
        """Whether a process that clients could reach learned that it leads the term: a line of it or its exporter says
        so, or it took a replica into the ISR. 4.0 elects brokers that are fenced, too (KAFKA-19522): nobody reaches
        such a one. One that the controller hears of may wait for a disk before it leads (Kafka's
        BrokerMetadataPublisher)."""
        session, batch = term.session, int(self.facts.batch[term.first])
        if session is None or not self.cluster.brokers.active(term.leader, batch):
            return False
        sizes = self.states.isr_size[term.first : term.end]
        grew = bool((sizes[1:] > sizes[:-1]).any())
        return grew or self._said_that_it_leads(term, session) or self._showed_that_it_leads(term, session)

    def _said_that_it_leads(self, term: LeaderTerm, session: Session) -> bool:
        """Whether a line of the session's process, which ran at least up to its last one, says within the term that it
        leads."""
        logged, error_ms = self.cluster.processes.get((term.leader, session.broker_epoch)), self.cluster.clock.error_ms
        last_ms = max(session.alive_until_ms - error_ms, -1 if logged is None else logged.last_ms)
        epochs = set(self.states.leader_epoch[term.first : term.end].tolist())
        times = (
            line.row["captured_at_ms"]
            for line in self.lines.led
            if line.broker == term.leader and line.leader_epoch in epochs
        )
        begin_ms, end_ms = max(session.begin_ms + error_ms, term.begin_ms - error_ms), term.end_ms - error_ms
        return any(at is not None and begin_ms <= at <= min(last_ms, end_ms) for at in times)

    def _showed_that_it_leads(self, term: LeaderTerm, session: Session) -> bool:
        """Whether an exporter's text of the session's process shows within the term that it leads. It leads no earlier
        term: it registered after those, and had applied all before that when it was unfenced (BrokerHeartbeatManager,
        MetadataLoader.lastAppliedOffset, 3.9.1 to 4.3.1)."""
        scrapes, error_ms = self.scrapes.get(term.leader, ()), self.cluster.clock.error_ms
        if not scrapes or session.has_zookeeper or self.cluster.is_used_again(self.recorded.topic):
            return False
        earlier = [t.end for t in self.all_terms if t.leader == term.leader and t.first < term.first]
        if earlier and self.facts.batch[earlier[-1]] > session.begin_batch:
            return False
        return any(
            each.says_it_leads
            and each.process_start_ms is not None
            and each.process_start_ms + error_ms <= session.begin_ms
            and each.captured_at_ms - error_ms >= term.begin_ms
            and read_by(each.row) + error_ms <= term.end_ms
            for each in scrapes
        )

    def is_unserved(self, broker: int, row: int, line: Row | None = None) -> bool:
        """Whether the broker's high watermark in the row may be one that no client ever had. line: in which it says so;
        a process that starts later may read of a state that has gone."""
        read_ms = -1 if line is None else line["captured_at_ms"]
        logged_ms = INT64_MAX if read_ms is None else read_ms + self.cluster.clock.error_ms
        return any(
            (each.first <= row or each.begin_ms <= logged_ms) and row < each.end for each in self.unserved(broker)
        )

    def is_read_unserved(self, row: Row) -> bool:
        """The same of a row that was read from the broker or its disk."""
        error_ms = self.cluster.clock.error_ms
        begin_ms, end_ms = row["captured_at_ms"] - error_ms, read_by(row) + error_ms
        spans = self.unserved(row["broker_id"])
        return any(s.begin_ms <= end_ms and (s.end_ms is None or begin_ms <= s.end_ms) for s in spans)

    def counts_old_log_ends(self, broker: int, first: int, row: int) -> tuple[int, int] | None:
        """(row, leader) of a leader epoch that began after row `first` and before `row` whose leader, not that broker,
        may still have counted on log ends from before another leader's epoch; None if there is none.

        A leader that applies its own epochs without the one between (in one delta) keeps the log ends that it knew of
        its followers, which may have truncated since (Kafka's Replica.resetReplicaState with isNewLeader false). Its
        own log has all that it commits.
        """
        rows = self._counting_old_log_ends
        found = ((each, int(self.states.leader[each])) for each in rows[bisect_right(rows, first) :] if each < row)
        return next((each for each in found if each[1] != broker), None)

    @cached_property
    def _counting_old_log_ends(self) -> list[int]:
        """The rows with which such a leader epoch began."""
        leader, previous = (of[self.first : self.end] for of in (self.states.leader, self.facts.previous_leader))
        led_otherwise = (
            self.facts.changes[self.first : self.end] & (leader >= 0) & (previous != -1) & (previous != leader)
        )
        rows = (np.flatnonzero(led_otherwise) + self.first).tolist()
        return [row for row in rows if not self._began_anew(int(self.states.leader[row]), row)]

    def _began_anew(self, leader: int, row: int) -> bool:
        """Whether the leader had given up an earlier leadership when it began to lead in that row."""
        stretch = int(self.facts.stretch[row])
        before = reversed(self.terms_within(stretch, row))
        earlier = next((t for t in before if t.leader == leader and t.end <= row), None)
        if earlier is None:
            return not self.facts.anchored[stretch]
        # Its last process, which may have registered in that term.
        batches = int(self.facts.batch[earlier.end]) - 1, int(self.facts.batch[row])
        led, now = (self.sessions.at(leader, batch) for batch in batches)
        if led is None or now is None or led.begin_batch != now.begin_batch:
            return led is not None and now is not None
        since, epoch = int(self.states.leader_epoch[earlier.end - 1]), int(self.states.leader_epoch[row])
        if any(since < each < epoch for each in self.lines.followed_epochs(leader)):
            return True
        # Another leader took it in: it has fetched from that one.
        return len(self._joins(leader, np.arange(earlier.end, row))) > 0

    def last_term(self, row: int) -> LeaderTerm | None:
        """The last term that began before a row and within the row's stretch."""
        index = bisect_right(self._term_begins, row - 1) - 1
        found = self.all_terms[index] if index >= 0 else None
        return found if found and found.first >= self.facts.stretch[row] else None

    def term_at(self, row: int) -> LeaderTerm | None:
        """The term in which the row lies; None if nobody leads."""
        index = bisect_right(self._term_begins, row) - 1
        found = self.all_terms[index] if index >= 0 else None
        return found if found and row < found.end else None

    def terms_within(self, first: int, end: int) -> Sequence[LeaderTerm]:
        """The terms that overlap rows [first, end)."""
        low = bisect_right(self.all_terms, first, key=lambda r: r.end)
        return self.all_terms[low : bisect_right(self._term_begins, end - 1)]

    @cached_property
    def _broken(self) -> list[LeaderTerm]:
        return [term for term in self.all_terms if not term.kept]

    def broken_within(self, row: int) -> Iterator[LeaderTerm]:
        """The terms in which a later process may have led with less than an earlier one, in the stretch of known states
        before a row."""
        first = int(self.facts.stretch[row])
        low = bisect_right(self._broken, first, key=lambda r: r.end)
        return takewhile(lambda term: term.first < row, islice(self._broken, low, None))

    def has_its_log(self, broker: int, term: LeaderTerm, row: int) -> bool:
        """Whether equal lines mean equal records in the broker's log and in that of the last term before a row: it is
        the leader's own log, or no process but the elected ones can have written any of its records."""
        if self.facts.anchored[term.first] or not term.kept:
            return False
        earlier = any(self.broken_within(row)) or self.facts.anchored[self.facts.stretch[row]]
        return broker == term.leader or not earlier

    @once_each
    def leaders(self, stretch: int) -> Leaders:
        """The leaders of the stretch of known states that begins with that row."""
        states, facts = self.states, self.facts
        rows = np.arange(stretch, self.end)
        rows = rows[facts.stretch[rows] == stretch]
        opened = rows[(states.leader[rows] >= 0) & (facts.changes[rows] | (rows == stretch))]
        broken = self.broken_within(int(rows[-1]))
        return Leaders(
            states.leader_epoch[opened].tolist(),
            states.leader[opened].tolist(),
            known_from=int(states.leader_epoch[stretch]) + int(facts.anchored[stretch]),
            written_twice=frozenset(e for t in broken for e in states.leader_epoch[t.first : t.end].tolist()),
        )

    def configs_from(self, row: int) -> int:
        """The first row, in the stretch, of which the configs may be what the leader goes by when it learns of a row.

        A leader applies a state before the configs of the same delta, also those from before that state (Kafka's
        BrokerMetadataPublisher.onMetadataUpdate), and a change of the ISR that it requested before either.
        """
        known_ms = self.cluster.last_heard_ms(self.times[row - self.first]) - PROPAGATION_MS
        return max(self.first + bisect_right(self.times, known_ms) - 1, int(self.facts.stretch[row]))

    def _process_began_ms(self, row: int) -> int:
        """When the process of the last leader up to a row had begun, and knew the configs up to then; -1 if unknown.
        Since then it may have waited for a disk before it applies others, and sent heartbeats all the same."""
        led = int(self.facts.led[row])
        session = None if led < 0 else self.session_at(int(self.states.leader[led]), row)
        return -1 if session is None else session.begin_ms

    def may_start_by_its_file(self, broker: int, first: int, last: int) -> bool:
        """Whether a process of the broker that leads in rows first to last may have begun to when it started, and so
        before it knew the cluster's default of min ISR: it was not active yet, or another one registered."""
        was_active = self.cluster.brokers.active(broker, int(self.facts.batch[first]))
        is_new = not was_active or bool(self.begun_by(broker, first, last))
        return is_new and bool((self.facts.layer[first : last + 1] != TOPIC).any())

    @cached_property
    def _surely_below(self) -> Array:
        """Rows with |ISR| < min ISR by every value that a leader may go by in them (see `configs_from`)."""
        facts, rows = self.facts, np.arange(self.first, self.end)
        least = np.where(facts.shared[rows], facts.lowest_min_isr[rows], 0)
        lower = least.copy()
        for row in np.flatnonzero(least[1:] > least[:-1]) + self.first + 1:
            raised_ms = self.times[row - self.first]
            until_ms = self.cluster.heard_by_ms(raised_ms) + PROPAGATION_MS
            for later in range(int(row), self.end):
                if self.times[later - self.first] < until_ms or self._process_began_ms(later) <= raised_ms:
                    lower[later - self.first] = min(lower[later - self.first], least[row - self.first - 1])
        return facts.below[rows] & (self.states.isr_size[rows] < lower)

    @once_each
    def absent(self, broker: int) -> Array:
        """For every row of the partition, the number of the last row up to it in which the broker was no member; -1 for
        none. Members are in the ISR, or in the ELR while the feature was on and the high watermark did not advance."""
        inside = slice(self.first, self.end)
        states, facts = self.states, self.facts
        held = self.is_in_isr(broker).copy()
        eligible = (self.places_of(broker) & states.elr[inside]).any(axis=1) & facts.elr_on[inside]
        if eligible.any():
            held |= eligible & self._surely_below & ~self._raised
        return np.maximum.accumulate(np.where(held, -1, np.arange(self.first, self.end)))

    def last_membership(self, broker: int, row: int) -> int | None:
        """The last row up to this one, in its stretch, in which the broker was a member; None if there is none."""
        absent = self.absent(broker)[: row + 1 - self.first]
        rows = np.flatnonzero(absent != np.arange(self.first, row + 1)) + self.first
        return int(rows[-1]) if len(rows) and rows[-1] >= self.facts.stretch[row] else None

    def stood_still(self, since: int, first: int, end: int) -> bool:
        """Whether the high watermark could not advance in rows [first, end): nobody led, or |ISR| < min ISR by every
        value that a leader may have gone by since row `since`, on brokers that wait for min ISR, from when they
        start."""
        facts, states = self.facts, self.states
        for row in (r for r in range(first, end) if states.leader[r] >= 0):
            began = self.first + bisect_right(self.times, self._process_began_ms(row)) - 1
            rows = slice(max(min(self.configs_from(since), began), int(facts.stretch[row])), row + 1)
            least = min(int(facts.lowest_min_isr[rows].min()), int((states.replicas[rows] != PAD).sum(axis=1).min()))
            session = self.session_at(int(states.leader[row]), row)
            waits = facts.elr_on[row] or (session is not None and session.waits_for_min_isr)
            if not (waits and facts.below[row] and facts.shared[rows].all() and states.isr_size[row] < least):
                return False
            if self._raised[row - self.first]:
                return False
        return True
