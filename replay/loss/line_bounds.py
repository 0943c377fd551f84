"""Bounds on an election that lines of brokers' own logs give. docs/findings.md has the rules (L1 to L13).

Lines are joined with the metadata log by partition epoch and leader epoch, never by time. What a line says holds
for the process that logged it. Which process that was must follow from the line itself, from the metadata log (it ran
on), or must not matter (its machine did not start again, so that no process had less than the one before).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from replay.arrow.once import once_each
from replay.arrow.ragged import INT64_MAX, Array
from replay.cluster.boots import LoggedProcess
from replay.offsets.broker_lines import SOON_MS, UNCHANGED, BrokerLines, Cut, Load, LoggedEnds
from replay.offsets.evidence import OPEN, PROPAGATION_MS, Bound, Row, lower, read_by
from replay.offsets.watermark_floor import Report
from replay.terms.facts import TOPIC
from replay.terms.leader_terms import LeaderTerm, LeaderTerms
from replay.terms.liveness import Session
from replay.terms.premises import LOG_START, NO_SIGN_OF_LIFE, kept_the_log, membership
from replay.terms.read_again import none_began

LOGGED_FLOOR, LOGGED_CUT, LOGGED_SHRINK = "floor_logged", "floor_logged_truncation", "floor_logged_shrink"
LAST_HIGH_WATERMARK, LAST_LOG_END = "ceiling_logged_high_watermark", "ceiling_logged_log_end"
LOADED_LOG_END = "ceiling_loaded_log_end"
# Linux has written by then what a process changed in a file (vm.dirty_expire_centisecs, ext4's and XFS's logs).
FLUSHED_MS = 60_000
LOGGED_BELOW_MIN_ISR = "ceiling_logged_below_min_isr"


@dataclass(frozen=True, slots=True)
class LineBounds:
    """What lines say of an election. log_end: the winner's exact log end. shared: up to where its log was the
    partition's. ceiling: of the high watermark that the last leader reached. old_log_end: the last leader's exact log
    end."""

    log_end: Bound = OPEN
    shared: Bound = OPEN
    ceiling: Bound = OPEN
    old_log_end: Bound = OPEN


class LineReader:
    """Reads the lines of one partition against its leader terms."""

    def __init__(self, terms: LeaderTerms, lines: BrokerLines) -> None:
        self.terms, self.lines = terms, lines
        self.facts, self.states = terms.facts, terms.states
        self.row_of = {epoch: terms.first + i for i, epoch in enumerate(terms.recorded.partition_epochs)}
        # By broker, its lines that show a log end, in order of the rows that they are about.
        self._ends: dict[int, list[tuple[int, LoggedEnds]]] = defaultdict(list)
        for line in lines.ends:
            self._ends[line.broker].append((self.row_of[line.partition_epoch], line))
        for own in self._ends.values():
            own.sort(key=lambda pair: pair[0])
        # A removed partition has no leader epoch: it keeps the last one here.
        self._epochs = np.maximum.accumulate(self.states.leader_epoch[terms.first : terms.end])

    @cached_property
    def reports(self) -> list[Report]:
        """High watermarks that a log had reached, each before the elections of later leader epochs."""
        anchored = bool(self.facts.anchored[self.terms.first])
        created = -1 if anchored else int(self.states.leader_epoch[self.terms.first])
        result = []
        for line in self.lines.led:
            if self._is_unserved(line):
                continue
            own = line.leader_epoch
            is_its_own = self._is_its_own(line.broker, line.row, own)
            since = own if is_its_own else self._of_this_topic(created, line.row, self.row_of[line.partition_epoch])
            result.append(Report(line.high_watermark, 0, since, line.row, LOGGED_FLOOR, before_epoch=own + 1))
        for line in self.lines.followed:
            if self._is_unserved(line):
                continue
            # The first line of a process may repeat what an earlier one learned in that epoch.
            before = line.leader_epoch if line.came_from else line.leader_epoch + 1
            since = self._of_this_topic(created, line.row, self.row_of[line.partition_epoch])
            since = max(since, self._led_before(line))
            result.append(Report(line.high_watermark, 0, since, line.row, LOGGED_FLOOR, before_epoch=before))
        for cut in self.lines.cuts:
            epoch = self._cut_in(cut)
            if epoch is None or not self._is_first(cut.broker, self.first_row(epoch), cut.row):
                continue
            if not self.terms.is_unserved(cut.broker, self.first_row(epoch)):
                led = [self._led_before(line) for line in self.lines.followed if self._cut_after(line) is cut]
                since = max([self._of_this_topic(created, cut.row, self.first_row(epoch)), *led])
                result.append(Report(cut.high_watermark, 0, since, cut.row, LOGGED_CUT, before_epoch=epoch))
        for shrink in self.lines.shrinks:
            rows = range(self.first_row(shrink.since_epoch), self.first_row(shrink.until_epoch + 1))
            if any(self.terms.is_unserved(shrink.row["broker_id"], row, shrink.row) for row in rows):
                continue
            since, before = max(created, shrink.since_epoch), shrink.until_epoch + 1
            since = since if self._is_its_own(shrink.row["broker_id"], shrink.row, since) else created
            result.append(Report(shrink.high_watermark, 0, since, shrink.row, LOGGED_SHRINK, before_epoch=before))
        result += self._left(created)
        return [report for report in result if report.value > 0 and report.leader_epoch >= 0]

    def _left(self, created: int) -> Iterator[Report]:
        """High watermarks that the last process of a session left in its checkpoint file, as the next process of the
        broker began with them: they count for leader epochs that the one before had ended without.

        No process ran between the two, and the machine did not start again; the file is the log's own, and not what a
        process wrote that led in its own eyes only. created: the leader epoch of the creation; -1 if unknown."""
        terms = self.terms
        brokers = dict.fromkeys(load.broker for load in self.lines.initial)
        for session in (session for broker in brokers for session in terms.sessions.by_broker.get(broker, ())):
            broker, alive_ms = session.broker_id, session.alive_until_ms
            logged = terms.cluster.processes.get((broker, session.broker_epoch))
            initial = [] if logged is None else of_the_next(self.lines.initial, broker, logged)
            known = self._epochs[: bisect_right(terms.times, self.last_heard_ms(session))]
            if not initial or not len(known) or not terms.ran_on(broker, session, session.begin_ms, initial[0].at_ms):
                continue
            unserved = (each.end_ms for each in terms.unserved(broker) if each.begin_ms < session.alone_until_ms)
            if any(end_ms is None or alive_ms <= end_ms for end_ms in unserved):
                continue
            rewritten = terms.rewrote_files(broker, alive_ms + terms.cluster.heard_ms)
            led = (term.first for term in terms.all_terms if (term.leader, term.session) == (broker, session))
            epochs = (int(self.states.leader_epoch[row]) for row in led)
            since = max([created if rewritten else -1, *(epoch for epoch in epochs if self._rewrote(session, epoch))])
            before, row = int(known[-1]) + 1, initial[0].row
            yield Report(initial[0].value, 0, since, row, LOGGED_FLOOR, before_epoch=before)

    def _of_this_topic(self, created: int, row: Row, at: int) -> int:
        """The leader epoch of the creation, which any high watermark of the partition has reached. -1 if a line about
        the state in row `at` may repeat one of an earlier topic of that name: checkpoint files have names, not ids, and
        no process of the broker certainly rewrote its file since the creation (Partition.createLog)."""
        until_ms, read_ms = int(self.facts.timestamp_ms[at]), row["captured_at_ms"]
        if read_ms is not None:
            until_ms = max(until_ms, read_ms - self.terms.cluster.clock.error_ms)
        return created if self.terms.rewrote_files(row["broker_id"], until_ms) else -1

    def _is_first(self, broker: int, row: int, line: Row) -> bool:
        """Whether the process that logged a line was the first of its broker to know the state in that row. Another one
        may have known it, and this one have read the metadata again: so it may have led an earlier epoch in its own
        eyes, which takes later ones out of the leader-epoch-checkpoint (LeaderEpochFileCache.assign)."""
        return self.terms.is_first(broker, row, line["captured_at_ms"])

    def _is_unserved(self, line: LoggedEnds) -> bool:
        """Whether the high watermark in the line may be of a process that led in its own eyes only.

        The line of a process that knew an earlier leader epoch shows what it had before this one; the first one of a
        process what it found in its checkpoint file."""
        at = self.row_of[line.partition_epoch]
        if line.row["source"] == UNCHANGED:
            return self.terms.is_unserved(line.broker, at, line.row)
        if line.came_from is not None:
            return self.terms.is_unserved(line.broker, max(self._begin_of_epoch(at) - 1, self.terms.first), line.row)
        return self.terms.is_unserved(line.broker, at)

    def first_row(self, leader_epoch: int) -> int:
        """The first row of the first leader epoch that is not below this one."""
        return self.terms.first + int(np.searchsorted(self._epochs, leader_epoch))

    def _led_before(self, line: LoggedEnds) -> int:
        """The leader epoch that the follower itself led, if nobody led between that and the line: its log is that
        epoch's, and so is its high watermark. Else -1."""
        at = self.row_of[line.partition_epoch]
        begin = self._begin_of_epoch(at)
        led = int(self.facts.led[begin - 1]) if begin > int(self.facts.stretch[at]) else -1
        if led < 0 or int(self.states.leader[led]) != line.broker:
            return -1
        epoch = int(self.states.leader_epoch[led])
        return epoch if self._is_its_own(line.broker, line.row, epoch) else -1

    def _is_its_own(self, leader: int, row: Row, leader_epoch: int) -> bool:
        """Whether the high watermark in a line of that epoch's leader is of the log of that epoch: the process that was
        registered logged it, or had rewritten the checkpoint file."""
        session = self.terms.session_at(leader, self.first_row(leader_epoch))
        if session is None:
            return False
        at_ms, error_ms = row["captured_at_ms"], self.terms.cluster.clock.error_ms
        if self._rewrote(session, leader_epoch):
            return True
        begun = at_ms is not None and session.begin_ms <= at_ms - error_ms
        return begun and session.was_alone_until(read_by(row) + error_ms)

    def _rewrote(self, session: Session | None, leader_epoch: int) -> bool:
        """Whether the session's process rewrote the checkpoint files of high watermarks and of log starts in that
        epoch, or later.

        Any process begins with what the first one says, cut to its log's end, or with what the other one says if that
        is higher (LogLoader, UnifiedLog.updateLogStartOffset). So after one that died before it rewrote them, this may
        be a high watermark of an earlier log, which this one has not reached.
        """
        row, terms = self.first_row(leader_epoch), self.terms
        if session is None:
            return False
        needed_ms = terms.rewritten_ms
        if terms.may_have_cut(session.broker_id, row):
            needed_ms = terms.rewritten_after_cut_ms
        return session.ran_until(int(self.facts.timestamp_ms[row]) + needed_ms)

    def _cut_in(self, cut: Cut) -> int | None:
        """The leader epoch before which the replica's high watermark was above the cut; None if that is unknown.

        It followed a leader of which it had no record yet, and its high watermark was above that leader's first log
        end. So it does not have it from that leader: to follow it would have cut the log. Which of the leader's epochs
        that was, the line before says; else the last one is sure. It is the same for its earlier ones up to another
        leader's.
        """
        later = sorted(epoch for epoch in self._epochs_led_by(cut.leader) if epoch > cut.latest_epoch)
        followed = {line.leader_epoch for line in self.lines.followed if self._cut_after(line) is cut}
        last = followed.pop() if len(followed) == 1 else max(later, default=-1)
        return next((epoch for epoch in later if epoch <= last and self._cuts_from(cut, epoch, last)), None)

    def _cuts_from(self, cut: Cut, first: int, last: int) -> bool:
        """Whether whoever follows the leader in one of its epochs from first to last has no high watermark above the
        cut: nobody else led between, the log in which that was cut cannot come back, and the leader was one process: a
        later one may have lost what the follower had from it, and all of that epoch with it."""
        began = self.lines.began.get((cut.leader, first))
        rows = np.arange(self.first_row(first), self.first_row(last + 1))
        if began is None or cut.high_watermark <= (began.log_end or 0):
            return False
        alone = set(self.states.leader[rows].tolist()) <= {cut.leader, -1}
        alone &= not self.terms.begun_within(cut.leader, int(rows[0]), int(rows[-1]) + 1)
        return alone and self.terms.has_no_other_log(cut.broker, int(rows[0]), int(rows[-1]))

    def _epochs_led_by(self, broker: int) -> set[int]:
        terms = [term for term in self.terms.all_terms if term.leader == broker]
        return {int(e) for term in terms for e in self.states.leader_epoch[term.first : term.end]}

    def first_words(self, row: int) -> dict[int, LoggedEnds]:
        """By broker, the first line after the last leader's term that shows a log end, up to the end of the leader
        epoch that begins in that row: of a log that has not followed the winner yet, as a rule."""
        term, result = self.terms.last_term(row), dict[int, LoggedEnds]()
        if term is None:
            return result
        for broker, lines in self._ends.items():
            at = bisect_left(lines, term.end, key=lambda pair: pair[0])
            if at < len(lines) and lines[at][1].leader_epoch <= self.states.leader_epoch[row]:
                result[broker] = lines[at][1]
        return result

    def bounds(self, row: int) -> LineBounds:
        """What lines say of the election in that row of the history."""
        end, (ceiling, old) = self.log_end(row), self._last_of_old_leader(row)
        return LineBounds(end, self._shared(row, end), lower(ceiling, self._below_min_isr(row)), old)

    def log_end(self, row: int) -> Bound:
        """The exact log end with which the row's leader began, by its line (L1)."""
        began = self.lines.began.get((int(self.states.leader[row]), int(self.states.leader_epoch[row])))
        return OPEN if began is None else Bound(began.log_end, began.row)

    def _shared(self, row: int, end: Bound) -> Bound:
        """Up to where the winner's log is the last leader's.

        While it followed, it had what its leader had. Since then it may have kept a tail that later leaders replaced,
        and so may each of these leaders, if it has not followed since. Logs that were alike agree below the first log
        end of each leader epoch that began after that (KIP-101). That holds if no epoch was written twice: whoever led
        lost nothing of it.
        """
        winner, term = int(self.states.leader[row]), self.terms.last_term(row)
        if end.value is None or term is None:
            return OPEN
        if term.leader == winner:
            known = kept_the_log(self.terms, term) and not self.facts.anchored[term.first]
            return end if known and self.terms.has_no_other_log(winner, term.first, row) else OPEN
        if self.facts.anchored[self.facts.stretch[row]] or any(self.terms.broken_within(row)):
            return OPEN
        since = self._all_in_agreement(winner, row)
        values = [end.value]
        for later in self.terms.terms_within(since + 1, row):
            rows = range(max(later.first, since + 1), min(later.end, row))
            for epoch in {int(self.states.leader_epoch[r]) for r in rows} - {int(self.states.leader_epoch[since])}:
                began = self.lines.began.get((later.leader, epoch))
                at = self._begun_at_least(later.leader, epoch) if began is None else began.log_end
                if at is None:
                    return OPEN
                values.append(at)
        return Bound(min(values), end.row)

    def _begun_at_least(self, leader: int, leader_epoch: int) -> int | None:
        """A lower bound on the log end with which a leader epoch began for anybody whom its leader reached: a high
        watermark of the epoch before, if the leader was elected as a member. None if there is none."""
        row = self.first_row(leader_epoch)
        led = int(self.facts.led[row - 1])
        if led < self.facts.stretch[row] or self.terms.lost_inside(row):
            return None
        if not membership(self.terms, leader, row).but_for(NO_SIGN_OF_LIFE, LOG_START):
            return None
        before = int(self.states.leader_epoch[led])
        return max(
            (
                report.value
                for report in self.reports
                if report.leader_epoch >= before and (report.before_epoch or 0) <= leader_epoch
            ),
            default=None,
        )

    def _all_in_agreement(self, winner: int, row: int) -> int:
        """The last row since which the logs of the winner and of every leader up to the election parted only where a
        leader epoch began."""
        since, terms = self._in_agreement(winner, row), self.terms.all_terms
        at = bisect_left(terms, row, key=lambda term: term.first) - 1
        while at >= 0 and terms[at].first > since:
            since = min(since, self._in_agreement(terms[at].leader, terms[at].first))
            at -= 1
        return since

    def _in_agreement(self, winner: int, row: int) -> int:
        """The last row before the election in which the winner's log, and whichever it has had since, was its leader's
        as far as it went: it led, or its leader had just taken it into the ISR. The partition's first row if there is
        none: logs begin empty.

        One in another directory may have taken the place of that one since (see `ReplicaLogs.stayed`), before it was
        truncated as that one was (ReplicaAlterLogDirsThread)."""
        for rows in self._agreements(winner):
            index = int(np.searchsorted(rows, row)) - 1
            if index >= 0 and self._still_agreed(winner, int(rows[index]), row):
                return int(rows[index])
        return self.terms.first

    @once_each
    def _agreements(self, winner: int) -> tuple[Array, Array]:
        """All rows in which its log was its leader's, and those of them that count whatever happens later."""
        inside = slice(self.terms.first, self.terms.end)
        leader, epoch = self.states.leader[inside], self.states.leader_epoch[inside]
        in_isr = self.terms.is_in_isr(winner)
        agreed = leader == winner
        agreed[1:] |= in_isr[1:] & ~in_isr[:-1] & (epoch[1:] == epoch[:-1]) & (leader[1:] >= 0)
        rows = np.flatnonzero(agreed) + self.terms.first
        written = [self._was_written(winner, at, FLUSHED_MS) for at in rows.tolist()]
        return rows, rows[np.array(written, dtype=bool)]

    def _still_agreed(self, winner: int, at: int, row: int) -> bool:
        """Whether no log of the winner from before that row can have come back up to the election: from another
        directory, or with what it had truncated."""
        session, at_ms = self.terms.session_at(winner, at), int(self.facts.timestamp_ms[at])
        elected_ms = int(self.facts.timestamp_ms[row])
        kept = self._was_written(winner, at, min(FLUSHED_MS, elected_ms - at_ms))
        kept = kept or self.terms.kept_log(winner, session, at_ms, elected_ms)
        return kept and self.terms.has_no_other_log(winner, at, row)

    def _was_written(self, winner: int, at: int, wait_ms: int) -> bool:
        """Whether a truncation before that row was on disk so many ms later. It is not flushed (FileRecords.truncateTo,
        LeaderEpochFileCache.truncateFromEndAsyncFlush); Linux writes it within 30 s, and a leader its epoch's line."""
        session = self.terms.session_at(winner, at)
        lasted = session is not None and session.was_alone_until(int(self.facts.timestamp_ms[at]) + wait_ms)
        return lasted or int(self.states.leader[at]) == winner

    def _last_of_old_leader(self, row: int) -> tuple[Bound, Bound]:
        """(ceiling, old_log_end) by what the last leader logged when it first followed again, or loaded its log."""
        term = self.terms.last_term(row)
        if term is None or term.end > row or not self.terms.was_replica(term.leader, term.end, row):
            return OPEN, OPEN
        loaded = self._loaded(term, row)
        lines = self._ends.get(term.leader, [])
        found = []
        for at, line in islice(lines, bisect_left(lines, term.end, key=lambda pair: pair[0]), None):
            if self.facts.stretch[at] != self.facts.stretch[term.first] or not self._is_first_after(term, at):
                break
            pair = self._last_word(term, line, at)
            found += [pair] if pair else []
        if len({end.value for _, end in found}) != 1:
            return loaded, loaded
        return lower(min((ceiling for ceiling, _ in found), key=lambda b: b.value or 0), loaded), found[0][1]

    def _loaded(self, term: LeaderTerm, row: int) -> Bound:
        """The term's leader's log end when its process ended, as the next process loaded it.

        Nobody ran between the two (`Session.alone_until_ms`), none of the process' lines is from when it could follow
        the leader that was elected in that row, and the machine did not start again before the log was loaded.
        """
        session = term.session
        logged = None if session is None else self.terms.cluster.processes.get((term.leader, session.broker_epoch))
        if session is None or logged is None or not self.terms.took_over(term) or self.terms.led_in_two(term):
            return OPEN
        last_ms = self.last_heard_ms(session)
        if int(self.states.leader[row]) != term.leader and last_ms >= self.facts.timestamp_ms[row]:
            return OPEN
        loads = of_the_next(self.lines.loads, term.leader, logged)
        kept = (self.terms.ran_on(term.leader, session, term.begin_ms, load.at_ms) for load in loads)
        # One that ends below where its own epoch began lost some, although nothing else shows it.
        if not loads or not all(kept) or loads[0].value < (self._start_of_last_epoch(term) or 0):
            return OPEN
        return Bound(loads[0].value, loads[0].row, inference=LOADED_LOG_END)

    def last_heard_ms(self, session: Session) -> int:
        """When the session's process was last heard of and had written its last line; `INT64_MAX` if that is not known:
        one that gets a signal may run on and log nothing. But once it has asked for its controlled shutdown, it follows
        no leader that has not taken it in (ReplicaManager.applyLocalFollowersDelta, 3.9.1 to 4.3.1)."""
        logged = self.terms.cluster.processes.get((session.broker_id, session.broker_epoch))
        if logged is None or (logged.signalled and session.shutdown_batch is None):
            return INT64_MAX
        return max(session.alive_until_ms, logged.last_ms + self.terms.cluster.clock.error_ms)

    def _last_word(self, term: LeaderTerm, line: LoggedEnds, at: int) -> tuple[Bound, Bound] | None:
        """(ceiling, old_log_end) if the line, about that row, shows what the term's leader had when it ended; None if
        it may not. Nobody else led between.

        No process of the leader may have followed the new one before, and it must have acted as leader: else the leader
        before it would have gone on.
        """
        if not self.terms.was_replica(line.broker, term.end, at + 1):
            return None  # it was no replica for a while: its log was deleted
        last_epoch, came_from = int(self.states.leader_epoch[term.end - 1]), line.came_from
        start = self._start_of_last_epoch(term)
        led = came_from == (term.leader, last_epoch)
        # One that was registered must have led: nobody reaches another one, and the leader before may go on.
        if not self.terms.took_over(term) or (not led and start is None):
            return None
        knew = came_from is not None and came_from[1] >= last_epoch
        followed = self._is_of_its_process(term, at)
        # What was written while no process ran, the next one reads piece by piece, and so it may know the term, too.
        alone = none_began(
            self.facts, self.terms.sessions, self.terms.cluster, line.broker, term.end, line.row["captured_at_ms"]
        )
        end = Bound(line.log_end, line.row, inference=LAST_LOG_END)
        if term.unbroken and (followed or (led and alone)):
            # What earlier leaders had promised is in its log too, below where its epoch begins.
            exact = start is not None and start <= line.high_watermark
            # A log that is moved goes on with what its new copy had fetched of the high watermark
            # (ReplicaAlterLogDirsThread, Partition.maybeReplaceCurrentWithFutureReplica).
            exact = exact and self.terms.has_no_other_log(term.leader, term.first, at)
            return Bound(line.high_watermark, line.row, inference=LAST_HIGH_WATERMARK) if exact else end, end
        if knew or line.leader in (-1, line.broker) or self._cut_after(line) is not None:
            return (end, end) if self._kept_until(term, at, knew) else None
        return None

    def _below_min_isr(self, row: int) -> Bound:
        """The high watermark that the last leader logged when it learned of a state below min ISR, if that lasted to
        the election: it stood still from then on. What earlier leaders had promised is below where its epoch begins."""
        term = self.terms.last_term(row)
        start = None if term is None else self._start_of_last_epoch(term)
        if term is None or start is None:
            return OPEN
        since, epoch = max(term.first, int(self.facts.frozen[row - 1])), int(self.states.leader_epoch[term.end - 1])
        end_row = min(term.end, row)
        found = []
        for line in self.lines.led:
            at = self.row_of[line.partition_epoch]
            mine = line.leader_epoch == epoch and line.broker == term.leader and since <= at < end_row
            if mine and self._stands_still(term, line, at, end_row):
                end = max(line.high_watermark, start)
                found.append(Bound(end, line.row, inference=LOGGED_BELOW_MIN_ISR))
        return min(found, key=lambda b: b.value or 0, default=OPEN)

    def _stands_still(self, term: LeaderTerm, line: LoggedEnds, at: int, end: int) -> bool:
        """Whether the high watermark in the line is the last one that any process of the leader has while |ISR| < min
        ISR, as it is from that row on to row `end`.

        One that starts later begins with its checkpoint, so with no more. But one that started before may have had
        more: the line must be of the process that registered, or of the first one that led the epoch. It applies a
        state before the configs of the same delta (BrokerMetadataPublisher), and an ISR that the controller confirms
        before either (Partition.handleAlterPartitionUpdate): for every later state, min ISR counts since the leader
        epoch that it had known before.
        """
        session, known_epoch = term.session, line.leader_epoch
        began_ms = int(self.facts.timestamp_ms[at])
        is_registered = session is not None and session.ran_until(began_ms + PROPAGATION_MS)
        # 4.0 elects brokers that are fenced, too (KAFKA-19522): nobody reaches such a one.
        is_registered &= self.terms.cluster.brokers.active(term.leader, int(self.facts.batch[term.first]))
        if line is self.lines.began.get((line.broker, line.leader_epoch)) and line.came_from is not None:
            known_epoch = line.came_from[1]
            is_begin = known_epoch < self.states.leader_epoch[term.first]
            if not (is_registered or (is_begin and self.terms.learned(term))):
                return False  # nobody reaches the process that logged it, and the leader before may go on
        elif line.row["source"] != UNCHANGED or not is_registered:
            return False
        waits = bool(self.facts.elr_on[at])
        waits |= session is not None and session.waits_for_min_isr
        first = self.terms.first + int(np.searchsorted(self._epochs, known_epoch))
        if not waits or self._epochs[first - self.terms.first] != known_epoch or self.facts.anchored[first]:
            return False
        if self.terms.led_in_two(term) and (self.facts.layer[term.first : term.end] != TOPIC).any():
            return False  # another process that starts goes by its file before it knows the cluster's default
        if not self.terms.has_no_other_log(term.leader, term.first, at):
            return False  # a log that is moved goes on with the high watermark that its new copy had fetched
        rows, size = slice(first, end), self.states.isr_size[at:end].max()
        same = self.facts.stretch[first] == self.facts.stretch[at] and self.facts.shared[rows].all()
        return bool(same and size < self.facts.lowest_min_isr[rows].min())

    def _start_of_last_epoch(self, term: LeaderTerm) -> int | None:
        """Where the log ended when the term's last leader epoch began; None if that is unknown."""
        last_epoch = int(self.states.leader_epoch[term.end - 1])
        began = self.lines.began.get((term.leader, last_epoch))
        created = term.first == self.terms.first and not self.facts.anchored[term.first]
        if created and last_epoch == int(self.states.leader_epoch[term.first]):
            return 0
        return None if began is None else began.log_end

    def _is_first_after(self, term: LeaderTerm, at: int) -> bool:
        """Whether nobody led after the term before the leader epoch of that row."""
        begin = self._begin_of_epoch(at)
        return begin <= term.end or int(self.facts.led[begin - 1]) < term.end

    def _begin_of_epoch(self, at: int) -> int:
        """The first row of that row's leader epoch."""
        return self.terms.first + int(np.searchsorted(self._epochs, self._epochs[at - self.terms.first]))

    def _is_of_its_process(self, term: LeaderTerm, at: int) -> bool:
        """Whether the process that led logged a line about that row: it ran on after the state had gone. One that
        starts later begins with a later state."""
        if not term.unbroken or term.session is None or at + 1 >= self.terms.end:
            return False
        return term.session.ran_until(int(self.facts.timestamp_ms[at + 1]) + PROPAGATION_MS)

    def _kept_until(self, term: LeaderTerm, at: int, knew: bool) -> bool:
        """Whether no process of the leader had less than the one before, up to the one that logged about that row: its
        machine did not start again before the state had gone. A process that knew an earlier leader epoch (knew) began
        before this one."""
        gone = max(term.end, self._begin_of_epoch(at)) if knew else at + 1
        if gone >= self.terms.end:
            return False
        until = int(self.facts.timestamp_ms[gone])
        return self.terms.ran_on(term.leader, term.session, term.begin_ms, until)

    def _cut_after(self, line: LoggedEnds) -> Cut | None:
        """The truncation of the replica soon after that line, when it had no record of the new leader's: so no earlier
        process of it had truncated for that leader, and its high watermark is not from it. It ended above the new
        leader's first log end: otherwise that leader may have led again with less, and made it truncate twice."""
        began = self.lines.began.get((line.leader, line.leader_epoch))
        if began is None or (line.log_end or 0) <= (began.log_end or 0):
            return None
        for cut in self.lines.cuts:
            same = (cut.broker, cut.leader, cut.high_watermark) == (line.broker, line.leader, line.high_watermark)
            if not same or cut.latest_epoch >= line.leader_epoch or cut.to >= (line.log_end or 0):
                continue
            if line.logged_at_ms is None or cut.logged_at_ms is None:
                continue
            if 0 <= cut.logged_at_ms - line.logged_at_ms <= SOON_MS:
                return cut
        return None


def of_the_next(loads: Sequence[Load], broker: int, logged: LoggedProcess) -> list[Load]:
    """Those lines of the process after that one; none if they differ."""
    loads = [load for load in loads if load.broker == broker and logged.is_of_the_next(load.at_ms)]
    return loads if len({load.value for load in loads}) == 1 else []
