"""The score of a drill: what counts as a wrong claim, and what the drill cannot know."""

from __future__ import annotations

from typing import Any

import pytest

from drill.ledger import Ledger, SentRecord
from drill.score import (
    BOUNDS,
    BROKEN_BY_USERS,
    EXCLUDED,
    FIRST,
    GRACE_MS,
    LAG_MS,
    PROVEN,
    contradicts,
    differing_states,
    lacks,
    lies,
)
from replay.invariants.catalogue import INVARIANTS
from tests.likely.record import told

Row = dict[str, Any]
AT = 1_000_000


def window(verdict: str, low: int = 0, high: int | None = None, at_ms: int = AT, first: int | None = None) -> Row:
    bounds = {"loss_min": low, "loss_max": high, "first_lost_offset": first}
    election = {"election_offset": at_ms // 1000, "recorded_leader": 1, "reason": []}
    return {"verdict": verdict, **bounds, "at_ms": at_ms, **election}


def of_outsider(leader: int) -> Row:
    """A later election from outside ISR and ELR."""
    return {**window("possible", at_ms=AT + 60_000), "recorded_leader": leader, "reason": [{"code": "outsider"}]}


def records(
    count: int, acks: str = "all", at_ms: int = AT - 100, lost: bool = True, offset: int = 50
) -> list[SentRecord]:
    return [SentRecord(f"v{n}", acks, at_ms, at_ms, offset + n, lost) for n in range(count)]


def kinds(windows: list[Row], told: list[SentRecord], markers_ms: tuple[int, ...] = ()) -> list[str]:
    return [kind for kind, _ in lies(windows, told, markers_ms)]


@pytest.mark.parametrize(
    ("windows", "told"),
    [
        ([window("proven", 30, 30, first=50)], records(30)),
        ([window("proven", 10)], records(30)),
        ([window("possible", 0, 30)], records(30)),
        ([window("undetermined")], records(30)),
        ([window("excluded", 0, 0)], []),
        ([window("excluded", 0, 0)], records(30, lost=False)),
        # Which of two windows lost them is not known.
        ([window("excluded", 0, 0), window("proven", 30, 30, AT + 60_000)], records(30)),
        # Records acknowledged by the leader alone may be above the high watermark.
        ([window("excluded", 0, 0)], records(30, acks="1")),
        ([window("proven", 30)], records(30, acks="1")),
        # A leader that does not know yet that it was replaced.
        ([window("proven", 30, 30)], records(30, at_ms=AT + GRACE_MS - 1)),
        # What the first election lost, the second one brought back.
        ([window("proven", 30, 30), of_outsider(2)], records(30, lost=False)),
        # Nothing was claimed.
        ([], records(30)),
    ],
)
def test_claims_that_may_be_true(windows: list[Row], told: list[SentRecord]) -> None:
    assert kinds(windows, told) == []


@pytest.mark.parametrize(
    ("windows", "told", "kind"),
    [
        ([window("excluded", 0, 0)], records(1), EXCLUDED),
        ([window("proven", 1)], records(30, lost=False), PROVEN),
        ([window("proven", 31)], records(30), BOUNDS),
        ([window("proven", 31), of_outsider(2)], records(30, lost=False), BOUNDS),
        ([window("proven", 30, 30), of_outsider(1)], records(30, lost=False), PROVEN),
        ([window("proven", 20, 29)], records(30), BOUNDS),
        ([window("proven", 30, 30, first=51)], records(30), FIRST),
        # They were acknowledged long after the only window that may have lost them.
        ([window("proven", 5, None)], records(5, at_ms=AT + GRACE_MS + 1), PROVEN),
        ([window("possible"), window("excluded", 0, 0, AT + 99_000)], records(5, at_ms=AT + 30_000), EXCLUDED),
    ],
)
def test_wrong_claims(windows: list[Row], told: list[SentRecord], kind: str) -> None:
    assert kinds(windows, told) == [kind]


def test_records_of_unknown_fate_and_markers_may_have_been_lost() -> None:
    unknown = [SentRecord("v", "all", AT - 1, AT, None)]
    assert kinds([window("proven", 2)], unknown, (AT - 1,)) == []
    assert kinds([window("proven", 3)], unknown, (AT - 1,)) == [BOUNDS]


def test_the_ledger_knows_what_a_reader_misses() -> None:
    ledger = Ledger()
    ledger.ids["a"] = "id-1"
    for value, offset in (("v0", 0), ("v1", 1), ("v2", 2)):
        told = {"topic": "a", "partition": 0, "value": value, "acks": "all", "sent_ms": 1, "at_ms": 2}
        ledger.add({"ack": {**told, "offset": offset}})
    ledger.add({"failed": {**told, "value": "v3"}})
    assert ledger.of("a", 0).missed([(0, "v0"), (1, "v1"), (2, "v2")]) == []
    missed = ledger.of("a", 0).missed([(0, "v0"), (1, "another")])
    assert ([r.value for r in missed], ledger.lost()) == (["v1", "v2"], {})
    missed[0].lost = True
    assert {of.name: [r.value for r in of.lost] for of in ledger.lost().values()} == {"a-0": ["v1"]}
    assert Ledger.from_json(ledger.as_json()).partitions == ledger.partitions
    assert ledger.acknowledged() == {"all": 3, "unknown": 1}


def state(leader: int, at_ms: int, end_ms: int | None) -> Row:
    lists: Row = {"replicas": [3, 1], "isr": [1], "elr": None, "last_known_elr": []}
    place = {"topic_id": "id-1", "partition": 0, "removed": False}
    return {**place, **lists, "leader": leader, "timestamp_ms": at_ms, "end_timestamp_ms": end_ms}


def described(leader: int, asked_ms: int, **more: int) -> list[Row]:
    """What a broker answered that knew this leader."""
    told = {"topic": "a", "topic_id": "id-1", "partition": 0, "leader": leader, "replicas": [1, 3], "isr": [1]}
    partitions = [{**told, "elr": [], "last_known_elr": []}]
    return [{"before_ms": asked_ms, "after_ms": asked_ms, "partitions": partitions, **more}]


@pytest.mark.parametrize(("leader", "asked_ms", "differs"), [(1, 500, False), (3, 500, True), (3, 600, False)])
def test_a_broker_may_answer_late_but_not_early(leader: int, asked_ms: int, differs: bool) -> None:
    history = [state(1, 0, 600 + LAG_MS), state(3, 600, None)]
    assert bool(list(differing_states(history, described(leader, asked_ms)))) == differs


@pytest.mark.parametrize(
    ("leader", "since_ms", "differs"), [(1, None, True), (1, 600, False), (-1, 600, False), (2, 600, True)]
)
def test_a_broker_that_is_cut_off_answers_with_what_it_knew(leader: int, since_ms: int | None, differs: bool) -> None:
    history = [state(1, 0, 600), state(3, 600, None)]
    answers = described(leader, 601 + LAG_MS, **({} if since_ms is None else {"outdated_since_ms": since_ms}))
    assert bool(list(differing_states(history, answers))) == differs


@pytest.mark.parametrize(("asked_ms", "differs"), [(601, False), (601 + LAG_MS, True)])
def test_a_leader_that_came_while_it_was_asked_may_be_shown_as_none(asked_ms: int, differs: bool) -> None:
    history = [state(1, 0, 600), state(3, 600, None)]
    assert bool(list(differing_states(history, described(-1, asked_ms)))) == differs


@pytest.mark.parametrize(
    ("kind", "severity", "rule", "expected"),
    [
        ("rule_mismatch", "high", "rule_mismatch", True),
        ("rule_mismatch", "medium", "rule_mismatch", False),
        ("invariant_violation", "high", "leader_in_isr", True),
        *(("invariant_violation", "high", rule, False) for rule in BROKEN_BY_USERS),
        ("snapshot_mismatch", "medium", "snapshot_mismatch", True),
        ("leaderless", "high", "leaderless", False),
    ],
)
def test_what_contradicts_what_kafka_wrote(kind: str, severity: str, rule: str, expected: bool) -> None:
    assert contradicts({"kind": kind, "severity": severity, "rule": rule}) == expected


def test_what_open_windows_lack_is_counted_once_a_window() -> None:
    codes = ("elected", "missing_log_end", "missing_log_end", "not_held_marked", "contradicted", "outsider")
    told = [{"code": code} for code in codes]
    rows = [{"verdict": verdict, "reason": told} for verdict in ("possible", "undetermined", "proven", "excluded")]
    found = lacks([*rows, {"verdict": "possible", "reason": [{"code": "missing_log_end"}]}])
    assert found == {"missing_log_end": 3, "not_held_marked": 2, "contradicted": 2, "outsider": 2}


def test_what_users_break_are_invariants() -> None:
    assert set(BROKEN_BY_USERS) <= set(INVARIANTS)


def test_a_window_lost_what_can_have_been_lost_nowhere_else() -> None:
    windows = [{"election_offset": n, "at_ms": n * 100_000} for n in (1, 2, 3)]
    kept = [SentRecord("a", "all", 1_000, 1_010, 0), SentRecord("c", "all", 250_000, 250_010, 1)]
    lost = SentRecord("b", "all", 150_000, 150_010, 1, lost=True)
    assert told(windows, [*kept, lost]) == {1: False, 2: True, 3: False}


def test_a_record_that_two_windows_can_have_lost_tells_of_neither() -> None:
    windows = [{"election_offset": n, "at_ms": n * 100_000} for n in (1, 2, 3)]
    lost = SentRecord("b", "all", 150_000, 150_010, 1, lost=True)
    assert told(windows, [lost]) == {1: False}


@pytest.mark.parametrize(
    "record", [SentRecord("b", "1", 150_000, 150_010, 1, lost=True), SentRecord("b", "all", 150_000, 151_000)]
)
def test_a_record_that_need_not_have_been_promised_tells_nothing(record: SentRecord) -> None:
    assert told([{"election_offset": 2, "at_ms": 160_000}], [record]) == {}
