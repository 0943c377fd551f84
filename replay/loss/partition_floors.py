"""What a partition's elections share: its evidence, what contradicts it, and the high watermark that had certainly been
reached before each, in the log that its leaders passed on.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from replay.arrow.once import once_each
from replay.arrow.ragged import INT64_MAX
from replay.cluster.boots import ran_until_read
from replay.loss.line_bounds import LineReader
from replay.loss.verdict import is_seen_below
from replay.loss.watermark_bounds import alone_in_isr, logs_of_lone_leaders
from replay.offsets.broker_lines import NO_LINES
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
    lower,
    read_by,
)
from replay.offsets.log_drops import CHECKPOINT, Span
from replay.offsets.shared_log import shared_log
from replay.offsets.watermark_floor import EpochsShown, LeaderChange, Report, floors, reports
from replay.terms.leader_terms import LeaderTerm, LeaderTerms
from replay.terms.liveness import Session
from replay.terms.premises import (
    EPOCH_LINES,
    NO_MEMBER,
    NO_SIGN_OF_LIFE,
    Membership,
    Premise,
    earlier_leaders_unknown,
    is_passed_over,
    kept_the_log,
    may_have_restarted,
    membership,
)
from replay.terms.read_again import kept_its_copy
from replay.terms.replica_logs import settled_ms


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


class PartitionFloors:
    """One partition's rows, its evidence, and what is a floor of the high watermark before its elections."""

    def __init__(self, terms: LeaderTerms, evidence: Evidence, against: Contradictions) -> None:
        self.terms, self.facts, self.states = terms, terms.facts, terms.states
        self.sessions, self.cluster, self.clock = terms.sessions, terms.cluster, terms.cluster.clock
        self.first, self.end = terms.first, terms.end
        self.evidence = self._of_known_epochs(evidence) if terms.sound else _NO_EVIDENCE
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

    def _floors(self) -> dict[int, Bound]:
        """What the high watermark had certainly reached before each election, by its row; those that nothing tells of
        are left out."""
        if (self.evidence, self.reader.lines) == (_NO_EVIDENCE, NO_LINES):
            return {}
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
            found = floors(steps, known)
            below = map(self._is_seen_below, step_rows, found)
            steps = [replace(s, carries=False, survives=OPEN) if b else s for s, b in zip(steps, below, strict=True)]
            of_floors = zip(steps, found, strict=True)
            lost = (s.leader_epoch for s, f in of_floors if not s.carries and (f.value or 0) > (s.survives.value or 0))
            last = min(lost, default=INT64_MAX) - 1  # a leader that was superseded may tell what a later one lacks
            known = [replace(r, leader_epoch=min(r.leader_epoch, last)) if r.inference == TOLD else r for r in known]
        return dict(zip(step_rows, floors(steps, known), strict=True))

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

    @once_each
    def _winner(self, row: int) -> Membership:
        """The membership of the row's leader, right before its election."""
        return membership(self.terms, int(self.states.leader[row]), row)

    def _kept_all(self, row: int) -> bool:
        own = self._winner(row)
        kept = own.holds or own.but_for(NO_SIGN_OF_LIFE) or self.terms.carries(row)
        kept &= not self.terms.lost_inside(row)
        return kept and not any(self._contradictions(row, own))

    def _is_seen_below(self, row: int, floor: Bound) -> bool:
        """Whether the winner's log contradicts that it kept what was below the floor (C2). One that may have been dead
        does not: what it lost counts with the next election."""
        leader, own = int(self.states.leader[row]), NO_MEMBER if floor.value is None else self._winner(row)
        if own.since is None or NO_SIGN_OF_LIFE in own.failing:
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
        """As `ReplicaLogs.settled`, from when that epoch's leader certainly leads: it, or whoever follows it, has
        written the file since. Before that its followers stay in the ISR with what an earlier leader had."""
        epoch = self.terms.settled(row)
        term = None if epoch is None else self.terms.term_at(self.reader.first_row(epoch))
        if term is None:
            return epoch
        led_ms, needed_ms = self._leads_by_ms(term), self.cluster.checkpoint_interval_ms + PROPAGATION_MS
        if term.leader != row["broker_id"]:
            led_ms, needed_ms = min(self._shown_to_lead(term)), settled_ms(self.cluster)
        return epoch if self.clock.surely_after(row, led_ms + needed_ms) else None

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
            is_one = session.was_alone_until(until_ms)
            needed = self.terms.rewritten_ms if is_one else self.terms.rewritten_after_cut_ms
            by = self.terms.did_since(session, (session.begin_ms, read_ms), needed + error)
            if by is None:
                continue
            shown = self._lines.highest(broker, session.begin_ms + error, by)
            if shown is not None and self._began_in(session, shown):
                known.append(shown)
            joined = (at for at in reversed(self.terms.taken_in(broker)) if self.facts.timestamp_ms[at] <= by)
            last = next((at for at in joined if self.terms.session_at(broker, at) == session), None)
            if last is not None:
                known.append(int(self.states.leader_epoch[last]))
        return max(known, default=None)

    def _began_in(self, session: Session, leader_epoch: int) -> bool:
        """Whether the leader epoch began after the session's process had registered."""
        at = self.reader.first_row(leader_epoch)
        return not self.facts.anchored[at] and int(self.facts.batch[at]) > session.begin_batch

    @cached_property
    def _lines(self) -> EpochsShown:
        return EpochsShown(self.evidence.epoch_rows)

    def _shown_ms(self, row: int, session: Session | None) -> int:
        """Since when its exporter shows that the row's leader leads by this row, or a later one."""
        leader = int(self.states.leader[row])
        texts = (s for s in self.evidence.scrapes.get(leader, ()) if self._gone_by(leader, session, s) >= row)
        return min((s.captured_at_ms - self.clock.error_ms - 1 for s in texts), default=INT64_MAX)

    @once_each
    def _leads_by_ms(self, term: LeaderTerm) -> int:
        """Since when the term's leader has truncated its log for nobody: one that was elected may wait for a disk, and
        then follow whoever led before that it does not know yet. It took a replica in, or its exporter, or its own
        leader-epoch-checkpoint, shows it."""
        may_have_cut = self.terms.may_have_cut(term.leader, term.first)
        return max(term.begin_ms, min(self._shown_to_lead(term)) if may_have_cut else term.begin_ms)

    def _shown_to_lead(self, term: LeaderTerm) -> Iterator[int]:
        """Times, in ms, from each of which on something shows that the term's leader leads."""
        rows = slice(term.first, term.end)
        sizes, times = self.states.isr_size[rows], self.facts.timestamp_ms[rows]
        yield from times[1:][sizes[1:] > sizes[:-1]].tolist()
        yield self._shown_ms(term.first, term.session) - PROPAGATION_MS
        for epoch in set(self.states.leader_epoch[rows].tolist()):
            own = (line.row for line in self.evidence.entries.get(epoch, ()) if line.broker_id == term.leader)
            yield from (read_by(row) + self.clock.error_ms for row in own if row["captured_at_ms"] is not None)

    def _is_first(self, found: Row, row: int) -> bool:
        broker, begin_ms = found["broker_id"], int(self.facts.timestamp_ms[row])
        read = None if found["captured_at_ms"] is None else (found["captured_at_ms"], read_by(found))
        if read and ran_until_read(self.cluster.boots.get(broker, ()), begin_ms, read, self.clock.error_ms):
            return kept_its_copy(self.cluster, broker, begin_ms, read[1])
        return self.terms.is_first(broker, row, read and read[1])

    def _gone_by(self, broker: int, session: Session | None, scrape: Scrape) -> int:
        """See `watermark_bounds.GoneBy`."""
        views = self._first_views((broker, -1 if session is None else session.begin_ms))
        return views.get((scrape.process_start_ms, scrape.captured_at_ms), -1)

    @once_each
    def _first_views(self, registered: tuple[int, int]) -> dict[tuple[int | None, int], int]:
        """By process start and time of each text of a broker since it registered, the first row that it may be about.
        registered: the broker, and when, in ms.

        A broker sends heartbeats while its metadata publisher waits for a disk (BrokerLifecycleManager,
        BrokerMetadataPublisher), for however long. So any row counts that shows as many in sync as the text, from the
        first one on that the text before it may be about.
        """
        (broker, begin_ms), times, rows = registered, self.terms.times, slice(self.first, self.end)
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
            if overlaps and span.broker in concerned and not self._lost_at_a_start(span, first, row, own):
                yield Premise("contradicted_by_truncation", False, brokers=(span.broker,))

    def _lost_at_a_start(self, span: Span, joined: int, row: int, winner: Membership) -> bool:
        """Whether a replica's log lost its end as its broker started: before the winner joined, or, if that is not the
        winner itself, or it may have been dead, after the election.

        It registered anew then, or as soon after as its session allowed. A process serves nobody before it registers
        (Kafka's BrokerServer.startup), so until then nobody followed a log that is shorter.
        """
        begin_ms, batch = span.begin_ms + 2 * self.clock.error_ms, self.facts.batch
        end_ms = INT64_MAX if span.end_ms is None else span.end_ms + self.cluster.heard_ms
        own = [s for s in self.sessions.begun(span.broker, -1) if begin_ms < s.begin_ms <= end_ms]
        ran = span.broker == self.states.leader[row] and NO_SIGN_OF_LIFE not in winner.failing
        last = INT64_MAX if ran else int(batch[row])
        return bool(own) and not any(batch[joined] < s.begin_batch <= last for s in own)

    def _truncated(self, row: int) -> Sequence[Span]:
        return self.against.truncated.get(int(self.states.key[row]), ())

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
            if EPOCH_LINES in self._winner(row).failing:
                return step
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
        if term is not None and not kept_the_log(self.terms, term):
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
