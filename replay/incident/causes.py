"""The chain of causes of a proven loss, in five lines: who was in sync, who went away and how, what shrank the ISR, who
was elected and why, what was cut off.

The first four lines are facts that the metadata log records, with what the nodes' own logs say of them; the last one
gives the bounds of the finding. Where no record shows a cause, the line says so.

Sources: docs/rules.md (triggers), KIP-966, KIP-101.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from replay.cluster.boots import Boots, is_same_boot
from replay.findings.statements import prose
from replay.incident.answer import moment
from replay.incident.node_logs import NO_NODE_LOGS, NodeLogs

Row = Mapping[str, Any]

# The columns of partition_history, broker_history and elections that `chain` needs.
STATES = (
    *("offset", "timestamp_ms", "leader", "leader_epoch", "isr", "elr", "replicas", "min_isr", "removed"),
    "batch_base_offset",
)
SESSIONS = (
    *("offset", "timestamp_ms", "broker_id", "broker_epoch", "incarnation_id", "fenced", "in_controlled_shutdown"),
    *("restart_class", "batch_base_offset"),
)
ELECTION = ("offset", "timestamp_ms", "leader", "leader_epoch", "previous_leader", "cause", "actor")
# A broker that leads nothing is fenced as soon as it asks to stop, and no record shows that it asked
# (BrokerHeartbeatManager.calculateNextBrokerState: SHUTDOWN_NOW).
_NOT_RECORDED = "No record shows whether its session timed out, or it stopped while it led nothing."
LABELS = ("In sync", "Went away", "Shrank the ISR", "Elected", "Cut off")
_MOST = 4  # changes of the ISR to list
_CAUSES = {
    "isr": "as a member of the ISR",
    "elr": "as a member of the ELR",
    "last_known_leader": "as the last known leader, which is unclean",
    "unclean_by_config": "uncleanly: unclean.leader.election.enable allows it",
    "unclean_by_administrator": "uncleanly: an administrator requested it, the config forbids it",
    "unclean": "uncleanly, by the config or by an administrator",
    "preferred": "as the preferred replica",
    "reassignment": "by a reassignment",
    "cancelled_reassignment": "by a cancelled reassignment",
    "directory_failure": "from the ISR, after the leader's log directory failed",
}
_ACTORS = {
    "fence": "a broker was fenced",
    "controlled_shutdown": "a broker shut down",
    "registration": "a broker registered again",
    "unregister": "a broker was unregistered",
    "unfence": "a broker was unfenced",
    "directory_offline": "a log directory failed",
    "alter_partition": "the leader asked for it",
    "reassignment": "an administrator reassigned the partition",
    "elect_leaders": "an administrator asked for an election",
    "preferred_election": "a preferred election",
}
_BOUNDS = (
    *("high_watermark_at_least", "floor_leader_alone", "floor_lone_leaders_log", "floor_logged"),
    *("floor_logged_shrink", "floor_logged_truncation"),
    *("log_end", "log_end_at_most", "lost_at_least", "lost_at_most", "lost_open", "first_lost"),
)


def chain(
    finding: Row,
    states: Sequence[Row],
    sessions: Sequence[Row],
    election: Row | None,
    boots: Boots,
    logs: NodeLogs = NO_NODE_LOGS,
) -> list[str]:
    """The five lines, without labels, in the order of LABELS; empty if the states before the election are unknown.

    finding: a window with a proven loss; states: STATES of its partition, by offset; sessions: SESSIONS of all brokers,
    by offset; election: ELECTION of the window, null if not captured; boots: boot ids of the brokers' machines; logs:
    what the nodes logged."""
    at = finding["election_offset"]
    known = [s for s in states if s["offset"] <= at and not s["removed"] and s["isr"] is not None]
    past = [s for s in known if s["offset"] < at]
    if not past:
        return []
    first = next((n for n in range(len(past) - 1, -1, -1) if _is_full(past[n])), None)
    if first is None:
        first = next((n for n in range(len(past) - 1, -1, -1) if past[n]["leader"] >= 0), 0)
    spell = known[first:]  # from then on, up to the election
    gone = {b: _departure(b, spell, sessions) for b in spell[0]["isr"] if b not in spell[-1]["isr"]}
    winner = finding["recorded_leader"]
    if winner in spell[0]["isr"] and (event := _departure(winner, spell, sessions)):
        gone[winner] = event
    in_order = sorted(gone.items(), key=lambda pair: (pair[1] is None, pair[1]["offset"] if pair[1] else 0))
    return [
        _in_sync(spell[0]),
        " ".join(_went_away(b, event, sessions, boots, finding, logs) for b, event in in_order)
        or "Nobody left the ISR.",
        _shrank(spell, sessions, (finding["topic"], finding["partition"]), logs),
        _elected(finding, election),
        prose(s for s in finding["reason"] or () if s["code"] in _BOUNDS),
    ]


def _is_full(state: Row) -> bool:
    """Whether enough replicas were in sync that one failure lost nothing."""
    return bool(state["leader"] >= 0 and len(state["isr"]) >= max(2, state["min_isr"] or 1))


def _in_sync(state: Row) -> str:
    full = "" if _is_full(state) else " No state with more replicas in sync is in the captured log."
    isr = f"leader {_leader(state['leader'])}, ISR {_list(state['isr'])} of replicas {_list(state['replicas'])}"
    return f"From {_at(state)} on: {isr}, min ISR {state['min_isr']}.{full}"


def _departure(broker: int, spell: Sequence[Row], sessions: Sequence[Row]) -> Row | None:
    """The record of the broker's departure: in the batch in which it left the ISR for the last time, else the last one
    before that. For a broker that never left: the last one of the spell."""
    changes = [b for a, b in pairwise(spell) if broker in a["isr"] and broker not in b["isr"]]
    left = changes[-1] if changes else spell[-1]
    away = [s for s in _departures(broker, sessions) if s["offset"] > spell[0]["offset"]]
    same = [s for s in away if s["batch_base_offset"] == left["batch_base_offset"]]
    before = [s for s in away if s["offset"] <= left["offset"]]
    return same[0] if same else before[-1] if before else None


def _departures(broker: int, sessions: Sequence[Row]) -> list[Row]:
    """The records with which the broker stopped being active. Every session begins fenced: such a record is a departure
    only if the session before it was active, since then its process had gone unnoticed."""
    own = [s for s in sessions if s["broker_id"] == broker]
    return [b for a, b in pairwise(own) if is_away(b) and not is_away(a)]


def is_away(session: Row) -> bool:
    return bool(session["incarnation_id"] is None or session["fenced"] or session["in_controlled_shutdown"])


def _went_away(
    broker: int, event: Row | None, sessions: Sequence[Row], boots: Boots, finding: Row, logs: NodeLogs
) -> str:
    if event is None:
        return f"Broker {broker}: no record shows that it stopped; it may only have lagged."
    own = [s for s in sessions if s["broker_id"] == broker]
    unnoticed = _is_unnoticed(event, own)
    back = event if unnoticed else next((s for s in own if _is_new(s, event)), None)
    again = ""
    if back is not None:
        start = "this start" if unnoticed else f"its next start, at metadata offset {back['offset']},"
        again = f"; {start} {_restart(back)}"
    until = finding["end_timestamp_ms"] if back is None else back["timestamp_ms"]
    how = "registered again, as a new process, while its session lasted," if unnoticed else _how(event)
    happened = f"Broker {broker} {how} at {_at(event)}{again}{_boot(broker, event, until, boots, finding)}."
    fenced = event["fenced"] and not event["in_controlled_shutdown"] and not unnoticed
    said = [logs.departure(broker, event["broker_epoch"] if fenced else None, event["timestamp_ms"])]
    if fenced and not said[0]:
        said = [_NOT_RECORDED]
    said += [] if back is None else [logs.start(broker, back["broker_epoch"])]
    return " ".join(text for text in (happened, *said) if text)


def _is_unnoticed(event: Row, own: Sequence[Row]) -> bool:
    """Whether the record begins a session right after an active one."""
    last = [s for s in own if s["offset"] < event["offset"]]
    return bool(last and event["incarnation_id"] is not None and last[-1]["broker_epoch"] != event["broker_epoch"])


def _is_new(session: Row, event: Row) -> bool:
    new = session["incarnation_id"] is not None and session["broker_epoch"] != event["broker_epoch"]
    return bool(session["offset"] > event["offset"] and new)


def _how(event: Row) -> str:
    if event["incarnation_id"] is None:
        return "was unregistered"
    if event["in_controlled_shutdown"]:
        return "asked for a controlled shutdown"
    return "was fenced"


def _restart(back: Row) -> str:
    known = {"clean": "was treated as clean", "unclean": "was treated as unclean"}
    return known.get(back["restart_class"] or "", "is not known to be clean or unclean")


def _boot(broker: int, event: Row, until_ms: int | None, boots: Boots, finding: Row) -> str:
    readings = [r for r in boots.get(broker, ()) if r.boot_id is not None]
    error_ms = finding["clock_error_ms"] or 0
    if until_ms is None or event["timestamp_ms"] is None or not readings:
        return ""
    if is_same_boot(readings, event["timestamp_ms"], until_ms, error_ms):
        return "; its machine did not start again"
    before = {r.boot_id for r in readings if r.read_by_ms < event["timestamp_ms"] - error_ms}
    after = {r.boot_id for r in readings if r.captured_at_ms > until_ms + error_ms}
    return "; its machine started again between two readings" if before and after and not before & after else ""


def _shrank(spell: Sequence[Row], sessions: Sequence[Row], place: tuple[str, int], logs: NodeLogs) -> str:
    changes = [(a, b) for a, b in pairwise(spell) if set(a["isr"]) - set(b["isr"])]
    shown = "; ".join(
        f"{_list(a['isr'])} to {_list(b['isr'])} at {_at(b)}, {_why(a, b, sessions)}{_logged(logs, place, a, b)}"
        for a, b in changes[-_MOST:]
    )
    more = f"{len(changes) - _MOST} earlier changes; " if len(changes) > _MOST else ""
    return f"{more}{shown}." if shown else "No change of the ISR is between that state and the election."


def _logged(logs: NodeLogs, place: tuple[str, int], before: Row, after: Row) -> str:
    said = logs.smaller_isr(place, before, after)
    return f" ({said})" if said else ""


def _why(before: Row, after: Row, sessions: Sequence[Row]) -> str:
    """What made the controller write a state with fewer members, as far as its batch shows it."""
    gone = set(before["isr"]) - set(after["isr"])
    batch = [s for s in sessions if s["batch_base_offset"] == after["batch_base_offset"] and s["broker_id"] in gone]
    if batch:
        return "; ".join(
            dict.fromkeys(f"broker {s['broker_id']} {_how(s) if is_away(s) else 'registered'}" for s in batch)
        )
    if (before["leader"], before["leader_epoch"]) == (after["leader"], after["leader_epoch"]) and after["leader"] >= 0:
        return f"as leader {after['leader']} asked (no broker's record is in the batch)"
    return "no record in its batch shows why"


def _elected(finding: Row, election: Row | None) -> str:
    if election is None:
        return f"Broker {finding['recorded_leader']} at metadata offset {finding['election_offset']}."
    cause = _CAUSES.get(election["cause"] or "", f"cause {election['cause']}")
    actor = _ACTORS.get(election["actor"] or "")
    when = (
        f", when {actor}"
        if actor in ("a broker was unfenced", "a broker was fenced")
        else f" ({actor})"
        if actor
        else ""
    )
    previous = f" after leader {_leader(election['previous_leader'])}"
    return f"Broker {election['leader']}{previous} at {_at(election)}, {cause}{when}."


def _at(row: Row) -> str:
    return f"{moment(row['timestamp_ms'])} UTC (metadata offset {row['offset']})"


def _leader(broker: int | None) -> str:
    return "unknown" if broker is None else "none" if broker < 0 else str(broker)


def _list(brokers: Iterable[int] | None) -> str:
    return f"[{', '.join(map(str, brokers or ()))}]"


def labelled(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(label, line) of each line of `chain`."""
    return zip(LABELS, lines, strict=False)
