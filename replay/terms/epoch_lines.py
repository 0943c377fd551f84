"""Which logs may lack lines of leader epochs that they have records of, and which replicas may have kept what they had
of an old epoch because of that (H12 in docs/findings.md).

Sources: KIP-101 and KIP-279 (a follower truncates up to where its leader's lines say that its last epoch ended).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from replay.arrow.once import once_each
from replay.terms.leader_terms import LeaderTerms


@once_each
def may_not_cut(terms: LeaderTerms, broker: int) -> list[tuple[int, int]]:
    """(row, leader) in which each other leader begins to lead that may let the broker keep what it had of an old
    epoch: one `_lacking_lines`, if the broker has followed nobody who had what that epoch wrote, and not led with
    that, since; nor has the leader followed the broker."""
    leaders, found = {term.leader for term in terms.all_terms} - {broker}, []
    lacking = [(row, leader, began) for leader in leaders for row, began in _lacking_lines(terms, leader)]
    if not lacking:
        return []
    learned = (term.first for term in terms.all_terms if term.leader == broker and terms.learned(term))
    followed, lost = sorted({*terms.taken_in(broker), *learned}), [at for at, _ in terms.may_have_lost]
    for row, leader, began in sorted(lacking):
        was_followed = any(terms.states.leader[at] == broker for at in _between(terms.taken_in(leader), began, row))
        until = next(iter(_between(lost, began, row)), row)
        if not was_followed and not _between(followed, began, until):
            found.append((row, leader))
    return found


@once_each
def _lacking_lines(terms: LeaderTerms, leader: int) -> list[tuple[int, int]]:
    """(row, first row of the last epoch whose end it may not know) in which the leader begins to lead and may lack
    lines of leader epochs that its log has.

    One of its processes may have read the metadata again, and led an epoch anew in its own eyes
    (`replay.terms.read_again`), which takes later lines away (LeaderEpochFileCache.assign, endOffsetFor, 3.9.1 to
    4.3.1). Following does not bring them back if its last line is of the epoch that it led last: then nothing makes
    it truncate."""
    facts, first, found = terms.facts, terms.first, list[tuple[int, int]]()
    leaders, epochs = (of[first : terms.end] for of in (terms.states.leader, terms.states.leader_epoch))
    newest = np.maximum.accumulate(np.where(leaders >= 0, epochs, -1))
    own = np.flatnonzero(leaders == leader)
    since, begins = first + int(own[0]), facts.changes[first + own] & ~facts.anchored[first + own]
    for number in (np.flatnonzero(begins[1:]) + 1).tolist():
        led, at = own[:number], int(own[number])
        row, term = first + at, terms.term_at(first + at)
        is_two = term is not None and terms.led_in_two(term)
        # An epoch that is the last one in its log keeps its line, unless an earlier one took that.
        if term is None or (epochs[own[0]] == newest[at - 1] and not is_two):
            continue
        begun = terms.begun_within(leader, since, term.end)
        if not begun or terms.is_first(leader, since, term.end_ms):
            continue
        # With ELR on, who stayed a member has restarted cleanly (H4).
        joined = max(int(terms.absent(leader)[at - 1]) + 1, since)
        is_clean = facts.batch[joined] < begun[0].begin_batch and facts.elr_on[joined : term.end].all()
        if is_clean and not terms.cluster.may_have_new_copy(leader, int(facts.timestamp_ms[since]), term.end_ms):
            continue
        began = led[np.searchsorted(epochs[led], epochs[led[-1]])]
        found.append((row, row if is_two else first + int(began)))
    return found


def may_keep_its_own(terms: LeaderTerms, broker: int, row: int) -> int | None:
    """The last row before a later election in `row` in which a leader begins to lead, one of `lost_by_others`, that
    the broker may have come to follow with what it had of an old epoch; None if there is none.

    Its own log may lack lines as that of a leader in `may_not_cut`: then it goes by an older line than its records
    are of, and keeps them up to where that leader's older epoch ended (AbstractFetcherThread.
    getOffsetTruncationState, 3.9.1 to 4.3.1)."""
    before = (each for each in reversed(_led_before(terms, broker)) if each[0] < row)
    return next((lost for lost, since, until in before if _may_lack_lines(terms, broker, since, until or row)), None)


@once_each
def _led_before(terms: LeaderTerms, broker: int) -> list[tuple[int, int, int | None]]:
    """(row, since, until) in which another leader that may have lost something begins to lead, if the broker had
    led before another epoch, in row `since` first. until: the row in which it has followed then; None: it never
    has. Only what it may have followed without lines of its own."""
    first, end, found = terms.first, terms.end, list[tuple[int, int, int | None]]()
    leaders, epochs = (of[first:end] for of in (terms.states.leader, terms.states.leader_epoch))
    led, own = np.flatnonzero(leaders >= 0), np.flatnonzero(leaders == broker)
    for lost, leader in terms.may_have_lost if len(own) else ():
        last = int(np.searchsorted(led, lost - first)) - 1
        if leader == broker or own[0] >= lost - first or epochs[own[0]] == epochs[led[last]]:
            continue
        since, until = first + int(own[0]), next(iter(_between(terms.taken_in(broker), lost, end)), None)
        if until is None or _may_lack_lines(terms, broker, since, until):
            found.append((lost, since, until))
    return found


def _may_lack_lines(terms: LeaderTerms, broker: int, since: int, until: int) -> bool:
    """Whether a process of the broker that had begun by one row may have read again that it leads in another."""
    until_ms = int(terms.facts.timestamp_ms[until])
    return bool(terms.begun_by(broker, since, until)) and not terms.is_first(broker, since, until_ms)


def _between(rows: Sequence[int], after: int, before: int) -> Sequence[int]:
    """Those of sorted rows that are after one row and before another."""
    return rows[bisect_right(rows, after) : bisect_left(rows, before)]
