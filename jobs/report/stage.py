"""Report: write the result tables of one cluster as one self-contained HTML page."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from evidence.capture.remote import Location, Remote
from evidence.errors import KraftForensicsError
from jobs.console.output import progress_steps
from jobs.lake.files import first_bytes, shown, write_whole
from jobs.lake.fingerprint import input_fingerprint
from jobs.lake.lake import Lake
from jobs.lake.storage import within
from jobs.lake.tables import TABLES
from jobs.report.advice import load_advice
from jobs.report.answer import load_answer
from jobs.report.causes import load_causes
from jobs.report.order import KEYS, ordered
from jobs.report.page import HEAD_BYTES, fingerprint_in, render_report
from jobs.report.rows import (
    ELECTION_COLUMNS,
    MAX_DETAILS,
    MAX_LISTED,
    STATE_COLUMNS,
    ReportInput,
    Row,
    by_section,
)
from jobs.report.timeline_svg import MAX_STATES
from jobs.report.totals import GROUPS, totals_of
from replay.findings.kinds import Section, of_section

# Raise this when a code change changes the page.
PAGE_VERSION = 5
_COUNTED = (
    "evidence_files",
    "metadata_records",
    "log_end_offsets",
    "partition_history",
    "elections",
    "findings",
    "quarantine",
)
_SHOWN = (
    *_COUNTED,
    "counterfactuals",
    "quality_results",
    "broker_history",
    "config_history",
    "feature_history",
    "boot_ids",
)

_STATE_KEY = ("topic_id", "partition", "offset")


def load_report(lake: Lake, cluster: str, fingerprint: str = "") -> ReportInput:
    """Load the rows that the page shows: the first rows of each list."""
    keys = _keys(lake, cluster)
    findings = _findings(lake, cluster, keys)
    detailed = by_section(findings)[Section.WINDOWS][:MAX_DETAILS]
    timelines, elections = _histories(lake, cluster, detailed)
    return ReportInput(
        cluster_id=cluster,
        generated_from=list(lake.captures(cluster)),
        answer=load_answer(lake, cluster),
        advice=load_advice(lake, cluster),
        causes=load_causes(lake, cluster, detailed),
        findings=findings,
        totals=totals_of(keys),
        counterfactuals=_counterfactuals(lake, cluster, detailed),
        timelines=timelines,
        elections=elections,
        quality=lake.rows(
            "quality_results",
            cluster,
            where=pc.field("run_id") == lake.made("quality_results", cluster).get("run_id", ""),
        ),
        quarantine=_quarantine(lake, cluster),
        counts={name: lake.count(name, cluster) for name in _COUNTED},
        fingerprint=fingerprint,
    )


def _keys(lake: Lake, cluster: str) -> pa.Table:
    """The columns of all findings that determine the page's order and totals."""
    exposed = pc.field("kind").isin(of_section(Section.EXPOSURES))
    names = dict.fromkeys([*KEYS.names, *GROUPS])
    others = lake.read("findings", cluster, [name for name in names if name != "reason"], ~exposed)
    others = others.append_column(KEYS.field("reason"), pa.nulls(len(others), KEYS.field("reason").type))
    return pa.concat_tables([lake.read("findings", cluster, list(names), exposed), others.select(list(names))])


def _findings(lake: Lake, cluster: str, keys: pa.Table) -> list[Row]:
    """The first MAX_LISTED findings of each section."""
    ids = [ordered(keys, section)["finding_id"].slice(0, MAX_LISTED).to_pylist() for section in Section]
    chosen = [finding_id for of_section in ids for finding_id in of_section]
    return lake.rows("findings", cluster, where=pc.field("finding_id").isin(pa.array(chosen, pa.string())))


def _quarantine(lake: Lake, cluster: str) -> list[Row]:
    names = [name for name in TABLES["quarantine"].schema.names if name != "raw"]
    order = [(name, "ascending") for name in ("capture", "path", "position", "reason")]
    rows: list[Row] = lake.read("quarantine", cluster, names).sort_by(order).slice(0, MAX_LISTED).to_pylist()
    return rows


def _counterfactuals(lake: Lake, cluster: str, findings: list[Row]) -> list[Row]:
    wanted = pc.field("finding_id").isin([row["finding_id"] for row in findings])
    return lake.rows("counterfactuals", cluster, where=wanted) if findings else []


def _histories(lake: Lake, cluster: str, findings: list[Row]) -> tuple[dict[tuple[str, int], list[Row]], list[Row]]:
    """`timelines` and `elections` of ReportInput, with the states that the timelines of these findings may show."""
    timelines: dict[tuple[str, int], list[Row]] = defaultdict(list)
    if not findings:
        return {}, []
    places = _near(lake, cluster, findings)
    offsets = pa.array(sorted({offset for _, _, offset in places}), pa.int64())
    wanted = _of_topics(topic_id for topic_id, _, _ in places) & pc.field("offset").isin(offsets)
    order = [(name, "ascending") for name in _STATE_KEY]
    for row in lake.read("partition_history", cluster, STATE_COLUMNS, wanted).sort_by(order).to_pylist():
        if place := places.get(tuple(row[n] for n in _STATE_KEY)):
            timelines[row["topic_id"], row["partition"]].append({**row, **place})
    chosen = lake.rows("elections", cluster, ELECTION_COLUMNS, wanted)
    return dict(timelines), [row for row in chosen if tuple(row[n] for n in _STATE_KEY) in places]


def _near(lake: Lake, cluster: str, findings: list[Row]) -> dict[tuple[Any, ...], Row]:
    """The states within MAX_STATES of a window's start or election: (topic id, partition, offset) -> `place` and
    `total` (see ReportInput)."""
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
    for key, history in offsets.items():
        history.sort()
        for middle in {max(bisect_right(history, at) - 1, 0) for at in sought[key]}:
            for place in range(max(middle - MAX_STATES, 0), min(middle + MAX_STATES + 1, len(history))):
                found[*key, history[place]] = {"place": place, "total": len(history)}
    return found


def _of_topics(topic_ids: Iterable[str]) -> pc.Expression:
    # The type is explicit because Arrow cannot infer it from an empty list.
    return pc.field("topic_id").isin(pa.array(sorted(set(topic_ids)), pa.string()))


def write_report(lake: Lake, cluster: str, output: Location, progress: Callable[[str], None]) -> str:
    """Write one cluster's page to `output`, unless it is already there for the current tables. Returns where it is.
    Errors: KraftForensicsError if it cannot be written."""
    inputs = input_fingerprint(lake, _SHOWN, (cluster, PAGE_VERSION))
    if fingerprint_in(first_bytes(output, HEAD_BYTES)) == inputs:
        progress(f"{cluster}: the report is up to date")
        return shown(output)
    progress(f"{cluster}: writing the report")
    page = render_report(load_report(lake, cluster, inputs))
    try:
        # Write it completely or not at all: an incomplete page would have the fingerprint of a complete one.
        write_whole(output, page)
    except OSError as error:
        raise KraftForensicsError(f"{output}: the report cannot be written: {error.strerror or error}") from error
    return shown(output)


def write_reports(lake: Lake, output: Path | None = None) -> list[str]:
    """Write the page of each cluster, with progress; returns where they are. output: file to write; None: in the lake.
    Errors: as `write_report`; LakeError."""
    lake.require()
    clusters = lake.clusters()
    with progress_steps(len(clusters)) as (describe, _):
        return [write_report(lake, c, page_of(output or report_in(lake), c, clusters), describe) for c in clusters]


def report_in(lake: Lake) -> Location:
    """The file that is written unless another is named."""
    return within(lake.root, "report.html")


def page_of(output: Location, cluster: str, clusters: Sequence[str]) -> Location:
    """The file of a cluster. With several clusters, its name has the cluster id, quoted since files name it."""
    if len(clusters) == 1:
        return output
    suffix = f"-{quote(cluster, safe='')}"
    if isinstance(output, Remote):
        stem, dot, kind = output.url.rpartition(".")
        return Remote(f"{stem}{suffix}{dot}{kind}")
    return output.with_name(f"{output.stem}{suffix}{output.suffix}")
