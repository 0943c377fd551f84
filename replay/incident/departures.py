"""How brokers went away: what the metadata log records of it, what their machines and logs show, and what follows.

The log records a controlled shutdown only if the broker had partitions to hand over, and never a kill. So a departure
has a way that is recorded, or one that is deduced from what came after it. The text keeps to what is recorded.

Sources: BrokerHeartbeatManager.calculateNextBrokerState, KIP-966 (clean and unclean registrations).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from replay.cluster.boots import is_same_boot
from replay.incident.node_logs import NO_NODE_LOGS, NodeLogs
from replay.plan.step import Row, is_away, moment

# How a broker went away. PAUSED: the same process came back. GONE: nothing shows how.
STOPPED, KILLED, REBOOTED, PAUSED = "stopped", "killed", "rebooted", "paused"
UNREGISTERED, GONE = "unregistered", "gone"
# A broker that leads nothing is fenced as soon as it asks to stop, and no record shows that it asked
# (BrokerHeartbeatManager.calculateNextBrokerState: SHUTDOWN_NOW).
_NOT_RECORDED = "No record shows whether its session timed out, or it stopped while it led nothing."
_NO_RESTART, _RESTART = "; its machine did not start again", "; its machine started again between two readings"


@dataclass(frozen=True, slots=True)
class Departure:
    """A broker that stopped being active, with that record of SESSIONS. way: one of those above; deduced: whether the
    way follows from what came after, and no record says it; unnoticed: a new process registered while the session of
    the one before lasted; text: what is recorded of it, in sentences."""

    broker_id: int
    offset: int
    timestamp_ms: int | None
    way: str
    deduced: bool
    unnoticed: bool
    text: str


def departing(sessions: Iterable[Row]) -> list[Row]:
    """The records with which a broker stopped being active. sessions: of one broker, by offset.

    Every session begins fenced: such a record is a departure only if the session before it was active, since then its
    process had gone unnoticed.
    """
    return [after for before, after in changes(sessions) if is_away(after) and not is_away(before)]


def changes(sessions: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """(record before, record) of each change. sessions: of one broker, by offset. After a gap a snapshot shows how the
    broker stood then, not when that began."""
    return ((before, after) for before, after in pairwise(sessions) if after.get("origin") != "checkpoint")


def departures(sessions: Iterable[Row], logs: NodeLogs = NO_NODE_LOGS, error_ms: int = 0) -> list[Departure]:
    """Those of all brokers. sessions: SESSIONS in any order; error_ms: how far the clocks that boot ids were read with
    can be off."""
    by_broker = groupby(sorted(sessions, key=lambda s: (s["broker_id"], s["offset"])), key=lambda s: s["broker_id"])
    histories = [list(rows) for _, rows in by_broker]
    return [departure(event, own, logs, error_ms) for own in histories for event in departing(own)]


def departure(
    event: Row, own: Sequence[Row], logs: NodeLogs = NO_NODE_LOGS, error_ms: int = 0, until_ms: int | None = None
) -> Departure:
    """A departure with that record. own: SESSIONS of the broker, by offset; until_ms: when to look for the machine's
    next start if the broker did not come back."""
    at = bisect_left(own, event["offset"], key=itemgetter("offset"))
    is_new = at > 0 and own[at - 1]["broker_epoch"] != event["broker_epoch"]
    broker, unnoticed = event["broker_id"], is_new and event["incarnation_id"] is not None
    back = event if unnoticed else next((own[n] for n in range(at + 1, len(own)) if _is_back(own[n], event)), None)
    by = "by" if back is not None and back.get("origin") == "checkpoint" else "at"
    same = back is not None and not unnoticed and back["broker_epoch"] == event["broker_epoch"]
    again = ""
    if back is not None and same:
        again = f"; the same process was active again {by} metadata offset {back['offset']}"
    elif back is not None:
        start = "this start" if unnoticed else f"its next start, {by} metadata offset {back['offset']},"
        treated = {"clean": "was treated as clean", "unclean": "was treated as unclean"}
        again = f"; {start} {treated.get(back['restart_class'] or '', 'is not known to be clean or unclean')}"
    how = "registered again, as a new process, while its session lasted," if unnoticed else how_recorded(event)
    boot = _boot(event, until_ms if back is None else back["timestamp_ms"], logs.boots.get(broker, ()), error_ms)
    happened = f"Broker {broker} {how} at {moment(event['timestamp_ms'])} UTC (metadata offset {event['offset']})"
    fenced = event["fenced"] and not event["in_controlled_shutdown"] and not unnoticed
    said = [logs.departure(broker, event["broker_epoch"] if fenced else None, event["timestamp_ms"])]
    if fenced and not said[0]:
        said = ["" if same else _NOT_RECORDED]
    said += [] if back is None or same else [logs.start(broker, back["broker_epoch"])]
    text = " ".join(part for part in (f"{happened}{again}{boot}.", *said) if part)
    ended = own[at - 1]["broker_epoch"] if at > 0 else None
    placed = {tuple(sorted(s.get("log_dirs") or ())) for s in own if s is back or s["broker_epoch"] == ended}
    way, deduced = (PAUSED, False) if same else _way(event, back, boot, logs, len(placed) > 1)
    return Departure(broker, event["offset"], event["timestamp_ms"], way, deduced, unnoticed, text)


def _way(event: Row, back: Row | None, boot: str, logs: NodeLogs, is_placed_anew: bool) -> tuple[str, bool]:
    """(how it went away, whether that is deduced). is_placed_anew: a log directory failed, came or went: then its start
    counts as unclean however it stopped (LogManager.readBrokerEpochFromCleanShutdownFiles, 3.9.1 to 4.3.1)."""
    if event["incarnation_id"] is None:
        return UNREGISTERED, False
    if event["in_controlled_shutdown"]:
        return STOPPED, False
    if boot == _RESTART:
        return REBOOTED, True
    if back is None:
        return GONE, False
    treated = {"clean": True, "unclean": None if is_placed_anew else False}.get(back["restart_class"] or "")
    clean = logs.found_clean(event["broker_id"], back["broker_epoch"]) if treated is None else treated
    return (GONE, False) if clean is None else (STOPPED if clean else KILLED, True)


def _is_back(session: Row, event: Row) -> bool:
    """Whether the session is that of a new process, or the same process is active again."""
    known = session["incarnation_id"] is not None
    return known and (session["broker_epoch"] != event["broker_epoch"] or not is_away(session))


def how_recorded(event: Row) -> str:
    """What the record of a departure says, as words after the broker's name."""
    if event["incarnation_id"] is None:
        return "was unregistered"
    if event["in_controlled_shutdown"]:
        return "asked for a controlled shutdown"
    return "was fenced"


def _boot(event: Row, until_ms: int | None, readings: Sequence[Any], error_ms: int) -> str:
    """Whether the machine started again while the broker was away; "" if its boot ids do not show it."""
    readings = [r for r in readings if r.boot_id is not None]
    if until_ms is None or event["timestamp_ms"] is None or not readings:
        return ""
    if is_same_boot(readings, event["timestamp_ms"], until_ms, error_ms):
        return _NO_RESTART
    before = {r.boot_id for r in readings if r.read_by_ms < event["timestamp_ms"] - error_ms}
    since = (r for r in readings if r.captured_at_ms > until_ms + error_ms)
    after = {r.boot_id for r in since if r.booted_by_ms is None or r.booted_by_ms <= until_ms}
    return _RESTART if before and after and not before & after else ""
