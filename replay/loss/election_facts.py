"""Facts of the recorded history about the elections to judge: who led before, whether the winner held everything by
protocol, where the high watermark did not advance, what else in the lake contradicts it. Partition by partition.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from replay.arrow.ragged import members_of
from replay.loss.partition_floors import Contradictions, PartitionFloors
from replay.loss.verdict import Election, Judgement, judge
from replay.loss.verdicts import EXCLUDED
from replay.loss.watermark_bounds import LastTerm, ceiling_by_members
from replay.offsets.broker_lines import LoggedEnds
from replay.offsets.evidence import (
    OPEN,
    PROPAGATION_MS,
    Bound,
    Evidence,
    Row,
    Scrape,
    log_end_ceiling,
    log_start,
    own_lines,
    read_by,
)
from replay.offsets.log_drops import Span
from replay.offsets.watermark_floor import likely_floor
from replay.terms.facts import TOPIC
from replay.terms.leader_terms import LeaderTerm, LeaderTerms
from replay.terms.liveness import Session
from replay.terms.premises import (
    EPOCH_LINES,
    LOG_START,
    NO_MEMBER,
    Membership,
    Premise,
    is_passed_over,
    may_serve_with_less,
    membership,
)

# A statement code: the log end is of a later leader, which had all of that log.
PASSED_ON = "log_end_passed_on"


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


class _Partition(PartitionFloors):
    """What is known of each election of one partition."""

    def __init__(self, terms: LeaderTerms, evidence: Evidence, against: Contradictions) -> None:
        super().__init__(terms, evidence, against)
        self._log_ends: dict[int, Bound] = {}

    def elections(self, rows: Mapping[int, bool | None]) -> Iterator[ElectionFacts]:
        floor_before = self._floors()
        for row, is_exposed in rows.items():
            term, winner = self.terms.last_term(row), self._winner(row)
            if self._began_at_0(row):
                winner = replace(winner, premises=[p for p in winner.premises if p.code != LOG_START])
            log_end_min, doubts = self._shared_log(row)
            doubts += tuple(premise for premise in winner.premises if premise.code == EPOCH_LINES)
            election = self._election(row, term, winner, doubts)
            log_end_max, floor = self._log_end_max(row), floor_before.get(row, OPEN)
            judgement = judge(election, self.evidence, floor, log_end_min, log_end_max, self.clock)
            # The high watermark that made it suspicious may be of a log that was lost long before.
            is_open = is_exposed is None and judgement.verdict != EXCLUDED
            if is_exposed or is_open or judgement.is_contradicted or judgement.rests_on_old_log_ends:
                yield self._election_facts(row, election, judgement)

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
            sessions={broker: self.terms.session_at(broker, row) for broker in concerned},
            undisturbed=frozenset(undisturbed),
            first_words=(words := self.reader.first_words(row)),
            fetched=frozenset() if term is None else self._fetched(term, row, words),
            was_alone=term is not None and self._was_alone(term, row),
            stopped_in_order=term is not None and term.session is not None and term.session.shutdown_batch is not None,
        )

    def _fetched(self, term: LeaderTerm, row: int, brokers: Iterable[int]) -> frozenset[int]:
        rows = slice(term.first - self.first, min(term.end, row) - self.first)
        return frozenset(broker for broker in brokers if self.terms.is_in_isr(broker)[rows].any())

    def _was_alone(self, term: LeaderTerm, row: int) -> bool:
        rows = np.arange(term.first, min(term.end, row))
        alone = self.facts.timestamp_ms[rows[self.states.isr_size[rows] == 1]]
        return term.session is not None and bool((alone <= term.session.alive_until_ms).any())

    def _election(self, row: int, term: LeaderTerm | None, own: Membership, doubts: tuple[Premise, ...]) -> Election:
        facts, states = self.facts, self.states
        elected_ms = int(facts.timestamp_ms[row])
        joined = row - 1 if own.since is None else own.since
        # The log of a broker that was no replica for a while was deleted: what is read of it then is of another one.
        has_log = term is not None and self.terms.was_replica(term.leader, term.end, row)
        return Election(
            leader=int(states.leader[row]),
            leader_epoch=int(states.leader_epoch[row]),
            elected_ms=elected_ms,
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
            is_passed_over=is_passed_over(self.terms, row),
            may_serve_with_less=may_serve_with_less(self.terms, row),
        )

    def _log_end_max(self, row: int) -> Bound:
        """At most how long the winner's log was when it began to lead: by its own line, else by what `log_end_ceiling`
        finds; else the same of the next election, if its winner then had all of that log."""
        reached: list[int] = []
        following: int | None = row
        while following is not None and following not in self._log_ends:
            found = self.reader.log_end(following)  # exact: an upper bound adds nothing to it
            if found.value is None:
                found = self._log_end_ceiling(following)
            if found.value is not None:
                self._log_ends[following] = found
            else:
                reached.append(following)
                following = self._next_with_its_log(following) if self._shows_log_ends else None
        found = OPEN if following is None else self._log_ends[following]
        passed_on = replace(found, inference=PASSED_ON) if found.row else found
        self._log_ends |= dict.fromkeys(reached, passed_on)
        return self._log_ends[row]

    def _log_end_ceiling(self, row: int) -> Bound:
        winner, facts = int(self.states.leader[row]), self.facts
        session = self.terms.session_at(winner, row)
        led_ms = self._knows_by_ms(row, session), int(facts.until_ms[row])
        epoch = int(self.states.leader_epoch[row])
        return log_end_ceiling(
            self.evidence, winner, epoch, led_ms, lambda found: self._is_of_the_elected(found, row, session), self.clock
        )

    def _is_of_the_elected(self, found: Row, row: int, session: Session | None) -> bool:
        """Whether a row of evidence shows the process that was elected. One that started after a crash within the
        session may have less, write its line again, and make its followers truncate. session: the winner's."""
        if session is None or self.clock.surely_before(found, int(self.facts.timestamp_ms[row])):
            return False  # a line of this epoch that was read before is of an earlier topic of that name
        closed, error_ms = bool(self.facts.closed[row]), self.clock.error_ms
        if closed and session.was_alone_until(int(self.facts.until_ms[row])) and self._is_first(found, row):
            # The next process may read of the epoch when it has gone, if the one that led had not read that far.
            return not self.terms.shows_less(session.broker_id, int(self.facts.timestamp_ms[row]))
        start = found.get("process_start_ms")
        if session.registered and start is not None and start + error_ms <= session.begin_ms:
            return bool(found["broker_id"] == session.broker_id)
        if found["captured_at_ms"] is None:
            return False
        return session.was_alone_until(read_by(found) + error_ms) or self._is_as_written(found, row, session)

    def _is_as_written(self, found: Row, row: int, session: Session) -> bool:
        """Whether a line of the winner's leader-epoch-checkpoint certainly says no less than what it wrote when it was
        elected: it learned that it leads, since it took a replica into the ISR in that epoch; and any later process
        that led the epoch in its own eyes, perhaps when it had gone, had the same log, and so left the line
        (LeaderEpochFileCache.assign)."""
        is_own_line = found["broker_id"] == session.broker_id and found["epoch_start_offset"] is not None
        if not is_own_line or not self._took_in(row):
            return False
        run, elected_ms = (found["captured_at_ms"], read_by(found)), int(self.facts.timestamp_ms[row])
        until_ms = run[1] + self.clock.error_ms
        reads_again = self.cluster.may_have_new_copy(session.broker_id, elected_ms, until_ms)
        if reads_again and not self._all_had_its_log(row, until_ms):
            return False  # following one of them takes the line away, and the next process reads that it leads
        return self.terms.ran_on(session.broker_id, session, elected_ms, run[1], run)

    def _took_in(self, row: int) -> bool:
        """Whether the leader of the row took a replica into the ISR in that leader epoch."""
        sizes = self.states.isr_size[row : self.reader.first_row(int(self.states.leader_epoch[row]) + 1)]
        return bool((sizes[1:] > sizes[:-1]).any())

    @cached_property
    def _led_from(self) -> list[int]:
        """The rows with which a leader epoch with a leader begins."""
        rows = np.arange(self.first, self.end)
        return rows[self.facts.changes[rows] & (self.states.leader[rows] >= 0)].tolist()

    @cached_property
    def _shows_log_ends(self) -> bool:
        return bool(self.evidence.entries or self.evidence.scrapes)

    def _next_with_its_log(self, row: int) -> int | None:
        """The row of the next election, if its winner then had all of the log that this one's had begun to lead with:
        it is the same broker, and kept it; or one that this one took into the ISR, for which a leader waits until that
        has the end that its own log had then (Partition.isFollowerInSync, leaderEpochStartOffset, 3.9.1 to 4.3.1)."""
        facts, terms, term = self.facts, self.terms, self.terms.term_at(row)
        at = bisect_right(self._led_from, row)
        following = self._led_from[at] if at < len(self._led_from) else None
        if following is None or term is None or facts.stretch[following] > row:
            return None
        winner = int(self.states.leader[following])
        joins = (r for r in reversed(terms.taken_in(winner)) if row < r < following)
        joined = row if winner == term.leader else next(joins, None)
        if joined is None or not terms.was_replica(winner, joined, following):
            return None
        if winner != term.leader:
            counts_old = terms.counts_old_log_ends(winner, row - 1, row + 1) is not None
            if not term.kept or counts_old:
                return None
        since_ms, elected_ms = facts.timestamp_ms[[joined, following]].tolist()
        # Its next process may begin to lead with less.
        if terms.shows_less(winner, since_ms) or not terms.has_no_other_log(winner, joined, self.end - 1):
            return None
        if terms.is_one_process(winner, joined, following):
            return following
        session = terms.session_at(winner, joined)
        is_kept = session is not None and terms.ran_on(winner, session, since_ms, elected_ms)
        return following if is_kept and self._took_in(row) else None

    def _all_had_its_log(self, row: int, until_ms: int) -> bool:
        """Whether all who led after the row's election, up to a time, had all of the log that its winner had begun to
        lead with: following them took none of it."""
        for following in self._led_from[bisect_right(self._led_from, row) :]:
            if int(self.facts.timestamp_ms[following]) > until_ms:
                break
            if self._next_with_its_log(row) is None or self.terms.lost_inside(following):
                return False
            row = following
        return True

    def _knows_by_ms(self, row: int, session: Session | None) -> int:
        """Since when the elected process certainly knew that it leads: its exporter shows a state that it cannot be
        about before. It may have led before, and not know yet who led in between, as its metadata publisher waits."""
        heard_ms = self.cluster.heard_by_ms(int(self.facts.timestamp_ms[row])) + PROPAGATION_MS
        return max(heard_ms, self._shown_ms(row, session))

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
        alive_ms = -1 if term.session is None else term.session.alive_until_ms
        led_until_ms = term.end_ms if term.unbroken else min(term.end_ms, alive_ms)
        return log_start(self.evidence, term.leader, since_ms, led_until_ms, elected_ms, self.clock)

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
        restarts = self.terms.begun_by(term.leader, term.first, row)
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
