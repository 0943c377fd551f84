"""Facts of the recorded history about the elections to judge: who led before, whether the winner held everything by
protocol, where the high watermark did not advance, what else in the lake contradicts it. Partition by partition.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from replay.arrow.ragged import INT64_MAX, members_of
from replay.cluster.boots import ran_until_read
from replay.loss.line_bounds import LineReader
from replay.loss.verdict import Election, Judgement, is_seen_below, judge
from replay.loss.verdicts import EXCLUDED
from replay.loss.watermark_bounds import LastTerm, alone_in_isr, ceiling_by_members, logs_of_lone_leaders
from replay.offsets.broker_lines import NO_LINES, LoggedEnds
from replay.offsets.clean_stops import COPIED, HOLDS_LOG, IS_ONLY_VALUE
from replay.offsets.evidence import (
    OPEN,
    PROPAGATION_MS,
    Bound,
    EpochEntry,
    Evidence,
    Row,
    Scrape,
    higher,
    index_rows,
    log_end_ceiling,
    log_start,
    lower,
    own_lines,
    read_by,
)
from replay.offsets.log_drops import CHECKPOINT, Span
from replay.offsets.shared_log import shared_log
from replay.offsets.watermark_floor import EpochsShown, LeaderChange, Report, floors, likely_floor, reports
from replay.terms.facts import TOPIC
from replay.terms.leader_terms import LeaderTerm, LeaderTerms
from replay.terms.liveness import Session
from replay.terms.premises import (
    LOG_START,
    NO_MEMBER,
    NO_SIGN_OF_LIFE,
    Membership,
    Premise,
    earlier_leaders_unknown,
    is_passed_over,
    may_have_restarted,
    membership,
)
from replay.terms.read_again import is_first, kept_its_copy


@dataclass(frozen=True, slots=True)
class Contradictions:
    """Findings that contradict elections.

    truncated: by partition key (`elections.States.key`), the times in which a replica's log went down without an
    election that explains it. changes: metadata offsets of partition changes that no rule explains.
    """

    truncated: Mapping[int, Sequence[Span]] = field(default_factory=dict)
    changes: frozenset[int] = frozenset()


NO_CONTRADICTIONS = Contradictions()
TOLD = "floor_told_clients"
_NO_EVIDENCE = index_rows([])


@dataclass(frozen=True, slots=True)
class ElectionFacts:
    """A judged election, and what else is known of it.

    row: of the election in the history. last_epoch: leader epoch of the last leader before it, -1 if there was none.
    leaderless_ms: since when nobody led; None if somebody led up to the election. membership: of a replica, right
    before it. sessions: of the replicas' brokers, at the election. undisturbed: see `LeaderTerms.has_its_log`.

    The rest is for `likely` only. first_words: see `LineReader.first_words`. fetched: those of their brokers that were
    members of the ISR in the last leader's term. was_alone: the last leader ran while it was the only member.
    stopped_in_order: it asked for a controlled shutdown, and its process never came back.
    """

    row: int
    election: Election
    evidence: Evidence
    judgement: Judgement
    previous_leader: int
    last_epoch: int
    leaderless_ms: int | None
    membership: Callable[[int], Membership]
    sessions: dict[int, Session | None]
    undisturbed: frozenset[int]
    first_words: Mapping[int, LoggedEnds]
    fetched: frozenset[int]
    was_alone: bool
    stopped_in_order: bool


def partition_elections(
    terms: LeaderTerms, evidence: Evidence, against: Contradictions, rows: Mapping[int, bool | None]
) -> Iterator[ElectionFacts]:
    """The elections of one partition that matter. against: what else in the lake contradicts an election. rows: the
    elections to judge, and whether one exposed the partition; None: it matters unless a loss is excluded. Any other
    matters only if its judgement says why."""
    return _Partition(terms, evidence, against).elections(rows)


def _is_of_its_leader(term: LeaderTerm, span: Span) -> bool:
    """Whether the log of a term's leader went down in the term while the process that was elected certainly ran."""
    if term.session is None or span.broker != term.leader or span.end_ms is None:
        return False
    return term.begin_ms <= span.begin_ms and span.end_ms <= term.session.alive_until_ms


class _Partition:
    """One partition's rows, and what its elections share."""

    def __init__(self, terms: LeaderTerms, evidence: Evidence, against: Contradictions) -> None:
        self.terms, self.facts, self.states = terms, terms.facts, terms.states
        self.sessions, self.cluster, self.clock = terms.sessions, terms.cluster, terms.cluster.clock
        self.first, self.end = terms.first, terms.end
        self.evidence = self._of_known_epochs(evidence) if terms.sound else _NO_EVIDENCE
        self._views: dict[tuple[int, int], dict[tuple[int | None, int], int]] = {}
        self._leads_by: dict[int, int] = {}
        self.against, self.reader = against, LineReader(terms, terms.lines if terms.sound else NO_LINES)

    def _of_known_epochs(self, evidence: Evidence) -> Evidence:
        """The evidence without lines that were read before their epoch began, or of a follower that has not run since
        it is a replica: those are of an earlier topic of that name, whose folder a broker that was down still had.

        And without log ends that may be of a disk that was replaced."""
        facts, epochs = self.facts, np.maximum.accumulate(self.states.leader_epoch[self.first : self.end])

        def may_be_its_own(row: Row) -> bool:
            at = self.first + int(np.searchsorted(epochs, row["leader_epoch"]))
            if at == self.end:
                return False
            return bool(facts.anchored[at]) or not self.clock.surely_before(row, int(facts.timestamp_ms[at]))

        def is_its_own(entry: EpochEntry) -> bool:
            at = self.first + int(np.searchsorted(epochs, entry.row["leader_epoch"]))
            led = at < self.end and self.states.leader[at] == entry.broker_id
            return bool(led) or self.terms.ran_as_replica(entry.broker_id, self._read_ms(entry.row), PROPAGATION_MS)

        def is_in_use(row: Row) -> bool:
            return row["source"] not in COPIED or not self.cluster.may_be_of_lost_disk(row)

        rows, entries = evidence.epoch_rows.items(), evidence.entries.items()
        return replace(
            evidence,
            log_ends={b: list(filter(is_in_use, own)) for b, own in evidence.log_ends.items()},
            epoch_rows={b: [row for row in own if may_be_its_own(row)] for b, own in rows},
            entries={epoch: list(filter(is_its_own, own)) for epoch, own in entries},
        )

    def elections(self, rows: Mapping[int, bool | None]) -> Iterator[ElectionFacts]:
        facts, states = self.facts, self.states
        inside = np.arange(self.first, self.end)
        step_rows = inside[(facts.changes[inside] & (states.leader[inside] >= 0)) | facts.anchored[inside]].tolist()
        # What a process of such a leader had is not what the next leader could have had.
        lost_inside = {row for row in (self.first, *step_rows) if self.terms.lost_inside(row)}
        epochs = {int(states.leader_epoch[row]) for row in lost_inside}
        steps = [self._step(row, row in lost_inside) for row in step_rows]
        known = [report for report in self._reports(steps) if report.leader_epoch not in epochs]
        if known:  # what survives is of use for them alone
            of_rows = zip(steps, step_rows, strict=True)
            steps = [s if s.carries or row in lost_inside else self._passing(s, row) for s, row in of_rows]
            below = map(self._is_seen_below, step_rows, floors(steps, known))
            steps = [replace(s, carries=False, survives=OPEN) if b else s for s, b in zip(steps, below, strict=True)]
        floor_before = dict(zip(step_rows, floors(steps, known), strict=True))
        for row, is_exposed in rows.items():
            term, winner = self.terms.last_term(row), membership(self.terms, int(states.leader[row]), row)
            if self._began_at_0(row):
                winner = replace(winner, premises=[p for p in winner.premises if p.code != LOG_START])
            log_end_min, doubts = self._shared_log(row)
            election = self._election(row, term, winner, doubts)
            judgement = judge(election, self.evidence, floor_before[row], log_end_min, self.clock)
            # The high watermark that made it suspicious may be of a log that was lost long before.
            is_open = is_exposed is None and judgement.verdict != EXCLUDED
            if is_exposed or is_open or judgement.is_contradicted or judgement.rests_on_old_log_ends:
                yield self._election_facts(row, election, judgement)

    def _reports(self, steps: Sequence[LeaderChange]) -> list[Report]:
        created = None
        if not self.facts.anchored[self.first]:
            created = (int(self.states.leader_epoch[self.first]), self.terms.known_since_ms)
        rows = [row for row in self.evidence.high_watermarks if self._is_rewritten(row)]
        rows = [row for row in rows if self._is_of_this_topic(row) and not self.terms.is_read_unserved(row)]
        known = reports(rows, created, steps, self._latest_epoch, self.clock)
        alone = alone_in_isr(self.terms, self.evidence, self._gone_by)
        logs = logs_of_lone_leaders(self.terms, self.evidence, self._gone_by)
        return [*known, *alone, *logs, *self._told(), *self.reader.reports]

    def _told(self) -> Iterator[Report]:
        """High watermarks that clients were told by whoever led in its own eyes and could be reached: a leader answers
        with its high watermark (Kafka's Partition.fetchOffsetForTimestamp).

        It may have been superseded and not know it. So they are of the log of the last leader epoch up to which every
        election kept what leaders before it had told, or would tell.
        """
        facts, error_ms, times = self.facts, self.clock.error_ms, self.terms.times
        told = self.evidence.told
        if not told or facts.anchored[self.first] or not self.terms.is_written_by_clients:
            return
        if self.cluster.is_used_again(self.terms.recorded.topic):
            return  # a broker may lead an earlier topic of that name in its own eyes
        if self.cluster.brokers.had_zookeeper:
            return  # it serves before it is registered (KafkaServer.startup, 3.9.1)
        is_one = self.sessions.excludes_a_second_process
        sessions = (s for led in {t.leader for t in self.terms.all_terms} for s in self.sessions.by_broker.get(led, ()))
        # An earlier process of a leader may run on elsewhere, and lead in its own eyes.
        until_ms = min((s.begin_ms for s in sessions if not is_one(s.broker_id, s)), default=INT64_MAX)
        for row in told:
            begin_ms = row["captured_at_ms"] - error_ms
            if begin_ms > self.terms.known_since_ms and read_by(row) + error_ms < until_ms:
                at = min(self.first + bisect_right(times, begin_ms), self._first_doubted) - 1
                yield Report(
                    row["high_watermark"], read_by(row) + error_ms, int(self.states.leader_epoch[at]), row, TOLD
                )

    @cached_property
    def _first_doubted(self) -> int:
        """The row of the first election that may have lost what a leader before it told clients, or of a snapshot
        after a hole in the log; if there is none, the end."""
        facts, rows = self.facts, np.arange(self.first + 1, self.end)
        rows = rows[(facts.changes[rows] & (self.states.leader[rows] >= 0)) | facts.anchored[rows]]
        return next((row for row in rows.tolist() if facts.anchored[row] or not self._kept_all(row)), self.end)

    def _kept_all(self, row: int) -> bool:
        own = membership(self.terms, int(self.states.leader[row]), row)
        kept = (
            own.holds or own.but_for(NO_SIGN_OF_LIFE) or (self.terms.carries(row) and not self.terms.lost_inside(row))
        )
        return kept and not any(self._contradictions(row, own))

    def _is_seen_below(self, row: int, floor: Bound) -> bool:
        """Whether the winner's log contradicts that it kept what was below the floor (C2)."""
        leader, own = int(self.states.leader[row]), membership(self.terms, int(self.states.leader[row]), row)
        if own.since is None:
            return False
        member_ms = int(self.facts.timestamp_ms[own.since]), int(self.facts.timestamp_ms[row])
        return is_seen_below(floor, leader, member_ms, self.evidence, self.clock)

    def _is_of_this_topic(self, row: Row) -> bool:
        """Whether a value whose source identifies the topic only by name is of this partition, not of an
        earlier topic with that name: while the broker has been a replica of this one, one of its processes ran for
        long enough to rewrite its checkpoint files. It may be dead before it is fenced."""
        return self.terms.rewrote_files(row["broker_id"], self._read_ms(row))

    def _read_ms(self, row: Row) -> int:
        """When the row was read at the earliest; at the log's end if that is not known."""
        read_ms = self.terms.end_ms if row["captured_at_ms"] is None else row["captured_at_ms"]
        return int(read_ms) - self.clock.error_ms

    def _is_rewritten(self, row: Row) -> bool:
        """Whether a running broker rewrites the file that the value is in. It does not in a log directory that it has
        moved all replicas out of (ReplicaManager.checkpointHighWatermarks), or that is no longer in log.dirs: that
        keeps old values for ever, and may be copied by itself, as a disk that was replaced."""
        if row["source"] != CHECKPOINT:
            return True
        if self.cluster.may_be_of_lost_disk(row):
            return False
        if row[HOLDS_LOG]:
            return True
        sessions = self.sessions.by_broker.get(row["broker_id"], [])
        return row[IS_ONLY_VALUE] and all(session.has_one_directory for session in sessions)

    def _latest_epoch(self, row: Row) -> int | None:
        """A leader epoch that the replica's log had reached when the row's high watermark was written; None
        if none is known."""
        known = [e for e in (self._settled(row), self._epoch_before_rewrite(row)) if e is not None]
        return max(known, default=None)

    def _settled(self, row: Row) -> int | None:
        """As `ReplicaLogs.settled`; but that epoch's leader itself has written the file since it certainly leads."""
        epoch = self.terms.settled(row)
        term = None if epoch is None else self.terms.term_at(self.reader.first_row(epoch))
        if term is None or term.leader != row["broker_id"]:
            return epoch
        written_ms = self._leads_by_ms(term) + self.cluster.checkpoint_interval_ms + PROPAGATION_MS
        return epoch if self.clock.surely_after(row, written_ms) else None

    def _epoch_before_rewrite(self, row: Row) -> int | None:
        """The highest epoch that one of the broker's processes had learned, as the first one, a checkpoint interval
        before the reading, and it ran on for as long: its leader-epoch-checkpoint shows it, or a leader took it in.

        A process begins with the high watermark that the file says, cut to its log's end, or with what
        log-start-offset-checkpoint says if that is higher: both may be of a longer log, which the process before it had
        truncated. One that has followed, or led, rewrites the first file all the time, the other one every minute.
        """
        error, read_ms = self.clock.error_ms, row["captured_at_ms"] - self.clock.error_ms
        broker, until_ms, known = row["broker_id"], read_by(row) + error, list[int]()
        for session in self.sessions.by_broker.get(broker, []):
            if not self._kept_its_directories(session, until_ms):
                continue  # the file of one that failed is as it was
            is_one = session.was_alone_until(until_ms)
            needed = self.terms.rewritten_ms if is_one else self.terms.rewritten_after_cut_ms
            by = self.terms.did_since(session, (session.begin_ms, read_ms), needed + error)
            if by is None:
                continue
            shown = self._lines.highest(broker, session.begin_ms + error, by)
            if shown is not None and self._began_in(session, shown):
                known.append(shown)
            joined = (at for at in reversed(self.terms.taken_in(broker)) if self.facts.timestamp_ms[at] <= by)
            last = next((at for at in joined if self._is_asked_for(session, at)), None)
            if last is not None:
                known.append(int(self.states.leader_epoch[last]))
        return max(known, default=None)

    def _is_asked_for(self, session: Session, joined: int) -> bool:
        """Whether a leader asked to take in the session's process itself (see `premises`: it may have asked for the one
        before, if that was active since the state before)."""
        broker, batches = session.broker_id, self.facts.batch
        was_active = self.cluster.brokers.was_active(broker, int(batches[joined - 1]), session.begin_batch)
        return self.sessions.at(broker, int(batches[joined])) == session and not was_active

    def _began_in(self, session: Session, leader_epoch: int) -> bool:
        """Whether the leader epoch began after the session's process had registered."""
        at = self.reader.first_row(leader_epoch)
        return not self.facts.anchored[at] and int(self.facts.batch[at]) > session.begin_batch

    def _kept_its_directories(self, session: Session, until_ms: int) -> bool:
        """Whether no log directory of the session's process failed while it ran on: with its only one it halts."""
        kept = self.cluster.brokers.kept_log_dirs(session.broker_id, session.begin_ms, until_ms)
        return session.has_one_directory or kept

    @cached_property
    def _lines(self) -> EpochsShown:
        return EpochsShown(self.evidence.epoch_rows)

    def _election_facts(self, row: int, election: Election, judgement: Judgement) -> ElectionFacts:
        facts, states, term = self.facts, self.states, self.terms.last_term(row)
        led = int(facts.led[row - 1])
        leaderless = None if led == row - 1 else int(facts.timestamp_ms[max(led + 1, facts.stretch[row])])
        replicas = members_of(states.replicas[row])
        # Kafka elects a last known leader that is no replica any more, after a cancelled reassignment.
        concerned = {*replicas, election.leader}
        undisturbed = {broker for broker in replicas if term is None or self.terms.has_its_log(broker, term, row)}
        return ElectionFacts(
            row=row,
            election=election,
            evidence=self.evidence,
            judgement=judgement,
            previous_leader=int(facts.previous_leader[row]),
            last_epoch=int(states.leader_epoch[led]) if led >= 0 else -1,
            leaderless_ms=leaderless,
            membership=lambda broker: membership(self.terms, broker, row) if broker in concerned else NO_MEMBER,
            sessions={broker: self.sessions.at(broker, int(facts.batch[row])) for broker in concerned},
            undisturbed=frozenset(undisturbed),
            first_words=(words := self.reader.first_words(row)),
            fetched=frozenset() if term is None else self._fetched(term, row, words),
            was_alone=term is not None and self._was_alone(term, row),
            stopped_in_order=term is not None and term.session is not None and term.session.shutdown_ms is not None,
        )

    def _fetched(self, term: LeaderTerm, row: int, brokers: Iterable[int]) -> frozenset[int]:
        rows = np.arange(term.first, min(term.end, row))
        return frozenset(broker for broker in brokers if self.terms.is_in_isr(broker, rows).any())

    def _was_alone(self, term: LeaderTerm, row: int) -> bool:
        rows = np.arange(term.first, min(term.end, row))
        alone = self.facts.timestamp_ms[rows[self.states.isr_size[rows] == 1]]
        return term.session is not None and bool((alone <= term.session.alive_until_ms).any())

    def _election(self, row: int, term: LeaderTerm | None, own: Membership, doubts: tuple[Premise, ...]) -> Election:
        facts, states = self.facts, self.states
        winner, batch = int(states.leader[row]), int(facts.batch[row])
        elected_ms, until_ms = int(facts.timestamp_ms[row]), int(facts.until_ms[row])
        session = self.sessions.at(winner, batch)
        joined = row - 1 if own.since is None else own.since
        # The log of a broker that was no replica for a while was deleted: what is read of it then is of another one.
        has_log = term is not None and self.terms.was_replica(term.leader, term.end, row)
        return Election(
            leader=winner,
            leader_epoch=int(states.leader_epoch[row]),
            elected_ms=elected_ms,
            knows_by_ms=self._knows_by_ms(row, session),
            until_ms=until_ms,
            closed=bool(facts.closed[row]),
            session=session,
            membership=own,
            joined_ms=int(facts.timestamp_ms[joined]),
            term=self._last_term(row, term) if term is not None and has_log else None,
            cut_by_itself=term is not None and any(_is_of_its_leader(term, span) for span in self._truncated(row)),
            # After a crash another process may have led, with less: then this election did not lose what the first had.
            unbroken_term=(term.leader, self._leads_by_ms(term), elected_ms)
            if term and self._shows_its_log(term)
            else None,
            contradictions=tuple(self._contradictions(row, own)),
            doubts=doubts,
            likely_floor=OPEN if term is None else self._likely_floor(term, elected_ms),
            log_start=OPEN if term is None else self._log_start(term, elected_ms),
            logged=self.reader.bounds(row),
            by_members=ceiling_by_members(self.reader, self.evidence, row),
            is_first=lambda found: self._is_first(found, row),
            is_passed_over=is_passed_over(self.terms, row),
        )

    def _knows_by_ms(self, row: int, session: Session | None) -> int:
        """Since when the elected process certainly knew that it leads: its exporter shows a state that it cannot be
        about before. It may have led before, and not know yet who led in between, as its metadata publisher waits."""
        heard_ms = self.cluster.heard_by_ms(int(self.facts.timestamp_ms[row])) + PROPAGATION_MS
        return max(heard_ms, self._shown_ms(row, session))

    def _shown_ms(self, row: int, session: Session | None) -> int:
        """Since when its exporter shows that the row's leader leads by this row, or a later one."""
        leader = int(self.states.leader[row])
        texts = (s for s in self.evidence.scrapes.get(leader, ()) if self._gone_by(leader, session, s) >= row)
        return min((s.captured_at_ms - self.clock.error_ms - 1 for s in texts), default=INT64_MAX)

    def _leads_by_ms(self, term: LeaderTerm) -> int:
        """Since when the term's leader has truncated its log for nobody: one that was elected may wait for a disk, and
        then follow whoever led before that it does not know yet. It took a replica in, or its exporter, or its own
        leader-epoch-checkpoint, shows it."""
        if term.first not in self._leads_by:
            self._leads_by[term.first] = max(term.begin_ms, min(self._shown_to_lead(term)))
        return self._leads_by[term.first]

    def _shown_to_lead(self, term: LeaderTerm) -> Iterator[int]:
        """Times, in ms, from each of which on something shows that."""
        if not self.terms.may_have_cut(term.leader, term.first):
            yield term.begin_ms
        rows = slice(term.first, term.end)
        sizes, times = self.states.isr_size[rows], self.facts.timestamp_ms[rows]
        yield from times[1:][sizes[1:] > sizes[:-1]].tolist()
        yield self._shown_ms(term.first, term.session) - PROPAGATION_MS
        for epoch in set(self.states.leader_epoch[rows].tolist()):
            own = (line.row for line in self.evidence.entries.get(epoch, ()) if line.broker_id == term.leader)
            yield from (read_by(row) + self.clock.error_ms for row in own if row["captured_at_ms"] is not None)

    def _shows_its_log(self, term: LeaderTerm) -> bool:
        """Whether what is read of the leader in the term is of the log that it led with: its exporter names topics, and
        it may not have learned yet that an earlier one of that name is gone."""
        is_used_again = self.cluster.is_used_again(self.terms.recorded.topic)
        return term.kept and (not is_used_again or self.terms.learned(term))

    def _log_start(self, term: LeaderTerm, elected_ms: int) -> Bound:
        """Of the term's leader, if it took over: else the one before may lead on, and have what this one deletes as its
        follower. Earlier readings may be of offsets that an election lost and a leader wrote anew; so may the file,
        until the leader's process has rewritten it, if that truncated the log."""
        if not self.terms.took_over(term):
            return OPEN
        has_cut = self.terms.may_have_cut(term.leader, term.first)
        cut_ms = self.terms.rewritten_after_cut_ms + self.cluster.heard_ms
        since_ms = self._leads_by_ms(term) + (cut_ms if has_cut else PROPAGATION_MS)
        if has_cut and (term.session is None or term.session.alive_until_ms < since_ms):
            return OPEN
        return log_start(self.evidence, term.leader, since_ms, elected_ms, self.clock)

    def _is_first(self, found: Row, row: int) -> bool:
        broker, begin_ms = found["broker_id"], int(self.facts.timestamp_ms[row])
        read = None if found["captured_at_ms"] is None else (found["captured_at_ms"], read_by(found))
        if read and ran_until_read(self.cluster.boots.get(broker, ()), begin_ms, read, self.clock.error_ms):
            return kept_its_copy(self.cluster, broker, begin_ms, read[1])
        return is_first(self.facts, self.sessions, self.cluster, broker, row, read and read[1])

    def _began_at_0(self, row: int) -> bool:
        """Whether the winner's log began at 0 when it was elected: it wrote all lines of its leader-epoch-checkpoint
        with its own, and the first one moves with the log's start (LeaderEpochFileCache.assign, truncateFromStart)."""
        lines = own_lines(self.evidence, int(self.states.leader[row]), int(self.states.leader_epoch[row]))
        elected_ms = int(self.facts.timestamp_ms[row])
        known = (line.row for line in lines if not line.lines[0][1])
        return any(not self.clock.surely_before(found, elected_ms) and self._is_first(found, row) for found in known)

    def _last_term(self, row: int, term: LeaderTerm) -> LastTerm:
        facts, session = self.facts, term.session
        led_last = min(term.end, row) - 1
        below = max(int(facts.frozen[row - 1]), term.first)
        below_ms = int(facts.timestamp_ms[below]) if below <= led_last else None
        restarts = self.sessions.begun(term.leader, int(facts.batch[term.first]), int(facts.batch[row]))
        waits = below <= led_last and bool(facts.elr_on[below])
        waits |= session is not None and session.waits_for_min_isr
        if self.terms.led_in_two(term) and (facts.layer[term.first : led_last + 1] != TOPIC).any():
            waits = False  # another process that starts goes by its file before it knows the cluster's default
        led_ms = (term.begin_ms, min([term.end_ms, *(s.begin_ms for s in restarts[:1])]))
        return LastTerm(
            leader=term.leader,
            session=(term.leader, session.broker_epoch) if session and not self.terms.led_in_two(term) else None,
            stopped_by_ms=restarts[0].begin_ms if restarts and session and restarts[0].shows_end_of(session) else None,
            led_ms=led_ms,
            below_ms=below_ms,
            known_by_ms=None if below_ms is None else self.cluster.heard_by_ms(below_ms) + PROPAGATION_MS,
            waits=waits,
            fixed_since=lambda scrape: self._fixed(term, scrape, led_last),
            last_alive_ms=max(session.alive_until_ms, session.alone_until_ms) if session else -1,
            started_by_ms=session.begin_ms if session and session.registered else None,
            last_leader_epoch=int(self.states.leader_epoch[led_last]),
            elected_ms=int(facts.timestamp_ms[row]),
            took_over=self.terms.took_over(term),
            has_one_directory=session is not None and session.has_one_directory,
        )

    def _gone_by(self, broker: int, session: Session | None, scrape: Scrape) -> int:
        """See `watermark_bounds.GoneBy`."""
        place = broker, -1 if session is None else session.begin_ms
        if place not in self._views:
            self._views[place] = self._first_views(*place)
        return self._views[place].get((scrape.process_start_ms, scrape.captured_at_ms), -1)

    def _first_views(self, broker: int, begin_ms: int) -> dict[tuple[int | None, int], int]:
        """By process start and time of each text of a broker since it registered, the first row that it may be about.

        A broker sends heartbeats while its metadata publisher waits for a disk (BrokerLifecycleManager,
        BrokerMetadataPublisher), for however long. So any row counts that shows as many in sync as the text, from the
        first one on that the text before it may be about.
        """
        times, rows = self.terms.times, slice(self.first, self.end)
        shown = np.where(self.states.leader[rows] == broker, self.states.isr_size[rows], 0)
        result: dict[tuple[int | None, int], int] = {}
        begin = max(bisect_right(times, begin_ms) - 1, 0)
        since: dict[int | None, int] = {}
        for scrape in self.evidence.scrapes.get(broker, []):
            if scrape.captured_at_ms < begin_ms - self.clock.error_ms:
                continue
            first = since.get(scrape.process_start_ms, begin)
            end = bisect_right(times, read_by(scrape.row) + self.clock.error_ms)
            same = np.flatnonzero(shown[first:end] == scrape.in_sync_replicas_count)
            if len(same):
                since[scrape.process_start_ms] = first + int(same[0])
                result.setdefault((scrape.process_start_ms, scrape.captured_at_ms), self.first + first + int(same[0]))
        return result

    def _fixed(self, term: LeaderTerm, scrape: Scrape, last: int) -> bool:
        """Whether from the state that the leader went by, one of the term, to the last row nobody joined the ISR and
        neither min ISR nor the replicas changed; min ISR also not in the session margin before, nor since it learned of
        the leader epoch: it applies a state first, and the ISR that the controller confirms while it waits for a
        disk."""
        facts, states, first = self.facts, self.states, self._gone_by(term.leader, term.session, scrape)
        known_ms = self.cluster.last_heard_ms(scrape.captured_at_ms - self.clock.error_ms) - PROPAGATION_MS
        known = self.first + max(bisect_right(self.terms.times, known_ms) - 1, 0)
        if first < term.first:
            return False
        epochs = states.leader_epoch[self.first : last + 1]
        learned = self.terms.configs_from(self.first + int(np.searchsorted(epochs, states.leader_epoch[first])))
        rows = np.arange(min(first, known, learned), last + 1)
        # A snapshot does not show what min ISR was before it, when the leader may have learned of the epoch.
        if rows[0] < facts.stretch[last] or facts.anchored[rows[0]]:
            return False
        if (states.min_isr[rows] != states.min_isr[last]).any():
            return False
        if not facts.is_one_layer(rows):
            return False
        # A value that was in force in between may leave no row.
        steady = (facts.lowest_min_isr[rows] == states.min_isr[last]) & (
            facts.highest_min_isr[rows] == states.min_isr[last]
        )
        rows = np.arange(first, last + 1)
        same = (states.replicas[rows] == states.replicas[last]).all()
        grown = (states.isr[rows][1:] & ~states.isr[rows][:-1]).any()
        return bool(same and not grown and steady.all())

    def _contradictions(self, row: int, own: Membership) -> Iterable[Premise]:
        facts = self.facts
        joined_ms = int(facts.timestamp_ms[row - 1 if own.since is None else own.since])
        elected_ms = int(facts.timestamp_ms[row])
        first = max(int(facts.stretch[row]), row - 1 if own.since is None else own.since)
        concerned = {int(self.states.leader[row]), *(r.leader for r in self.terms.terms_within(first, row))}
        if int(facts.offset[row]) in self.against.changes:
            yield Premise("contradicted_by_rules", False, offset=int(facts.offset[row]))
        last = self.terms.last_term(row)
        damaged = {b for b in concerned if self.terms.was_damaged(b, None, joined_ms, elected_ms)}
        if last and self.terms.was_damaged(last.leader, last.session, last.begin_ms, elected_ms):
            damaged.add(last.leader)
        for broker in sorted(damaged):
            yield Premise("contradicted_by_corruption", False, brokers=(broker,))
        for broker in (b for b in sorted(concerned) if self.terms.made_anew(b, joined_ms, elected_ms)):
            yield Premise("contradicted_by_new_log", False, brokers=(broker,))
        for span in self._truncated(row):
            overlaps = span.begin_ms <= elected_ms and (span.end_ms is None or span.end_ms >= joined_ms)
            if overlaps and span.broker in concerned and not self._lost_at_a_start(span, first, row):
                yield Premise("contradicted_by_truncation", False, brokers=(span.broker,))

    def _lost_at_a_start(self, span: Span, joined: int, row: int) -> bool:
        """Whether a replica's log lost its end as its broker started: before the winner joined, or, if that is not the
        winner itself, after the election.

        It registered anew then, or as soon after as its session allowed. A process serves nobody before it registers
        (Kafka's BrokerServer.startup), so until then nobody followed a log that is shorter.
        """
        begin_ms, batch = span.begin_ms + 2 * self.clock.error_ms, self.facts.batch
        end_ms = INT64_MAX if span.end_ms is None else span.end_ms + self.cluster.heard_ms
        own = [s for s in self.sessions.begun(span.broker, -1) if begin_ms < s.begin_ms <= end_ms]
        last = INT64_MAX if span.broker == self.states.leader[row] else int(batch[row])
        return bool(own) and not any(batch[joined] < s.begin_batch <= last for s in own)

    def _truncated(self, row: int) -> Sequence[Span]:
        return self.against.truncated.get(int(self.states.key[row]), ())

    def _likely_floor(self, term: LeaderTerm, elected_ms: int) -> Bound:
        """`likely_floor` of what was read after the term began of its leader or its followers, or told to clients."""
        needed, error = self.cluster.checkpoint_interval_ms + PROPAGATION_MS, self.clock.error_ms
        rows = self.evidence.high_watermarks
        since = bisect_left(rows, term.begin_ms + needed + error, key=lambda r: r["captured_at_ms"])
        told = [row for row in self.evidence.told if row["captured_at_ms"] - error >= term.begin_ms]

        def in_term(row: Row) -> bool:
            broker, at = row["broker_id"], row["captured_at_ms"]
            if broker is None:
                return True
            if broker == term.leader:
                return term.end_ms - term.begin_ms >= needed
            return self.terms.in_sync_since(broker, at - needed - error, at + error) is not None

        return likely_floor([*rows[since:], *told], in_term, elected_ms, self.clock)

    def _step(self, row: int, lost_inside: bool) -> LeaderChange:
        carries = not self.facts.anchored[row] and self.terms.carries(row)
        return LeaderChange(
            int(self.states.leader_epoch[row]), int(self.facts.timestamp_ms[row]), carries and not lost_inside
        )

    def _passing(self, step: LeaderChange, row: int) -> LeaderChange:
        """The step with what its winner's log had: everything that was promised, if it kept that, up to the log end
        that anything shows of it; else what that log shared with the last leader's."""
        if self.facts.anchored[row]:
            return step
        bounds = self.reader.bounds(row)
        if not self._kept_all(row):
            return replace(step, survives=higher(self._shared_log(row)[0], bounds.shared))
        if is_passed_over(self.terms, row):
            return replace(step, carries=True)
        led_ms = (self.cluster.heard_by_ms(step.at_ms) + PROPAGATION_MS, int(self.facts.until_ms[row]))
        shown = log_end_ceiling(
            self.evidence,
            int(self.states.leader[row]),
            step.leader_epoch,
            led_ms,
            lambda found: not self.clock.surely_before(found, step.at_ms),
            self.clock,
        )
        end = lower(bounds.log_end, shown)
        return replace(step, carries=end.value is None, survives=end)

    def _shared_log(self, row: int) -> tuple[Bound, tuple[Premise, ...]]:
        """Up to where the winner's log was the partition's, and why that is open: the leaders that may have been more
        than one process, so that logs may differ although their lines are the same."""
        winner, term = int(self.states.leader[row]), self.terms.last_term(row)
        stretch = int(self.facts.stretch[row])
        if term is not None and self.facts.anchored[term.first]:
            return OPEN, (earlier_leaders_unknown(self.facts, stretch),)
        if term is not None and not term.kept:
            return OPEN, (may_have_restarted(self.facts, term.first, term.leader),)
        leaders = self.terms.leaders(stretch)
        own = self.terms.term_at(row)
        once = own is not None and own.kept
        epochs = self.states.leader_epoch[stretch : row + 1]

        is_compacted = self.cluster.may_be_compacted(self.terms.recorded.topic)

        def is_its_first(entry: EpochEntry) -> bool:
            at = stretch + int(np.searchsorted(epochs, entry.lines[entry.number][0]))
            if not self.facts.anchored[at] and self.clock.surely_before(entry.row, int(self.facts.timestamp_ms[at])):
                return False  # of an earlier topic of that name
            # A log that is copied anew has its lines from the first batches that compaction left (UnifiedLog.append).
            as_written = at == row and self.clock.surely_before(entry.row, int(self.facts.until_ms[row]))
            as_written &= own is not None and self.terms.in_one_directory(winner, row, own.end - 1)
            return (as_written or not is_compacted) and self._is_first(entry.row, at)

        end, doubted = shared_log(self.evidence, leaders, winner, int(epochs[-1]), once, is_its_first)
        if doubted is None:
            return end, ()
        if doubted < leaders.known_from:
            return end, (earlier_leaders_unknown(self.facts, stretch),)
        began = stretch + int(np.searchsorted(self.states.leader_epoch[stretch:row], doubted))
        return end, (may_have_restarted(self.facts, began, int(self.states.leader[began])),)
