"""Load the incident of a cluster from the lake, for every medium that shows it: the answer, page one, the plan, and the
chains of causes.

Page one is made once, here: the terminal, the ticket, the postmortem and the HTML page render it.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from evidence.broker_logs.anchors import with_utc
from evidence.kinds import STATE_CHANGES
from evidence.tables import NODE_CLOCKS
from jobs.incident.lookup import ALL, Focus, among, load_deleted
from jobs.incident.plan import as_row, load_input
from jobs.lake.lake import Lake, Row
from jobs.views.in_duckdb import ask
from replay.arrow.runs import groups
from replay.cluster.boots import BOOT_COLUMNS, boots_of
from replay.findings.kinds import EVIDENCE_GAP, HWM_REGRESSION
from replay.incident.answer import COLUMNS, MOST_GAPS, AnswerScope, answer, losses, unknowns
from replay.incident.causes import ELECTION, SESSIONS, STATES, chain
from replay.incident.missing import CapturedLogs
from replay.incident.node_logs import EVENT_KINDS, EVENTS, STARTS, NodeLogs, node_logs
from replay.incident.page_one import members, page_one
from replay.loss.verdicts import PROVEN
from replay.plan.plan import make_plan

_TIMES = ("logged_at_ms", "logged_at_utc_ms")
_PLACE = ("topic_id", "partition")
_place = itemgetter(*_PLACE)


def load_incident(lake: Lake, cluster: str, focus: Focus = ALL) -> dict[str, Row]:
    """The incident of a cluster: keys `page_one`, `answer` and `plan` of docs/verdict.md. focus: what findings it is
    about; the plan is of the whole cluster."""
    given, found = load_input(lake, cluster), load_answer(lake, cluster, focus)
    steps = make_plan(given)
    windows = _windows(lake, cluster, [*found["proven"], *found["undecided"]])
    brokers = among("broker_id", (broker for row in windows for broker in members(row)))
    sessions = lake.read("broker_history", cluster, SESSIONS, brokers)
    words = page_one(found, windows, sessions.sort_by("offset").to_pylist(), _leaderless(lake, cluster, windows), given)
    plan = as_row(steps)
    return {"page_one": page_one_of(found, words, plan), "answer": found, "plan": plan}


def page_one_of(answer: Row, words: Row, plan: Row) -> Row:
    """What a person reads first; docs/verdict.md has the keys. words: of replay/incident/page_one.py."""
    return {
        "losses": losses(answer),
        **{name: words[name] for name in ("cause", "incidents", "incident_count", "now", "timeline")},
        "unknown": [*unknowns(answer)],
        "prevention": words["prevention"],
        "plan": [step["text"] for step in plan["steps"]],
    }


def _windows(lake: Lake, cluster: str, rows: Sequence[Row]) -> list[Row]:
    """Windows of an answer as page_one.py needs them."""
    ids = [row["finding_id"] for row in rows]
    found = ask("incident/windows", (lake, cluster), {"ids": ids}) if ids else []
    more = {row["finding_id"]: row for row in found}
    return [row | more[row["finding_id"]] for row in rows]


def _leaderless(lake: Lake, cluster: str, windows: Sequence[Row]) -> list[Row]:
    """The states without a leader of the windows' partitions, up to the last election."""
    last = max((row["election_offset"] for row in windows if row["election_offset"] is not None), default=None)
    if last is None:
        return []
    where = (pc.field("leader") < 0) & (pc.field("offset") < last)
    columns = (*_PLACE, "topic", "offset", "timestamp_ms")
    # Few states have no leader: their topics are compared, not those of all.
    rows = lake.read("partition_history", cluster, columns, where, as_codes=True)
    return rows.filter(among("topic_id", (row["topic_id"] for row in windows))).sort_by("offset").to_pylist()


def load_answer(lake: Lake, cluster: str, focus: Focus = ALL) -> Row:
    """The answer of a cluster, as docs/verdict.md describes it. focus: what findings it is about."""
    within = focus.findings()
    kind = pc.field("kind")
    shown = ("finding_id", "rule", "start_offset", "explanation")
    gaps = lake.read("findings", cluster, shown, (kind == EVIDENCE_GAP) & within)
    order = [(name, "ascending") for name in ("start_offset", "rule", "finding_id")]
    grave = (pc.field("verdict") == PROVEN) & (pc.field("severity") == "critical")
    faults = lake.read("findings", cluster, ("kind",), grave & (kind != HWM_REGRESSION) & within)
    ends = lake.read("evidence_files", cluster, ("last_timestamp_ms",))["last_timestamp_ms"]
    until_ms, log = pc.max(ends).as_py(), log_range(lake, cluster)
    if focus.narrows:
        states = len(lake.read("partition_history", cluster, ("offset",), focus.states(until_ms)))
    else:
        states = lake.count("partition_history", cluster)
    scope = AnswerScope(
        gaps=gaps.sort_by(order).slice(0, MOST_GAPS).to_pylist(),
        gap_count=len(gaps),
        conflicts=faults["kind"].unique().to_pylist(),
        states=states,
        since_ms=log["from_ms"] if log["first_offset"] else None,
        until_ms=until_ms,
        logs=_captured_logs(lake, cluster),
        deleted=load_deleted(lake, cluster),
    )
    return answer(lake.read("findings", cluster, COLUMNS, (kind == HWM_REGRESSION) & within), scope)


def log_range(lake: Lake, cluster: str) -> Row:
    """The captured metadata log: {first_offset, last_offset, from_ms, until_ms} (log_range.sql)."""
    return ask("incident/log_range", (lake, cluster))[0]


def _captured_logs(lake: Lake, cluster: str) -> CapturedLogs:
    lines = lake.read("broker_log_events", cluster, ("node_id", *_TIMES, "kind"))
    of_brokers = lines.filter(pc.is_in(lines["kind"], pa.array(STATE_CHANGES)))["node_id"].unique().drop_null()
    lines = lines.filter(pc.is_in(lines["node_id"], of_brokers)).group_by("node_id")
    clocks = lake.read("node_clocks", cluster, NODE_CLOCKS.names)
    first, last = (
        with_utc(lines.aggregate([(n, which) for n in _TIMES]).rename_columns(["node_id", *_TIMES]), clocks).to_pylist()
        for which in ("min", "max")
    )
    ends = {row["node_id"]: row["logged_at_utc_ms"] for row in last}
    spans = {row["node_id"]: (row["logged_at_utc_ms"], ends[row["node_id"]]) for row in first}
    booted = lake.read("boot_ids", cluster, ("node_id",), pc.field("boot_id").is_valid())["node_id"].unique()
    return CapturedLogs({broker: span for broker, span in spans.items() if None not in span}, booted.to_pylist())


def load_causes(
    lake: Lake, cluster: str, findings: Iterable[Row], logs: NodeLogs | None = None
) -> dict[str, list[str]]:
    """finding_id -> its chain of causes, for those of the findings that are windows with a proven loss. logs: of
    `load_node_logs`, if they are loaded."""
    proven = [f for f in findings if f["kind"] == HWM_REGRESSION and f["verdict"] == PROVEN]
    proven = [f for f in proven if f["election_offset"] is not None and f["topic_id"] is not None]
    if not proven:
        return {}
    last = max(f["election_offset"] for f in proven)
    topics, partitions = (among(name, (f[name] for f in proven)) for name in _PLACE)
    of_places = topics & partitions & (pc.field("offset") <= last)
    history = lake.read("partition_history", cluster, (*_PLACE, *STATES), of_places).sort_by("offset").to_pylist()
    states = groups(history, _place)
    at = topics & partitions & among("offset", (f["election_offset"] for f in proven))
    rows = lake.rows("elections", cluster, (*_PLACE, *ELECTION), at)
    elections = {(*_place(row), row["offset"]): row for row in rows}
    sessions = lake.read("broker_history", cluster, SESSIONS).sort_by("offset").to_pylist()
    logs = logs or load_node_logs(lake, cluster)
    return {
        f["finding_id"]: chain(
            f, states.get(_place(f), []), sessions, elections.get((*_place(f), f["election_offset"])), logs
        )
        for f in proven
    }


def load_node_logs(lake: Lake, cluster: str) -> NodeLogs:
    """What the nodes of a cluster logged, and their boot ids."""
    events = lake.read("broker_log_events", cluster, EVENTS, pc.field("kind").isin(EVENT_KINDS))
    events = with_utc(events, lake.read("node_clocks", cluster, NODE_CLOCKS.names))
    boots = boots_of(lake.rows("boot_ids", cluster, BOOT_COLUMNS))
    return node_logs(events.to_pylist(), lake.rows("node_boots", cluster, STARTS), boots)
