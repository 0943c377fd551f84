"""Load what happened in a cluster over time, for the timeline of the report.

Every list is bounded: the worst, or what is nearest to the incident, comes first. `left_out` counts the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from jobs.incident.lookup import ALL, Focus, load_deleted
from jobs.lake.lake import Lake, Row
from jobs.views.in_duckdb import ask
from replay.arrow.runs import groups
from replay.findings.kinds import HWM_REGRESSION, Section
from replay.incident.departures import Departure, departures
from replay.incident.node_logs import NO_NODE_LOGS, NodeLogs
from replay.loss.verdicts import EXCLUDED

Span = tuple[int, int]

MOST_WINDOWS, MOST_ELECTIONS, MOST_EXPOSURES, MOST_OTHERS = 10_000, 3000, 2000, 1000
MOST_BROKERS, MOST_SESSIONS, MOST_CONTROLLERS, MOST_CAPTURED = 40, 3000, 1000, 1000
# Times beyond these come from damaged files. A browser cannot count milliseconds exactly beyond 2**53.
_FIRST_MS, _LAST_MS = 0, 2**52
_NEAR = 0.15  # of the incident's length, shown before and after it

# The columns of findings that `load_events` needs, beside those that order them.
FINDING = ("recorded_leader",)
_WINDOW = (
    *("finding_id", "kind", "verdict", "severity", "topic", "topic_id", "partition", "recorded_leader"),
    *("start_offset", "election_offset", "end_offset", "start_timestamp_ms", "end_timestamp_ms"),
    *("loss_min", "loss_max"),
)
# The gravest causes of elections first.
_CAUSES = ("unclean", "unclean_by_administrator", "unclean_by_config", "last_known_leader", "elr", "leaderless")


@dataclass(frozen=True, slots=True)
class IncidentEvents:
    """What happened, each list in the order of time.

    log: first and last time of the metadata log; shown: the span that a timeline shows at first, the incident; both
    null if no time is known. windows, exposures, others: findings, with _WINDOW; elections: rows of ELECTIONS;
    brokers: BROKER_HISTORY by broker; departures: how these went away; controllers: QUORUM_HISTORY, a row for each
    leader's term; captured: rows {captured_at_ms, files, nodes}; deleted: topics that were deleted
    (jobs/incident/deleted.sql); configs: settings that were changed, rows {offset, timestamp_ms, resource_type,
    resource_name, name, value, before}, null: not set.
    left_out: name of a list -> how many it does not have. no_time: findings and elections without a usable time.
    """

    log: Span | None = None
    shown: Span | None = None
    windows: Sequence[Row] = ()
    exposures: Sequence[Row] = ()
    others: Sequence[Row] = ()
    elections: Sequence[Row] = ()
    brokers: dict[int, list[Row]] = field(default_factory=dict)
    departures: Sequence[Departure] = ()
    controllers: Sequence[Row] = ()
    captured: Sequence[Row] = ()
    deleted: Sequence[Row] = ()
    configs: Sequence[Row] = ()
    left_out: dict[str, int] = field(default_factory=dict)
    no_time: int = 0


def load_events(
    lake: Lake, cluster: str, findings: pa.Table, focus: Focus = ALL, logs: NodeLogs = NO_NODE_LOGS
) -> IncidentEvents:
    """The events of a cluster. findings: KEYS, FINDING and `section` of those that the report is about, in its order
    (lookup.py:ordered); focus: what they are narrowed to; logs: of the nodes."""
    timed = findings.filter(_usable("start_timestamp_ms"))
    of, left_out = (lake, cluster), dict[str, int]()

    def most(name: str, rows: pa.Table, limit: int) -> list[Row]:
        left_out[name] = max(len(rows) - limit, 0)
        return rows.slice(0, limit).to_pylist()

    def within(*sections: Section) -> pa.Table:
        return timed.filter(pc.field("section").isin(list(map(str, sections)))).select(_WINDOW)

    windows = most("windows", within(Section.WINDOWS, Section.EXCLUDED), MOST_WINDOWS)
    exposures = most("exposures", within(Section.EXPOSURES), MOST_EXPOSURES)
    others = most("others", within(Section.CUT_LOGS, Section.RULES, Section.FAULTS), MOST_OTHERS)
    terms, (times,) = ask("incident/terms", of), ask("incident/times", of)
    log = _log(times, terms, [*windows, *exposures, *others])
    shown = log and _shown(windows or exposures or others, log, focus)
    brokers = _brokers(of, shown, windows)
    left_out["brokers"] = times["brokers"] - len(brokers)
    of_topic = pc.scalar(True) if focus.topic is None else pc.field("topic") == focus.topic
    known = lake.count("elections", cluster, of_topic & _usable("timestamp_ms"))
    values = {"topic": focus.topic, "causes": _CAUSES, "most": MOST_ELECTIONS}
    elections = ask("incident/elections", of, values)
    left_out["elections"] = max(known - MOST_ELECTIONS, 0)
    gone = [row for row in load_deleted(lake, cluster) if focus.topic in (None, row["topic"])]
    errors = (row["clock_error_ms"] or 0 for row in lake.rows("captures", cluster, ("clock_error_ms",)))
    left_out["controllers"] = max(len(terms) - MOST_CONTROLLERS, 0)
    return IncidentEvents(
        log=log,
        shown=shown,
        windows=_by_time(windows),
        exposures=_by_time(exposures),
        others=_by_time(others),
        elections=sorted(elections, key=lambda row: row["offset"]),
        brokers=brokers,
        departures=departures((row for rows in brokers.values() for row in rows), logs, max(errors, default=0)),
        controllers=terms[-MOST_CONTROLLERS:],
        captured=ask("incident/capture_times", of, {"most": MOST_CAPTURED}),
        deleted=[row for row in gone if is_usable(row["deleted_ms"])][:MOST_OTHERS],
        configs=ask("incident/settings", of, {"topic": focus.topic})[-MOST_OTHERS:],
        left_out={name: count for name, count in left_out.items() if count},
        no_time=len(findings) - len(timed) + lake.count("elections", cluster, of_topic) - known,
    )


def is_usable(time_ms: int | None) -> bool:
    """Whether a time can be drawn."""
    return time_ms is not None and _FIRST_MS <= time_ms < _LAST_MS


def _usable(column: str) -> pc.Expression:
    return (pc.field(column) >= _FIRST_MS) & (pc.field(column) < _LAST_MS)


def _by_time(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["start_timestamp_ms"], row["finding_id"]))


def _log(times: Row, terms: list[Row], findings: list[Row]) -> Span | None:
    """The first and the last time that the metadata log shows. times: of times.sql."""
    found = [times["first_ms"], times["last_ms"], *(row["timestamp_ms"] for row in terms)]
    found += [row[name] for row in findings for name in ("start_timestamp_ms", "end_timestamp_ms")]
    known = [time for time in found if is_usable(time)]
    return (min(known), max(known)) if known else None


def _shown(findings: list[Row], log: Span, focus: Focus) -> Span:
    """The span that the report is narrowed to, as far as the log shows it; else the incident."""
    first = log[0] if focus.from_ms is None else max(focus.from_ms, log[0])
    last = log[1] if focus.to_ms is None else min(focus.to_ms, log[1])
    narrowed = focus.from_ms is not None or focus.to_ms is not None
    return (first, last) if narrowed and first < last else _incident(findings, log)


def _incident(findings: list[Row], log: Span) -> Span:
    """From the first to the last finding, the windows that are not excluded before all others, and a little more."""
    grave = [row for row in findings if row["kind"] == HWM_REGRESSION and row["verdict"] != EXCLUDED] or findings
    if not grave:
        return log[0], max(log[1], log[0] + 1)  # the records of a log may all have one time
    first = min(row["start_timestamp_ms"] for row in grave)
    ends = (row["end_timestamp_ms"] for row in grave)
    last = max(log[1] if end is None else min(end, log[1]) for end in ends)
    more = max(round((last - first) * _NEAR), 500)
    return max(first - more, log[0]), max(min(last + more, log[1]), first + 1)


def _brokers(of: tuple[Lake, str], shown: Span | None, windows: list[Row]) -> dict[int, list[Row]]:
    """Broker -> its sessions (sessions.sql)."""
    first, last = shown or (_FIRST_MS, _LAST_MS)
    led = [*dict.fromkeys(row["recorded_leader"] for row in windows if row["recorded_leader"] is not None)]
    values = {"led": led or [-1], "first": first, "last": last, "most_brokers": MOST_BROKERS, "most": MOST_SESSIONS}
    return groups(ask("incident/sessions", of, values), itemgetter("broker_id"))
