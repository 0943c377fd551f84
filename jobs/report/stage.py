"""Report: write the result tables of one cluster as one self-contained HTML page."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from evidence.errors import KraftForensicsError
from jobs.console.output import progress_steps
from jobs.lake.files import write_whole
from jobs.lake.fingerprint import input_fingerprint
from jobs.lake.lake_files import LakeFiles
from jobs.lake.tables import TABLES
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
PAGE_VERSION = 4
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


def load_report(lake: LakeFiles, cluster: str, fingerprint: str = "") -> ReportInput:
    """Load the rows that the page shows: the first rows of each list."""
    keys = _keys(lake, cluster)
    findings = _findings(lake, cluster, keys)
    detailed = by_section(findings)[Section.WINDOWS][:MAX_DETAILS]
    timelines, elections = _histories(lake, cluster, detailed)
    return ReportInput(
        cluster_id=cluster,
        generated_from=list(lake.captures(cluster)),
        findings=findings,
        totals=totals_of(keys),
        counterfactuals=_counterfactuals(lake, cluster, detailed),
        timelines=timelines,
        elections=elections,
        quality=lake.rows("quality_results", cluster),
        quarantine=_quarantine(lake, cluster),
        counts={name: lake.count(name, cluster) for name in _COUNTED},
        fingerprint=fingerprint,
    )


def _keys(lake: LakeFiles, cluster: str) -> pa.Table:
    """The columns of all findings that determine the page's order and totals."""
    exposed = pc.field("kind").isin(of_section(Section.EXPOSURES))
    names = dict.fromkeys([*KEYS.names, *GROUPS])
    others = lake.read("findings", cluster, [name for name in names if name != "reason"], ~exposed)
    others = others.append_column(KEYS.field("reason"), pa.nulls(len(others), KEYS.field("reason").type))
    return pa.concat_tables([lake.read("findings", cluster, list(names), exposed), others.select(list(names))])


def _findings(lake: LakeFiles, cluster: str, keys: pa.Table) -> list[Row]:
    """The first MAX_LISTED findings of each section."""
    ids = [ordered(keys, section)["finding_id"].slice(0, MAX_LISTED).to_pylist() for section in Section]
    chosen = [finding_id for of_section in ids for finding_id in of_section]
    return lake.rows("findings", cluster, where=pc.field("finding_id").isin(pa.array(chosen, pa.string())))


def _quarantine(lake: LakeFiles, cluster: str) -> list[Row]:
    names = [name for name in TABLES["quarantine"].schema.names if name != "raw"]
    order = [(name, "ascending") for name in ("capture", "path", "position", "reason")]
    rows: list[Row] = lake.read("quarantine", cluster, names).sort_by(order).slice(0, MAX_LISTED).to_pylist()
    return rows


def _counterfactuals(lake: LakeFiles, cluster: str, findings: list[Row]) -> list[Row]:
    wanted = pc.field("finding_id").isin([row["finding_id"] for row in findings])
    return lake.rows("counterfactuals", cluster, where=wanted) if findings else []


def _histories(
    lake: LakeFiles, cluster: str, findings: list[Row]
) -> tuple[dict[tuple[str, int], list[Row]], list[Row]]:
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


def _near(lake: LakeFiles, cluster: str, findings: list[Row]) -> dict[tuple[Any, ...], Row]:
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


def write_report(lake: LakeFiles, cluster: str, output: Path, progress: Callable[[str], None]) -> Path:
    """Write one cluster's page to `output`, unless it is already there for the current tables. Errors:
    KraftForensicsError if it cannot be written."""
    inputs = input_fingerprint(lake, _SHOWN, (cluster, PAGE_VERSION))
    if _fingerprint(output) == inputs:
        progress(f"{cluster}: the report is up to date")
        return output.resolve()
    progress(f"{cluster}: writing the report")
    page = render_report(load_report(lake, cluster, inputs))
    try:
        # Write it completely or not at all: an incomplete page would have the fingerprint of a complete one.
        write_whole(output.resolve(), page)
    except OSError as error:
        raise KraftForensicsError(f"{output}: the report cannot be written: {error.strerror}") from error
    return output.resolve()


def write_reports(lake: LakeFiles, output: Path) -> list[Path]:
    """Write the page of each cluster, with progress; returns the files. Errors: as `write_report`; LakeError."""
    lake.require()
    clusters = lake.clusters()
    with progress_steps(len(clusters)) as (describe, _):
        return [write_report(lake, cluster, page_of(output, cluster, clusters), describe) for cluster in clusters]


def page_of(output: Path, cluster: str, clusters: Sequence[str]) -> Path:
    """The file of a cluster. With several clusters, its name has the cluster id, quoted since files name it."""
    named = output.with_name(f"{output.stem}-{quote(cluster, safe='')}{output.suffix}")
    return output if len(clusters) == 1 else named


def _fingerprint(page: Path) -> str | None:
    """The fingerprint of an existing page; None if there is none."""
    with suppress(OSError):
        if page.is_file():
            with page.open("rb") as file:
                return fingerprint_in(file.read(HEAD_BYTES))
    return None
