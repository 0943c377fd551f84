"""Report: the result tables of one cluster -> one self-contained HTML page."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evidence.errors import KraftForensicsError
from jobs.lake import fingerprint
from jobs.lake.files import write_whole
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.report.page import HEAD_BYTES, fingerprint_in, render_report
from jobs.report.rows import (
    LASTED,
    LASTED_AT_LEAST,
    MAX_DETAILS,
    MAX_LISTED,
    ReportInput,
    Row,
    Section,
    Totals,
    by_section,
)
from jobs.report.timeline_svg import MAX_STATES
from jobs.spark.types import spark_schema
from replay.findings.kinds import HWM_REGRESSION, of_section
from replay.loss.verdict import SEVERITIES, VERDICTS

# Raise when a change of code changes the page.
PAGE_VERSION = 2
_COUNTED = (
    "evidence_files",
    "metadata_records",
    "log_end_offsets",
    "partition_history",
    "elections",
    "findings",
    "quarantine",
)
_SHOWN = (*_COUNTED, "counterfactuals", "quality_results")

_STATE_KEY = ("topic_id", "partition", "offset")
_WINDOW = f"kind = '{HWM_REGRESSION}'"
_FLAGGED = f"{_WINDOW} and not verdict <=> 'excluded'"
_PROVEN = f"{_WINDOW} and verdict = 'proven' and loss_min > 0"
_PLACE = "struct(topic_id, topic, partition)"
_LASTED_MS = f"""coalesce(get(filter(reason, s -> s.code in ('{LASTED}', '{LASTED_AT_LEAST}')), 0).value,
                          try_subtract(end_timestamp_ms, start_timestamp_ms))"""
# Sums as decimals: what damaged files claim may not fit into 64 bits.
_GROUPS = f"""
    select kind, verdict, rule, rule_version, count(*) as findings, count_if(end_offset is null) as unended,
           max({_LASTED_MS}) as longest_ms, sum(cast(greatest({_LASTED_MS}, 0) as decimal(20))) as lasted_ms
    from {{findings}} group by kind, verdict, rule, rule_version
"""
_LOSS = f"""
    select count(distinct {_PLACE}) filter (where {_FLAGGED}) as partitions,
           count(distinct {_PLACE}) filter (where {_PROVEN}) as proven_partitions,
           sum(cast(loss_min as decimal(20))) filter (where {_PROVEN}) as proven_least,
           every(loss_min <=> loss_max) filter (where {_PROVEN}) as proven_exact
    from {{findings}} where {_WINDOW}
"""
# The orders of report_rows.by_section, which sorts what these let through.
_WHERE = "topic, topic_id, partition, start_offset, finding_id"
_CONCEIVABLE = "case when loss_max is null then if(loss_min is null, -1, bigint(9223372036854775807)) else loss_max end"
_SEVERITY = f"array_position(array{SEVERITIES}, severity)"
_VERDICT = f"array_position(array{VERDICTS}, coalesce(verdict, 'undetermined'))"
_ORDERS = {
    Section.WINDOWS: f"{_VERDICT}, loss_min desc nulls last, {_CONCEIVABLE} desc, {_WHERE}",
    Section.EXCLUDED: f"{_VERDICT}, loss_min desc nulls last, {_CONCEIVABLE} desc, {_WHERE}",
    # Predictions of one window stay together: it stands where its gravest one does.
    Section.OTHER_RULES: (
        "gravest, most desc nulls last, topic, topic_id, partition, election_offset, loss_min desc nulls last,"
        f" {_CONCEIVABLE} desc, finding_id"
    ),
    Section.EXPOSURES: f"{_LASTED_MS} desc nulls last, {_WHERE}",
}
_GRAVEST = f"{_SEVERITY}, {_VERDICT}, {_WHERE}"


def load_report(lake: Lake, cluster: str, fingerprint: str = "") -> ReportInput:
    """Everything the page shows, and no more: of each list the first rows, chosen by Spark."""
    table = lake.table("findings", cluster)
    # An earlier release's lake may lack columns.
    lacking = [f for f in spark_schema(TABLES["findings"].schema).fields if f.name not in table.columns]
    table = table.withColumns({f.name: F.lit(None).cast(f.dataType) for f in lacking})
    totals = _totals(lake, table)
    findings = _findings(lake, table, totals)
    detailed = by_section(findings)[Section.WINDOWS][:MAX_DETAILS]
    timelines, elections = _histories(lake, cluster, detailed)
    held = lake.table("quarantine", cluster).drop("raw")
    return ReportInput(
        cluster_id=cluster,
        generated_from=list(lake.captures(cluster)),
        findings=findings,
        totals=totals,
        counterfactuals=_counterfactuals(lake, cluster, detailed),
        timelines=timelines,
        elections=elections,
        quality=lake.rows("quality_results", cluster),
        quarantine=_rows(held.orderBy("capture", "path", "position", "reason").limit(MAX_LISTED)),
        counts={name: lake.count(name, cluster) for name in _COUNTED},
        fingerprint=fingerprint,
    )


def _rows(frame: DataFrame) -> list[Row]:
    rows: list[Row] = frame.toArrow().to_pylist()
    return rows


def _totals(lake: Lake, findings: DataFrame) -> Totals:
    groups, losses = (_rows(lake.spark.sql(query, findings=findings)) for query in (_GROUPS, _LOSS))
    for group in groups:
        group["lasted_ms"] = int(group["lasted_ms"] or 0)
    loss = losses[0]
    return Totals(
        groups=groups,
        partitions=loss["partitions"],
        proven_partitions=loss["proven_partitions"],
        proven_least=int(loss["proven_least"] or 0),
        proven_exact=bool(loss["proven_exact"]),
    )


def _findings(lake: Lake, findings: DataFrame, totals: Totals) -> list[Row]:
    """Of each section the first MAX_LISTED."""
    parts = [_first(lake, findings, section) for section in Section if totals.of(section)]
    return _rows(reduce(DataFrame.unionAll, parts)) if parts else []


def _first(lake: Lake, findings: DataFrame, section: Section) -> DataFrame:
    rows, condition = "{findings}", _condition(section)
    if section is Section.OTHER_RULES:
        rows = f"""(select *, min({_SEVERITY}) over windows as gravest, max(loss_min) over windows as most
                    from {{findings}} where {condition}
                    window windows as (partition by topic_id, partition, election_offset))"""
    order = _ORDERS.get(section, _GRAVEST)
    query = f"select * from {rows} where {condition} order by {order} limit {MAX_LISTED}"
    return lake.spark.sql(query, findings=findings).select(*findings.columns)


def _condition(section: Section) -> str:
    """As `report_rows.section_of`, in SQL."""
    if section in (Section.WINDOWS, Section.EXCLUDED):
        return _FLAGGED if section is Section.WINDOWS else f"{_WINDOW} and verdict <=> 'excluded'"
    return f"kind in ({_listed(of_section(section))})"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _counterfactuals(lake: Lake, cluster: str, findings: list[Row]) -> list[Row]:
    wanted = pc.field("finding_id").isin([row["finding_id"] for row in findings])
    return lake.rows("counterfactuals", cluster, where=wanted) if findings else []


def _histories(lake: Lake, cluster: str, findings: list[Row]) -> tuple[dict[tuple[str, int], list[Row]], list[Row]]:
    """`timelines` and `elections` of ReportInput: the states that a timeline of one of these findings may show."""
    timelines: dict[tuple[str, int], list[Row]] = defaultdict(list)
    if not findings:
        return {}, []
    places = _near(lake, cluster, findings)
    offsets = pa.array(sorted({offset for _, _, offset in places}), pa.int64())
    wanted = _of_topics(topic_id for topic_id, _, _ in places) & pc.field("offset").isin(offsets)
    order = [(name, "ascending") for name in _STATE_KEY]
    for row in lake.read("partition_history", cluster, where=wanted).sort_by(order).to_pylist():
        if place := places.get(tuple(row[n] for n in _STATE_KEY)):
            timelines[row["topic_id"], row["partition"]].append({**row, **place})
    chosen = lake.rows("elections", cluster, where=wanted)
    return dict(timelines), [row for row in chosen if tuple(row[n] for n in _STATE_KEY) in places]


def _near(lake: Lake, cluster: str, findings: list[Row]) -> dict[tuple[Any, ...], Row]:
    """The states within MAX_STATES of a window's start or election, by topic id, partition and offset: their place
    among the partition's states, and how many these are."""
    sought: dict[tuple[str, int], set[int]] = defaultdict(set)
    for row in findings:
        at = (row[name] for name in ("start_offset", "election_offset"))
        sought[row["topic_id"], row["partition"]] |= {-1 if offset is None else offset for offset in at}
    offsets: dict[tuple[str, int], list[int]] = defaultdict(list)
    columns = lake.read("partition_history", cluster, _STATE_KEY, _of_topics(topic_id for topic_id, _ in sought))
    for topic_id, partition, offset in zip(*(columns[n].to_pylist() for n in _STATE_KEY), strict=True):
        if (topic_id, partition) in sought:
            offsets[topic_id, partition].append(offset)
    found = {}
    for key, own in offsets.items():
        own.sort()
        for middle in {max(bisect_right(own, at) - 1, 0) for at in sought[key]}:
            for place in range(max(middle - MAX_STATES, 0), min(middle + MAX_STATES + 1, len(own))):
                found[*key, own[place]] = {"place": place, "total": len(own)}
    return found


def _of_topics(topic_ids: Iterable[str]) -> pc.Expression:
    # Typed, since of none Arrow does not know the type.
    return pc.field("topic_id").isin(pa.array(sorted(set(topic_ids)), pa.string()))


def write_report(lake: Lake, cluster: str, output: Path, progress: Callable[[str], None]) -> Path:
    """Render one cluster's page to `output`, unless it is there, of the tables as they are. Errors:
    KraftForensicsError when it cannot be written."""
    mark = fingerprint.fingerprint(lake, _SHOWN, (cluster, PAGE_VERSION))
    if _fingerprint(output) == mark:
        progress(f"{cluster}: the report is up to date")
        return output.resolve()
    lake.start()
    progress(f"{cluster}: writing the report")
    page = render_report(load_report(lake, cluster, mark))
    try:
        # Half a page would carry the fingerprint of a whole one.
        write_whole(output.resolve(), page)
    except OSError as error:
        raise KraftForensicsError(f"{output}: the report cannot be written: {error.strerror}") from error
    return output.resolve()


def _fingerprint(page: Path) -> str | None:
    """Of a page that was written; None where there is none."""
    with suppress(OSError):
        if page.is_file():
            with page.open("rb") as file:
                return fingerprint_in(file.read(HEAD_BYTES))
    return None
