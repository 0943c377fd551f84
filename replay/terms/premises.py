"""The premises under which the protocol promises that a replica held everything below the high watermark.

A member of the ISR or ELR holds every record below the high watermark (KIP-966, KIP-497). That follows only if it was a
member without a break, kept the log that it had, followed leaders that did not lose theirs, and the controller's record
does not contradict it. Each premise is data. One that fails, or that the evidence does not show, is a reason not to
conclude.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from replay.arrow.once import once_each
from replay.arrow.ragged import INT64_MAX
from replay.offsets.evidence import PROPAGATION_MS
from replay.terms.epoch_lines import may_keep_its_own, may_not_cut
from replay.terms.facts import StateFacts
from replay.terms.leader_terms import LeaderTerm, LeaderTerms

OLD_LOG_ENDS, NO_SIGN_OF_LIFE = "not_held_old_log_ends", "not_held_no_sign_of_life"
LOG_START, EPOCH_LINES = "not_held_log_start", "not_held_epoch_lines"


@dataclass(frozen=True, slots=True)
class Premise:
    """A premise that holds or fails. code: statement code of replay.findings.sentences; offset: of the metadata log and
    brokers: what it is about."""

    code: str
    holds: bool
    offset: int | None = None
    brokers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """A replica's membership right before a batch.

    joined: the row since which it was a member without a break; None if it was no member. premises: those of the
    promise, including those that fail. taken_in: the leader took it in with the change that made it leader. kept_since:
    the row since which it has everything that was below the high watermark, although the controller does not know that.
    """

    joined: int | None
    premises: Sequence[Premise]
    taken_in: bool = False
    kept_since: int | None = None

    @property
    def since(self) -> int | None:
        """The row since which it is known to have held everything, if all premises hold."""
        return self.joined if self.kept_since is None else self.kept_since

    @property
    def holds(self) -> bool:
        """Whether, by protocol, it held everything below the high watermark."""
        return (self.since is not None or self.taken_in) and not self.failing

    @property
    def failing(self) -> set[str]:
        """The codes of the premises that fail."""
        return {p.code for p in self.premises if not p.holds}

    @property
    def may_differ(self) -> bool:
        """Whether its log may hold other records than the partition's although their lines of leader epochs agree."""
        return bool(self.failing & {LOG_START, EPOCH_LINES})

    def but_for(self, *codes: str) -> bool:
        """Whether it was a member, and of all premises only these may fail. But for NO_SIGN_OF_LIFE: whoever is reached
        as the leader that was elected held everything; it may have been dead, and then nobody is reached."""
        return self.joined is not None and self.failing <= set(codes)


NO_MEMBER = Membership(None, ())


def membership(terms: LeaderTerms, broker: int, row: int) -> Membership:
    """The membership of a replica at an election, or what it kept since it was a member.

    row: of the history, the election's; everything in its batch is one event.
    """
    promised = _promised(terms, broker, row)
    found = promised if promised.holds else _kept(terms, broker, row) or promised
    others = *_may_begin_above(terms, broker, row), *_old_epochs(terms, broker, row)
    return replace(found, premises=(*found.premises, *others))


def _promised(terms: LeaderTerms, broker: int, row: int) -> Membership:
    facts = terms.facts
    if terms.states.taken_in[row] and terms.states.leader[row] == broker:
        premises = [_alive(terms, broker, row), _leaders(terms, broker, row)]
        return Membership(None, [*premises, *_of_joining(terms, broker, row)], taken_in=True)
    before = row - 1
    joined = _joined(terms, broker, before, row)
    if joined is None:
        return NO_MEMBER
    premises = [
        Premise("premise_member", True, offset=int(facts.offset[joined])),
        *_of_joining(terms, broker, joined),
        *_of_features(terms, broker, joined, before),
        _not_marked(terms, row),
        *_of_its_log(terms, broker, (joined, before, row)),
        _alive(terms, broker, row),
        _leaders(terms, broker, row),
        *_log_ends(terms, broker, joined, row),
    ]
    return Membership(joined, premises)


def _joined(terms: LeaderTerms, broker: int, row: int, election: int) -> int | None:
    """The row since which the broker was a member without a break; None if it is none in the row, or if history begins
    with the election's batch. That may hold several events (Kafka's BatchAccumulator): of the leader's requests only
    one, since it waits for the answer, which comes when the batch is committed."""
    facts, stretch = terms.facts, int(terms.facts.stretch[election])
    joined = max(int(terms.absent(broker)[row - terms.first]) + 1, stretch)
    if joined > row or facts.batch[stretch] == facts.batch[election]:
        return None
    # A replica enters the ELR only from the ISR. A member that entered any other way need not hold anything.
    return joined if terms.in_isr(broker, joined) or facts.anchored[joined] else None


def _kept(terms: LeaderTerms, broker: int, row: int) -> Membership | None:
    """What a replica kept that was a member once: since it left, the high watermark could not advance, and its log is
    the one that it had, although the controller may have struck it off for a restart. None if that is not known."""
    facts, found = terms.facts, _once(terms, broker, row)
    if found is None:
        return None
    joined, last = found
    session = terms.session_at(broker, joined)
    if session is None:
        return None
    joined_ms, elected_ms = int(facts.timestamp_ms[joined]), int(facts.timestamp_ms[row])
    if not terms.is_one_process(broker, joined, row) and not terms.kept_log(broker, session, joined_ms, elected_ms):
        return None
    # Whom it can have followed since: whoever was elected held everything, too.
    between = [term for term in terms.terms_within(last + 1, row) if term.first > last]
    if not all(membership(terms, term.leader, term.first).holds for term in between):
        return None
    premises = [
        Premise("premise_member_once", True, offset=int(facts.offset[last]), brokers=(broker,)),
        *_of_joining(terms, broker, joined),
        Premise("premise_kept_its_log", True, brokers=(broker,)),
        _leaders(terms, broker, row),
        *_log_ends(terms, broker, joined, row),
    ]
    kept = Membership(None, premises, kept_since=joined)
    return kept if kept.holds else None


def had_everything(terms: LeaderTerms, broker: int, row: int) -> tuple[int, int] | None:
    """(first, last) row of a replica's last membership before an election, if it had everything below the high
    watermark then, and the high watermark could not advance since; None if that is not known. Whether it kept that is
    another question."""
    found = _once(terms, broker, row)
    if found is None:
        return None
    joined, _ = found
    premises = [
        *_of_joining(terms, broker, joined),
        _leaders(terms, broker, row),
        *_log_ends(terms, broker, joined, row),
    ]
    return found if all(p.holds for p in premises) else None


def _once(terms: LeaderTerms, broker: int, row: int) -> tuple[int, int] | None:
    """(first row, last row) of a replica's last membership before an election, if the high watermark could not advance
    since then and the broker was a replica all that time."""
    last = terms.last_membership(broker, row - 1) if row > terms.facts.stretch[row] else None
    joined = None if last is None else _joined(terms, broker, last, row)
    if last is None or joined is None:
        return None
    if not terms.was_replica(broker, joined, row) or not terms.stood_still(joined, last + 1, row):
        return None
    return joined, last


def _of_joining(terms: LeaderTerms, broker: int, joined: int) -> Iterator[Premise]:
    """The premises that fail if the replica joined without a leader, or by the word of a process that had ended.

    A leader adds a replica to the ISR when it has caught up. Without a leader only the controller does, whatever the
    log holds: a cancelled reassignment that leaves the ISR empty makes the first replica its only member (Kafka's
    PartitionReassignmentRevert).
    """
    facts = terms.facts
    if joined > facts.stretch[joined] and terms.states.leader[joined] < 0:
        yield Premise("not_held_joined_without_leader", False, offset=int(facts.offset[joined]), brokers=(broker,))
    if joined_by_an_earlier_process(terms, broker, joined):
        yield Premise("restarted", False)


def joined_by_an_earlier_process(terms: LeaderTerms, broker: int, joined: int) -> bool:
    """Whether an earlier process `may_have_joined_earlier`, and the one that had registered when the replica joined may
    have lost what that one had."""
    facts, states = terms.facts, terms.states
    led_itself = states.leader[joined] == broker and not states.taken_in[joined]
    if led_itself or not terms.may_have_joined_earlier(broker, joined):
        return False
    earlier, session = terms.session_at(broker, joined - 1), terms.session_at(broker, joined)
    registered_ms = facts.timestamp_ms[joined] if session is None else session.begin_ms
    return not terms.kept_log(broker, earlier, int(facts.timestamp_ms[joined - 1]), int(registered_ms))


def _of_features(terms: LeaderTerms, broker: int, joined: int, before: int) -> Iterator[Premise]:
    states, facts = terms.states, terms.facts
    if bool(facts.elr_on[joined : before + 1].all()) and states.elr[before].any():
        yield Premise("premise_feature_on", True)


def _not_marked(terms: LeaderTerms, row: int) -> Premise:
    facts = terms.facts
    if facts.marked[row]:
        return Premise("not_held_marked", False, offset=int(facts.offset[row]))
    return Premise("premise_not_marked", True)


def _of_its_log(terms: LeaderTerms, broker: int, rows: tuple[int, int, int]) -> Iterator[Premise]:
    """The premises that it kept its log: no restart since it joined, or only clean ones by the controller's judgement,
    and one directory."""
    (joined, before, row), facts = rows, terms.facts
    since, batch = int(facts.batch[joined]), int(facts.batch[row])
    begun, times = terms.begun_by(broker, joined, row), facts.timestamp_ms[[joined, row]].tolist()
    anew = next((at for at in reversed(terms.elected_with_registration(broker)) if joined < at < row), None)
    if begun and begun[-1].begin_batch == batch:
        yield Premise("not_held_registered_with_it", False, offset=batch, brokers=(broker,))
    elif not begun and not (facts.anchored[joined] and not facts.elr_on[joined]):
        yield Premise("premise_no_registration", True)
    elif anew is not None:
        # The controller struck it off, and elected it with the same record.
        yield Premise("not_held_joined_without_leader", False, offset=int(facts.offset[anew]), brokers=(broker,))
    elif facts.elr_on[joined : before + 1].all() and not (begun and terms.cut_unasked(broker, *times)):
        # With ELR on, the controller removes a broker that restarted uncleanly from ISR and ELR.
        yield Premise("premise_clean_registration", True, offset=begun[-1].begin_batch if begun else since)
    else:
        yield Premise("restarted", False)
    if terms.kept_directory(broker, joined, row):
        yield Premise("premise_same_directory", True)
    else:
        yield Premise("not_held_directory_changed", False, brokers=(broker,))


def _alive(terms: LeaderTerms, broker: int, row: int) -> Premise:
    """The premise that the elected process was running after it had time to learn of its election. Otherwise it may
    have been dead, or have come back with less."""
    session = terms.session_at(broker, row)
    holds = session is not None and session.was_alone_until(int(terms.facts.timestamp_ms[row]) + PROPAGATION_MS)
    return Premise("premise_alive" if holds else NO_SIGN_OF_LIFE, holds, brokers=(broker,))


def is_passed_over(terms: LeaderTerms, row: int) -> bool:
    """Whether the process that was elected may have been dead, or never have learned of one that ended at once, and
    what its log lacked is not lost at this election.

    If the controller elected it as a member, and somebody leads next, it counts with the next election: the first
    whose leader anybody reaches. If another member of ISR or ELR leads next, as far as is known, nothing is lost: that
    one has followed nobody since, and lacks nothing for what the elected broker's next process had lost."""
    states, leader, own = terms.states, int(terms.states.leader[row]), terms.term_at(row)
    if own is None or _is_reached(terms, own, row):
        return False
    was_member = (terms.places_of(leader)[row - 1 - terms.first] & states.holders[row - 1]).any()
    is_member = bool(was_member) and not terms.facts.marked[row]
    # What a member lacks that learned of a later epoch only counts with the election that began that one. The change
    # that ends an epoch of the term may have been requested by its leader.
    after = _epoch_end(terms, own, row)
    shown = replace(own, end=min(after + 1, own.end), end_ms=int(terms.facts.until_ms[row])) if is_member else own
    if row == own.first and terms.learned(shown):
        return False
    later = [term for term in terms.terms_within(row, terms.end) if term.first > row]
    if not later or is_member:
        return True
    following = next((term.leader for term in later if term.leader != leader), None)
    own = terms.places_of(leader if following is None else following)[row - terms.first]
    return bool((states.holders[row] & (~own if following is None else own)).any())


def may_serve_with_less(terms: LeaderTerms, row: int) -> bool:
    """Whether the process that was elected may have ended before anybody reached it, and the next one in its term may
    have served with less: then its own line shows at most what the winner had."""
    own = terms.term_at(row)
    return own is not None and terms.lost_inside(row) and not _is_reached(terms, own, row)


def kept_the_log(terms: LeaderTerms, term: LeaderTerm) -> bool:
    """Whether what a term's leader had at its end was the partition's log. To a coordinator's topic one that nobody
    reached may have written by itself, in place of what it lacked."""
    is_written_unreached = not terms.is_written_by_clients and term.first > terms.first
    return term.kept and not (is_written_unreached and is_passed_over(terms, term.first))


def _is_reached(terms: LeaderTerms, own: LeaderTerm, row: int) -> bool:
    """Whether the process that was elected certainly ran, and had time to learn of it. What another epoch of the term
    shows is not of that process. Nobody reaches one that is fenced (4.0 elects such: KAFKA-19522)."""
    lasted_ms = int(terms.facts.until_ms[row] - terms.facts.timestamp_ms[row])
    had_time = lasted_ms >= PROPAGATION_MS or not terms.facts.closed[row]
    after, batch = _epoch_end(terms, own, row), terms.facts.batch
    until_batch = int(batch[after]) if after < terms.end else INT64_MAX
    is_unfenced = terms.cluster.brokers.was_active(own.leader, int(batch[row]), until_batch)
    return had_time and is_unfenced and _alive(terms, own.leader, row).holds


def _epoch_end(terms: LeaderTerms, own: LeaderTerm, row: int) -> int:
    """The row after the last one of the row's leader epoch in the term."""
    epochs = terms.states.leader_epoch[row : own.end]
    return row + int(np.searchsorted(epochs, epochs[0], "right"))


def _leaders(terms: LeaderTerms, broker: int, row: int) -> Premise:
    """The premise that one process served in every term of the known history, and so in the broker's own if another led
    later.

    A second process that registers within its term writes its epoch again after what the first one lost. A replica that
    was away keeps the first version, and no fetch shows that: logs of members may differ below the high watermark. So
    terms from before the broker joined count as well. Whoever takes a replica in with the change that ends its term was
    one process: only a leader requests that, and the controller knows its session (AlterPartition).
    """
    first = int(terms.facts.stretch[row])
    if terms.facts.anchored[first]:
        return earlier_leaders_unknown(terms.facts, first)
    known = terms.terms_within(first, row)
    last_other = next((term for term in reversed(known) if term.leader != broker), None)
    for term in terms.broken_within(row):
        if terms.states.taken_in[row] and term.end == row and not terms.led_in_two(term):
            continue
        if term.leader != broker or (last_other is not None and term.first < last_other.first):
            return may_have_restarted(terms.facts, term.first, term.leader)
    return Premise("premise_leaders_ran", True)


def _log_ends(terms: LeaderTerms, broker: int, joined: int, row: int) -> Iterator[Premise]:
    """The premise that no leader since the replica joined counted on a log end that the replica no longer had."""
    found = terms.counts_old_log_ends(broker, joined, row)
    if found is None:
        yield Premise("premise_log_ends_current", True)
    else:
        yield Premise(OLD_LOG_ENDS, False, offset=int(terms.facts.offset[found[0]]), brokers=(found[1],))


def _may_begin_above(terms: LeaderTerms, broker: int, row: int) -> Iterator[Premise]:
    """The premise that fails if the replica's log may begin above what another leader wrote anew: that one led with
    less than the high watermark, and the replica's log had been deleted up to a higher offset. A replica that starts
    after it had deleted all, or drops the rest (`LeaderTerms.kept_log`), knows no leader epoch: it fetches from its
    log's end on, and nothing makes it truncate once the leader has written beyond that (LogLoader.load,
    UnifiedLog.truncateTo, AbstractFetcherThread.partitionFetchState, 3.9.1 to 4.3.1). What it had deleted may be back
    then. Nor does one whose log ended below its leader's begin, so that it began anew there (fetchOffsetAndTruncate,
    LeaderEpochFileCache.clearAndFlush): not one that was a member whenever somebody had led. Nor does one that
    truncated below its own log start to follow such a leader, and then follows a second one (UnifiedLog.truncateTo,
    ReplicaManager.initialFetchOffset). A log that ends where the other leader began, or before, has no offset that was
    written anew."""
    began = terms.lines.began
    own = began.get((broker, int(terms.states.leader_epoch[row])))
    for lost, leader in reversed(_may_differ(terms, broker, row)):
        other = began.get((leader, int(terms.states.leader_epoch[lost])))
        if own is None or other is None or (own.log_end or 0) > (other.log_end or 0):
            yield Premise(LOG_START, False, offset=int(terms.facts.offset[lost]))
            return


def _old_epochs(terms: LeaderTerms, broker: int, row: int) -> Iterator[Premise]:
    """The premises that fail if the replica's log may still have what it had of an old epoch, or that of a leader
    before it in the known history, whose log it was to have: of the last one."""
    yield from _keeps_old_epoch(terms, broker, row)
    led = _led_with_old_epoch(terms, int(terms.facts.stretch[row]))
    yield from (premise for _, premise in led[: bisect_left(led, row, key=itemgetter(0))][-1:])


@once_each
def _led_with_old_epoch(terms: LeaderTerms, first: int) -> list[tuple[int, Premise]]:
    """(row, premise) in which each leader began to lead whose log may have kept an old epoch, in the history that is
    known since row `first`."""
    began = [(term.first, term.leader) for term in terms.terms_within(first, terms.end)]
    return [(row, premise) for row, leader in began for premise in _keeps_old_epoch(terms, leader, row)]


def _keeps_old_epoch(terms: LeaderTerms, broker: int, row: int) -> Iterator[Premise]:
    """The premise that fails if that one log may have kept it: a leader that the broker has followed since, or its own
    log, lacked the line that says where the next epoch began (`may_not_cut`, `may_keep_its_own`)."""
    for led, leader in reversed(may_not_cut(terms, broker)):
        if led < row and _was_away(terms, broker, led, row):
            yield Premise(EPOCH_LINES, False, offset=int(terms.facts.offset[led]), brokers=(leader,))
            return
    if (lost := may_keep_its_own(terms, broker, row)) is not None:
        yield Premise(EPOCH_LINES, False, offset=int(terms.facts.offset[lost]), brokers=(broker,))


def _may_differ(terms: LeaderTerms, broker: int, row: int) -> list[tuple[int, int]]:
    """Those of `LeaderTerms.lost_by_others` before which the replica `_was_away`, or which are not the first."""
    losses = terms.lost_by_others(broker, int(terms.facts.timestamp_ms[row]))
    return [each for number, each in enumerate(losses) if number or _was_away(terms, broker, each[0], row)]


def _was_away(terms: LeaderTerms, broker: int, led: int, row: int) -> bool:
    """Whether a replica was away while somebody led, before a leader began to lead, or has started anew."""
    facts, first = terms.facts, terms.first
    if facts.anchored[led] or terms.begun_by(broker, first, row):
        return True
    rows = np.flatnonzero(terms.states.leader[first:led] >= 0)
    return bool((terms.absent(broker)[rows] == rows + first).any())


def earlier_leaders_unknown(facts: StateFacts, row: int) -> Premise:
    """Leaders before that row of the history, a snapshot's, may have been more than one process each."""
    return Premise("not_held_earlier_leaders_unknown", False, offset=int(facts.offset[row]))


def may_have_restarted(facts: StateFacts, row: int, leader: int) -> Premise:
    """In the term that begins with that row more than one process of the leader may have served."""
    offset = int(facts.offset[row])
    return Premise("not_held_leader_may_have_restarted", False, offset=offset, brokers=(leader,))
