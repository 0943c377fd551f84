"""Findings of changes that are not as the rules have them, and of broken invariants."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from replay.arrow.schemas import FINDINGS, RULE_DIFFERENCES
from replay.findings.broken_rules import invariant_findings, rule_mismatch_findings
from replay.findings.statements import prose
from replay.invariants.catalogue import INVARIANT_VIOLATIONS, INVARIANTS
from tests.support.detection import statements
from tests.support.scenario import TOPIC_ID
from tests.support.window_table import stories

Row = dict[str, Any]
PLACE = {"capture": "c", "path": "log", "sha256": "00", "position": 77}
PARTITION = {"topic_id": TOPIC_ID, "topic": "t", "partition": 3}
PREDICTED = {"leader": 2, "isr": [2, 3], "elr": [1], "last_known_elr": [], "leader_recovery_state": "RECOVERED"}
DIFFERENCE = {
    **PARTITION,
    **PLACE,
    "offset": 20,
    "timestamp_ms": 20_000,
    "controller_epoch": 1,
    "trigger": "unfence",
    "trigger_offset": 19,
    "profiles": ["4.0"],
    "difference": "known_bug",
    "reason": "KAFKA-19522",
    "differs_in": ["leader", "isr"],
    "profile": "4.3",
    "rule_fingerprint": "ff",
    "predicted": PREDICTED,
}
VIOLATION = {
    **PARTITION,
    **PLACE,
    "invariant": "leader_in_isr",
    "severity": "critical",
    "start_offset": 20,
    "start_timestamp_ms": 20_000,
    "end_offset": 30,
    "end_timestamp_ms": 30_000,
    "rows": 2,
    "brokers": [1],
    "detail": "leader=1 isr=[2]",
    "evidence_offsets": [20],
}


def mismatches(*rows: Row) -> list[Row]:
    return rule_mismatch_findings(pa.Table.from_pylist(list(rows), schema=RULE_DIFFERENCES), "c").to_pylist()


def violations(*rows: Row) -> list[Row]:
    return invariant_findings(pa.Table.from_pylist(list(rows), schema=INVARIANT_VIOLATIONS), "c").to_pylist()


LISTS = ("differs_in", "brokers")
NOBODY = {**PREDICTED, "leader": -1, "isr": []}


def changed(words: list[str]) -> Row:
    """What differs from DIFFERENCE or VIOLATION. `-`: null."""
    row: Row = {}
    for name, text in (word.split("=", 1) for word in words):
        row[name] = None if text == "-" else text.split(",") if name in LISTS and text else text
        row |= {name: []} if name in LISTS and not text else {}
        row |= {name: NOBODY} if text == "nobody" else {}
    return row


def printed(items: list[str]) -> Iterator[str]:
    given = [item.split() for item in items]
    found = mismatches(*(DIFFERENCE | changed(words) for kind, *words in given if kind == "mismatch"))
    found += violations(*(VIOLATION | changed(words) for kind, *words in given if kind == "violation"))
    yield "->" if found else "-> nothing"
    for row in found:
        assert row["explanation"] == prose(row["reason"])
        yield f"{row['kind']} {row['verdict']} {row['severity']}, rule {row['rule']}, ticket {row['ticket']}"
        span = [row[f"{end}_{name}"] for end in ("start", "end") for name in ("offset", "timestamp_ms")]
        yield f"{row['topic_id']} {row['topic']}-{row['partition']}: {span}"
        assert row["election_offset"] is row["recorded_leader"] is None
        for each in row["reason"]:
            yield f"    {each['nature']} {each['code']} at {each['offset']}: {prose([each])}"
        for each in row["evidence"]:
            place = {name: each[name] for name in PLACE}
            yield f"    {each['role']} of {each['source']} at {each['offset']}: {' '.join(map(str, place.values()))}"


@pytest.mark.parametrize(("items", "shown", "expected"), stories(__file__))
def test_the_findings_of(items: list[str], shown: set[str], expected: list[str]) -> None:
    assert list(printed(items)) == expected


def test_nothing_gives_no_findings() -> None:
    assert rule_mismatch_findings(RULE_DIFFERENCES.empty_table(), "c").schema == FINDINGS
    assert invariant_findings(INVARIANT_VIOLATIONS.empty_table(), "c").schema == FINDINGS


@pytest.mark.parametrize("name", INVARIANTS)
def test_every_invariant_of_the_catalogue_can_be_told(name: str) -> None:
    (found,) = violations({**VIOLATION, "invariant": name})
    assert INVARIANTS[name].definition in statements(found)["invariant_broken"]["text"]


def test_ids_tell_places_and_rules_apart_and_stay() -> None:
    places = [VIOLATION, {**VIOLATION, "start_offset": 21}, {**VIOLATION, "partition": 4}]
    rows = [*places, {**VIOLATION, "invariant": "replicas_distinct"}]
    ids = [f["finding_id"] for f in violations(*rows)]
    assert len(set(ids)) == 4
    assert [f["finding_id"] for f in violations(*reversed(rows))] == ids[::-1]
    assert {f["finding_id"] for f in mismatches(DIFFERENCE)}.isdisjoint(ids)
