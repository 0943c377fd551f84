"""The score of a drill: what counts as a wrong claim, and what the drill cannot know.

tests/unit/golden/claims.jsonl has what it shows; windows (verdict, loss_min, loss_max, first lost offset, ms after AT,
and of an outsider who was elected); what was sent (how many, acks, lost, kept or of unknown fate, ms after AT, first
offset); markers; and the wrong claims.
"""

from dataclasses import replace
from typing import Any

import pytest

from drill.ledger import Ledger, SentRecord
from drill.score import BROKEN_BY_USERS, LAG_MS, contradicts, differing_states, lacks, lies
from replay.invariants.catalogue import INVARIANTS
from tests.likely.record import told
from tests.support.golden import filled

Row = dict[str, Any]
AT = 1_000_000


def window(text: str) -> Row:
    verdict, *numbers = text.split()
    low, high, first, at_ms, outsider = (None if n == "-" else int(n) for n in numbers)
    bounds = {"loss_min": low, "loss_max": high, "first_lost_offset": first}
    reason = [{"code": "outsider"}] if outsider else []
    at = {"at_ms": AT + (at_ms or 0), "election_offset": (AT + (at_ms or 0)) // 1000}
    return {"verdict": verdict, **bounds, **at, "recorded_leader": outsider or 1, "reason": reason}


def sent(text: str) -> list[SentRecord]:
    count, acks, fate, at_ms, offset = text.split()
    at = AT + int(at_ms)
    offsets = [None if fate == "unknown" else int(offset) + n for n in range(int(count))]
    return [SentRecord(f"v{n}", acks, at, at, offsets[n], fate == "lost") for n in range(int(count))]


@filled("claims")
def test_claims(case: Row) -> Row:
    records = [record for text in case["sent"] for record in sent(text)]
    found = lies([window(text) for text in case["windows"]], records, [AT + ms for ms in case["markers"]])
    return {**case, "wrong": [list(claim) for claim in found]}


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
    assert ledger.of("a", 0).missed([(2, "v2")], begin=2) == []
    for record, key in zip(ledger.of("a", 0).records, ("k", "other", "k"), strict=False):
        record.key = key
    compacted = ledger.of("a", 0).missed([(2, "v2")], is_compacted=True)
    assert [r.value for r in compacted] == ["v1"]
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


@pytest.mark.parametrize(
    ("told", "asked_ms", "since_ms", "differs"),
    [
        # One may answer late, but not early.
        (1, 599 + LAG_MS, None, False),
        (3, 500, None, True),
        (3, 600, None, False),
        # One that is cut off answers with what it knew.
        (1, 601 + LAG_MS, None, True),
        (1, 601 + LAG_MS, 600, False),
        (-1, 601 + LAG_MS, 600, False),
        (2, 601 + LAG_MS, 600, True),
        # A leader that came while a broker was asked may be shown as none.
        (-1, 601, None, False),
        (-1, 601 + LAG_MS, None, True),
    ],
)
def test_what_a_broker_may_answer(told: int, asked_ms: int, since_ms: int | None, differs: bool) -> None:
    history = [state(1, 0, 600), state(3, 600, None)]
    answers = described(told, asked_ms, **({} if since_ms is None else {"outdated_since_ms": since_ms}))
    assert bool(list(differing_states(history, answers))) == differs


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


WINDOWS = [{"election_offset": n, "at_ms": n * 100_000} for n in (1, 2, 3)]


def test_what_was_removed_may_have_been_lost_before() -> None:
    records = [SentRecord("a", "all", 1_000, 1_010, 0, unseen=True)]
    row = {"verdict": "proven", "loss_min": 1, "loss_max": 1, "election_offset": 1, "at_ms": 2_000, "reason": []}
    row |= {"first_lost_offset": 0, "recorded_leader": 1}
    assert list(lies([row], records, [])) == []


KEPT = [SentRecord("a", "all", 1_000, 1_010, 0), SentRecord("c", "all", 250_000, 250_010, 1)]
LOST = SentRecord("b", "all", 150_000, 150_010, 1, lost=True)


@pytest.mark.parametrize(
    ("windows", "records", "expected"),
    [
        (WINDOWS, [*KEPT, LOST], {1: False, 2: True, 3: False}),
        # What two windows can have lost shows neither; what need not have been promised shows nothing.
        (WINDOWS, [LOST], {1: False}),
        ([{"election_offset": 2, "at_ms": 160_000}], [replace(LOST, acks="1")], {}),
        ([{"election_offset": 2, "at_ms": 160_000}], [SentRecord("b", "all", 150_000, 151_000)], {}),
    ],
)
def test_what_windows_lost(windows: list[Row], records: list[SentRecord], expected: dict[int, bool]) -> None:
    assert told(windows, records) == expected
