"""The verdict document: the findings of one cluster as one JSON object for programs (docs/verdict.md).

As in Jepsen, `valid` is true, false or "unknown": if evidence is missing, the result is not called valid. The files of
a lake are verdict-<cluster>.json for each cluster, and verdict.json, the index over them.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from operator import itemgetter

from evidence.capture.remote import Location, Remote, location
from jobs.console.version import tool_version
from jobs.incident.document import load_incident, log_range
from jobs.lake.integrity import made_from
from jobs.lake.lake import Lake, Row
from jobs.lake.storage import delete, first_bytes, within, write_whole
from jobs.report.page import HEAD_BYTES, fingerprint_in
from jobs.report.rows import counted
from jobs.report.stage import file_of
from jobs.verdict.status import ACKNOWLEDGED, KEY, NEW, STATUS, STATUSES, with_status
from jobs.views.in_duckdb import ask
from replay.findings.kinds import EVIDENCE_GAP, HWM_REGRESSION
from replay.loss.verdicts import EXCLUDED, PROVEN, SEVERITIES, VERDICTS

WITNESSES = 3
MOST_IDS = 100

_GROUP = ("kind", "verdict", "severity", "rule", "rule_version")


def document(lake: Lake, cluster: str, report: str | None = None, running: bool = False) -> Row:
    """The document of a cluster. Only a few columns of all findings are held, and the prose only of the witnesses.
    report: where the report is, null if unknown. running: as in `with_status`."""
    of, columns = (lake, cluster), tuple(dict.fromkeys((*_GROUP, *KEY, "loss_min", "loss_max", "start_offset")))
    findings = with_status(lake, cluster, lake.read("findings", cluster, columns), running)
    ranks = {"severities": list(SEVERITIES)}
    of_status: dict[str, Row] = {name: {"findings": 0, "ids": []} for name in STATUSES}
    of_status |= {r[STATUS]: r for r in ask("verdict/by_status", values=ranks | {"most": MOST_IDS}, given=findings)}
    captures = lake.captures(cluster)
    known = {
        "cluster_id": cluster,
        **load_incident(lake, cluster),
        "log": log_range(lake, cluster),
        "report": report,
        "status": {
            **{name: row["findings"] for name, row in of_status.items()},
            "new_finding_ids": of_status[NEW]["ids"],
            "acknowledged_finding_ids": of_status[ACKNOWLEDGED]["ids"],
        },
        "evidence": {
            "captures": sorted(captures),
            "files": sum(captures.values()),
            "quarantined": lake.count("quarantine", cluster),
            "partition_states": lake.count("partition_history", cluster),
        },
        "made_from": made_from(lake, cluster),
    }
    witnesses = ask("verdict/worst", of, ranks | {"most": WITNESSES}, given=findings)
    return assembled(known, ask("verdict/groups", given=findings), witnesses)


def assembled(known: Row, groups: Sequence[Row], witnesses: Sequence[Row]) -> Row:
    """The document, with its keys in the order of docs/verdict.md. known: those keys that `groups` and `witnesses` do
    not give; groups: a row for each kind, verdict, severity and rule (_GROUP); witnesses: the worst findings of each
    kind, in order."""
    windows = [g for g in groups if g["kind"] == HWM_REGRESSION]
    conflicts = (g["kind"] != HWM_REGRESSION and (g["verdict"], g["severity"]) == (PROVEN, "critical") for g in groups)
    # Windows may be missing: a gap in the evidence, a log that contradicts itself, or no state to judge.
    gaps = any(conflicts) or any(g["kind"] == EVIDENCE_GAP for g in groups)
    hidden = gaps or not known["evidence"]["partition_states"]
    kinds = sorted({g["kind"] for g in groups})
    by_kind = {kind: counted([g for g in groups if g["kind"] == kind], "verdict", VERDICTS) for kind in kinds}
    judged = counted(windows, "verdict", VERDICTS)
    least, most = (int(sum(g[name] or 0 for g in windows)) for name in ("loss_min", "loss_max"))
    return {
        "valid": _valid(groups, hidden),
        "cluster_id": known["cluster_id"],
        "tool_version": tool_version(),
        **{name: known[name] for name in ("log", "report", "page_one", "answer", "plan")},
        "rule_versions": dict(sorted((g["rule"], g["rule_version"]) for g in groups if g["rule"] is not None)),
        "kinds": kinds,
        "counts": {kind: {verdict: count for verdict, count in by_kind[kind].items() if count} for kind in kinds},
        "severities": counted(groups, "severity", SEVERITIES),
        "status": known["status"],
        "windows": {"judged": sum(judged.values()), **judged},
        "loss": {
            "acks_all_min": least,
            # null if any window has no upper bound, or some may be missing
            "acks_all_max": None if hidden or any(g["open_losses"] for g in windows) else most,
            "by_topic": _by_topic(known["answer"]),
        },
        "witnesses": {
            kind: [{n: row[n] for n in row if n != "kind"} for row in witnesses if row["kind"] == kind]
            for kind in kinds
        },
        "evidence": known["evidence"],
        "made_from": known["made_from"],
    }


def _valid(groups: Sequence[Row], hidden: bool) -> bool | str:
    """false: a loss is proven, or that the log contradicts itself. "unknown": neither is proven, but one may be hidden:
    an undecided window, a gap in the evidence, or no partition state to judge. true: otherwise."""
    proven = [g for g in groups if g["verdict"] == PROVEN]
    if any(g["kind"] == HWM_REGRESSION or g["severity"] == "critical" for g in proven):
        return False
    undecided = any(g["kind"] == HWM_REGRESSION and g["verdict"] != EXCLUDED for g in groups)
    return "unknown" if undecided or hidden else True


def _by_topic(answer: Row) -> list[Row]:
    """The same sums for each topic with a proven loss, the largest first."""
    keys = ("topic", "topic_id", "partitions", "acks_all_min", "acks_all_max")
    values = itemgetter("topic", "topic_id", "partitions_lost", "records_min", "records_max")
    return [dict(zip(keys, values(topic), strict=True)) for topic in answer.get("topics", ()) if topic["proven"]]


_INDEX, _INDEX_BYTES = "verdict.json", 1 << 26
# Worst first: the index has the worst of its clusters.
_VALID: tuple[bool | str, ...] = (False, "unknown", True)


def write_document(lake: Lake, found: Row, clusters: Sequence[str]) -> Location:
    """Write a cluster's document, bring the index up to date, and delete what is stale: documents and reports of
    clusters that the lake no longer has, and reports that have moved. clusters: all of the lake. Returns where the
    document is. Errors: KraftForensicsError if a file cannot be written."""
    index, cluster = within(lake.root, _INDEX), found["cluster_id"]
    target, before = file_of(index, cluster), _entries(lake)
    rows = {name: row for name, row in before.items() if name in clusters} | {
        cluster: {
            "cluster_id": cluster,
            "valid": found["valid"],
            "answer": next(iter(found["answer"]["text"]), None),
            "verdict": str(target).rpartition("/")[2],
            "report": found["report"] and found["report"].removeprefix(f"{_folder(lake)}/"),
            "log": found["log"],
            "status": {name: found["status"][name] for name in ("new", "known", "acknowledged")},
        }
    }
    valid = next(value for value in _VALID if any(row["valid"] == value for row in rows.values()))
    whole = {"valid": valid, "tool_version": tool_version(), "clusters": [rows[name] for name in sorted(rows)]}
    for file, content in ((target, found), (index, whole)):
        # json.dumps writes ASCII, so a captured name cannot control a terminal.
        write_whole(file, json.dumps(content, indent=2) + "\n")
    for name in before.keys() - rows.keys():
        delete(file_of(index, name))
    for page in {row["report"] for row in before.values()} - {row["report"] for row in rows.values()}:
        if (stale := _page(lake, page)) is not None:
            delete(location(stale))
    return target


def report_of(lake: Lake, cluster: str) -> str | None:
    """Where the index says that a cluster's report is; None if it names none, or no report is there."""
    return _page(lake, _entries(lake).get(cluster, {}).get("report"))


def _folder(lake: Lake) -> str:
    return lake.root.url.rstrip("/") if isinstance(lake.root, Remote) else str(lake.root.absolute())


def _page(lake: Lake, named: str | None) -> str | None:
    """Where a page is that the index names, None without one there. One in the lake is named relative to that, so that
    both can be moved."""
    if named is None:
        return None
    page = named if named.startswith("/") or "://" in named else f"{_folder(lake)}/{named}"
    return page if fingerprint_in(first_bytes(location(page), HEAD_BYTES)) is not None else None


def _entries(lake: Lake) -> dict[str, Row]:
    """The entries of the index as it is, by cluster; none if there is no index, or another file in its place."""
    with suppress(ValueError, KeyError, TypeError):
        rows = json.loads(first_bytes(within(lake.root, _INDEX), _INDEX_BYTES))["clusters"]
        return {str(row["cluster_id"]): {**row, "report": row.get("report")} for row in rows}
    return {}
