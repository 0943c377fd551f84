"""The chain of causes of a proven loss, in five lines: who was in sync, who went away and how, what shrank the ISR, who
was elected and why, what was cut off.

The first four lines are facts that the metadata log records, with what the nodes' own logs say of them; the last one
gives the bounds of the finding. Where no record shows a cause, the line says so.

Sources: docs/rules.md (triggers), KIP-966, KIP-101.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from replay.findings.statements import prose
from replay.incident.departures import departing, departure, how_recorded
from replay.incident.node_logs import NO_NODE_LOGS, NodeLogs
from replay.incident.words import ACTORS, ELECTIONS
from replay.plan.step import Row, is_away, moment

# The columns of partition_history, broker_history and elections that `chain` needs.
STATES = (
    *("offset", "timestamp_ms", "leader", "leader_epoch", "isr", "elr", "replicas", "min_isr", "removed"),
    "batch_base_offset",
)
SESSIONS = (
    *("offset", "timestamp_ms", "broker_id", "broker_epoch", "incarnation_id", "fenced", "in_controlled_shutdown"),
    *("restart_class", "batch_base_offset", "log_dirs", "origin"),
)
ELECTION = ("offset", "timestamp_ms", "leader", "leader_epoch", "previous_leader", "cause", "actor")
LABELS = ("In sync", "Went away", "Shrank the ISR", "Elected", "Cut off")
_MOST = 4  # changes of the ISR to list
_BOUNDS = (
    *("high_watermark_at_least", "floor_leader_alone", "floor_lone_leaders_log", "floor_told_clients", "floor_logged"),
    *("floor_logged_shrink", "floor_logged_truncation"),
    *("log_end", "log_end_at_most", "log_end_passed_on"),
    *("lost_at_least", "lost_at_most", "lost_open", "first_lost", "deleted_before"),
)


def chain(
    finding: Row, states: Sequence[Row], sessions: Sequence[Row], election: Row | None, logs: NodeLogs = NO_NODE_LOGS
) -> list[str]:
    """The five lines, without labels, in the order of LABELS; empty if the states before the election are unknown.

    finding: a window with a proven loss; states: STATES of its partition, by offset; sessions: SESSIONS of all brokers,
    by offset; election: ELECTION of the window, null if not captured; logs: of the nodes."""
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
        " ".join(_went_away(b, event, sessions, finding, logs) for b, event in in_order) or "Nobody left the ISR.",
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
    away = [s for s in departing(_own(broker, sessions)) if s["offset"] > spell[0]["offset"]]
    same = [s for s in away if s["batch_base_offset"] == left["batch_base_offset"]]
    before = [s for s in away if s["offset"] <= left["offset"]]
    return same[0] if same else before[-1] if before else None


def _went_away(broker: int, event: Row | None, sessions: Sequence[Row], finding: Row, logs: NodeLogs) -> str:
    if event is None:
        return f"Broker {broker}: no record shows that it stopped; it may only have lagged."
    error_ms, until_ms = finding["clock_error_ms"] or 0, finding["end_timestamp_ms"]
    return departure(event, _own(broker, sessions), logs, error_ms, until_ms).text


def _own(broker: int, sessions: Sequence[Row]) -> list[Row]:
    return [s for s in sessions if s["broker_id"] == broker]


def _shrank(spell: Sequence[Row], sessions: Sequence[Row], place: tuple[str, int], logs: NodeLogs) -> str:
    changes = [(a, b) for a, b in pairwise(spell) if set(a["isr"]) - set(b["isr"])]
    texts = []
    for before, after in changes[-_MOST:]:
        said = logs.smaller_isr(place, before, after)
        why = _why(before, after, sessions) + (f" ({said})" if said else "")
        texts.append(f"{_list(before['isr'])} to {_list(after['isr'])} at {_at(after)}, {why}")
    shown = "; ".join(texts)
    more = f"{len(changes) - _MOST} earlier changes; " if len(changes) > _MOST else ""
    return f"{more}{shown}." if shown else "No change of the ISR is between that state and the election."


def _why(before: Row, after: Row, sessions: Sequence[Row]) -> str:
    """What made the controller write a state with fewer members, as far as its batch shows it."""
    gone = set(before["isr"]) - set(after["isr"])
    batch = [s for s in sessions if s["batch_base_offset"] == after["batch_base_offset"] and s["broker_id"] in gone]
    if batch:
        return "; ".join(
            dict.fromkeys(f"broker {s['broker_id']} {how_recorded(s) if is_away(s) else 'registered'}" for s in batch)
        )
    if (before["leader"], before["leader_epoch"]) == (after["leader"], after["leader_epoch"]) and after["leader"] >= 0:
        return f"as leader {after['leader']} asked (no broker's record is in the batch)"
    return "no record in its batch shows why"


def _elected(finding: Row, election: Row | None) -> str:
    if election is None:
        return f"Broker {finding['recorded_leader']} at metadata offset {finding['election_offset']}."
    cause = ELECTIONS.get(election["cause"] or "", {"how": f"cause {election['cause']}"})["how"]
    when = ACTORS.get(election["actor"] or "", "")
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
