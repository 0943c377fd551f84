"""A report of maximum length with made-up rows: as many windows, exposures and faults as the page lists."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import pyarrow as pa

from jobs.report.rows import MAX_DETAILS, MAX_LISTED, ReportInput, Row, Totals
from jobs.report.sections import MAX_STATES
from replay.arrow.schemas import EVIDENCE_ROW, FINDINGS, PARTITION_HISTORY
from replay.findings.kinds import EVIDENCE_GAP, HWM_REGRESSION, LEADERLESS
from replay.incident.answer import COLUMNS, Scope, answer, losses

_START_MS = 1_790_000_000_000
_LISTS = ("now", "timeline", "unknown", "prevention", "plan", "incidents")
_STATES, _PIECES = 2 * MAX_STATES, 4


@cache
def made_up_report() -> ReportInput:
    """The rows of a page with full sections and timelines of maximum length."""
    kinds = ((HWM_REGRESSION, "proven"), (LEADERLESS, "proven"), (EVIDENCE_GAP, "undetermined"))
    findings = [_finding(kind, verdict, number) for kind, verdict in kinds for number in range(MAX_LISTED)]
    found = _answer(findings)
    return ReportInput(
        cluster_id="bench",
        generated_from=["bench"],
        page_one={"losses": losses(found), "cause": "", "incident_count": 0, **dict.fromkeys(_LISTS, ())},
        answer=found,
        plan={"steps": [], "fill_in": {}},
        causes={},
        findings=findings,
        totals=_totals(findings),
        counterfactuals=[],
        timelines={(_topic_id(number), number): _states(number) for number in range(MAX_DETAILS)},
        elections=[],
        quality=[],
        quarantine=[],
        counts={},
        fingerprint="",
    )


def as_json(report: ReportInput) -> int:
    """The length of the page's rows as JSON text."""
    return len(json.dumps([report.findings, list(report.timelines.values())], ensure_ascii=False))


def _topic_id(number: int) -> str:
    return f"topic-id-{number:013d}"


def _row(schema: pa.Schema, **values: Any) -> Row:
    return dict.fromkeys(schema.names) | values


def _place(number: int) -> Row:
    return {"topic_id": _topic_id(number), "topic": f"topic-{number:04d}", "partition": number}


def _finding(kind: str, verdict: str, number: int) -> Row:
    middle = 10 * _STATES // 2
    return _row(
        FINDINGS,
        finding_id=f"{kind}-{number}",
        kind=kind,
        **_place(number),
        start_offset=middle,
        end_offset=middle + 20,
        election_offset=middle + 10,
        start_timestamp_ms=_START_MS + middle,
        end_timestamp_ms=_START_MS + middle + 20,
        verdict=verdict,
        severity="critical",
        loss_min=70,
        loss_max=70,
        first_lost_offset=500,
        recorded_leader=2,
        rule=kind,
        rule_version=1,
        evidence=[_evidence(number, piece) for piece in range(_PIECES)],
        reason=[],
        explanation="The elected leader did not have the whole log. The records that it lacked are lost.",
    )


def _evidence(number: int, piece: int) -> Row:
    names = dict.fromkeys(field.name for field in EVIDENCE_ROW)
    value = {"role": "high_watermark", "source": "replication_offset", "broker_id": piece, "value": 570}
    where = {"capture": "bench", "path": f"broker-{piece}/checkpoint", "sha256": "ab" * 32, "position": number}
    return names | value | where | {"captured_at_ms": _START_MS}


def _states(number: int) -> list[Row]:
    return [_state(number, place) for place in range(_STATES)]


def _state(number: int, place: int) -> Row:
    row = _row(
        PARTITION_HISTORY,
        **_place(number),
        offset=10 * place,
        timestamp_ms=_START_MS + 10 * place,
        replicas=[1, 2, 3],
        isr=[1, 2, 3][place % 3 :],
        elr=[],
        last_known_elr=[],
        leader=1 + place % 3,
        leader_epoch=place,
        partition_epoch=place,
        leader_recovery_state="RECOVERED",
        min_isr=2,
        min_isr_source="topic",
        unclean_leader_election_enable=True,
        unclean_leader_election_enable_source="topic",
        removed=False,
        origin="log",
    )
    return row | {"place": place, "total": _STATES}


def _answer(findings: list[Row]) -> Row:
    windows = [row for row in findings if row["kind"] == HWM_REGRESSION]
    return answer(pa.Table.from_pylist(windows, schema=FINDINGS).select(COLUMNS), Scope([], 0, [], _STATES, _START_MS))


def _totals(findings: list[Row]) -> Totals:
    counted = Counter((row["kind"], row["verdict"]) for row in findings)
    same = {"rule_version": 1, "unended": 0, "lasted_ms": 20, "longest_ms": 20}
    groups = [{"kind": k, "verdict": v, "rule": k, "findings": n} | same for (k, v), n in counted.items()]
    return Totals(groups)
