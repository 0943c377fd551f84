"""The timeline of the whole incident, to scale: lanes of marks, each lane one SVG that is as wide as the page.

A lane's SVG has 1000 units from the left to the right edge of the span that is shown; its height is stretched. So the
lanes need no script. The script (templates/timeline.js) moves the marks when the reader zooms, from the times in
their attributes, and shows a mark's text in the details panel: its first line is its name, the others are
"label: value". Pure; all text is escaped.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, islice, pairwise
from operator import itemgetter
from typing import Any

from markupsafe import Markup, escape

from jobs.incident.events import IncidentEvents, is_usable
from jobs.report import filters
from jobs.report.rows import VERDICTS, WORDS, broker_state, restarts, verdict_of
from replay.arrow.runs import groups
from replay.findings.kinds import HWM_REGRESSION, LAST_REPLICA, LEADERLESS, Section, kind_of
from replay.incident.departures import Departure
from replay.plan.step import Row

ELECTION, BROKER, CONTROLLER, CAPTURED = "election", "broker", "controller", "captured"
DELETED, CONFIG, STATE = "deleted", "config", "state"
ESTIMATE = "estimate"
WIDTH = 1000
MOST_WINDOW_LANES = 30
PRINTED_LANES = 14  # of brokers, and of windows; the others are not printed
_PAINTED_LAST = {verdict.name: -rank for rank, verdict in enumerate(VERDICTS)}
_BOXES = WORDS["boxes"]
_OTHERS = {Section.CUT_LOGS: "truncated logs", Section.RULES: "Kafka's rules", Section.FAULTS: "faults"}


@dataclass(frozen=True, slots=True)
class Mark:
    """Something at a time (end_ms is start_ms) or over a span. look: CSS classes; text: see above; offset: of the
    metadata record that shows it; place: id on the page of what has more of it, unless finding_id has; nature: ESTIMATE
    if it is no fact."""

    start_ms: int
    end_ms: int
    look: str
    kind: str
    text: str
    topic: str | None = None
    verdict: str = ""
    brokers: tuple[int, ...] = ()
    finding_id: str | None = None
    offset: int | None = None
    place: str | None = None
    nature: str = ""


def timeline_of(
    events: IncidentEvents, anchors: Mapping[str, str], states: Mapping[str, tuple[str, Sequence[Row]]]
) -> dict[str, Any] | None:
    """The timeline; None if no time is known. first_ms, last_ms: what it can show; from_ms, to_ms: what it shows at
    first; ticks: (time, date) at equal distances; groups: (title, lanes), these as `_Canvas.lane`; topics, brokers,
    kinds: what can be filtered by; left_out: sentences.

    anchors: finding_id -> the id of its place on the page; states: name of a
    partition -> (finding_id of its worst window, some of its history in order)."""
    if events.log is None or events.shown is None:
        return None
    captured = [row["captured_at_ms"] for row in events.captured]
    first, last = min([events.log[0], *captured]), max([events.log[1], *captured])
    topics = sorted({row["topic"] for row in (*events.windows, *events.exposures) if row["topic"] is not None})
    number = {topic: at for at, topic in enumerate(topics)}
    canvas = _Canvas(first, *events.shown, anchors, number)
    end = events.log[1]
    brokers = [(f"broker {n}", _sessions(n, rows, events.departures, end)) for n, rows in events.brokers.items()]
    lanes_of: list[tuple[str, list[tuple[str, list[Mark]]]]] = [
        ("Controllers", list(_controller_lanes(events.controllers, end))),
        ("Brokers", brokers),
        ("Elections", [("elections", _elections(events))] if events.elections else []),
        ("Windows", _window_lanes(events.windows, states, end)),
        ("Other findings", list(_other_lanes(events, end))),
        ("Topics", [("deleted", [_deleted(row) for row in events.deleted])] if events.deleted else []),
        ("Settings", [("changed", [_config(row) for row in events.configs])] if events.configs else []),
        ("Evidence", [("captured", [_captured(row) for row in events.captured])] if events.captured else []),
    ]
    drawn = [
        (title, [canvas.lane(name, marks, at < PRINTED_LANES) for at, (name, marks) in enumerate(lanes)])
        for title, lanes in lanes_of
        if lanes
    ]
    findings = (*events.windows, *events.exposures, *events.others)
    left_out = [f"{count} {{}} ({{}})".format(*WORDS["left_out"][name]) for name, count in events.left_out.items()]
    if events.no_time:
        left_out.append(f"{events.no_time} findings and elections without a known time")
    kinds = dict.fromkeys([*([ELECTION] if events.elections else []), *sorted({row["kind"] for row in findings})])
    return {
        "first_ms": first,
        "last_ms": last,
        "from_ms": canvas.from_ms,
        "to_ms": canvas.to_ms,
        "ticks": filters.axis_texts(*events.shown),
        "groups": drawn,
        "topics": [filters.topic_text(topic) for topic in topics],
        "brokers": list(events.brokers),
        "kinds": list(kinds),
        "left_out": left_out,
    }


@dataclass(frozen=True, slots=True)
class _Canvas:
    first_ms: int
    from_ms: int
    to_ms: int
    anchors: Mapping[str, str]
    topics: Mapping[str, int]

    def lane(self, name: str, marks: Sequence[Mark], printed: bool) -> Row:
        """One line of the timeline. summary: for readers who do not see it; printed: also on paper; height: in
        units."""
        drawing = Markup("".join(self._draw(mark) for mark in marks))
        height = sum(_BOXES["strip" if any(mark.kind == STATE for mark in marks) else "tick"])
        summary = _summary(name, marks)
        return {"name": name, "summary": summary, "drawing": drawing, "printed": printed, "height": height}

    def _x(self, time_ms: int) -> float:
        x = (time_ms - self.from_ms) * WIDTH / (self.to_ms - self.from_ms)
        return round(min(max(x, -20.0), WIDTH + 20.0), 2)

    def _draw(self, mark: Mark) -> str:
        left, right = self._x(mark.start_ms), self._x(mark.end_ms)
        anchor = self.anchors.get(mark.finding_id) if mark.finding_id else mark.place
        # The mark of the finding itself has an id, from that of the finding's place.
        is_own = anchor and mark.finding_id and mark.kind not in (ELECTION, STATE)
        own = f' id="t{escape(anchor[1:])}"' if anchor and is_own else ""
        given = {
            "t": self.topics.get(mark.topic) if mark.topic is not None else None,
            "v": mark.verdict or None,
            "b": " ".join(map(str, mark.brokers)) or None,
            "o": mark.offset,
            "n": mark.nature or None,
        }
        data = "".join(f' data-{name}="{value}"' for name, value in given.items() if value is not None)
        shape, _, look = mark.look.partition(" ")
        top, height = _BOXES.get(look) or _BOXES[shape]
        drawn = (
            f'<rect{own} class="{mark.look}" x="{left:.2f}" y="{top}"'
            f' width="{max(right - left, 0.02):.2f}" height="{height}"'
            f' data-s="{mark.start_ms - self.first_ms}" data-e="{mark.end_ms - self.first_ms}"'
            f' data-k="{escape(mark.kind)}"{data}><title>{escape(mark.text)}</title></rect>'
        )
        return f'<a href="#{escape(anchor)}" tabindex="-1">{drawn}</a>' if anchor else drawn


def _summary(name: str, marks: Sequence[Mark]) -> str:
    named = (BROKER, CONTROLLER)
    counts = Counter(m.text.partition(":")[0] if m.kind in named else m.verdict or m.kind for m in marks)
    shown = [f"{count} × {what}" for what, count in islice(counts.items(), 8)]
    return f"{name}: {', '.join(shown) or 'nothing'}"


def _controller_lanes(terms: Sequence[Row], end: int) -> Iterator[tuple[str, list[Mark]]]:
    fail_overs = groups(pairwise(terms), lambda pair: pair[1]["leader_id"])
    for leader, own in sorted(groups(terms, itemgetter("leader_id")).items()):
        marks = [_term(row, end) for row in own]
        yield f"controller {leader}", marks + [_fail_over(*pair) for pair in fail_overs.get(leader, ())]


def _elections(events: IncidentEvents) -> list[Mark]:
    judged = {(w["topic_id"], w["partition"], w["election_offset"]): w["finding_id"] for w in events.windows}
    rows = ((row, judged.get((row["topic_id"], row["partition"], row["offset"]))) for row in events.elections)
    order = ("usual", "no-leader", "of-elr", "unclean", "unclean forced")
    marks = (_election(row, finding_id) for row, finding_id in rows)
    return sorted(marks, key=lambda mark: order.index(mark.look.removeprefix("tick ")))


def _window_lanes(
    windows: Sequence[Row], states: Mapping[str, tuple[str, Sequence[Row]]], end: int
) -> list[tuple[str, list[Mark]]]:
    """By partition if these are few, with its states; else by topic. The worst first; the last lane has the rest."""
    by_partition = groups(windows, filters.partition_text)
    is_few = len(by_partition) <= MOST_WINDOW_LANES
    lanes = by_partition if is_few else groups(windows, lambda row: filters.topic_text(row["topic"]))
    ranked = sorted(lanes.items(), key=lambda lane: (min(-_PAINTED_LAST[verdict_of(r).name] for r in lane[1]), lane[0]))
    if len(ranked) > MOST_WINDOW_LANES:
        rest = ranked[MOST_WINDOW_LANES - 1 :]
        others = [row for _, rows in rest for row in rows]
        ranked = [*ranked[: MOST_WINDOW_LANES - 1], (f"{len(rest)} more topics", others)]
    drawn = []
    for name, rows in ranked:
        finding_id, history = states.get(name, ("", ())) if is_few else ("", ())
        rows = sorted(rows, key=lambda row: (_PAINTED_LAST[verdict_of(row).name], row["start_timestamp_ms"]))
        bars = [_finding(row, f"bar {verdict_of(row).name}", "window", end) for row in rows]
        drawn.append((name, [*_states(history, finding_id, end), *bars]))
    return drawn


def _other_lanes(events: IncidentEvents, end: int) -> Iterator[tuple[str, list[Mark]]]:
    for kind, name, look in ((LEADERLESS, "no leader", "bar leaderless"), (LAST_REPLICA, "one replica", "bar alone")):
        if marks := [_finding(row, look, name, end) for row in events.exposures if row["kind"] == kind]:
            yield name, marks
    for section, name in _OTHERS.items():
        rows = [row for row in events.others if kind_of(row["kind"]).section is section]
        if rows:
            yield (
                name,
                [_finding(row, "bar other", filters.visible(row["kind"]), row["start_timestamp_ms"]) for row in rows],
            )


def _mark(
    row: Row, look: str, kind: str, name: str, *facts: tuple[str, object], end_ms: int | None = None, **more: Any
) -> Mark:
    """A mark of a moment, or of a span. row: has its `timestamp_ms`, maybe its `offset` and `topic`; facts: (label,
    value) of what is known of it; more: other fields of Mark."""
    text = "\n".join([name, *(f"{label}: {value}" for label, value in facts if value not in (None, ""))])
    at_ms = row["timestamp_ms"]
    place: dict[str, Any] = {"offset": row.get("offset"), "topic": row.get("topic")}
    return Mark(at_ms, at_ms if end_ms is None else max(at_ms, end_ms), look, kind, text, **place | more)


def _times(start_ms: int, end_ms: int | None) -> list[tuple[str, object]]:
    lasted = filters.duration_text(start_ms, end_ms)
    until = [("Until", filters.utc_text(end_ms)), ("For", lasted)] if lasted else [("Until", "the end of the log")]
    return [("From", filters.utc_text(start_ms)), *until]


def _at(row: Row) -> list[tuple[str, object]]:
    return [("At", filters.utc_text(row["timestamp_ms"])), ("Metadata offset", row["offset"])]


def _term(row: Row, end: int) -> Mark:
    """An active controller's term."""
    until, name = row["end_timestamp_ms"], f"active: controller {row['leader_id']}"
    facts = ("Epoch", row["controller_epoch"]), *_times(row["timestamp_ms"], until)
    return _mark(row, "bar active", CONTROLLER, name, *facts, end_ms=end if until is None else until)


def _fail_over(before: Row, after: Row) -> Mark:
    old, new = before["leader_id"], after["leader_id"]
    what = f"controller {old} to {new}" if old != new else f"controller {new} in a new epoch"
    facts = ("Epoch", after["controller_epoch"]), *_at(after)
    return _mark(after, "tick failover", CONTROLLER, f"fail-over: {what}", *facts)


def _sessions(broker: int, rows: Sequence[Row], departures: Iterable[Departure], end: int) -> list[Mark]:
    """A broker's states as bars, ticks where a process of it registered after another one, and how it went away."""

    def mark(row: Row, look: str, name: str, *facts: tuple[str, object], **more: Any) -> Mark:
        more |= {"brokers": (broker,), "place": f"broker-{broker}"}
        return _mark(row, look, BROKER, f"{name}: broker {broker}", *facts, **more)

    marks = []
    for words, group in groupby(rows, key=broker_state):
        states = list(group)
        first, last = states[0], states[-1]
        if look := WORDS["broker_states"].get(words):
            start, until = first["timestamp_ms"], last["end_timestamp_ms"]
            shown_until = until if until is not None else end if last["end_offset"] is None else start
            facts = *_times(start, until), ("Metadata offset", first["offset"])
            marks.append(mark(first, look, words, *facts, end_ms=shown_until))
    for row in restarts(rows):
        how = row["restart_class"] or "unknown"
        look = how if how in ("clean", "unclean") else "unknown"
        marks.append(mark(row, f"tick restart {look}", f"{filters.visible(how)} restart", *_at(row)))
    for gone in departures:
        if gone.broker_id == broker:
            name, look, follows = WORDS["departures"][gone.way]
            deduced, nature = (" (deduced)", ESTIMATE) if gone.deduced else ("", "")
            row = asdict(gone)
            facts = *_at(row), ("Recorded", filters.visible(gone.text)), ("Deduced", follows if gone.deduced else None)
            marks.append(mark(row, look, f"{name}{deduced}", *facts, nature=nature))
    return marks


def _election(row: Row, finding_id: str | None) -> Mark:
    """finding_id: of the window that the election belongs to."""
    old, new, cause = row["previous_leader"], row["leader"], row["cause"] or ""
    look = WORDS["causes"].get(cause, "unclean" if cause.startswith("unclean") else "usual")
    name = f"election {filters.partition_text(row)}: leader {filters.leader_text(old)} to {filters.leader_text(new)}"
    facts = ("Cause", filters.visible(cause)), ("Leader epoch", row["leader_epoch"]), *_at(row)
    return _mark(row, f"tick {look}", ELECTION, name, *facts, brokers=_known(old, new), finding_id=finding_id)


def _known(*brokers: int | None) -> tuple[int, ...]:
    return tuple(broker for broker in brokers if broker is not None and broker >= 0)


def _finding(row: Row, look: str, name: str, end: int) -> Mark:
    """A finding under that name."""
    start, until, leader = row["start_timestamp_ms"], row["end_timestamp_ms"], row["recorded_leader"]
    verdict = verdict_of(row).name
    is_window = row["kind"] == HWM_REGRESSION
    of_window = (("Lost offsets", filters.lost_text(row)), ("Leader after it", filters.leader_text(leader)))
    exact = not is_window or row["loss_min"] == row["loss_max"]
    return _mark(
        {"timestamp_ms": start, "topic": row["topic"]},
        look,
        row["kind"],
        f"{name}: {filters.partition_text(row)}",
        ("Verdict", verdict),
        *(of_window if is_window else ()),
        ("Metadata offsets", filters.window_text(row) if row["start_offset"] is not None else None),
        *_times(start, until),
        ("Finding", filters.visible(row["finding_id"])),
        end_ms=end if until is None else until,
        verdict=verdict,
        brokers=_known(leader),
        finding_id=row["finding_id"],
        nature="" if verdict == "excluded" or (verdict == "proven" and exact) else ESTIMATE,
    )


def _states(history: Sequence[Row], finding_id: str, end: int) -> list[Mark]:
    """The states of a partition: rows of states.sql, some of it in order. A state whose next one is not known
    ends where it begins."""
    marks = []
    for row, after in zip(history, [*history[1:], None], strict=False):
        start, until = row["timestamp_ms"], None
        if row["removed"] or not is_usable(start):
            continue
        if after is not None and after["place"] == row["place"] + 1:
            until = after["timestamp_ms"]
        is_last = row["place"] + 1 == row["total"]
        leader, isr = row["leader"], row["isr"]
        few = isr is not None and len(isr) < max(2, row["min_isr"] or 1)
        look = "unknown" if leader is None else "leaderless" if leader < 0 else "few" if few else "up"
        led_by = "no leader" if look == "leaderless" else f"leader {filters.leader_text(leader)}"
        marks.append(
            _mark(
                row,
                f"strip {look}",
                STATE,
                f"state of {filters.partition_text(row)}: {led_by}",
                ("ISR", filters.brokers_text(isr)),
                ("ELR", filters.brokers_text(row["elr"])),
                ("Last known ELR", filters.brokers_text(row["last_known_elr"])),
                ("Replicas", filters.brokers_text(row["replicas"])),
                ("Min ISR", filters.known_text(row["min_isr"])),
                ("Leader epoch", filters.known_text(row["leader_epoch"])),
                ("Partition epoch", filters.known_text(row["partition_epoch"])),
                ("Recovery", filters.known_text(row["leader_recovery_state"])),
                *_times(start, until if until is not None or is_last else start),
                ("Metadata offset", row["offset"]),
                end_ms=end if until is None and is_last else until,
                brokers=_known(leader),
                finding_id=finding_id,
            )
        )
    return marks


def _deleted(row: Row) -> Mark:
    """A topic that was deleted."""
    at, again = row["deleted_ms"], None
    if row["next_id"] is not None:
        again = f"{filters.utc_text(row['next_ms'])}, as topic id {row['next_id']}"
    facts = ("Topic id", row["topic_id"]), ("At", filters.utc_text(at)), ("Created again", again)
    then = {"timestamp_ms": at, "topic": row["topic"]}
    return _mark(then, "tick failover", DELETED, f"deleted: topic {filters.topic_text(row['topic'])}", *facts)


def _config(row: Row) -> Mark:
    """A setting that was changed."""
    of = row["resource_type"]
    whose = f"{of} {filters.visible(row['resource_name'])}" if row["resource_name"] else f"all {of}s"
    is_now, was = ("not set" if row[name] is None else filters.visible(row[name]) for name in ("value", "before"))
    name, topic = f"config {filters.visible(row['name'])} of {whose}: {was} to {is_now}", row["resource_name"]
    return _mark(row, "tick config", CONFIG, name, *_at(row), topic=topic if of == "topic" else None)


def _captured(row: Row) -> Mark:
    """When files were captured."""
    at, nodes = row["captured_at_ms"], ", ".join(map(str, row["nodes"][:20]))
    facts = ("Nodes", nodes or "not known"), ("At", f"{filters.utc_text(at)}, by the capturing machine's clock")
    name = f"captured: {row['files']} files"
    return _mark({"timestamp_ms": at}, "tick captured", CAPTURED, name, *facts, place="evidence")
