"""Which way open windows lean: each rule where it applies and where it just does not; the record; and that nothing else
depends on it."""

from dataclasses import replace
from typing import Any

import pytest

from replay.loss import judged_windows
from replay.loss.election_facts import ElectionFacts
from replay.loss.likely import LEAST_WINDOWS, RULES, Likely, likely
from replay.loss.likely_record import RECORD
from replay.loss.verdict import Election, Judgement
from replay.loss.verdicts import LEANINGS, likely_text
from replay.loss.watermark_bounds import LastTerm
from replay.offsets.broker_lines import LoggedEnds
from replay.offsets.evidence import OPEN, Bound, index_rows
from replay.terms.premises import NO_MEMBER, Membership, Premise
from tests.simulator.detection import detected
from tests.simulator.faults import SHARED, life
from tests.simulator.judge import groups
from tests.support.detection import windows
from tests.support.window_table import beside, lines_of

OLD, NEW = 1, 2
END = 50
USUAL = {rule: {"lives": (99, 100)} for rule in RULES}
TERM = LastTerm(
    leader=OLD,
    session=None,
    stopped_by_ms=None,
    led_ms=(0, 10),
    below_ms=None,
    known_by_ms=None,
    waits=True,
    fixed_since=lambda _: True,
    last_alive_ms=10,
    started_by_ms=None,
    last_leader_epoch=4,
    elected_ms=20,
    took_over=True,
)
WINDOWS = lines_of(beside(__file__))


def leaning(story: list[str], known: Any = USUAL, verdict: str = "possible") -> Likely | None:
    """Which way a window leans of which this is known."""
    given = [item.partition(" ")[::2] for item in story]
    words = dict(given)
    said = {}
    for broker, end, *mark in (value.split() for name, value in given if name == "said"):
        said[int(broker)] = LoggedEnds({}, int(broker), NEW, 5, 9, int(end), int(*mark or [0]), None, None)
    against = tuple(Premise(value, False) for name, value in given if name == "against")
    end = Bound(None if words.get("log-end") == "?" else int(words.get("log-end", END)))
    held = Membership(3, [Premise(words["member"], False)]) if "member" in words else NO_MEMBER
    term = replace(TERM, below_ms=int(words["below"])) if "below" in words else TERM
    floor = {"likely_floor": Bound(int(words["floor"]))} if "floor" in words else {}
    found = ElectionFacts(
        row=1,
        election=Election(OLD if "leader" in words else NEW, 5, 20, membership=held, term=term, **floor),
        evidence=index_rows([]),
        judgement=Judgement(verdict, 0, None, OPEN, OPEN, OPEN, end, OPEN, OPEN, None, None, against=against),
        previous_leader=OLD,
        last_epoch=4,
        leaderless_ms=None,
        membership=lambda _: NO_MEMBER,
        sessions={},
        undisturbed=frozenset(),
        first_words=said,
        fetched=frozenset(map(int, words.get("fetched", "0").split(","))),
        was_alone="alone" in words,
        stopped_in_order="stopped" in words,
    )
    return likely(found, found.judgement, known)


@pytest.mark.parametrize(("story", "rule"), WINDOWS)
def test_which_rule_applies(story: list[str], rule: str) -> None:
    assert leaning(story) == (Likely() if rule == "none" else Likely(RULES[rule], rule, 99, 100))


def test_every_rule_has_a_case() -> None:
    assert [case.values[1] for case in WINDOWS][: len(RULES)] == list(RULES)


@pytest.mark.parametrize("verdict", ["proven", "excluded"])
def test_a_decided_window_leans_no_way(verdict: str) -> None:
    assert leaning(["said 1 50"], verdict=verdict) is None


@pytest.mark.parametrize(
    ("known", "way"),
    [
        ({}, "unknown"),
        ({"lives": (LEAST_WINDOWS - 1, LEAST_WINDOWS - 1)}, "unknown"),
        ({"drills": (1, 1), "lives": (LEAST_WINDOWS - 1, LEAST_WINDOWS - 1)}, "kept"),
        ({"lives": (95, 100)}, "kept"),
        ({"lives": (94, 100)}, "unknown"),
    ],
)
def test_a_rule_counts_only_with_its_record(known: dict[str, tuple[int, int]], way: str) -> None:
    right, of = (sum(pair[side] for pair in known.values()) for side in (0, 1))
    found = leaning(["said 1 50"], {"old_log_ended_there": known})
    assert found == Likely(way, "old_log_ended_there", right, of)


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
