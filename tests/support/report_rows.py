"""Findings, states and other rows of the HTML report, and small whole reports, for tests of jobs/report."""

import atexit
import json
import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from evidence.tables import QUARANTINE
from jobs.incident.document import page_one_of as page_of
from jobs.incident.events import IncidentEvents
from jobs.incident.lookup import ALL, KEYS
from jobs.incident.plan import as_row
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.report.load import exposures, listed, sections
from replay.arrow.schemas import COUNTERFACTUALS, ELECTIONS, FINDINGS, PARTITION_HISTORY
from replay.findings.kinds import kind_of
from replay.findings.statements import prose, statement
from replay.incident.answer import COLUMNS, AnswerScope, answer
from replay.incident.departures import GONE, KILLED, PAUSED, REBOOTED, STOPPED, UNREGISTERED, Departure
from replay.incident.page_one import page_one
from replay.plan.inputs import PlanInput
from replay.plan.plan import make_plan
from replay.plan.start_order import ELR, Waiting
from replay.plan.step import UNCLEAN
from tests.support.golden import FOLDER

TOPIC_ID = "HS26_evqTuGXhSeNomuVKg"
START_MS = 1_700_000_000_000
SHA256 = "ab" * 32
_ROWS = (FOLDER / "small_report.json").read_text(encoding="utf-8")
_PLACE = tempfile.gettempdir()  # as it is before a test has one of its own


def row(schema: pa.Schema, **values: Any) -> dict[str, Any]:
    assert set(values) <= set(schema.names)
    return dict.fromkeys(schema.names) | values


def lake_of(root: Path, cluster: str, **tables: list[dict[str, Any]]) -> Lake:
    """A lake with these rows of its tables; columns that a row does not have are null."""
    lake = Lake(root)
    if not (root / "findings").exists():
        shutil.copytree(_empty_lake(), root, dirs_exist_ok=True)
    for name, rows in tables.items():
        lake.put(name, cluster, pa.Table.from_pylist(rows, schema=TABLES[name].file_schema))
    return lake


@cache
def _empty_lake() -> Path:
    """Made once in a process: that takes ten times as long as to copy it."""
    folder = Path(tempfile.mkdtemp(dir=_PLACE))
    atexit.register(shutil.rmtree, folder)
    Lake(folder).create()
    return folder


def evidence_file(**values: Any) -> dict[str, Any]:
    sizes = {"size_bytes": 9, "parsed_bytes": 9, "quarantined_bytes": 0, "trailing_bytes": 0}
    return {"capture": "c", "path": "log", "kind": "metadata_segment", "sha256": SHA256, **sizes, **values}


def rows() -> dict[str, Any]:
    """The rows of small_report.json, anew each time."""
    found: dict[str, Any] = json.loads(_ROWS)
    return found


def finding(finding_id: str = "hwm-1", **values: Any) -> dict[str, Any]:
    return row(FINDINGS, finding_id=finding_id, **(rows()["finding"] | values))


def state(offset: int, leader: int, isr: list[int], elr: list[int] | None = None, **values: Any) -> dict[str, Any]:
    epoch = (offset - 100) // 10
    given = rows()["state"] | {"leader_epoch": epoch, "partition_epoch": epoch, "elr": elr or []}
    given |= {"timestamp_ms": START_MS + (offset - 100) * 1000}
    return row(PARTITION_HISTORY, offset=offset, leader=leader, isr=isr, **(given | values))


def history() -> list[dict[str, Any]]:
    return [
        state(100, 3, [3, 2]),
        state(110, -1, [], [3]),
        state(120, 1, [1], leader_recovery_state="RECOVERING"),
        state(130, 1, [1, 3]),
    ]


def placed(states: list[dict[str, Any]], before: int = 0, total: int | None = None) -> list[dict[str, Any]]:
    """States as arguments of a report. before: number of states of the history left out before them."""
    whole = len(states) if total is None else total
    return [each | {"place": before + n, "total": whole, "shown": True} for n, each in enumerate(states)]


def counted(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The totals that jobs/report/load.py computes, by a plain loop."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for each in findings:
        section = "excluded" if each["verdict"] == "excluded" else kind_of(each["kind"]).section.value
        counts[section, each["kind"], each["verdict"], each["rule"], each["rule_version"]] += 1
    names = ("section", "kind", "verdict", "rule", "rule_version")
    return [dict(zip(names, group, strict=True)) | {"findings": count} for group, count in counts.items()]


def all_of(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings of a report, section after section."""
    return [row for found in given["findings"].values() for row in found["rows"]]


def answered(findings: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer that jobs/incident/document.py loads for these findings."""
    windows = pa.Table.from_pylist([f for f in findings if f["kind"] == "hwm_regression"], schema=FINDINGS)
    gaps = [each for each in findings if each["kind"] == "evidence_gap"]
    return answer(windows.select(COLUMNS), AnswerScope(gaps, len(gaps), [], states=4, until_ms=None))


def page_one_of(findings: list[dict[str, Any]], plan: dict[str, Any]) -> dict[str, Any]:
    """Page one of these findings: broker 1 was elected uncleanly in each window, after broker 3."""
    found = answered(findings)
    election = {"cause": "unclean_by_config", "previous_leader": 3, "isr_before": [], "elr_before": [3], "cut": False}
    more = election | {"elected_ms": START_MS + 20_000, "start_offset": 110}
    windows = [row | more for row in (*found["proven"], *found["undecided"])]
    return page_of(found, page_one(found, windows, [], [], PlanInput(current={"ledger": TOPIC_ID})), plan)


def keys_of(findings: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{name: each[name] for name in KEYS.names} for each in findings], schema=KEYS)


def events(findings: list[dict[str, Any]]) -> IncidentEvents:
    """Events of a small cluster: two controllers, a broker that starts again, elections, changed settings, departures
    of every kind, these findings."""
    known = rows()["events"]
    ways = [(STOPPED, False), *((way, True) for way in (STOPPED, KILLED, REBOOTED))]
    ways += [(way, False) for way in (PAUSED, UNREGISTERED, GONE)]
    departures = [
        Departure(3, 105 + n, START_MS + (10 + n) * 1000, way, deduced, unnoticed=False, text="Broker 3 was fenced.")
        for n, (way, deduced) in enumerate(ways)
    ]
    timed = [each for each in findings if each["start_timestamp_ms"] is not None]
    of_windows = [each for each in timed if each["kind"] == "hwm_regression"]
    exposures = [each for each in timed if each["kind"] in ("leaderless", "last_replica_standing")]
    predicted = ("hwm_regression_counterfactual", "unclean_recovery_divergence")
    others = [e for e in timed if e not in of_windows and e not in exposures and e["kind"] not in predicted]
    return IncidentEvents(
        log=(START_MS, START_MS + 60_000),
        shown=(START_MS + 7000, START_MS + 33_000),
        windows=of_windows,
        exposures=exposures,
        others=others,
        departures=[*departures, replace(departures[0], broker_id=4)],
        **known | {"brokers": {3: known["brokers"]}},
        left_out={"elections": 4},
        no_time=1,
    )


def report(findings: list[dict[str, Any]], states: list[dict[str, Any]] | None = None, **values: Any) -> dict[str, Any]:
    """states: of ledger-0, as `placed` gives them; None: those of `history`. values: others than these, of the report
    or its `page`."""
    of_ledger = placed(history()) if states is None else states
    page: dict[str, Any] = {
        "fingerprint": "0123456789abcdef",
        "focus": ALL,
        "totals": counted(findings),
        "elections": [],
        "states": {f["finding_id"]: of_ledger for f in findings if (f["topic_id"], f["partition"]) == (TOPIC_ID, 0)},
        "exposures": exposures(keys_of(findings), by_topic=False),
    }
    page |= {name: values.pop(name) for name in page if name in values}
    given: dict[str, Any] = {
        "page_one": page_one_of(findings, values.get("plan", {"steps": []})),
        "answer": answered(findings),
        "plan": {"steps": [], "fill_in": {}},
        "causes": {},
        "cluster_id": "5L6g3nShT-eMCtK--X86sw",
        "narrowed_to": None,
        "captures": ["capture-1"],
        "findings": sections(listed(pa.Table.from_pylist(findings, schema=FINDINGS)), page["totals"]),
        "policies": [],
        "predictions": [],
        "exposures": exposures(keys_of(findings), by_topic=True),
        "timeline": IncidentEvents(),
        "evidence": {"captures": []},
        "quality": [],
        "quality_runs": [],
        "quarantine": [],
        "rows": {},
        "made_from": {},
        "page": page,
    }
    return given | values


def small_report() -> dict[str, Any]:
    known = rows()
    other, election = row(COUNTERFACTUALS, **known["prediction"]), row(ELECTIONS, **known["election"])
    findings = [
        finding("ok-1", verdict="excluded", loss_min=0, loss_max=0, explanation="The new leader was in the ISR."),
        finding(
            would_be_leader=2,
            policy="unclean_recovery_balanced",
            unacked_min=3,
            unacked_max=5,
            evidence=[known["evidence"]],
            reason=window_reason(),
        ),
        prediction("would-1"),
        finding("hwm-2", partition=1, loss_max=75, reason=[]),
        exposure("leaderless-1"),
        exposure("leaderless-2", 65_000, "exposed_for_at_least", partition=1, end_offset=None, end_timestamp_ms=None),
        exposure("leaderless-3", 3_600_000, partition=2),
        exposure("alone-1", kind="last_replica_standing", partition=3),
        cut_log("cut-1"),
        broken_rule("rule-1"),
        fault("gap-1"),
    ]
    unknown = ("replicas", "isr", "elr", "leader", "leader_epoch", "timestamp_ms", "leader_recovery_state")
    gone = state(140, -1, [], removed=True) | dict.fromkeys(unknown)
    hidden = state(135, -1, []) | {"isr": None, "leader": None, "leader_epoch": None}
    shipped = other | {"policy": "profile_4.3", "leader": 1, "differs": False, "loss_min": 70, "loss_max": 70}
    return report(
        findings,
        plan=small_plan(),
        causes={"hwm-1": ["From then on.", "Broker 3.", "[3] to [].", "Broker 1.", "At least 70 are gone."]},
        predictions=[other, shipped, shipped | {"policy": "profile_4.0"}, other | {"policy": "min_isr_3"}],
        states=placed([*history(), hidden, gone]),
        elections=[election],
        quality=[known["check"]],
        quality_runs=[{"run_at_ms": START_MS + n, "expectations": 154, "failed": n, "warned": 7} for n in (0, 31)],
        quarantine=[row(QUARANTINE, **known["quarantined"])],
        rows={"findings": 7, "partition_history": 4},
        timeline=events(findings),
        policies=[policy("profile_4.3"), policy("min_isr_3", loss_min=0, loss_max=0, differs=1)],
        evidence=known["captured"],
    )


def policy(name: str, **values: Any) -> dict[str, Any]:
    given = {"windows": 2, "elected": 1, "waits": 1, "undetermined": 0, "differs": 0, "loss_min": 70, "loss_max": None}
    return {"policy": name} | given | values


def small_plan() -> dict[str, Any]:
    """A plan with facts, assumptions, predictions and commands."""
    config = {"resource_type": "topic", "resource_name": "audit", "effective_value": "1"}
    configs = [config | {"name": "min.insync.replicas", "source": "assumed_default"}]
    configs.append(config | {"resource_name": "ledger", "name": UNCLEAN, "effective_value": "true", "source": "topic"})
    waiting = Waiting(TOPIC_ID, "ledger", (1, 2, 3), (3,), ELR)
    down = {"incarnation_id": "i", "fenced": True, "in_controlled_shutdown": True, "offset": 98, "broker_epoch": 20}
    return as_row(make_plan(PlanInput([waiting], configs=configs, brokers=dict.fromkeys((1, 2, 3), down))))


def window_reason() -> list[dict[str, Any]]:
    """Statements of each nature, for a loss in one of Kafka's own topics."""
    return [
        statement("elected", [1], offset=120, leader_epoch=2, text="__consumer_offsets-0"),
        statement("log_end", value=500),
        statement("lost_at_least", value=70),
        statement("clocks", value=250),
        statement("consumer_offsets"),
        statement("would_elect", [2]),
    ]


def other_kind(finding_id: str, **values: Any) -> dict[str, Any]:
    """A finding that is not a window and has no loss bounds."""
    nothing = dict.fromkeys(("election_offset", "loss_min", "loss_max", "first_lost_offset", "recorded_leader"))
    given = {"severity": "medium", "rule": values["kind"]}
    return finding(finding_id, **(nothing | given | values))


def prediction(finding_id: str, **values: Any) -> dict[str, Any]:
    """A prediction: under Kafka 4.0's rules the window of `finding()` would have lost more."""
    given = {
        "kind": "hwm_regression_counterfactual",
        "verdict": "possible",
        "severity": "low",
        "loss_min": 90,
        "loss_max": None,
        "first_lost_offset": None,
        "would_be_leader": 3,
        "policy": "profile_4.0",
        "reason": [statement("policy_elects", [3], text="profile_4.0")],
        "explanation": "Prediction: under profile_4.0 broker 3 would have led.",
    }
    return finding(finding_id, **(given | values))


def exposure(finding_id: str, lasted: int = 20_000, code: str = "exposed_for", **values: Any) -> dict[str, Any]:
    reason = [
        statement("leader_lost", [3], offset=110, leader_epoch=1),
        statement(code, value=lasted),
        statement("leaderless_means"),
    ]
    given = {"kind": "leaderless", "reason": reason, "explanation": prose(reason)}
    given |= {"lasted_ms": lasted, "lasted_at_least": code == "exposed_for_at_least"}
    return other_kind(finding_id, **(given | values))


def cut_log(finding_id: str, **values: Any) -> dict[str, Any]:
    reason = [
        statement("log_end_before", [2], value=560, text="2023-11-14 22:13:25.000 UTC"),
        statement("log_end_after", value=500, text="2023-11-14 22:13:45.000 UTC"),
        statement("tail_lost", value=60),
        statement("one_copy_less"),
    ]
    place = {"capture": "capture-1", "path": "broker-2/log-start-offset", "sha256": SHA256, "position": 4}
    blank = dict.fromkeys(("leader_epoch", "offset", "captured_at_ms")) | {"source": "log_end", "broker_id": 2}
    evidence = [blank | place | {"role": role, "value": value} for role, value in (("before", 560), ("after", 500))]
    content = {"reason": reason, "explanation": prose(reason), "evidence": evidence}
    content |= {"broker_id": 2, "value_before": 560, "value_after": 500}
    return other_kind(finding_id, **({"kind": "log_truncation"} | content | values))


def broken_rule(finding_id: str, **values: Any) -> dict[str, Any]:
    reason = [
        statement("invariant_broken", text="No replica is in the ISR and in the ELR."),
        statement("invariant_means", text="One copy is counted twice."),
    ]
    given = {"kind": "invariant_violation", "rule": "isr_and_elr_disjoint"}
    return other_kind(finding_id, **(given | {"reason": reason, "explanation": prose(reason)} | values))


def fault(finding_id: str, **values: Any) -> dict[str, Any]:
    nowhere = dict.fromkeys(("topic", "topic_id", "partition", "end_offset"))
    text = "offsets 40 to 49 are in no captured file"
    content = {"reason": [statement("fault", text=text)], "explanation": text}
    given = {"kind": "evidence_gap", "rule": "offset_gap", "verdict": "undetermined"}
    return other_kind(finding_id, **(nowhere | content | given | values))
