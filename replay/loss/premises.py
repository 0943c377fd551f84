"""Whether the protocol promises that a replica held everything below the high watermark, premise by premise.

A member of the ISR, or of the ELR, holds every record below the high watermark (KIP-966, KIP-497). That follows only as
long as it was a member without a break, with the log that it had then, of leaders that did not lose their own, and the
controller's record says nothing else. Each premise is data; one that fails, or that the evidence does not show, is a
reason not to conclude.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from replay.controller.acceptable_leaders import UNASSIGNED
from replay.loss.leader_terms import LeaderTerms
from replay.offsets.evidence import PROPAGATION_MS
from replay.partitions.reducer import MIGRATING

# The replica's directory is not known yet.
_NO_DIRECTORY = (UNASSIGNED, MIGRATING)


@dataclass(frozen=True, slots=True)
class Premise:
    """code: of replay.findings.sentences, what holds or fails; offset: of the metadata log, brokers: what it is
    about."""

    code: str
    holds: bool
    offset: int | None = None
    brokers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """Of a replica right before a batch: since which row it was a member without a break (None: it was none), whether
    the leader took it in by the election's own change, and the premises of its promise, the failing ones among them."""

    joined: int | None
    premises: Sequence[Premise]
    taken_in: bool = False

    @property
    def holds(self) -> bool:
        """It held everything below the high watermark, by protocol."""
        return (self.joined is not None or self.taken_in) and all(p.holds for p in self.premises)


NO_MEMBER = Membership(None, ())


def membership(
    course: LeaderTerms, broker: int, row: int, directory_of: Callable[[int, int], str | None]
) -> Membership:
    """Of a replica at an election. row: of the history, the election's; what stands in its batch is one event with it.
    directory_of: (row, broker) -> id of the replica's directory, None where it is not recorded."""
    facts = course.facts
    if course.states.taken_in[row] and course.states.leader[row] == broker:
        # Only a leader asks for that, and the controller knows its session (AlterPartition).
        return Membership(None, [_not_marked(course, row), _alive(course, broker, row)], taken_in=True)
    before = row - 1
    while before >= facts.stretch[row] and facts.batch[before] == facts.batch[row]:
        before -= 1
    if before < facts.stretch[row]:
        return NO_MEMBER
    joined = max(int(course.absent(broker)[before - course.first]) + 1, int(facts.stretch[row]))
    # Only from the ISR does a replica come into the ELR; a member that came otherwise need not have anything.
    if joined > before or not (course.in_isr(broker, joined) or facts.anchored[joined]):
        return NO_MEMBER
    premises = [
        Premise("premise_member", True, offset=int(facts.offset[joined])),
        *_of_joining(course, broker, joined),
        *_of_features(course, broker, joined, before),
        _not_marked(course, row),
        *_of_its_log(course, broker, (joined, before, row), directory_of),
        _alive(course, broker, row),
        _leaders(course, broker, joined, row),
    ]
    return Membership(joined, premises)


def _of_joining(course: LeaderTerms, broker: int, joined: int) -> Iterator[Premise]:
    """A leader takes a replica into the ISR when it has caught up. Without a leader only the controller does, whatever
    the log holds: a cancelled reassignment that leaves the ISR empty makes the first replica its only member (Kafka's
    PartitionReassignmentRevert)."""
    facts = course.facts
    if joined > facts.stretch[joined] and course.states.leader[joined] < 0:
        yield Premise("not_held_joined_without_leader", False, offset=int(facts.offset[joined]), brokers=(broker,))


def _of_features(course: LeaderTerms, broker: int, joined: int, before: int) -> Iterator[Premise]:
    states, facts = course.states, course.facts
    if bool(facts.elr_on[joined : before + 1].all()) and not bool((states.elr[before : before + 1] == 0).all()):
        yield Premise("premise_feature_on", True)


def _not_marked(course: LeaderTerms, row: int) -> Premise:
    facts = course.facts
    if facts.marked[row]:
        return Premise("not_held_marked", False, offset=int(facts.offset[row]))
    return Premise("premise_not_marked", True)


def _of_its_log(
    course: LeaderTerms, broker: int, rows: tuple[int, int, int], directory_of: Callable[[int, int], str | None]
) -> Iterator[Premise]:
    """It kept its log: no restart since it joined, or only such as the controller found clean; one directory."""
    (joined, before, row), facts = rows, course.facts
    since, batch = int(facts.batch[joined]), int(facts.batch[row])
    begun = course.sessions.begun(broker, since, batch)
    if begun and begun[-1].begin_batch == batch:
        yield Premise("not_held_registered_with_it", False, offset=batch, brokers=(broker,))
    elif not begun and not (facts.anchored[joined] and not facts.elr_on[joined]):
        yield Premise("premise_no_registration", True)
    elif facts.elr_on[joined : before + 1].all():
        # With ELR on, the controller takes a broker that restarted uncleanly off ISR and ELR.
        yield Premise("premise_clean_registration", True, offset=begun[-1].begin_batch if begun else since)
    else:
        yield Premise("restarted", False)
    first, last = directory_of(joined, broker), directory_of(before, broker)
    state = course.cluster.brokers.after_batch(broker, batch)
    online = state is None or state.log_dirs is None or last is None or last in (*state.log_dirs, *_NO_DIRECTORY)
    if (first == last or not begun or (first in _NO_DIRECTORY and last in _NO_DIRECTORY)) and online:
        yield Premise("premise_same_directory", True)
    else:
        yield Premise("not_held_directory_changed", False, brokers=(broker,))


def _alive(course: LeaderTerms, broker: int, row: int) -> Premise:
    """The process that was elected ran in its term, when it had learnt of it: else it may have been dead, or have come
    back with less."""
    session = course.sessions.at(broker, int(course.facts.batch[row]))
    holds = session is not None and session.ran_until(int(course.facts.timestamp_ms[row]) + PROPAGATION_MS)
    return Premise("premise_alive" if holds else "not_held_no_sign_of_life", holds, brokers=(broker,))


def _leaders(course: LeaderTerms, broker: int, joined: int, row: int) -> Premise:
    """No leader of the known history may have been two processes, nor the broker itself where another one led later.

    The second process writes its epoch anew after what the first one lost. A replica that was away keeps the first
    version, and no fetch shows that: logs of members may differ below the high watermark. So terms from before the
    broker joined count, too.
    """
    terms, broken = course.reigns_within(int(course.facts.stretch[row]), row), course.broken_within(row)
    last_other = next((n for n in range(len(terms) - 1, -1, -1) if terms[n].leader != broker), -1)
    others_led_from = terms[last_other].first if last_other >= 0 else -1
    for term in broken:
        if term.leader == broker:
            sound = term.first >= others_led_from
        else:
            sound = term.behind > joined and course.undisturbed(broker, term)
        if not sound:
            offset = int(course.facts.offset[term.first])
            return Premise("not_held_leader_may_have_restarted", False, offset=offset, brokers=(term.leader,))
    return Premise("premise_leaders_ran", True)
