"""Page one of an incident: its cause, what happened in words, what is down, what would have prevented it.

Every sentence is a fact of the log, the bound of a finding, or says that it is a prediction. A cause is named for a
proven loss only: for other windows the sentence says what made a loss possible.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Any

from replay.arrow.runs import groups
from replay.incident.answer import LOST, at_least, places
from replay.incident.departures import KILLED, STOPPED, UNREGISTERED, Departure, changes, departure
from replay.incident.words import ELECTIONS
from replay.loss.verdicts import PROVEN
from replay.plan.inputs import PlanInput
from replay.plan.step import Row, count, is_active, is_away, joined

_TIME = itemgetter("timestamp_ms")

# Elections this close to each other, of one leader and for one reason, are one incident.
_NEAR_MS = 60_000
# What happened this long before the first window is part of the timeline.
_BEFORE_MS = 60_000
MOST_INCIDENTS, MOST_MOMENTS = 20, 40
_SHOWN = 3
_CONFIG = "unclean.leader.election.enable"
_UNKNOWN = {"led": "broker {b} came to lead {p}"}


def page_one(
    answer: Row, windows: Sequence[Row], sessions: Sequence[Row], leaderless: Sequence[Row], given: PlanInput
) -> dict[str, Any]:
    """The words of page one: keys as in docs/verdict.md.

    answer: of replay/incident/answer.py. windows: its proven and undecided ones, each with `verdict`, of its election
    `cause`, `previous_leader`, `isr_before`, `elr_before` and `elected_ms` (null if not captured), and `cut`: whether
    the new leader's log lost its end before. sessions: SESSIONS by offset. leaderless: states without a leader
    {topic_id, topic, partition, offset, timestamp_ms}, by offset. given: the cluster at the log's end."""
    of_all = answer["undecided_windows"] + (answer["lost"]["windows"] if answer["lost"] else 0)
    windows = [{**row, "left_out": of_all > len(windows)} for row in windows]
    found = _incidents(windows)
    return {
        "cause": _cause(answer, found),
        "incidents": [_as_row(each) for each in found[:MOST_INCIDENTS]],
        "incident_count": len(found),
        "now": list(_now(given, answer)),
        "timeline": _timeline(windows, found, sessions, leaderless)[:MOST_MOMENTS],
        "prevention": list(_prevention(found)),
    }


def _incidents(windows: Sequence[Row]) -> list[list[Row]]:
    """The windows by cause: those with a proven loss first, then by time."""
    found: list[list[Row]] = []
    for row in sorted(windows, key=lambda r: (r["elected_ms"] or 0, r["topic"], r["partition"] or 0)):
        near = (g for g in found if all(g[-1][n] == row[n] for n in ("cause", "recorded_leader")))
        near = (g for g in near if (row["elected_ms"] or 0) - (g[-1]["elected_ms"] or 0) <= _NEAR_MS)
        if (group := next(near, None)) is not None:
            group.append(row)
        else:
            found.append([row])
    return sorted(found, key=lambda group: not _proven(group))


def _proven(windows: Iterable[Row]) -> list[Row]:
    return [row for row in windows if row["verdict"] == PROVEN]


def _led(windows: Sequence[Row]) -> str:
    first = windows[0]
    leader = first["recorded_leader"]
    text: str = ELECTIONS.get(first["cause"] or "", _UNKNOWN)["led"]
    return text.format(b="?" if leader is None else leader, p=places(windows))


def _is_unclean(windows: Sequence[Row]) -> bool:
    return "is_unclean" in ELECTIONS.get(windows[0]["cause"] or "", ())


def _short(windows: Sequence[Row]) -> str:
    """The cause of a proven loss."""
    if any(row["cut"] for row in windows):
        return f"{_led(windows)} with a log that lost its end around then"
    return _led(windows) + ("" if _is_unclean(windows) else " with a log that lacked records")


def _cause(answer: Row, found: Sequence[Sequence[Row]]) -> str:
    """The cause of what is proven, in one sentence; what made a loss possible if none is."""
    if answer["status"] == LOST:
        return _sentence(_some([_short(rows) for group in found if (rows := _proven(group))]))
    if not found:
        return ""
    return f"No loss is proven. One is possible where {_some([*map(_led, found)])}."


def _some(causes: Sequence[str]) -> str:
    left = [f"{len(causes) - _SHOWN} more causes"] if len(causes) > _SHOWN + 1 else causes[_SHOWN:]
    return "; ".join([*causes[:_SHOWN], *left])


def _sentence(text: str) -> str:
    """With a capital letter, unless it begins with a config's name."""
    return text + "." if text.startswith(_CONFIG) else text[:1].upper() + text[1:] + "."


def _as_row(windows: Sequence[Row]) -> dict[str, Any]:
    """An incident: its sentence, the windows, and when it began and was over."""
    ends = [row["end_timestamp_ms"] for row in windows]
    return {
        "text": _sentence(f"{_led(windows)}: {_outcome(windows)}"),
        "cause": windows[0]["cause"],
        "leader": windows[0]["recorded_leader"],
        "from_ms": min((r["start_timestamp_ms"] for r in windows if r["start_timestamp_ms"] is not None), default=None),
        "elected_ms": windows[0]["elected_ms"],
        "until_ms": None if None in ends else max(ends),
        "finding_ids": [row["finding_id"] for row in windows],
    }


def _outcome(windows: Sequence[Row]) -> str:
    """What was lost, as far as it is proven."""
    proven, rest = _proven(windows), [row for row in windows if row["verdict"] != PROVEN]
    texts = []
    if proven:
        low = sum(row["loss_min"] or 0 for row in proven)
        exact = all(row["loss_min"] == row["loss_max"] for row in proven) and not at_least(proven)
        of = f" of {places(proven)}" if rest else ""
        texts.append(f"{'' if exact else 'at least '}{count(low, 'record')}{of} lost")
    if rest:
        texts.append(f"a loss{f' of {places(rest)}' if proven else ''} is possible")
    return ", ".join(texts)


def _now(given: PlanInput, answer: Row) -> Iterator[str]:
    """How the cluster stood when the captured log ended."""
    if answer["gap_count"] and not given.current:
        yield "No partition's state is known: no captured snapshot follows the last gap in the log."
        return
    known = {broker for broker, row in given.brokers.items() if row["incarnation_id"] is not None}
    down = sorted(broker for broker in known if not is_active(given.brokers, broker))
    if down:
        who = "all brokers" if len(down) == len(known) > 1 else joined(down)
        yield f"{_have(who, len(down), 'is')} down."
    waiting, alone = sum(each.count for each in given.waiting), sum(given.alone_count.values())
    if waiting:
        yield f"{_have(count(waiting, 'partition'), waiting)} no leader."
    if alone:
        yield f"{_have(count(alone, 'partition'), alone)} one safe copy left."
    if given.current and not (down or waiting or alone):
        yield "Every broker is up; every partition has a leader, and with several replicas more than one safe copy."


def _have(subject: str, number: int, verb: str = "has") -> str:
    plural = {"has": "have", "is": "are"}[verb]
    return f"{subject[:1].upper()}{subject[1:]} {verb if number == 1 else plural}"


def _timeline(
    windows: Sequence[Row], found: Sequence[Sequence[Row]], sessions: Sequence[Row], leaderless: Sequence[Row]
) -> list[dict[str, Any]]:
    """What happened, a row for each second: {at_ms, text, proven: whether a proven loss is about it}."""
    moments: list[tuple[int, int, bool, str]] = []  # time, order within a second, proven, text
    for at_ms, text, about in _comings_and_goings(windows, sessions):
        moments.append((at_ms, 0, bool(_proven(about)), text))
    by_partition = groups(leaderless, lambda state: (state["topic_id"], state["partition"]))
    firsts = ((w, _first_leaderless(w, by_partition.get((w["topic_id"], w["partition"]), []))) for w in windows)
    began = [{**w, "since_ms": s["timestamp_ms"], "since": s["offset"]} for w, s in firsts if s is not None]
    for at_ms, rows in _by_second(sorted(began, key=itemgetter("since")), "since_ms"):
        moments.append((at_ms, 1, bool(_proven(rows)), f"no leader: {places(rows)}"))
    for at_ms, rows in (pair for group in found for pair in _by_second(group, "elected_ms")):
        how = " uncleanly" if _is_unclean(rows) else ""
        elected = f"broker {rows[0]['recorded_leader']} elected{how} for {places(rows)}"
        moments.append((at_ms, 2, bool(_proven(rows)), f"{elected}: {_outcome(rows)}"))
    for at_ms, rows in _by_second(
        [w for w in _proven(windows) if w["elected_ms"] != w["end_timestamp_ms"]], "end_timestamp_ms"
    ):
        moments.append((at_ms, 3, True, f"enough replicas in sync again: {places(rows)}"))
    seconds = groupby(sorted(moments), key=lambda moment: moment[0] // 1000)
    by_second = [_second(list(group)) for _, group in seconds]
    chosen = sorted(by_second, key=lambda second: not second["proven"])[:MOST_MOMENTS]
    return sorted(chosen, key=lambda second: second["at_ms"])


def _second(moments: Sequence[tuple[int, int, bool, str]]) -> dict[str, Any]:
    text = "; ".join(dict.fromkeys(text for *_, text in moments))
    return {"at_ms": moments[0][0], "text": text, "proven": any(proven for _, _, proven, _ in moments)}


def members(window: Row) -> tuple[int | None, ...]:
    """The brokers that a window is about, of its election: None or -1 for nobody, maybe twice."""
    return window["previous_leader"], window["recorded_leader"], *window["isr_before"], *window["elr_before"]


def _span_ms(window: Row, broker: int, came: bool) -> tuple[float, float]:
    """From when until when a member's departure or return is part of a window: a return only before its election."""
    start, elected, end = (window[name] for name in ("start_timestamp_ms", "elected_ms", "end_timestamp_ms"))
    if start is None or (came and broker == window["recorded_leader"]):
        return inf, -inf
    return (start, (elected or start) - 1) if came else (start - _BEFORE_MS, inf if end is None else end)


def _first_leaderless(window: Row, states: Sequence[Row]) -> Row | None:
    """The first of a partition's states, by offset, between the window's begin and its election."""
    start, election = window["start_offset"], window["election_offset"]
    if start is None or election is None:
        return None
    at = bisect_left(states, start, key=itemgetter("offset"))
    return states[at] if at < len(states) and states[at]["offset"] < election else None


def _by_second(rows: Iterable[Row], name: str) -> list[tuple[int, list[Row]]]:
    """(time, rows) of each second of the column `name`."""
    timed = sorted((row for row in rows if row[name] is not None), key=lambda row: row[name])
    return [(group[0][name], group) for group in groups(timed, lambda row: row[name] // 1000).values()]


def _comings_and_goings(windows: Sequence[Row], sessions: Sequence[Row]) -> Iterator[tuple[int, str, list[Row]]]:
    """(time, what a broker did, windows) of each departure and return that is part of windows."""
    for broker, own in groups(sessions, itemgetter("broker_id")).items():
        own_windows = [window for window in windows if broker in members(window)]
        for came in (False, True):
            moves = [after for before, after in changes(own) if is_away(before) is came and is_away(after) is not came]
            moves = sorted((move for move in moves if move["timestamp_ms"] is not None), key=_TIME)
            about: dict[int, list[Row]] = defaultdict(list)
            for window in own_windows:
                first_ms, last_ms = _span_ms(window, broker, came)
                for at in range(bisect_left(moves, first_ms, key=_TIME), bisect_right(moves, last_ms, key=_TIME)):
                    about[at].append(window)
            for at, found in about.items():
                did = "is back" if came else _went(departure(moves[at], own))
                yield moves[at]["timestamp_ms"], f"broker {broker} {did}", found


def _went(gone: Departure) -> str:
    if gone.unnoticed:
        return "started again, unnoticed until then"
    if gone.way == STOPPED and not gone.deduced:
        return "is shutting down"
    return {UNREGISTERED: "was unregistered", KILLED: "is gone (not a clean stop)"}.get(gone.way, "is gone")


def _prevention(found: Sequence[Sequence[Row]]) -> Iterator[str]:
    """What Kafka's rules would have done instead, for each proven cause: predictions."""
    proven = [row for group in found for row in _proven(group)]
    for cause, rows in groups(proven, lambda row: row["cause"] or "").items():
        if (what := ELECTIONS.get(cause, {}).get("instead")) is not None:
            held = sorted({broker for row in rows for broker in (*row["isr_before"], *row["elr_before"])})
            then = f"would have waited for {joined(held, 'or')}" if held else "would have had no leader"
            yield what.format(p=places(rows), then=then)
