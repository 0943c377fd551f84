"""Findings of changes that are not as the rules have them, and of broken invariants."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from replay.arrow.schemas import FINDINGS, RULE_DIFFERENCES
from replay.findings.broken_rules import INVARIANT_VIOLATION, RULE_MISMATCH, invariant_findings, rule_mismatch_findings
from replay.findings.statements import prose
from replay.invariants.catalogue import INVARIANT_VIOLATIONS, INVARIANTS
from tests.support.detection import statements
from tests.support.scenario import TOPIC_ID

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


def said(finding: Row) -> dict[str, Row]:
    assert finding["explanation"] == prose(finding["reason"])
    assert "None" not in finding["explanation"]
    return statements(finding)


def test_a_known_bug_is_proven() -> None:
    (found,) = mismatches(DIFFERENCE)
    assert (found["kind"], found["verdict"], found["severity"]) == (RULE_MISMATCH, "proven", "medium")
    assert (found["rule"], found["start_offset"], found["start_timestamp_ms"]) == ("4.3", 20, 20_000)
    assert (found["topic_id"], found["topic"], found["partition"]) == (TOPIC_ID, "t", 3)
    assert found["end_offset"] is found["election_offset"] is found["recorded_leader"] is None
    told = said(found)
    assert told["rule_change"]["text"] == "leader, isr"
    assert (told["rule_trigger"]["text"], told["rule_trigger"]["offset"]) == ("unfence", 19)
    assert told["rule_known_bug"]["text"] == found["ticket"] == "KAFKA-19522"
    assert told["rule_predicts_leader"]["brokers"] == [2]
    assert (told["rule_predicts_isr"]["brokers"], told["rule_predicts_isr"]["nature"]) == ([2, 3], "prediction")
    assert not {"rule_predicts_elr", "rule_unexplained", "rule_no_trigger"} & set(told)
    (shown,) = found["evidence"]
    assert {name: shown[name] for name in PLACE} == PLACE
    assert (shown["role"], shown["source"], shown["offset"]) == ("change", "rule_differences", 20)


def test_what_nothing_explains_is_possible_and_worth_a_look() -> None:
    unexplained = {**DIFFERENCE, "difference": "unexplained", "reason": None, "trigger": None, "trigger_offset": None}
    (found,) = mismatches({**unexplained, "differs_in": ["elr", "last_known_elr"]})
    assert (found["verdict"], found["severity"]) == ("possible", "high")
    told = said(found)
    assert {"rule_unexplained", "rule_no_trigger"} <= set(told)
    assert told["rule_predicts_elr"]["brokers"] == [1]
    assert "rule_predicts_leader" not in told
    (nothing,) = mismatches({**unexplained, "predicted": None, "profile": None, "differs_in": ["leader"]})
    assert nothing["rule"] == RULE_MISMATCH
    assert not any(code.startswith("rule_predicts") for code in said(nothing))


def test_a_prediction_of_no_leader_is_said_so() -> None:
    (found,) = mismatches({**DIFFERENCE, "predicted": {**PREDICTED, "leader": -1, "isr": []}})
    told = said(found)
    assert "rule_predicts_none" in told
    assert "rule_predicts_leader" not in told
    assert told["rule_predicts_isr"]["brokers"] == []


def test_what_is_not_decided_stays_in_its_table() -> None:
    rows = [{**DIFFERENCE, "difference": name} for name in ("profiles_disagree", "unknown_input", "known_bug")]
    assert len(mismatches(*rows)) == 1
    assert mismatches(*rows[:2]) == mismatches() == violations() == []
    assert rule_mismatch_findings(RULE_DIFFERENCES.empty_table(), "c").schema == FINDINGS
    assert invariant_findings(INVARIANT_VIOLATIONS.empty_table(), "c").schema == FINDINGS


def test_a_broken_invariant_is_proven_and_as_severe_as_the_catalogue_has_it() -> None:
    (found,) = violations(VIOLATION)
    assert (found["kind"], found["verdict"], found["severity"]) == (INVARIANT_VIOLATION, "proven", "critical")
    assert (found["rule"], found["start_offset"], found["end_offset"]) == ("leader_in_isr", 20, 30)
    assert (found["start_timestamp_ms"], found["end_timestamp_ms"]) == (20_000, 30_000)
    told = said(found)
    assert told["invariant_broken"]["text"] == INVARIANTS["leader_in_isr"].definition
    assert (told["invariant_means"]["text"], told["invariant_means"]["nature"]) == (
        INVARIANTS["leader_in_isr"].meaning,
        "meaning",
    )
    assert (told["invariant_detail"]["text"], told["invariant_detail"]["offset"]) == ("leader=1 isr=[2]", 20)
    assert (told["invariant_brokers"]["brokers"], told["invariant_rows"]["value"]) == ([1], 2)
    (shown,) = found["evidence"]
    assert {name: shown[name] for name in PLACE} == PLACE
    assert shown["role"] == "violation"


def test_a_violation_of_the_log_itself_has_no_partition() -> None:
    of_log = {"topic_id": None, "topic": None, "partition": None, "brokers": [], "detail": "", "end_offset": None}
    (found,) = violations({**VIOLATION, **of_log, "invariant": "one_leader_per_epoch"})
    assert found["topic_id"] is found["topic"] is found["partition"] is found["end_offset"] is None
    assert not {"invariant_detail", "invariant_brokers"} & set(said(found))


@pytest.mark.parametrize("name", INVARIANTS)
def test_every_invariant_of_the_catalogue_can_be_told(name: str) -> None:
    (found,) = violations({**VIOLATION, "invariant": name})
    assert INVARIANTS[name].definition in said(found)["invariant_broken"]["text"]


def test_ids_tell_places_and_rules_apart_and_stay() -> None:
    places = [VIOLATION, {**VIOLATION, "start_offset": 21}, {**VIOLATION, "partition": 4}]
    rows = [*places, {**VIOLATION, "invariant": "replicas_distinct"}]
    ids = [f["finding_id"] for f in violations(*rows)]
    assert len(set(ids)) == 4
    assert [f["finding_id"] for f in violations(*reversed(rows))] == ids[::-1]
    assert {f["finding_id"] for f in mismatches(DIFFERENCE)}.isdisjoint(ids)
