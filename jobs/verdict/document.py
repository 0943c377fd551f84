"""The verdict document: the findings of one cluster as one JSON object for programs (docs/verdict.md).

As in Jepsen, `valid` is true, false or "unknown": if evidence is missing, the result is not called valid.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evidence.capture.remote import Location
from evidence.errors import KraftForensicsError
from jobs.incident.advice import load_advice
from jobs.incident.answer import load_answer
from jobs.lake.files import write_whole
from jobs.lake.lake import Lake
from replay.findings.kinds import EVIDENCE_GAP, GAPS
from replay.loss.verdicts import SEVERITIES, VERDICTS

Row = dict[str, Any]

WITNESSES = 3
UNKNOWN = "unknown"
_WINDOW = "hwm_regression"
# Lakes of earlier releases have a separate kind for each type of gap.
_GAPS = {EVIDENCE_GAP, *GAPS}

_GROUP = ("kind", "verdict", "severity", "rule", "rule_version")
_WITNESS = (
    "kind",
    "finding_id",
    "topic",
    "partition",
    "verdict",
    "severity",
    "start_offset",
    "start_timestamp_ms",
    "loss_min",
    "loss_max",
    "explanation",
)


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of a cluster's findings. groups: a row for each kind, verdict, severity and rule (_GROUP). witnesses: the
    worst findings of each kind, in order. captures: capture name -> number of files. states: rows of
    partition_history. answer, advice: see replay/incident/answer.py, advice.py."""

    cluster_id: str
    answer: Row
    advice: Sequence[Row]
    groups: Sequence[Mapping[str, Any]]
    witnesses: Sequence[Row]
    captures: Mapping[str, int]
    quarantined: int
    states: int


def summarize(lake: Lake, cluster: str) -> Summary:
    """Load what `document` needs. Only a few columns of all findings are held, and the prose only of the witnesses."""
    columns = tuple(dict.fromkeys((*_GROUP, "loss_min", "loss_max", "start_offset", "finding_id")))
    findings = lake.read("findings", cluster, columns)
    chosen = _witness_ids(findings)
    rows = {r["finding_id"]: r for r in lake.rows("findings", cluster, _WITNESS, pc.field("finding_id").isin(chosen))}
    return Summary(
        cluster_id=cluster,
        answer=load_answer(lake, cluster),
        advice=load_advice(lake, cluster),
        groups=_groups(findings),
        witnesses=[rows[finding_id] for finding_id in chosen.to_pylist()],
        captures=lake.captures(cluster),
        quarantined=lake.count("quarantine", cluster),
        states=lake.count("partition_history", cluster),
    )


def _groups(findings: pa.Table) -> list[Row]:
    # Sums as decimals: what damaged files claim may not fit into 64 bits.
    losses = {name: findings[name].cast(pa.decimal128(38, 0)) for name in ("loss_min", "loss_max")}
    table = pa.table({**{name: findings[name] for name in _GROUP}, **losses, "open": findings["loss_max"].is_null()})
    wanted = [("loss_min", "sum"), ("loss_max", "sum"), ("open", "sum"), ([], "count_all")]
    named = {"loss_min_sum": "loss_min", "loss_max_sum": "loss_max", "open_sum": "open_losses", "count_all": "findings"}
    counted = table.group_by(_GROUP).aggregate(wanted)
    rows: list[Row] = counted.rename_columns([named.get(n, n) for n in counted.column_names]).to_pylist()
    return rows


def _witness_ids(findings: pa.Table) -> pa.Array:
    """The ids of the witnesses: the worst findings of each kind, in order."""
    rank = pc.index_in(findings["severity"], value_set=pa.array(SEVERITIES)).fill_null(-1)
    order = [(name, "ascending") for name in ("kind", "rank", "start_offset", "finding_id")]
    ordered = findings.append_column("rank", rank).sort_by(order)
    ids = [
        ordered["finding_id"].filter(pc.equal(ordered["kind"], kind)).slice(0, WITNESSES)
        for kind in ordered["kind"].unique()
    ]
    return pa.array([finding_id for kind in ids for finding_id in kind.to_pylist()], pa.string())


def document(found: Summary) -> Row:
    """The document, with its keys in the order of docs/verdict.md."""
    windows = [g for g in found.groups if g["kind"] == _WINDOW]
    kinds = sorted({g["kind"] for g in found.groups})
    judged = _by(windows, "verdict", VERDICTS)
    return {
        "valid": _valid(found),
        "cluster_id": found.cluster_id,
        "answer": found.answer,
        "advice": list(found.advice),
        "rule_versions": dict(sorted((g["rule"], g["rule_version"]) for g in found.groups if g["rule"] is not None)),
        "kinds": kinds,
        "counts": {k: _nonzero(_by([g for g in found.groups if g["kind"] == k], "verdict", VERDICTS)) for k in kinds},
        "severities": _by(found.groups, "severity", SEVERITIES),
        "windows": {"judged": sum(judged.values()), **judged},
        "loss": _loss(windows),
        "witnesses": {kind: [_witness(w) for w in found.witnesses if w["kind"] == kind] for kind in kinds},
        "evidence": {
            "captures": sorted(found.captures),
            "files": sum(found.captures.values()),
            "quarantined": found.quarantined,
            "partition_states": found.states,
        },
    }


def _valid(found: Summary) -> bool | str:
    """false: a loss is proven, or that the log contradicts itself. "unknown": neither is proven, but one may be hidden:
    an undecided window, a gap in the evidence, or no partition state to judge. true: otherwise."""
    proven = [g for g in found.groups if g["verdict"] == "proven"]
    if any(g["kind"] == _WINDOW or g["severity"] == "critical" for g in proven):
        return False
    undecided = any(g["kind"] == _WINDOW and g["verdict"] != "excluded" for g in found.groups)
    gap = any(g["kind"] in _GAPS for g in found.groups)
    return UNKNOWN if undecided or gap or not found.states else True


def _by(groups: Iterable[Mapping[str, Any]], column: str, names: Sequence[str]) -> dict[str, int]:
    counts = dict.fromkeys(names, 0)
    for group in groups:
        counts[group[column]] += group["findings"]
    return counts


def _nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _loss(windows: Sequence[Mapping[str, Any]]) -> dict[str, int | None]:
    """Sums over all windows; the maximum is null if any of them has no upper bound."""
    is_open = any(g["open_losses"] for g in windows)
    least, most = (int(sum(g[name] or 0 for g in windows)) for name in ("loss_min", "loss_max"))
    return {"acks_all_min": least, "acks_all_max": None if is_open else most}


def _witness(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "kind"}


def write_verdict(found: Row, path: Location) -> None:
    """Write a document completely or not at all. Errors: KraftForensicsError if it cannot be written."""
    try:
        # json.dumps writes ASCII, so a captured name cannot control a terminal.
        write_whole(path, json.dumps(found, indent=2) + "\n")
    except OSError as error:
        raise KraftForensicsError(
            f"{path}: cannot be written: {error.strerror or error}. Name another file with --verdict."
        ) from error
