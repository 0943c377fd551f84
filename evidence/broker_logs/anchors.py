"""How far each node's wall clock is from the controllers' clock, by events that the metadata log and the node's own log
both tell of (jobs/detect/anchors.sql finds them). Pure.

A broker logs a partition's state after the record that made it, whenever that was: line less record bounds the wall
clock's lead from above, and the least of many such differences is close to it. What a broker logs before it asks the
controller for a record (it is starting; its leader shrinks an ISR) bounds it from below. A controller's own lines bound
nothing: the active one applies records before it appends them.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import pyarrow as pa
import pyarrow.compute as pc

from evidence import tables
from evidence.broker_logs.times import QUARTER_MS, quarter_hours, zone_between
from evidence.tables import Row, with_column

PRINTED, START_TIME, ANCHORS = "printed", "start_time", "anchors"
_AFTER_ITS_RECORD = ("leader_started", "follower_started", "leader_unchanged", "follower_unchanged", "isr_updated")
_OF_SESSIONS = ("broker_starting", "broker_registered", "controlled_shutdown_started")
# The kinds of lines that may be anchors.
KINDS_OF_ANCHORS = (*_AFTER_ITS_RECORD, "isr_shrinking", *_OF_SESSIONS)
# A node's clock is taken to be closer than this to the controllers' where only anchors show its zone; where it was not,
# or another zone than the one that is shown counted, nothing follows from the node's times.
_CLOCK_ERROR_MS = 60_000
# By how much a zone's clocks go forward in spring and back in autumn (Lord Howe: half an hour).
_SUMMER_TIMES_MS = (1_800_000, 3_600_000)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line and the record that it is about. logged_at_ms less record_ms is at least what the wall clock is ahead
    (is_upper), or at most that."""

    node_id: int
    record_ms: int
    logged_at_ms: int
    is_upper: bool

    @property
    def difference_ms(self) -> int:
        return self.logged_at_ms - self.record_ms


def node_clocks(anchors: Iterable[Anchor], events: pa.Table, boots: pa.Table | None = None) -> pa.Table:
    """tables.NODE_CLOCKS: for each node with an anchor a row, or several where its clock or zone was set meanwhile (no
    one offset satisfies all bounds), by time. A row's bounds hold for a clock that was not set between from_ms and
    to_ms; one that was set by less than the bounds are apart is not noticed.

    events, boots: tables.BROKER_LOG_EVENTS and NODE_BOOTS, which may show zones.
    """
    by_node: dict[int, list[Anchor]] = defaultdict(list)
    for anchor in anchors:
        by_node[anchor.node_id].append(anchor)
    printed, rows = _printed_zones(events, boots), list[Row]()
    for node, of_node in sorted(by_node.items()):
        for row in _spans(of_node):
            zone_ms, source = _zone(row, printed.get(node, {}))
            rows.append({"node_id": node, **row, "zone_ms": zone_ms, "zone_source": source, **_errors(row, zone_ms)})
    return pa.Table.from_pylist(rows, schema=tables.NODE_CLOCKS)


def with_utc(events: pa.Table, clocks: pa.Table) -> pa.Table:
    """The events with logged_at_utc_ms where their node's zone at that time is known: still by the node's own clock,
    which error_lower_ms and error_upper_ms bound. Between two rows of one node that differ in zone it stays null. It is
    null, even if it was printed, where the clock or the zone was certainly wrong by more than a minute, or the zone
    that counted may be of another time of the year."""
    spans = _by_node(clocks)
    columns = (events[name].to_pylist() for name in ("node_id", "logged_at_ms", "logged_at_utc_ms"))
    utc = []
    for node, wall, known in zip(*columns, strict=True):
        own = spans.get(node, [])
        if known is not None:
            doubted = wall is not None and (
                _is_wrong(wall, own) or any(_is_of_another_season(wall - known, span) for span in own)
            )
            utc.append(None if doubted else known)
        else:
            utc.append(None if wall is None else _in_utc(wall, own))
    return with_column(events, "logged_at_utc_ms", utc)


def least_error_ms(clocks: pa.Table) -> int:
    """By how many ms some node's clock was certainly off, of those whose times `with_utc` gives."""
    errors = (_least_error_ms(span) for span in clocks.to_pylist())
    return max((error for error in errors if error <= _CLOCK_ERROR_MS), default=0)


def boots_in_utc(boots: pa.Table, clocks: pa.Table) -> pa.Table:
    """tables.NODE_BOOTS with first_event_ms and last_event_ms in UTC; null where the node's zone is not known, or its
    clock or zone was set meanwhile or certainly wrong."""
    spans, nodes = _by_node(clocks), boots["node_id"].to_pylist()
    for name in ("first_event_ms", "last_event_ms"):
        times = zip(nodes, boots[name].to_pylist(), strict=True)
        known = [None if at is None or len(spans.get(n, ())) != 1 else _in_utc(at, spans[n]) for n, at in times]
        boots = with_column(boots, name, known)
    return boots


def _by_node(clocks: pa.Table) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in clocks.to_pylist():
        found[row["node_id"]].append(row)
    return found


def _least_error_ms(span: Row) -> int:
    return max(0, span["error_lower_ms"] or 0, -(span["error_upper_ms"] or 0))


def _is_wrong(wall_ms: int, spans: list[Row]) -> bool:
    around = [s for s in spans if s["from_ms"] is not None and s["from_ms"] <= wall_ms <= s["to_ms"]] or spans
    return any(_least_error_ms(span) > _CLOCK_ERROR_MS for span in around)


def _in_utc(wall_ms: int, spans: list[Row]) -> int | None:
    if _is_wrong(wall_ms, spans):
        return None
    zones = {s["zone_ms"] for s in spans}
    if len(zones) > 1:
        zones = {s["zone_ms"] for s in spans if s["from_ms"] <= wall_ms <= s["to_ms"]}
    zone_ms = next(iter(zones)) if len(zones) == 1 else None
    return None if zone_ms is None else wall_ms - zone_ms


def _spans(anchors: list[Anchor]) -> list[Row]:
    """Stretches of anchors, by their records' time, that one offset satisfies."""
    spans: list[list[Anchor]] = []
    lower, upper = -inf, inf
    for anchor in sorted(anchors, key=lambda a: (a.record_ms, a.logged_at_ms, a.is_upper)):
        ahead = anchor.difference_ms
        if not spans or (ahead < lower if anchor.is_upper else ahead > upper):
            spans.append([])
            lower, upper = -inf, inf
        spans[-1].append(anchor)
        lower, upper = (lower, min(upper, ahead)) if anchor.is_upper else (max(lower, ahead), upper)
    return [_span(part) for own in spans for part in _without_summer_time(own)]


def _without_summer_time(anchors: list[Anchor]) -> list[list[Anchor]]:
    """The anchors of one span, and apart from them its first and last ones if all of these bound the offset from above,
    by an hour more than others do: a zone whose clocks went back or forward meanwhile."""
    ordered = sorted(anchors, key=lambda a: a.logged_at_ms)
    least = min((a.difference_ms for a in ordered if a.is_upper), default=0)
    kept = [i for i, a in enumerate(ordered) if not a.is_upper or a.difference_ms - least < QUARTER_MS]
    begin = kept[0] if _is_shifted(ordered[: kept[0]], least) else 0
    end = kept[-1] + 1 if _is_shifted(ordered[kept[-1] + 1 :], least) else len(ordered)
    return [part for part in (ordered[:begin], ordered[begin:end], ordered[end:]) if part]


def _is_shifted(anchors: list[Anchor], least_ms: int) -> bool:
    return bool(anchors) and _is_summer_time(min(a.difference_ms for a in anchors) - least_ms)


def _is_summer_time(ms: int) -> bool:
    return any(abs(ms - shift) <= _CLOCK_ERROR_MS for shift in _SUMMER_TIMES_MS)


def _span(anchors: list[Anchor]) -> Row:
    lower, upper = ([a.difference_ms for a in anchors if a.is_upper is side] for side in (False, True))
    times = [a.logged_at_ms for a in anchors]
    return {
        "from_ms": min(times),
        "to_ms": max(times),
        "offset_lower_ms": max(lower, default=None),
        "offset_upper_ms": min(upper, default=None),
        "lower_anchors": len(lower),
        "upper_anchors": len(upper),
    }


def _printed_zones(events: pa.Table, boots: pa.Table | None) -> dict[int, dict[int, str]]:
    """By node: the zones that its lines show themselves, and how."""
    zones: dict[int, dict[int, str]] = defaultdict(dict)
    stamped = events.filter(pc.and_(pc.is_valid(events["logged_at_utc_ms"]), pc.is_valid(events["node_id"])))
    names = ["node_id", "logged_at_ms", "logged_at_utc_ms"]
    rows = stamped.select(names).to_pylist()
    for node, zone_ms in {(r["node_id"], zone_between(r[names[1]], r[names[2]])) for r in rows}:
        zones[node][zone_ms] = PRINTED
    for row in boots.to_pylist() if boots is not None else ():
        if row["node_id"] is not None and row["zone_ms"] is not None:
            zones[row["node_id"]].setdefault(row["zone_ms"], START_TIME)
    return zones


def _zone(row: Row, printed: dict[int, str]) -> tuple[int | None, str | None]:
    """The zone's part of a span's offset, and what shows it."""
    lower, upper = row["offset_lower_ms"], row["offset_upper_ms"]
    if printed:
        zone_ms = min(printed, key=lambda z: abs(z - _reference(row)))
        return (None, None) if _is_of_another_season(zone_ms, row) else (zone_ms, printed[zone_ms])
    if lower is None or upper is None:
        return None, None
    candidates = range(quarter_hours(lower - _CLOCK_ERROR_MS), upper + _CLOCK_ERROR_MS + 1, QUARTER_MS)
    fitting = [z for z in candidates if lower - _CLOCK_ERROR_MS <= z <= upper + _CLOCK_ERROR_MS]
    return (fitting[0], ANCHORS) if len(fitting) == 1 else (None, None)


def _is_of_another_season(zone_ms: int, row: Row) -> bool:
    """Whether a zone may be the one of another time of the year than that of a span, which is bounded from one side."""
    bounds = row["offset_lower_ms"], row["offset_upper_ms"]
    return None in bounds and _is_summer_time(abs(_reference(row) - zone_ms))


def _reference(row: Row) -> int:
    lower, upper = row["offset_lower_ms"], row["offset_upper_ms"]
    return int(upper if upper is not None else lower)


def _errors(row: Row, zone_ms: int | None) -> Row:
    bounds = {"error_lower_ms": row["offset_lower_ms"], "error_upper_ms": row["offset_upper_ms"]}
    return {k: None if v is None or zone_ms is None else v - zone_ms for k, v in bounds.items()}
