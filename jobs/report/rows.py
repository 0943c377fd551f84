"""The input of the incident report: its rows, the verdicts as the page shows them, and how rows are grouped.

Pure. jobs/report/stage.py loads the rows, jobs/report/page.py renders the page.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Any

from jobs.incident.events import IncidentEvents
from jobs.incident.focus import ALL, Focus
from replay.arrow.runs import groups
from replay.findings.kinds import LAST_REPLICA, LEADERLESS, Section
from replay.loss.verdicts import EXCLUDED, POSSIBLE, PROVEN, UNDETERMINED

Row = dict[str, Any]

# A section shows at most this many rows, a detail so many pieces of evidence and states, a finding so many statements
# of its reason, the head so many captures. The page states how many it leaves out, and which command lists them.
MAX_LISTED = 300
MAX_DETAILS = 50
MAX_EVIDENCE = 50
MAX_STATES = 60
CONTEXT_STATES = 10  # before a window that is too long to show completely
MAX_STATEMENTS = 40
MAX_CAPTURES = 20
MAX_FILES = 300
MAX_SESSIONS = 100  # rows of a broker's history
MAX_QUALITY_RUNS = 10
MAX_GROUPS = 100  # of exposures

# The columns of elections that the page shows.
ELECTION_COLUMNS = (
    *("topic_id", "partition", "offset", "timestamp_ms", "cause", "previous_leader", "leader", "leader_epoch"),
    *("isr_before", "elr_before", "candidates"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict as the page shows it. symbol: makes it readable without colour."""

    name: str
    symbol: str
    meaning: str


VERDICTS = (
    Verdict(
        PROVEN,
        "●",
        "The evidence shows that the new leader's log ended below the high watermark, so records were lost.",
    ),
    Verdict(
        POSSIBLE,
        "◐",
        "The evidence allows a loss but does not prove one: the bounds include zero, or log end offsets are missing.",
    ),
    Verdict(UNDETERMINED, "?", "Nothing in the evidence bounds the loss, so there is no verdict."),
    Verdict(EXCLUDED, "○", "The new leader held everything below the high watermark: no acknowledged record was lost."),
)
_BY_NAME = {verdict.name: verdict for verdict in VERDICTS}


@dataclass(frozen=True, slots=True)
class Captured:
    """What the evidence consists of. releases: names of Kafka releases in manifests, else those that nodes printed as
    they started, Confluent's as "4.1 (8.1.0-ccs)"; profiles: rule profiles that the controllers may have run
    (docs/rules.md); features: name -> level at the log's end; captures: rows {capture, kafka_release, clock_error_ms,
    sha256 (of the manifest), files, size_bytes, parsed_bytes, quarantined_bytes, trailing_bytes, first_ms, last_ms};
    nodes: rows {capture, node_id, kinds, more_kinds, files, base_offset, end_offset, quarantined_bytes}; files:
    EVIDENCE_FILES, the first MAX_FILES; file_count: of all."""

    releases: Sequence[str] = ()
    profiles: Sequence[str] = ()
    features: Mapping[str, int] = field(default_factory=dict)
    captures: Sequence[Row] = ()
    nodes: Sequence[Row] = ()
    files: Sequence[Row] = ()
    file_count: int = 0


@dataclass(frozen=True, slots=True)
class ReportInput:
    """The rows that the page shows, as mappings with the columns of these Arrow schemas.

    findings: FINDINGS of each section in order, at most MAX_LISTED; totals: rows {section, kind, verdict, rule,
    rule_version, findings} of all findings; counterfactuals: COUNTERFACTUALS of findings with a detail;
    states: finding_id -> rows of states.sql, around its window in order; elections: ELECTION_COLUMNS of ELECTIONS at
    those offsets;
    quarantine: QUARANTINE, at most MAX_LISTED (`raw` is never shown); quality: rows {suite, table, expectation, column,
    success, unexpected_count, element_count}; quality_runs: rows {run_at_ms, expectations, failed, warned} of the
    newest runs, at most MAX_QUALITY_RUNS; counts: number of rows by table; generated_from: names of the captures;
    page_one, answer, plan: see jobs/incident/document.py;
    causes: finding_id -> its chain (replay/incident/causes.py), of findings with a detail;
    fingerprint: of the tables that the rows come from;
    focus: what the findings are narrowed to; events: for the timeline; policies, exposures,
    exposure_groups: see load.py;
    captured: what the evidence consists of; made_from: see jobs/lake/integrity.py, of the tables shown.
    """

    cluster_id: str
    generated_from: list[str]
    page_one: Row
    answer: Row
    plan: Row
    causes: Mapping[str, list[str]]
    findings: Mapping[Section, list[Row]]
    totals: Sequence[Row]
    counterfactuals: list[Row]
    states: Mapping[str, list[Row]]
    elections: list[Row]
    quality: list[Row]
    quarantine: list[Row]
    counts: dict[str, int]
    fingerprint: str
    focus: Focus = ALL
    events: IncidentEvents = field(default_factory=IncidentEvents)
    policies: Sequence[Row] = ()
    exposures: Sequence[Row] = ()
    exposure_groups: Sequence[Row] = ()
    captured: Captured = field(default_factory=Captured)
    made_from: Row = field(default_factory=dict)
    quality_runs: Sequence[Row] = ()


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    """The verdict of a finding; null is undetermined."""
    return _BY_NAME[row["verdict"] or UNDETERMINED]


def counted(groups: Iterable[Mapping[str, Any]], column: str, names: Iterable[str]) -> dict[str, int]:
    """Number of findings for each value of a column. groups: rows with that and `findings`; names: all its values."""
    counts = dict.fromkeys(names, 0)
    for group in groups:
        counts[group[column]] += group["findings"]
    return counts


_ANSWER = ("outcome", "leader", "last_written_leader_epoch", "log_end_offset", "loss_min", "loss_max", "explanation")
EXPOSURE_NAMES = {LEADERLESS: "without a leader", LAST_REPLICA: "one replica left"}


def exposure_groups(items: Sequence[Any], totals: Sequence[Row]) -> list[Row]:
    """The listed exposures by kind and topic: rows {total, listed}. total: the row of ReportInput.exposure_groups; the
    last one, of groups without it, has None. items: with `row`."""
    by_key = groups(items, lambda item: (item.row["kind"], item.row["topic"]))
    found = [{"total": total, "listed": by_key.pop((total["kind"], total["topic"]), [])} for total in totals]
    rest = [item for others in by_key.values() for item in others]
    return [*found, {"total": None, "listed": rest}] if rest else found


def same_answers(counterfactuals: Iterable[Row]) -> list[Row]:
    """Equal answers as one row with all their `policies`."""
    same = groups(counterfactuals, itemgetter(*_ANSWER)).values()
    return [group[0] | {"policies": [row["policy"] for row in group]} for group in same]


def broker_life(broker: int, rows: Sequence[Row]) -> Row:
    """Sum up a broker's rows of BROKER_HISTORY, in order: {broker, rows, count, state, processes, unclean}. rows: at
    most MAX_SESSIONS, the last ones; state: at the log's end."""
    return {
        "broker": broker,
        "rows": rows[-MAX_SESSIONS:],
        "count": len(rows),
        "state": broker_state(rows[-1]) if rows[-1]["end_offset"] is None else "unknown",
        "processes": len({row["incarnation_id"] for row in rows if row["incarnation_id"] is not None}),
        "unclean": sum(row["restart_class"] == "unclean" for row in restarts(rows)),
    }


def restarts(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of a broker's history where another process of it registered."""
    processes = [row for row in rows if row["incarnation_id"] is not None]
    return [now for before, now in pairwise(processes) if now["incarnation_id"] != before["incarnation_id"]]


def broker_state(row: Mapping[str, Any]) -> str:
    """What a broker was, in a word or two."""
    if row["incarnation_id"] is None:
        return "not registered"
    if row["fenced"]:
        return "fenced"
    return "shutting down" if row["in_controlled_shutdown"] else "up"
