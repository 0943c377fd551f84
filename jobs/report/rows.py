"""What the incident report shows: its sections, their order, and the rows that it is given.

Pure. jobs/report/stage.py loads the rows, jobs/report/page.py makes the page of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replay.findings.kinds import HWM_REGRESSION, Section, kind_of
from replay.loss.verdict import EXCLUDED, POSSIBLE, PROVEN, SEVERITIES, UNDETERMINED
from replay.loss.verdict import VERDICTS as NAMES

Row = dict[str, Any]

# A page is read by people: beyond these a section says how many rows it leaves out, and where those are.
MAX_LISTED = 1000
MAX_DETAILS = 200

# Statements that say how long an exposure lasted.
LASTED, LASTED_AT_LEAST = "exposed_for", "exposed_for_at_least"


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
    """The findings of each section, in its order."""
    lists: dict[Section, list[Row]] = {section: [] for section in Section}
    for row in findings:
        lists[section_of(row)].append(row)
    keys = {Section.WINDOWS: _most_lost, Section.EXCLUDED: _most_lost, Section.EXPOSURES: _longest}
    return {section: sorted(rows, key=keys.get(section, _gravest)) for section, rows in lists.items()}


def lasted_ms(row: Row) -> int | None:
    """How long an exposure lasted, or at least; None where that is not known."""
    told = [each["value"] for each in row["reason"] or [] if each["code"] in (LASTED, LASTED_AT_LEAST)]
    if told:
        return None if told[0] is None else int(told[0])
    start, end = row["start_timestamp_ms"], row["end_timestamp_ms"]
    return None if start is None or end is None else int(end - start)


def severity_rank(row: Row) -> int:
    """0 for the gravest; a word that is not known comes first."""
    return SEVERITIES.index(row["severity"]) if row["severity"] in SEVERITIES else -1


def loss_rank(row: Row) -> tuple[float, float]:
    """Sort key: the loss that is certain, then the loss that is conceivable (no bound = the most); most first."""
    low, high = row["loss_min"], row["loss_max"]
    conceivable = -1 if low is None and high is None else float("inf") if high is None else high
    return 1 if low is None else -low, -conceivable


def place_rank(row: Row) -> tuple[Any, ...]:
    """Sort key that no two findings share: where it is, and its id."""
    return (
        *(str(row[name]) for name in ("topic", "topic_id")),
        *(-1 if row[name] is None else row[name] for name in ("partition", "start_offset")),
        str(row["finding_id"]),
    )


def _most_lost(row: Row) -> tuple[Any, ...]:
    return _RANK[verdict_of(row).name], *loss_rank(row), *place_rank(row)


def _gravest(row: Row) -> tuple[Any, ...]:
    return severity_rank(row), _RANK[verdict_of(row).name], *place_rank(row)


def _longest(row: Row) -> tuple[Any, ...]:
    lasted = lasted_ms(row)
    return 1 if lasted is None else -lasted, *place_rank(row)
