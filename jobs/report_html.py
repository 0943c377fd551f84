"""The incident report: one self-contained HTML page from rows of the result tables.

Pure: no Spark and no disk but the template inside the package. The page loads nothing (a CSP forbids it) and runs no
script. The same rows give the same bytes: no time of creation, no path of the machine that made it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from jobs import report_svg, templates
from replay.detect import KIND

Row = dict[str, Any]

# A page is read by people: beyond these the tables say how many rows they leave out, and where those are.
MAX_LISTED = 1000
MAX_DETAILS = 200

QUALITY_ORDER = ("success", "suite", "table", "column", "expectation")

# Kafka's KIP-966 names what a policy does; no release has shipped these.
POLICY_NAMES = {
    "unclean_recovery_aggressive": "unclean recovery, Aggressive",
    "unclean_recovery_balanced": "unclean recovery, Balanced",
    "unclean_recovery_all_replicas": "unclean recovery, all replicas answering",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict as the page shows it; `symbol` keeps it readable without colour."""

    name: str
    symbol: str
    meaning: str


VERDICTS = (
    Verdict(
        "proven",
        "●",
        "Shown by the evidence itself. For a window: the new leader's log ended below the high watermark, so records "
        "were lost.",
    ),
    Verdict(
        "possible",
        "◐",
        "The evidence allows a loss without forcing it: the bounds include zero, or log end offsets are missing.",
    ),
    Verdict("undetermined", "?", "Nothing in the evidence bounds a loss, so no verdict is given."),
    Verdict(
        "excluded",
        "○",
        "The new leader held everything below the high watermark: nothing that was promised as safe was lost.",
    ),
)
_RANK = {verdict.name: rank for rank, verdict in enumerate(VERDICTS)}


@dataclass(frozen=True, slots=True)
class ReportInput:
    """What the page shows, as rows (mappings) with the columns of the Arrow schemas named here.

    `findings` FINDINGS, `counterfactuals` COUNTERFACTUALS; `timelines` PARTITION_HISTORY of each flagged partition by
    (topic_id, partition), sorted by offset; `elections` ELECTIONS of those partitions; `quarantine` QUARANTINE (`raw`
    is never shown); `quality` rows {suite, table, expectation, column, success, unexpected_count, element_count};
    `counts` rows per table; `generated_from` the names of the captures.
    """

    cluster_id: str
    generated_from: list[str]
    findings: list[Row]
    counterfactuals: list[Row]
    timelines: dict[tuple[str, int], list[Row]]
    elections: list[Row]
    quality: list[Row]
    quarantine: list[Row]
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Listed:
    """A finding in a list; `anchor` is the id of its section, None where it has none."""

    row: Row
    verdict: Verdict
    anchor: str | None


@dataclass(frozen=True, slots=True)
class Detail:
    """All that a finding's section shows. `exposed` is the state the window began with, `judged` its election."""

    row: Row
    verdict: Verdict
    anchor: str
    timeline: Markup | None
    span: report_svg.Span
    exposed: Row | None
    judged: Row | None
    elections: list[Row]
    counterfactuals: list[Row]
    evidence: Sequence[Mapping[str, Any]]


def render_report(report: ReportInput) -> str:
    """The page as a string. Raises ValueError for a verdict that this report does not know."""
    found = sorted(report.findings, key=_worst_first)
    findings = [row for row in found if row["kind"] == KIND]
    # Every other kind is a fault of the log or of the evidence, and judges no loss.
    faults = _listed([row for row in found if row["kind"] != KIND], 0)
    flagged = _listed([row for row in findings if verdict_of(row).name != "excluded"], MAX_DETAILS)
    excluded = _listed([row for row in findings if verdict_of(row).name == "excluded"], 0)
    by_finding = _group(_ordered(report.counterfactuals, "policy", "offset"), "finding_id")
    by_partition = _group(_ordered(report.elections, "offset"), "topic_id", "partition")
    details = [_detail(item, report, by_finding, by_partition) for item in flagged if item.anchor is not None]
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            tally=Counter(verdict_of(row).name for row in findings),
            verdicts=VERDICTS,
            headline=_headline([item.row for item in flagged], len(excluded)),
            flagged=flagged,
            excluded=excluded,
            faults=faults,
            details=details,
            max_listed=MAX_LISTED,
            max_details=MAX_DETAILS,
            quality=sorted(_ordered(report.quality, *QUALITY_ORDER), key=lambda row: row["success"] is True),
            quarantine=_ordered(report.quarantine, "capture", "path", "position", "reason"),
            quality_passed=sum(1 for row in report.quality if row["success"] is True),
            rules=sorted(
                {(str(row["rule"]), row["rule_version"]) for row in found if row["rule"] is not None}, key=str
            ),
            files=_cited_files(found),
        )
    )


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    """The verdict of a finding; null is undetermined. Raises ValueError for any other word than the four."""
    name = "undetermined" if row["verdict"] is None else row["verdict"]
    if name not in _RANK:
        raise ValueError(
            f"finding {row['finding_id']!r} has verdict {name!r}; expected one of {', '.join(_RANK)}: "
            "were the findings written by a newer release?"
        )
    return VERDICTS[_RANK[name]]


def element_id(finding_id: str | None, taken: set[str]) -> str:
    """An HTML id of letters, digits, `-` and `_` made from a finding id, added to `taken` and not yet in it."""
    base = "f-" + re.sub(r"[^A-Za-z0-9_-]+", "-", finding_id or "")[:80]
    candidate, number = base, 1
    while candidate in taken:
        number += 1
        candidate = f"{base}-{number}"
    taken.add(candidate)
    return candidate


def _worst_first(row: Row) -> tuple[Any, ...]:
    """Sort key: verdict, then the loss that is certain, then the loss that is conceivable (no bound = the most)."""
    low, high = row["loss_min"], row["loss_max"]
    conceivable = -1 if low is None and high is None else float("inf") if high is None else high
    return (
        _RANK[verdict_of(row).name],
        -(-1 if low is None else low),
        -conceivable,
        *(str(row[name]) for name in ("topic", "topic_id")),
        *(-1 if row[name] is None else row[name] for name in ("partition", "start_offset")),
        str(row["finding_id"]),
    )


def _listed(rows: list[Row], detailed: int) -> list[Listed]:
    taken: set[str] = set()
    return [
        Listed(row, verdict_of(row), element_id(row["finding_id"], taken) if number < detailed else None)
        for number, row in enumerate(rows)
    ]


def _detail(
    item: Listed,
    report: ReportInput,
    by_finding: Mapping[tuple[Any, ...], list[Row]],
    by_partition: Mapping[tuple[Any, ...], list[Row]],
) -> Detail:
    row = item.row
    key = (row["topic_id"], row["partition"])
    history = report.timelines.get(key, [])
    span = report_svg.around_window(history, row)
    elections = by_partition.get(key, [])
    if span.states:
        last = span.states[-1]["offset"]
        elections = [each for each in elections if span.states[0]["offset"] <= each["offset"] <= last]
    return Detail(
        row=row,
        verdict=item.verdict,
        anchor=str(item.anchor),
        timeline=report_svg.draw_timeline(span, row, str(item.anchor)) if span.states else None,
        span=span,
        exposed=next((state for state in history if state["offset"] == row["start_offset"]), None),
        judged=next((each for each in elections if each["offset"] == row["election_offset"]), None),
        elections=elections,
        counterfactuals=by_finding.get((row["finding_id"],), []),
        evidence=[] if row["evidence"] is None else row["evidence"],
    )


def _headline(flagged: list[Row], excluded: int) -> str:
    """The result in one or two sentences."""
    if not flagged:
        looked = f" {_count(excluded, 'window')} examined and excluded." if excluded else ""
        return f"In this evidence, no window was flagged.{looked}"
    partitions = {(row["topic_id"], row["topic"], row["partition"]) for row in flagged}
    text = f"{_count(len(flagged), 'window')} flagged on {_count(len(partitions), 'partition')}."
    proven = [row for row in flagged if row["verdict"] == "proven" and row["loss_min"]]
    if not proven:
        return f"{text} None of them is a proven loss."
    least = sum(row["loss_min"] for row in proven)
    exact = all(row["loss_min"] == row["loss_max"] for row in proven)
    amount = f"{'exactly' if exact else 'at least'} {_count(least, 'offset')}"
    where = _count(len({(row["topic_id"], row["topic"], row["partition"]) for row in proven}), "partition")
    return f"{text} Proven loss: {amount} below the high watermark, on {where}."


def _cited_files(findings: Iterable[Row]) -> list[tuple[str, str, str]]:
    """The distinct (capture, path, SHA-256) that the evidence of all findings points at."""
    cited = {
        (str(piece["capture"]), str(piece["path"]), str(piece["sha256"]))
        for row in findings
        if row["evidence"] is not None
        for piece in row["evidence"]
        if piece["path"] is not None
    }
    return sorted(cited)


def _ordered(rows: Iterable[Row], *columns: str) -> list[Row]:
    """Rows sorted by these columns, null first, so that the page does not depend on the order they came in."""
    return sorted(rows, key=lambda row: tuple((row[name] is not None, row[name]) for name in columns))


def _group(rows: Iterable[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _policy_name(policy: str | None) -> str:
    return templates.UNKNOWN if policy is None else POLICY_NAMES.get(policy, templates.visible(policy))


def _config_text(value: object, source: str | None) -> str:
    """An effective config with the layer it came from; a built-in default is an assumption, and says so."""
    if value is None:
        return templates.UNKNOWN
    origin = "assumed: no config in the evidence" if source == "default" else f"{templates.or_unknown(source)} config"
    return f"{str(value).lower()} ({origin})"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("jobs"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "visible": templates.visible,
        "topic": templates.topic_text,
        "paragraphs": templates.paragraphs,
        "utc": templates.utc_text,
        "loss": templates.loss_text,
        "window": templates.window_text,
        "leader": templates.leader_text,
        "brokers": templates.brokers_text,
        "known": templates.or_unknown,
        "dash": templates.or_dash,
        "breakable": templates.breakable,
        "partition": templates.partition_text,
        "policy": _policy_name,
    }
    environment.globals |= {
        "config_text": _config_text,
        "count": _count,
        "duration": templates.duration_text,
        "is_legal_topic": templates.is_legal_topic,
    }
    return environment
