"""Which way a window leans that stays open: whether the election lost records or kept them, by rules that are usually
right.

No proof, and never used for one: the verdict, its bounds and everything that is counted are the same without it. Each
rule has a record: how often it was right in windows whose truth is known (likely_record.py, made by `make likely`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from replay.loss.election_facts import ElectionFacts
from replay.loss.likely_record import RECORD
from replay.loss.verdict import Judgement
from replay.loss.verdicts import EXCLUDED, KEPT, LOST, PROVEN, UNKNOWN

# Each rule, and the way that it leans; the first one that applies counts.
RULES = {
    "member_ran_on": KEPT,
    "leader_stopped_in_order": KEPT,
    "member_had_more": LOST,
    "lone_leader_had_more": LOST,
    "lone_leader_reported_more": LOST,
    "logs_ended_alike": KEPT,
    "old_log_ended_there": KEPT,
}
# A killed leader's log often ends with a few records that nobody acknowledged: one batch for each of num.io.threads.
IN_FLIGHT = 8
# How the codes of premises begin that fail because a log lost something, or may have.
_DAMAGE = ("contradicted", "not_held_directory_changed")
# A rule that was right less often, or in too few windows to tell, does not say where a window leans.
LEAST_SHARE, LEAST_WINDOWS = 0.95, 20


@dataclass(frozen=True, slots=True)
class Likely:
    """Of a window that is open. leaning: one of LEANINGS. rule: the first one that applies, one of RULES; None if none
    does. right, of: in how many windows it was right, of how many; 0 without a rule."""

    leaning: str = UNKNOWN
    rule: str | None = None
    right: int = 0
    of: int = 0


def likely(
    facts: ElectionFacts, judgement: Judgement, record: Mapping[str, Mapping[str, tuple[int, int]]] = RECORD
) -> Likely | None:
    """Where the window leans; None if it is decided. record: by rule and by kind of windows (drills, lives), (right,
    of)."""
    if judgement.verdict in (PROVEN, EXCLUDED):
        return None
    rule = next(_applying(facts, judgement), None)
    if rule is None:
        return Likely()
    known = record.get(rule, {}).values()
    right, of = sum(n for n, _ in known), sum(n for _, n in known)
    is_usual = of >= LEAST_WINDOWS and right >= LEAST_SHARE * of
    return Likely(RULES[rule] if is_usual else UNKNOWN, rule, right, of)


def _applying(facts: ElectionFacts, judgement: Judgement) -> Iterator[str]:
    """The rules that apply, in their order. Where a log was damaged, or is another one, none says that it was kept."""
    codes = {premise.code for premise in judgement.against}
    is_damaged = any(code.startswith(_DAMAGE) for code in codes)
    for rule in (*_of_sessions(facts, codes), *_of_log_ends(facts, judgement)):
        if RULES[rule] == LOST or not is_damaged:
            yield rule


def _of_sessions(facts: ElectionFacts, failing: set[str]) -> Iterator[str]:
    election = facts.election
    if election.membership.joined is not None and election.elected_clean and failing <= {"not_held_no_sign_of_life"}:
        yield "member_ran_on"
    if facts.previous_leader == election.leader and facts.stopped_in_order:
        yield "leader_stopped_in_order"


def _of_log_ends(facts: ElectionFacts, judgement: Judgement) -> Iterator[str]:
    end, winner, old = judgement.log_end_max.value, facts.election.leader, facts.previous_leader
    if end is None:
        return
    words = {broker: said for broker, said in facts.first_words.items() if broker != winner}
    members = [said for broker, said in words.items() if broker in facts.fetched and broker != old]
    if any(said.high_watermark > end for said in members):
        yield "member_had_more"
    ended = words[old].log_end if old in words else None
    term = facts.election.term
    may_advance = facts.was_alone and term is not None and term.below_ms is None
    if ended is not None and ended - end > IN_FLIGHT and may_advance:
        yield "lone_leader_had_more"
    reported = facts.election.likely_floor.value or 0
    if old == winner and facts.was_alone and reported > end:
        yield "lone_leader_reported_more"
    ends = [said.log_end or 0 for said in (members if old == winner else words.values())]
    # An empty log says nothing: it may have been full before.
    if end and max([reported, *ends]) == end:
        if old == winner and ends:
            yield "logs_ended_alike"
        elif ended == end:
            yield "old_log_ended_there"
