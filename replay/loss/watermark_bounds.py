"""Bounds on the high watermark that a leader had reached when its term ended, each with its inference.

Lower ones: a leader alone in its ISR has its high watermark at its log's end, unless a replica that is not fenced and
has just caught up holds it back. It moves when the leader applies a partition record and after every append, not when a
broker is fenced.

Upper ones: a leader may go on writing after it was last observed, so without one of these inferences the bound is open.
While a leader counts a replica in its ISR, the high watermark is at most that replica's log end (docs/findings.md, E7).
So where the high watermark could not advance after a member had left, every later upper bound on the log that this
member kept is one on the high watermark, up to where it follows the next leader and truncates.

Sources: KIP-966 and KAFKA-15583 (below min ISR the high watermark stands still, from Kafka 3.7 on), Kafka's
Partition.makeLeader, appendRecordsToLeader, maybeIncrementLeaderHW (3.9 to 4.4) and its gauges UnderMinIsr and
InSyncReplicasCount, LogManager.shutdown.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from replay.arrow.ragged import members_of
from replay.cluster.facts import Clock
from replay.loss.line_bounds import LineReader, of_the_next
from replay.offsets.clean_stops import HOLDS_LOG
from replay.offsets.evidence import OPEN, PROPAGATION_MS, Bound, Evidence, Scrape, read_by, running_log_ends
from replay.offsets.watermark_floor import Report
from replay.terms.leader_terms import LeaderTerm, LeaderTerms
from replay.terms.liveness import Session
from replay.terms.premises import had_everything

# The first row of the history that the process of a broker's session may go by when its exporter says how many are in
# sync; -1: of none it says that.
GoneBy = Callable[[int, Session, Scrape], int]


def alone_in_isr(terms: LeaderTerms, evidence: Evidence, gone_by: GoneBy) -> Iterator[Report]:
    """High watermarks of leaders that were alone in their ISR and not below min ISR.

    Such a leader commits what it appends, but a request thread may have to wait for that, as long as a disk hangs
    (Kafka's UnifiedLog.maybeIncrementHighWatermark needs the lock of the log). So a log end was committed once as many
    higher ones were read as there are threads: each of these is the end of another batch.
    """
    error = terms.cluster.clock.error_ms
    for broker, scrapes in evidence.scrapes.items():
        threads = terms.cluster.request_threads.get(broker)
        if threads is None or not terms.is_written_by_clients:
            continue
        for ends in _ends_read_alone(scrapes):
            for first, last in zip(ends, ends[threads:], strict=False):
                begin, end = first.captured_at_ms - error, read_by(last.row) + error
                session = terms.sessions.last_begun(broker, begin)
                if session is None or not session.was_alone_until(last.captured_at_ms - error):
                    continue
                if session.has_zookeeper:
                    continue  # a replica that is shutting down holds it back (Partition.isReplicaIsrEligible, 3.9.1)
                epoch = _led_alone(terms, broker, gone_by(broker, session, first), end)
                if epoch is not None:
                    yield Report(first.log_end_offset or 0, end, epoch, first.row, "floor_leader_alone")


def _ends_read_alone(scrapes: Sequence[Scrape]) -> Iterable[list[Scrape]]:
    """Of each process, its readings that say that it leads and is alone: the first one of each log end that is higher
    than those before it."""
    by_process: dict[int, list[Scrape]] = defaultdict(list)
    for scrape in scrapes:
        if scrape.says_enough_alone and scrape.log_end_offset and scrape.process_start_ms is not None:
            own = by_process[scrape.process_start_ms]
            if not own or scrape.log_end_offset > (own[-1].log_end_offset or 0):
                own.append(scrape)
    return by_process.values()


def _led_alone(terms: LeaderTerms, broker: int, first: int, end_ms: int) -> int | None:
    """The leader epoch in which the metadata log shows the broker as leader and only member of the ISR, with every
    other replica fenced or shutting down, from row `first` to end_ms; None if it does not show that."""
    states, rows = terms.states, range(first, terms.first + bisect_right(terms.times, end_ms))
    if first < 0 or not terms.known_at(end_ms) or terms.facts.anchored[rows[1:]].any():
        return None
    if any(states.leader[r] != broker or states.isr_size[r] != 1 for r in rows):
        return None
    # A leader re-evaluates its high watermark when something is written, not when min ISR is lowered.
    term_start = max(int(terms.facts.term_start[rows[0]]), terms.first)
    if terms.facts.anchored[term_start]:
        return None  # what it was before the snapshot is not known
    known = slice(terms.configs_from(term_start), rows[-1] + 1)
    if (terms.facts.highest_min_isr[known] > 1).any() or not terms.facts.is_one_layer(known):
        return None
    if terms.may_start_by_its_file(broker, term_start, rows[-1]):
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
    return not any(brokers.active(b, batch) or any(brokers.active_spans(b, begin_ms, end_ms)) for b in others)


def logs_of_lone_leaders(terms: LeaderTerms, evidence: Evidence, gone_by: GoneBy) -> Iterator[Report]:
    """High watermarks of leaders that were alone up to the end of their term, from the last batches of their logs,
    whenever those were read: all but as many batches as request threads can have appended and not yet committed."""
    error_ms = terms.cluster.clock.error_ms
    for term in terms.all_terms:
        threads = terms.cluster.request_threads.get(term.leader)
        logs = [] if threads is None else evidence.log_ends.get(term.leader, [])
        logs = [row for row in logs if len(row["last_batch_offsets"] or ()) >= (threads or 1)]
        if threads is None or not logs or not _knew_that_it_was_alone(terms, term, evidence, gone_by):
            continue
        epochs = set(terms.states.leader_epoch[term.first : term.end].tolist())
        last = max(epochs)
        for row in logs:
            if row["last_written_leader_epoch"] in epochs and row["captured_at_ms"] - error_ms >= term.begin_ms:
                floor = row["last_batch_offsets"][-threads]
                yield Report(floor, read_by(row) + error_ms, last, row, "floor_lone_leaders_log", before_epoch=last + 1)


def _knew_that_it_was_alone(terms: LeaderTerms, term: LeaderTerm, evidence: Evidence, gone_by: GoneBy) -> bool:
    """Whether one process led the term, was alone up to its end, with min ISR 1, and knew that."""
    facts, states, session = terms.facts, terms.states, term.session
    rows = np.arange(term.first, term.end)
    if session is None or facts.anchored[rows].any() or not terms.served_by_one(term):
        return False
    known = slice(terms.configs_from(term.first), term.end)
    if (facts.highest_min_isr[known] > 1).any() or terms.may_start_by_its_file(term.leader, term.first, term.end - 1):
        return False
    alone = rows[np.minimum.accumulate((states.isr_size[rows] == 1)[::-1])[::-1]]
    left = (row for row in alone.tolist() if _was_left_by_all(terms, range(row, term.end), term.end_ms))
    since = next(left, None)
    if since is None:
        return False
    error_ms, texts = terms.cluster.clock.error_ms, evidence.scrapes.get(term.leader, ())
    texts = [s for s in texts if s.says_enough_alone and gone_by(term.leader, session, s) >= since]
    said = [at_ms for s in texts if (at_ms := read_by(s.row) + error_ms) <= term.end_ms]
    own = bool(said) and session.ran_until(min(said))
    if not (facts.shared[known].all() or (own and _needs_no_other(terms, term.leader))):
        return False  # a file may have been edited since the process read it
    # It logged that partition epoch, or a later one, or its exporter showed that it is alone; and it ran on. Heartbeats
    # show nothing: they go on while its metadata publisher waits for a disk (Kafka's BrokerMetadataPublisher).
    epochs, epoch = terms.recorded.partition_epochs, set(states.leader_epoch[rows].tolist())
    said += [
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
    """Whether min.insync.replicas was 1 on the leader, by every value that its own config ever had. One that is only
    assumed does not count: its file may name another place where the value is."""
    own = terms.cluster.broker_min_isr.get(leader)
    # The first one is from before the timeline knows whose file counts.
    values = [] if own is None else own.cluster.values[1:]
    return bool(values) and all(value == "1" and source != "assumed_default" for value, source in values)


CLEAN_STOP, BELOW_MIN_ISR, REPORTED_BY_LEADER = (
    "ceiling_clean_stop",
    "ceiling_below_min_isr",
    "ceiling_leaders_own_word",
)


@dataclass(frozen=True, slots=True)
class LastTerm:
    """The last leader's term before an election: what bounds its high watermark. Times in ms.

    session: (broker, broker epoch) that led. stopped_by_ms: when its process had ended because the log shows
    that it registered again; None if the log does not. led_ms: from when to when it led. below_ms: since when
    |ISR| < min ISR without a break up to the election; None if it was not. known_by_ms: since when the leader
    knew that. waits: its release
    does not advance the high watermark then. fixed_since: whether from any state that a text may go by up to the
    election the ISR did not grow and min ISR did not change. last_alive_ms: its process ran until then.
    started_by_ms: its process had started before then; None if unknown. last_leader_epoch: the last epoch
    that it led. took_over: see `LeaderTerms`. has_one_directory: its broker.
    """

    leader: int
    session: tuple[int, int] | None
    stopped_by_ms: int | None
    led_ms: tuple[int, int]
    below_ms: int | None
    known_by_ms: int | None
    waits: bool
    fixed_since: Callable[[Scrape], bool]
    last_alive_ms: int
    started_by_ms: int | None
    last_leader_epoch: int
    elected_ms: int
    took_over: bool
    has_one_directory: bool = False

    def ran(self, scrape: Scrape, clock: Clock) -> bool:
        """Whether the scrape is of the process that was elected, not of one that started after a crash."""
        start = scrape.process_start_ms
        if self.started_by_ms is not None and start is not None and start + clock.error_ms <= self.started_by_ms:
            return True
        return read_by(scrape.row) + clock.error_ms <= self.last_alive_ms


def high_watermark_ceiling(evidence: Evidence, term: LastTerm | None, clock: Clock) -> Bound:
    """The lowest upper bound that the evidence gives; open if there is none."""
    if term is None:
        return OPEN
    bounds = [
        *_after_clean_stop(evidence, term, clock),
        *_below_min_isr(evidence, term, clock),
        *_reported_by_leader(evidence, term, clock),
    ]
    return min(bounds, key=lambda b: b.value or 0, default=OPEN)


def old_log_end(evidence: Evidence, term: LastTerm | None, clock: Clock) -> Bound:
    """Where the old leader's log ended when it stopped; open if unknown.

    It is known if the leader stopped cleanly, what it left was captured, and nothing was truncated or appended since it
    led: no other leader had been elected before it stopped.
    """
    return OPEN if term is None else next(_after_clean_stop(evidence, term, clock), OPEN)


def _after_clean_stop(evidence: Evidence, term: LastTerm, clock: Clock) -> Iterator[Bound]:
    """The log end that the leader's session left when it stopped cleanly.

    If a broker is elected that has already stopped, or is cut off from the controllers, the leader before it may go on
    without it, or with its next process."""
    if term.session is None or not term.took_over:
        return
    rows = []
    for row in evidence.left.get(term.session, []):
        stopped = term.stopped_by_ms is not None and term.stopped_by_ms <= term.elected_ms
        before = stopped or clock.surely_before(row, term.elected_ms)
        before &= term.has_one_directory or row[HOLDS_LOG]
        if before and row["last_written_leader_epoch"] in (None, term.last_leader_epoch):
            rows.append(row)
    ends = {row["log_end_offset"] for row in rows}
    if len(ends) == 1:
        yield Bound(ends.pop(), rows[0], inference=CLEAN_STOP)


def _below_min_isr(evidence: Evidence, term: LastTerm, clock: Clock) -> Iterator[Bound]:
    """The leader's log ends while the metadata log shows |ISR| < min ISR and the leader knows it, and says so.

    If the ISR grows later, the leader may still go by an earlier min ISR (Partition.handleAlterPartitionUpdate)."""
    if term.below_ms is None or term.known_by_ms is None or not term.waits:
        return
    for scrape in running_log_ends(evidence, term.leader, term.known_by_ms, term.led_ms[1], clock):
        is_below = scrape.says_below_min_isr and term.ran(scrape, clock)
        if is_below and term.fixed_since(scrape):
            yield Bound(scrape.log_end_offset, scrape.row, inference=BELOW_MIN_ISR)


def _reported_by_leader(evidence: Evidence, term: LastTerm, clock: Clock) -> Iterator[Bound]:
    """Log ends of the leader after it reported itself below min ISR, from later readings of the same process."""
    below: dict[int, Scrape] = {}  # by process start, the first scrape that reports it
    for scrape in evidence.scrapes.get(term.leader, []):
        start = scrape.process_start_ms
        if start is None or not clock.surely_before(scrape.row, term.elected_ms):
            continue
        first = below.get(start)
        # It led, so its log is loaded and a log end of 0 is real.
        if first is not None and scrape.log_end_offset is not None and scrape.captured_at_ms > read_by(first.row):
            yield Bound(scrape.log_end_offset, scrape.row, inference=REPORTED_BY_LEADER)
        begin = scrape.captured_at_ms - clock.error_ms
        if (
            first is None
            and scrape.says_below_min_isr
            and begin > term.led_ms[0]
            and term.ran(scrape, clock)
            and term.waits
            and term.fixed_since(scrape)
        ):
            below[start] = scrape


MEMBERS_LOG_END = "ceiling_members_log_end"


def ceiling_by_members(reader: LineReader, evidence: Evidence, row: int) -> Bound:
    """The lowest log end that a member of the ISR kept from the last leader's term to a reading; open if none
    is known. row: of the election in the history."""
    terms, term = reader.terms, reader.terms.last_term(row)
    if term is None or term.end > row or not term.kept or not terms.took_over(term):
        return OPEN
    lines = reader.lines
    heard_of = {broker for broker, _ in evidence.left} | {load.broker for load in lines.loads}
    heard_of |= {line.broker for line in lines.followed}
    bounds = []
    for broker in members_of(terms.states.replicas[row]):
        rows = None if broker not in heard_of - {term.leader} else had_everything(terms, broker, row)
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
        return self.terms.session_at(self.broker, row)

    def stopped(self) -> Iterator[Bound]:
        """Its log end at a clean stop, after which no process of it fetched from the leader as long as that led.

        The leader may not know for long that it is no member: its metadata publisher waits for a disk (JBOD: another
        one), and it sends heartbeats all the same. So it may count on what the next process fetches.
        """
        session = self.session(self.joined)
        if session is None or session != self.session(self.last):
            return
        rows = self.evidence.left.get((self.broker, session.broker_epoch), [])
        rows = [row for row in rows if session.has_one_directory or row[HOLDS_LOG]]
        if len({row["log_end_offset"] for row in rows}) != 1 or not self._kept_log_dirs(session):
            return
        logged, clock = self.terms.cluster.processes.get((self.broker, session.broker_epoch)), self.terms.cluster.clock
        for row in (row for row in rows if row["captured_at_ms"] is not None):
            # Or all of its lines were read, also those that it wrote up to the stop.
            is_last = logged is not None and logged.was_last_until(read_by(row) + self.error_ms)
            ended = logged is not None and (is_last or of_the_next(self.reader.lines.loads, self.broker, logged))
            whole = bool(ended) and self._was_gone(session)
            late = clock.surely_after(row, self.term.end_ms + PROPAGATION_MS)
            if late and (clock.surely_before(row, self.at_ms(self.row)) or whole):
                yield Bound(row["log_end_offset"], row, inference=MEMBERS_LOG_END)

    def loaded(self) -> Iterator[Bound]:
        """Its log end when its process ended, as the next process loaded it, which never followed the last leader."""
        session, now = self.session(self.joined), self.session(self.last)
        logged = None if now is None else self.terms.cluster.processes.get((self.broker, now.broker_epoch))
        if session is None or now is None or logged is None or not self._was_gone(now):
            return
        loads = of_the_next(self.reader.lines.loads, self.broker, logged)
        late = all(load.at_ms - self.error_ms >= self.term.end_ms + PROPAGATION_MS for load in loads)
        if not loads:
            return
        if late and all(self._ran_on(session, load.at_ms) for load in loads):
            yield Bound(loads[0].value, loads[0].row, inference=MEMBERS_LOG_END)

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

    def _was_gone(self, session: Session) -> bool:
        """Whether the session's process wrote its last line, and was heard of, before it can have followed the leader
        that was elected."""
        return self.reader.last_heard_ms(session) < self.at_ms(self.row)

    def _leader_gone_ms(self) -> int | None:
        """When the process that led had ended: another one of that broker had loaded the log, so it had the lock."""
        session = self.term.session
        if session is None:
            return None
        logged = self.terms.cluster.processes.get((self.term.leader, session.broker_epoch))
        loads = [] if logged is None else of_the_next(self.reader.lines.loads, self.term.leader, logged)
        times = [load.at_ms + self.error_ms for load in loads]
        return min([*times, *self._leader_again_ms()], default=None)

    def _leader_again_ms(self) -> list[int]:
        """When the leader registered again, after its term had begun, with all of its directories; empty if not."""
        terms, own = self.terms, self.term.session
        again = terms.begun_within(self.term.leader, self.term.first, terms.end)[:1]
        return [session.begin_ms for session in again if own is not None and session.shows_end_of(own)]

    def _kept_log_dirs(self, session: Session) -> bool:
        until_ms = self.at_ms(self.row) + PROPAGATION_MS
        return self.terms.cluster.brokers.kept_log_dirs(self.broker, self.at_ms(self.joined), until_ms)

    def _ran_on(self, session: Session, until_ms: int) -> bool:
        """Whether its log lost nothing from its joining on, and it was a replica all that time."""
        end = self.terms.first + bisect_right(self.terms.times, until_ms + PROPAGATION_MS)
        kept = self.terms.was_replica(self.broker, self.joined, end)
        return kept and self.terms.ran_on(self.broker, session, self.at_ms(self.joined), until_ms)
