"""Load the rows of a cluster's report from the lake: the first rows of each list, and totals of all."""

from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from jobs.incident.document import load_causes, load_incident, load_node_logs
from jobs.incident.events import FINDING, load_events
from jobs.incident.focus import ALL, Focus
from jobs.incident.lookup import KEYS, among, ordered
from jobs.ingest.captures import named_releases
from jobs.lake.integrity import made_from
from jobs.lake.lake import Lake
from jobs.report.rows import (
    CONTEXT_STATES,
    ELECTION_COLUMNS,
    MAX_DETAILS,
    MAX_FILES,
    MAX_GROUPS,
    MAX_LISTED,
    MAX_QUALITY_RUNS,
    MAX_STATES,
    Captured,
    ReportInput,
    Row,
)
from jobs.views.in_duckdb import ask
from replay.arrow.runs import groups
from replay.controller.profiles import kafka_release
from replay.findings.kinds import Section, of_section

_COUNTED = (
    "evidence_files",
    "metadata_records",
    "log_end_offsets",
    "partition_history",
    "elections",
    "findings",
    "quarantine",
)
# The tables that the rows come from.
TABLES_SHOWN = (
    *_COUNTED,
    "counterfactuals",
    "quality_results",
    "broker_history",
    "config_history",
    "feature_history",
    "quorum_history",
    "captures",
    "boot_ids",
)
_STATE_KEY = ("topic_id", "partition", "offset")
_WINDOW = ("finding_id", "topic_id", "partition", "start_offset", "election_offset", "end_offset")
_SOUGHT = pa.schema([KEYS.field(name) for name in _WINDOW])
# The columns beside KEYS by which findings are counted (totals.sql).
RULES = ("rule", "rule_version")
_PREDICTED = ("policy", "outcome", "loss_min", "loss_max", "differs")


def load_report(
    lake: Lake, cluster: str, fingerprint: str = "", focus: Focus = ALL, document: Row | None = None
) -> ReportInput:
    """Load the rows that a report shows. focus: what its findings are narrowed to. document: the verdict of all of
    them, made of the same tables; its answer and plan are not loaded again."""
    incident = document or load_incident(lake, cluster, focus)
    keys = _keys(lake, cluster, focus)
    findings = _findings(lake, cluster, keys)
    detailed = findings[Section.WINDOWS][:MAX_DETAILS]
    states, elections = _histories(lake, cluster, detailed)
    logs = load_node_logs(lake, cluster)
    made = made_from(lake, cluster)
    shown = {name: at for name, at in made["tables"].items() if name in TABLES_SHOWN}
    newest_run = pc.field("run_id") == str(lake.made("quality_results", cluster).get("run_id", ""))
    of_detailed = among("finding_id", (row["finding_id"] for row in detailed))
    return ReportInput(
        cluster_id=cluster,
        generated_from=list(lake.captures(cluster)),
        **{name: incident[name] for name in ("page_one", "answer", "plan")},
        causes=load_causes(lake, cluster, detailed, logs),
        findings=findings,
        totals=ask("report/totals", given=keys),
        counterfactuals=lake.rows("counterfactuals", cluster, where=of_detailed) if detailed else [],
        states=states,
        elections=elections,
        quality=lake.rows("quality_results", cluster, where=newest_run),
        quality_runs=ask("report/quality_runs", (lake, cluster), {"most": MAX_QUALITY_RUNS}),
        quarantine=ask("report/quarantine", (lake, cluster), {"most": MAX_LISTED}),
        counts={name: lake.count(name, cluster) for name in _COUNTED},
        fingerprint=fingerprint,
        made_from=made | {"engine": lake.made("findings", cluster).get("engine"), "tables": shown},
        focus=focus,
        events=load_events(lake, cluster, keys, focus, logs),
        policies=_policies(lake, cluster, keys, focus),
        exposures=exposures(keys, by_topic=False),
        exposure_groups=exposures(keys, by_topic=True),
        captured=load_captured(lake, cluster),
    )


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


def _findings(lake: Lake, cluster: str, keys: pa.Table) -> dict[Section, list[Row]]:
    """The first MAX_LISTED findings of each section."""
    ids = pa.concat_tables(_firsts(keys).values())["finding_id"].to_pylist()
    return listed(lake.read("findings", cluster, where=among("finding_id", ids)))


def listed(findings: pa.Table) -> dict[Section, list[Row]]:
    """`findings` of ReportInput. findings: FINDINGS."""
    return {
        section: rows.drop_columns("section").to_pylist()
        for section, rows in _firsts(ordered(findings, *Section)).items()
    }


def _firsts(findings: pa.Table) -> dict[Section, pa.Table]:
    return {each: findings.filter(pc.field("section") == each.value).slice(0, MAX_LISTED) for each in Section}


def _histories(lake: Lake, cluster: str, findings: list[Row]) -> tuple[dict[str, list[Row]], list[Row]]:
    """`states` and `elections` of ReportInput, of these findings."""
    if not findings:
        return {}, []
    values = {"most": MAX_STATES, "context": CONTEXT_STATES}
    states = ask("report/states", (lake, cluster), values, sought=pa.Table.from_pylist(findings, _SOUGHT))
    shown = {tuple(row[name] for name in _STATE_KEY) for row in states}
    wanted = among("topic_id", (row["topic_id"] for row in states)) & among("offset", (row["offset"] for row in states))
    elections = lake.rows("elections", cluster, ELECTION_COLUMNS, wanted)
    elections = [row for row in elections if tuple(row[name] for name in _STATE_KEY) in shown]
    return groups(states, itemgetter("finding_id")), elections


def load_captured(lake: Lake, cluster: str) -> Captured:
    """What the evidence of a cluster consists of."""
    of = lake, cluster
    printed = lake.read("node_boots", cluster, ("kafka_version",))["kafka_version"].unique().drop_null()
    versions = named_releases(lake.rows("captures", cluster)) or sorted(printed.to_pylist())
    features = lake.rows("feature_history", cluster, ("name", "level"), pc.field("end_offset").is_null())
    return Captured(
        releases=[v if (release := kafka_release(v)) == v else f"{release} ({v})" for v in versions],
        profiles=[row["profile"] for row in ask("report/profiles", of)],
        features={row["name"]: row["level"] for row in sorted(features, key=lambda row: row["name"])},
        captures=ask("report/captures", of),
        nodes=ask("report/nodes", of, {"most": MAX_FILES}),
        files=ask("report/files", of, {"most": MAX_FILES}),
        file_count=lake.count("evidence_files", cluster),
    )


def exposures(findings: pa.Table, by_topic: bool) -> list[Row]:
    """Exposures by kind, and by topic: rows {kind, topic, findings, partitions, unended, longest_ms, lasted_ms,
    first_ms}, at most MAX_GROUPS; unended: number of those without an end. findings: KEYS of order.py."""
    values = {"kinds": list(of_section(Section.EXPOSURES)), "by_topic": by_topic, "most": MAX_GROUPS}
    return ask("report/exposures", values=values, given=findings)


def policy_totals(counterfactuals: pa.Table) -> list[Row]:
    """What would have been lost under each policy: rows {policy, windows, elected, waits, undetermined, differs,
    loss_min, loss_max}. counterfactuals: with `policy`, `outcome`, `loss_min`, `loss_max`, `differs`."""
    return ask("report/policies", given=counterfactuals)
