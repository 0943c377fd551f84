"""Which way open windows lean: each rule where it applies and where it just does not; the record; and that nothing else
depends on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replay.loss import judged_windows
from replay.loss.election_facts import ElectionFacts
from replay.loss.likely import LEAST_WINDOWS, RULES, Likely, likely
from replay.loss.likely_record import RECORD
from replay.loss.premises import NO_MEMBER, Membership, Premise
from replay.loss.verdict import Election, Judgement
from replay.loss.verdicts import LEANINGS, likely_text
from replay.loss.watermark_bounds import LastTerm
from replay.offsets.broker_lines import LoggedEnds
from replay.offsets.evidence import OPEN, Bound, index_rows
from tests.simulator.detection import detected
from tests.simulator.faults import SHARED, life
from tests.simulator.judge import groups
from tests.support.detection import windows

OLD, NEW, THIRD = 1, 2, 3
END = 50
USUAL = {rule: {"lives": (99, 100)} for rule in RULES}
TERM = LastTerm(
    leader=OLD,
    session=None,
    stopped_by_ms=None,
    led_ms=(0, 10),
    below_ms=None,
    known_by_ms=None,
    knows=lambda _: True,
    waits=True,
    fixed_since=lambda _: True,
    last_alive_ms=10,
    started_by_ms=None,
    last_leader_epoch=4,
    elected_ms=20,
    took_over=True,
)


def said(broker: int, log_end: int, high_watermark: int = 0) -> LoggedEnds:
    return LoggedEnds({}, broker, NEW, 5, 9, log_end, high_watermark, None, None)


def judgement(verdict: str = "possible", log_end: int | None = END, against: tuple[str, ...] = ()) -> Judgement:
    end, failing = Bound(log_end), tuple(Premise(code, False) for code in against)
    return Judgement(verdict, 0, None, OPEN, OPEN, OPEN, end, OPEN, OPEN, None, None, against=failing)


def facts(
    *words: LoggedEnds, leader: int = NEW, fetched: frozenset[int] = frozenset(), **changes: Any
) -> ElectionFacts:
    of_election = {name: changes.pop(name) for name in ("membership", "likely_floor", "term") if name in changes}
    election = Election(leader, 5, 20, 30, 40, True, None, **{"term": TERM, **of_election})
    known = ElectionFacts(
        row=1,
        election=election,
        evidence=index_rows([]),
        judgement=judgement(),
        previous_leader=OLD,
        last_epoch=4,
        leaderless_ms=None,
        membership=lambda _: NO_MEMBER,
        sessions={},
        undisturbed=frozenset(),
        first_words={word.broker: word for word in words},
        fetched=fetched,
        was_alone=False,
        stopped_in_order=False,
    )
    return replace(known, **changes)


MEMBER = Membership(3, [Premise("not_held_no_sign_of_life", False)])
APPLY = [
    ("member_ran_on", facts(membership=MEMBER), judgement(against=("not_held_no_sign_of_life",))),
    ("leader_stopped_in_order", facts(leader=OLD, stopped_in_order=True), judgement()),
    ("member_had_more", facts(said(THIRD, 60, 51), fetched=frozenset({THIRD})), judgement()),
    ("lone_leader_had_more", facts(said(OLD, 59), was_alone=True), judgement()),
    ("lone_leader_reported_more", facts(leader=OLD, was_alone=True, likely_floor=Bound(51)), judgement()),
    ("logs_ended_alike", facts(said(THIRD, END), leader=OLD, fetched=frozenset({THIRD})), judgement()),
    ("old_log_ended_there", facts(said(OLD, END)), judgement()),
]
# What differs from the case above in one respect.
DO_NOT = {
    "it restarted": (facts(membership=MEMBER), judgement(against=("restarted",))),
    "it is no member": (facts(), judgement(against=("not_held_no_sign_of_life",))),
    "the controller marked it": (
        facts(membership=Membership(3, [Premise("not_held_marked", False)])),
        judgement(against=("not_held_no_sign_of_life",)),
    ),
    "another one stopped in order": (facts(stopped_in_order=True), judgement()),
    "it stopped in order, and its directory changed": (
        facts(leader=OLD, stopped_in_order=True),
        judgement(against=("not_held_directory_changed",)),
    ),
    "the member's high watermark was not above": (facts(said(THIRD, 60, 50), fetched=frozenset({THIRD})), judgement()),
    "it was no member in that term": (facts(said(THIRD, 60, 51)), judgement()),
    "so few that nobody may have heard of them": (facts(said(OLD, 58), was_alone=True), judgement()),
    "the old leader was not alone": (facts(said(OLD, 59)), judgement()),
    "the old leader was below min ISR": (
        facts(said(OLD, 59), was_alone=True, term=replace(TERM, below_ms=5)),
        judgement(),
    ),
    "a member had more": (
        facts(said(THIRD, END), said(4, END + 1), leader=OLD, fetched=frozenset({THIRD, 4})),
        judgement(),
    ),
    "another log is longer": (facts(said(OLD, END), said(THIRD, END + 1)), judgement()),
    "the old log is shorter": (facts(said(OLD, END - 1)), judgement()),
    "a high watermark was reported above": (facts(said(OLD, END), likely_floor=Bound(END + 1)), judgement()),
    "it is contradicted": (facts(said(OLD, END)), judgement(against=("contradicted_by_truncation",))),
    "both logs are empty": (facts(said(OLD, 0)), judgement(log_end=0)),
    "its log end is not known": (facts(said(OLD, END)), judgement(log_end=None)),
    "nobody was alone": (facts(leader=OLD, likely_floor=Bound(51)), judgement()),
    "no more was reported": (facts(leader=OLD, was_alone=True, likely_floor=Bound(50)), judgement()),
}


@pytest.mark.parametrize(("rule", "known", "judged"), APPLY, ids=[rule for rule, *_ in APPLY])
def test_a_rule_applies(rule: str, known: ElectionFacts, judged: Judgement) -> None:
    assert likely(known, judged, USUAL) == Likely(RULES[rule], rule, 99, 100)


def test_every_rule_has_a_case() -> None:
    assert [rule for rule, *_ in APPLY] == list(RULES)


@pytest.mark.parametrize("case", DO_NOT)
def test_a_rule_does_not_apply(case: str) -> None:
    assert likely(*DO_NOT[case], USUAL) == Likely()


@pytest.mark.parametrize("verdict", ["proven", "excluded"])
def test_a_decided_window_leans_no_way(verdict: str) -> None:
    assert likely(facts(said(OLD, END)), judgement(verdict), USUAL) is None


@pytest.mark.parametrize(
    ("known", "leaning"),
    [
        ({}, "unknown"),
        ({"lives": (LEAST_WINDOWS - 1, LEAST_WINDOWS - 1)}, "unknown"),
        ({"drills": (1, 1), "lives": (LEAST_WINDOWS - 1, LEAST_WINDOWS - 1)}, "kept"),
        ({"lives": (95, 100)}, "kept"),
        ({"lives": (94, 100)}, "unknown"),
    ],
)
def test_a_rule_counts_only_with_its_record(known: dict[str, tuple[int, int]], leaning: str) -> None:
    found = likely(facts(said(OLD, END)), judgement(), {"old_log_ended_there": known})
    assert found == Likely(
        leaning, "old_log_ended_there", sum(n for n, _ in known.values()), sum(n for _, n in known.values())
    )


def test_the_kept_record_is_of_these_rules() -> None:
    assert list(RECORD) == list(RULES)
    assert all(0 <= right <= of for known in RECORD.values() for right, of in known.values())


def test_the_text_names_the_record() -> None:
    row = {"likely": "lost", "likely_right": 212, "likely_of": 214}
    assert likely_text(row) == "likely lost (a rule that was right in 212 of 214 cases)"
    assert likely_text(row | {"likely": "unknown"}) == likely_text(row | {"likely": None}) == ""


def test_nothing_but_its_own_columns_depends_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lives = list(groups(life("unclean restarts", seed) for seed in range(SHARED)))
    with_it = [row for group in lives for row in windows(detected(group).findings)]
    monkeypatch.setattr(judged_windows, "likely", lambda *_: None)
    without = [row for group in lives for row in windows(detected(group).findings)]
    own = ("likely", "likely_rule", "likely_right", "likely_of")
    assert [{k: v for k, v in row.items() if k not in own} for row in with_it] == [
        {k: v for k, v in row.items() if k not in own} for row in without
    ]
    assert {row["likely"] is None for row in with_it if row["verdict"] in ("proven", "excluded")} == {True}
    assert {row["likely"] for row in with_it if row["verdict"] in ("possible", "undetermined")} <= set(LEANINGS)
    assert any(row["likely_rule"] for row in with_it)
