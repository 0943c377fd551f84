"""What the incident report shows: its sections, their order, and the rows that it is given.

Pure. jobs/report/stage.py loads the rows, jobs/report/page.py makes the page of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jobs.report.order import KEYS, ordered
from replay.findings.kinds import HWM_REGRESSION, Section, kind_of
from replay.loss.verdict import EXCLUDED, POSSIBLE, PROVEN, UNDETERMINED
from replay.loss.verdict import VERDICTS as NAMES

Row = dict[str, Any]

# A page is read by people: beyond these a section says how many rows it leaves out, and where those are.
MAX_LISTED = 1000
MAX_DETAILS = 200


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict as the page shows it; `symbol` keeps it readable without colour."""

    name: str
    symbol: str
    meaning: str


_SHOWN = {
    PROVEN: (
        "●",
        "Shown by the evidence itself: the new leader's log ended below the high watermark, so records were lost.",
    ),
    POSSIBLE: (
        "◐",
        "The evidence allows a loss without forcing it: the bounds include zero, or log end offsets are missing.",
    ),
    UNDETERMINED: ("?", "Nothing in the evidence bounds a loss, so no verdict is given."),
    EXCLUDED: (
        "○",
        "The new leader held everything below the high watermark: nothing that was promised as safe was lost.",
    ),
}
VERDICTS = tuple(Verdict(name, *_SHOWN[name]) for name in NAMES)
_RANK = {name: rank for rank, name in enumerate(NAMES)}


@dataclass(frozen=True, slots=True)
class Totals:
    """All findings, counted: also those that no section has room for.

    groups: rows {kind, verdict, rule, rule_version, findings, lasted_ms, longest_ms, unended}, the last three of
    exposures (`lasted_ms` below). partitions: with a flagged window. proven_least: offsets surely lost, on
    proven_partitions; proven_exact: no more than those.
    """

    groups: list[Row]
    partitions: int
    proven_partitions: int
    proven_least: int
    proven_exact: bool

    def by_verdict(self, kind: str) -> dict[str, int]:
        counts = dict.fromkeys(_RANK, 0)
        for group in self.groups:
            if group["kind"] == kind:
                counts[verdict_of(group).name] += group["findings"]
        return counts

    def of(self, section: Section) -> int:
        """How many findings belong to a section."""
        return sum(group["findings"] for group in self.groups if section_of(group) is section)


@dataclass(frozen=True, slots=True)
class ReportInput:
    """What the page shows, as rows (mappings) with the columns of the Arrow schemas named here.

    `findings` FINDINGS, of each section at most MAX_LISTED; `counterfactuals` COUNTERFACTUALS of those with a detail;
    `timelines` by (topic_id, partition) PARTITION_HISTORY near the windows, sorted by offset, with `place` (number of
    the state in its partition's history) and `total` (how many that has); `elections` ELECTIONS at those offsets;
    `quarantine` QUARANTINE, at most MAX_LISTED (`raw` is never shown); `quality` rows {suite, table, expectation,
    column, success, unexpected_count, element_count}; `counts` rows per table; `generated_from` the names of the
    captures; `fingerprint` of the tables that all this is from.
    """

    cluster_id: str
    generated_from: list[str]
    findings: list[Row]
    totals: Totals
    counterfactuals: list[Row]
    timelines: dict[tuple[str, int], list[Row]]
    elections: list[Row]
    quality: list[Row]
    quarantine: list[Row]
    counts: dict[str, int]
    fingerprint: str


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    """The verdict of a finding; null is undetermined. Raises ValueError for any other word than the four."""
    name = "undetermined" if row["verdict"] is None else row["verdict"]
    if name not in _RANK:
        raise ValueError(
            f"finding {row.get('finding_id')!r} has verdict {name!r}; expected one of {', '.join(_RANK)}: "
            "were the findings written by a newer release?"
        )
    return VERDICTS[_RANK[name]]


def section_of(row: Mapping[str, Any]) -> Section:
    """The section of a finding, or of a group of them. Errors: ValueError for a kind that is not registered."""
    if row["kind"] == HWM_REGRESSION:
        return Section.EXCLUDED if row["verdict"] == "excluded" else Section.WINDOWS
    return kind_of(row["kind"]).section


def by_section(findings: list[Row]) -> dict[Section, list[Row]]:
    """The findings of each section, in its order. Errors: ValueError for a verdict or a kind that is not known."""
    for row in findings:
        verdict_of(row)
        kind_of(row["kind"])
    keys = pa.Table.from_pylist([{name: row[name] for name in KEYS.names} for row in findings], schema=KEYS)
    keys = keys.append_column("row", pa.array(range(len(findings)), pa.int64()))
    return {section: [findings[row] for row in ordered(keys, section)["row"].to_pylist()] for section in Section}
