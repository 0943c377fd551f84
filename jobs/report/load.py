"""Load the rows of a cluster's report from the lake: the first rows of each list, and totals of all."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from jobs.incident.document import load_causes, load_incident, load_node_logs
from jobs.incident.events import FINDING, load_events
from jobs.incident.lookup import ALL, KEYS, Focus, among, ordered
from jobs.ingest.captures import named_releases
from jobs.lake.integrity import made_from
from jobs.lake.lake import Lake
from jobs.lake.tables import CLUSTER_ID
from jobs.report.rows import MAX_DETAILS, MAX_LISTED, MAX_STATES, Row, counted
from jobs.views.in_duckdb import ask
from replay.arrow.runs import groups
from replay.controller.profiles import kafka_release
from replay.findings.kinds import Section, of_section

MAX_FILES = 300
MAX_QUALITY_RUNS = 10
MAX_GROUPS = 100  # of exposures
CONTEXT_STATES = 10  # before a window that is too long to show completely
# The columns of elections that the page shows.
ELECTION_COLUMNS = (
    *("topic_id", "partition", "offset", "timestamp_ms", "cause", "previous_leader", "leader", "leader_epoch"),
    *("isr_before", "elr_before", "candidates"),
)
_COUNTED = (
    *("evidence_files", "metadata_records", "log_end_offsets", "partition_history", "elections"),
    *("findings", "quarantine"),
)
# The tables that the rows come from.
TABLES_SHOWN = (
    *_COUNTED,
    *("counterfactuals", "quality_results", "broker_history", "config_history", "feature_history", "quorum_history"),
    *("captures", "boot_ids"),
)
_STATE_KEY = ("topic_id", "partition", "offset")
_WINDOW = ("finding_id", "topic_id", "partition", "start_offset", "election_offset", "end_offset")
_SOUGHT = pa.schema([KEYS.field(name) for name in _WINDOW])
# The columns beside KEYS by which findings are counted (totals.sql).
RULES = ("rule", "rule_version")
_PREDICTED = ("policy", "outcome", "loss_min", "loss_max", "differs")


def load_report(
    lake: Lake, cluster: str, fingerprint: str = "", focus: Focus = ALL, document: Row | None = None
) -> Row:
    """The report of a cluster as JSON has it (docs/report.md), its `timeline` as IncidentEvents, and with `page`, what
    only the page shows. focus: what its findings are narrowed to. document: the verdict of all of them, made of the
    same tables; its answer and plan are not loaded again.

    page: fingerprint: of the tables; focus; totals: rows {section, kind, verdict, rule, rule_version, findings} of all
    findings; states: finding_id -> rows of states.sql, around its window in order; elections: ELECTION_COLUMNS of
    ELECTIONS at those offsets; exposures: see below, by kind.
    """
    incident = document or load_incident(lake, cluster, focus)
    keys = _keys(lake, cluster, focus)
    ids = pa.concat_tables(_firsts(keys).values())["finding_id"].to_pylist()
    findings = listed(lake.read("findings", cluster, where=among("finding_id", ids)))
    totals = ask("report/totals", given=keys)
    detailed = findings[Section.WINDOWS][:MAX_DETAILS]
    states, elections = _histories(lake, cluster, detailed)
    logs = load_node_logs(lake, cluster)
    made = made_from(lake, cluster)
    shown = {name: at for name, at in made["tables"].items() if name in TABLES_SHOWN}
    newest_run = pc.field("run_id") == str(lake.made("quality_results", cluster).get("run_id", ""))
    of_detailed = among("finding_id", (row["finding_id"] for row in detailed))
    return {
        "cluster_id": cluster,
        "narrowed_to": asdict(focus) if focus.narrows else None,
        "captures": list(lake.captures(cluster)),
        **{name: incident[name] for name in ("page_one", "answer", "plan")},
        "causes": load_causes(lake, cluster, detailed, logs),
        "findings": sections(findings, totals),
        "policies": _policies(lake, cluster, keys, focus),
        "predictions": lake.rows("counterfactuals", cluster, where=of_detailed) if detailed else [],
        "exposures": exposures(keys, by_topic=True),
        "timeline": load_events(lake, cluster, keys, focus, logs),
        "evidence": load_captured(lake, cluster),
        "quality": lake.rows("quality_results", cluster, where=newest_run),
        "quality_runs": ask("report/quality_runs", (lake, cluster), {"most": MAX_QUALITY_RUNS}),
        "quarantine": ask("report/quarantine", (lake, cluster), {"most": MAX_LISTED}),
        "rows": {name: lake.count(name, cluster) for name in _COUNTED},
        "made_from": made | {"engine": lake.made("findings", cluster).get("engine"), "tables": shown},
        "page": {
            "fingerprint": fingerprint,
            "focus": focus,
            "totals": totals,
            "states": states,
            "elections": elections,
            "exposures": exposures(keys, by_topic=False),
        },
    }


def sections(findings: Mapping[Section, list[Row]], totals: Iterable[Row]) -> dict[Section, Row]:
    """`findings` of the report: of each section {total, left_out, rows}. totals: of load_report."""
    counts = counted(totals, "section", Section)
    return {
        section: {"total": counts[section], "left_out": counts[section] - len(rows), "rows": rows}
        for section, rows in findings.items()
    }


def _keys(lake: Lake, cluster: str, focus: Focus) -> pa.Table:
    """The columns of all findings that determine the page's totals and timeline, in its order, with their sections."""
    names = dict.fromkeys([*KEYS.names, *RULES, *FINDING])
    return ordered(lake.read("findings", cluster, [*names], focus.findings()), *Section)


def _policies(lake: Lake, cluster: str, keys: pa.Table, focus: Focus) -> list[Row]:
    # The ids of a million windows take more memory than everything else here: only a narrowed report reads them.
    names = ("finding_id", *_PREDICTED) if focus.narrows else _PREDICTED
    rows = lake.read("counterfactuals", cluster, names)
    if focus.narrows:
        rows = rows.filter(pc.is_in(rows["finding_id"], value_set=keys["finding_id"].combine_chunks()))
    return policy_totals(rows)


def listed(findings: pa.Table) -> dict[Section, list[Row]]:
    """The first MAX_LISTED findings of each section in order. findings: FINDINGS."""
    return {
        section: rows.drop_columns("section").to_pylist()
        for section, rows in _firsts(ordered(findings, *Section)).items()
    }


def _firsts(findings: pa.Table) -> dict[Section, pa.Table]:
    return {each: findings.filter(pc.field("section") == each.value).slice(0, MAX_LISTED) for each in Section}


def _histories(lake: Lake, cluster: str, findings: list[Row]) -> tuple[dict[str, list[Row]], list[Row]]:
    """`states` and `elections` of the page, of these findings."""
    if not findings:
        return {}, []
    values, sought = {"most": MAX_STATES, "context": CONTEXT_STATES}, pa.Table.from_pylist(findings, _SOUGHT)
    # Arrow leaves out the other rows before DuckDB sees their lists.
    own = [among(name, sought[name].to_pylist()) for name in ("topic_id", "partition")]
    where = (pc.field(CLUSTER_ID) == cluster) & own[0] & own[1]
    history = lake.dataset("partition_history", as_codes=True).filter(where)
    states = ask("report/states", values=values, sought=sought, partition_history=history)
    shown = {tuple(row[name] for name in _STATE_KEY) for row in states}
    wanted = among("topic_id", (row["topic_id"] for row in states)) & among("offset", (row["offset"] for row in states))
    elections = lake.rows("elections", cluster, ELECTION_COLUMNS, wanted)
    elections = [row for row in elections if tuple(row[name] for name in _STATE_KEY) in shown]
    return groups(states, itemgetter("finding_id")), elections


def load_captured(lake: Lake, cluster: str) -> Row:
    """What the evidence of a cluster consists of. releases: names of Kafka releases in manifests, else those that nodes
    printed as they started, Confluent's as "4.1 (8.1.0-ccs)"; profiles: rule profiles that the controllers may have run
    (docs/rules.md); features: name -> level at the log's end; captures, nodes, files: rows of captures.sql, nodes.sql
    and files.sql, at most MAX_FILES; file_count: of all."""
    of = lake, cluster
    printed = lake.read("node_boots", cluster, ("kafka_version",))["kafka_version"].unique().drop_null()
    versions = named_releases(lake.rows("captures", cluster)) or sorted(printed.to_pylist())
    features = lake.rows("feature_history", cluster, ("name", "level"), pc.field("end_offset").is_null())
    return {
        "releases": [v if (release := kafka_release(v)) == v else f"{release} ({v})" for v in versions],
        "profiles": [row["profile"] for row in ask("report/profiles", of)],
        "features": {row["name"]: row["level"] for row in sorted(features, key=lambda row: row["name"])},
        "captures": ask("report/captures", of),
        "nodes": ask("report/nodes", of, {"most": MAX_FILES}),
        "files": ask("report/files", of, {"most": MAX_FILES}),
        "file_count": lake.count("evidence_files", cluster),
    }


def exposures(findings: pa.Table, by_topic: bool) -> list[Row]:
    """Exposures by kind, and by topic: rows {kind, topic, findings, partitions, unended, longest_ms, lasted_ms,
    first_ms}, at most MAX_GROUPS; unended: number of those without an end. findings: KEYS of order.py."""
    values = {"kinds": list(of_section(Section.EXPOSURES)), "by_topic": by_topic, "most": MAX_GROUPS}
    return ask("report/exposures", values=values, given=findings)


def policy_totals(counterfactuals: pa.Table) -> list[Row]:
    """What would have been lost under each policy: rows {policy, windows, elected, waits, undetermined, differs,
    loss_min, loss_max}. counterfactuals: with `policy`, `outcome`, `loss_min`, `loss_max`, `differs`."""
    return ask("report/policies", given=counterfactuals)
