"""The timeline of the whole incident, to scale: lanes of marks, each lane one SVG that is as wide as the page.

A lane's SVG has 1000 units from the left to the right edge of the span that is shown; its height is stretched. So the
lanes need no script. The script (templates/timeline.js) moves the marks when the reader zooms, from the times in
their attributes. Pure; all text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from markupsafe import Markup, escape

from jobs.incident.events import Events
from jobs.report.filters import (
    axis_texts,
    duration_text,
    leader_text,
    loss_text,
    partition_text,
    topic_text,
    utc_text,
    visible,
    window_text,
)
from jobs.report.rows import VERDICTS, verdict_of
from jobs.report.sections import broker_state, restarts
from replay.findings.kinds import LAST_REPLICA, LEADERLESS, Section, kind_of

Row = Mapping[str, Any]

WIDTH = 1000
MOST_WINDOW_LANES = 30
PRINTED_LANES = 14  # of brokers, and of windows; the others are not printed
ELECTION, BROKER, CONTROLLER, CAPTURED = "election", "broker", "controller", "captured"
DELETED, CONFIG = "deleted", "config"
_PAINTED_LAST = {verdict.name: -rank for rank, verdict in enumerate(VERDICTS)}
_LEFT_OUT = {
    "windows": ("windows", "excluded or smaller ones"),
    "exposures": ("exposures", "shorter ones"),
    "others": ("other findings", "less grave ones"),
    "elections": ("elections", "within the ISR, or later ones"),
    "brokers": ("brokers", "those that no window is about"),
    "controllers": ("terms of controllers", "earlier ones"),
}
_OTHERS = {
    Section.CUT_LOGS: "truncated logs",
    Section.RULES: "Kafka's rules",
    Section.FAULTS: "faults",
}
# (top, height) of a mark of 20 units, by its look: each is recognised without its colour, too.
_TICK, _BAR = (0, 20), (4, 12)
_BOXES = {
    "fenced": (8, 4),
    "leaving": (6, 8),
    "proven": (1, 18),
    "undetermined": (6, 8),
    "excluded": (7, 6),
    "alone": (7, 6),
}
_STATES = {"up": "bar up", "fenced": "bar fenced", "shutting down": "bar leaving"}
_CAUSES = {
    "leaderless": "no-leader",
    "elr": "of-elr",
    "last_known_leader": "of-elr",
    "unclean_by_administrator": "unclean forced",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """Something at a time (end_ms is start_ms) or over a span. look: CSS classes; context: never filtered away."""

    start_ms: int
    end_ms: int
    look: str
    kind: str
    text: str
    topic: str | None = None
    verdict: str = ""
    brokers: tuple[int, ...] = ()
    finding_id: str | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of the timeline. summary: for readers who do not see it; printed: also on paper."""

    name: str
    summary: str
    drawing: Markup
    printed: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timeline of a page. first_ms, last_ms: what it can show; from_ms, to_ms: what it shows at first; ticks:
    (time, date) at equal distances; groups: (title, lanes); topics, brokers, kinds: what can be filtered by;
    left_out: sentences."""

    first_ms: int
    last_ms: int
    from_ms: int
    to_ms: int
    ticks: list[tuple[str, str]]
    groups: list[tuple[str, list[Lane]]]
    topics: list[str]
    brokers: list[int]
    kinds: list[str]
    left_out: list[str]


def timeline_of(events: Events, anchors: Mapping[str, str]) -> Timeline | None:
    """The timeline; None if no time is known. anchors: finding_id -> the id of its place on the page."""
    if events.log is None or events.shown is None:
        return None
    captured = [row["captured_at_ms"] for row in events.captured]
    first, last = min([events.log[0], *captured]), max([events.log[1], *captured])
    topics = sorted({row["topic"] for row in (*events.windows, *events.exposures) if row["topic"] is not None})
    number = {topic: at for at, topic in enumerate(topics)}
    canvas = _Canvas(first, *events.shown, anchors, number)
    end = events.log[1]
    groups: list[tuple[str, list[tuple[str, list[Mark]]]]] = [
        ("Controllers", list(_controller_lanes(events.controllers, end))),
        ("Brokers", [(f"broker {broker}", _sessions(broker, rows, end)) for broker, rows in events.brokers.items()]),
        ("Elections", [("elections", _elections(events))] if events.elections else []),
        ("Windows", _window_lanes(events.windows, end)),
        ("Other findings", list(_other_lanes(events, end))),
        ("Topics", [("deleted", [_deleted(row) for row in events.deleted])] if events.deleted else []),
        ("Settings", [("changed", [_config(row) for row in events.configs])] if events.configs else []),
        ("Evidence", [("captured", [_captured(row) for row in events.captured])] if events.captured else []),
    ]
    drawn = [
        (title, [canvas.lane(name, marks, at < PRINTED_LANES) for at, (name, marks) in enumerate(lanes)])
        for title, lanes in groups
        if lanes
    ]
    findings = (*events.windows, *events.exposures, *events.others)
    kinds = dict.fromkeys([*([ELECTION] if events.elections else []), *sorted({row["kind"] for row in findings})])
    return Timeline(
        first,
        last,
        *events.shown,
        axis_texts(*events.shown),
        drawn,
        [topic_text(topic) for topic in topics],
        list(events.brokers),
        list(kinds),
        _left_out(events),
    )


def timeline_id(anchor: str) -> str:
    """The id of a finding's mark, from the anchor of its place on the page."""
    return f"t{anchor[1:]}"


@dataclass(frozen=True, slots=True)
class _Canvas:
    first_ms: int
    from_ms: int
    to_ms: int
    anchors: Mapping[str, str]
    topics: Mapping[str, int]

    def lane(self, name: str, marks: Sequence[Mark], printed: bool) -> Lane:
        drawing = Markup("".join(self._draw(mark) for mark in marks))
        return Lane(name, _summary(name, marks), drawing, printed)

    def _x(self, time_ms: int) -> float:
        x = (time_ms - self.from_ms) * WIDTH / (self.to_ms - self.from_ms)
        return round(min(max(x, -20.0), WIDTH + 20.0), 2)

    def _draw(self, mark: Mark) -> str:
        left, right = self._x(mark.start_ms), self._x(mark.end_ms)
        anchor = self.anchors.get(mark.finding_id) if mark.finding_id else None
        # An election has no mark of its own among the anchors: the window's mark has the id.
        own = f' id="{timeline_id(anchor)}"' if anchor and mark.kind != ELECTION else ""
        topic = f' data-t="{self.topics[mark.topic]}"' if mark.topic in self.topics else ""
        verdict = f' data-v="{mark.verdict}"' if mark.verdict else ""
        brokers = f' data-b="{" ".join(map(str, mark.brokers))}"' if mark.brokers else ""
        shape, _, look = mark.look.partition(" ")
        top, height = _TICK if shape == "tick" else _BOXES.get(look, _BAR)
        drawn = (
            f'<rect{own} class="{mark.look}" x="{left:.2f}" y="{top}"'
            f' width="{max(right - left, 0.02):.2f}" height="{height}"'
            f' data-s="{mark.start_ms - self.first_ms}" data-e="{mark.end_ms - self.first_ms}"'
            f' data-k="{escape(mark.kind)}"{topic}{verdict}{brokers}><title>{escape(mark.text)}</title></rect>'
        )
        return f'<a href="#{anchor}" tabindex="-1">{drawn}</a>' if anchor else drawn


def _summary(name: str, marks: Sequence[Mark]) -> str:
    counts: dict[str, int] = {}
    for mark in marks:
        what = mark.text.partition(":")[0] if mark.kind in (BROKER, CONTROLLER) else mark.verdict or mark.kind
        counts[what] = counts.get(what, 0) + 1
    shown = [f"{count} × {what}" for what, count in list(counts.items())[:8]]
    return f"{name}: {', '.join(shown) or 'nothing'}"


def _span(start_ms: int, end_ms: int | None) -> str:
    lasted = duration_text(start_ms, end_ms)
    return f"{utc_text(start_ms)}{f', {lasted}' if lasted else ', to the end of the log'}"


def _controller_lanes(terms: Sequence[Row], end: int) -> Iterator[tuple[str, list[Mark]]]:
    lanes: dict[int, list[Mark]] = {row["leader_id"]: [] for row in sorted(terms, key=lambda row: row["leader_id"])}
    for row in terms:
        start, until = row["timestamp_ms"], row["end_timestamp_ms"]
        text = f"active: controller {row['leader_id']}, epoch {row['controller_epoch']}, {_span(start, until)}"
        last = max(start, end if until is None else until)
        lanes[row["leader_id"]].append(Mark(start, last, "bar active", CONTROLLER, text))
    for before, after in pairwise(terms):
        at, old, new = after["timestamp_ms"], before["leader_id"], after["leader_id"]
        what = f"controller {old} to {new}" if old != new else f"controller {new} in a new epoch"
        text = f"fail-over: {what}, epoch {after['controller_epoch']}, {utc_text(at)}"
        lanes[new].append(Mark(at, at, "tick failover", CONTROLLER, text))
    for leader, marks in lanes.items():
        yield f"controller {leader}", marks


def _sessions(broker: int, rows: Sequence[Row], end: int) -> list[Mark]:
    """A broker's states as bars; ticks where a process of it registered after another one."""
    marks, ticks = [], []
    for words, group in groupby(rows, key=broker_state):
        states, look = list(group), _STATES.get(words)
        start, until = states[0]["timestamp_ms"], states[-1]["end_timestamp_ms"]
        last = until if until is not None else end if states[-1]["end_offset"] is None else start
        text = f"{words}: broker {broker}, {_span(start, until)}"
        if look:
            marks.append(Mark(start, max(start, last), look, BROKER, text, brokers=(broker,)))
    for row in restarts(rows):
        how, at = row["restart_class"] or "unknown", row["timestamp_ms"]
        text = f"{visible(how)} restart: broker {broker}, {utc_text(at)}, metadata offset {row['offset']}"
        look = how if how in ("clean", "unclean") else "unknown"
        ticks.append(Mark(at, at, f"tick restart {look}", BROKER, text, brokers=(broker,)))
    return marks + ticks


def _elections(events: Events) -> list[Mark]:
    judged = {(w["topic_id"], w["partition"], w["election_offset"]): w["finding_id"] for w in events.windows}
    marks = []
    for row in events.elections:
        old, new, cause = row["previous_leader"], row["leader"], row["cause"] or ""
        look = _CAUSES.get(cause, "unclean" if cause.startswith("unclean") else "usual")
        text = (
            f"election {partition_text(row)}: leader {leader_text(old)} to {leader_text(new)}, {visible(cause)},"
            f" leader epoch {row['leader_epoch']}, {utc_text(row['timestamp_ms'])}, metadata offset {row['offset']}"
        )
        brokers = tuple(broker for broker in (old, new) if broker is not None and broker >= 0)
        finding = judged.get((row["topic_id"], row["partition"], row["offset"]))
        at = row["timestamp_ms"]
        marks.append(Mark(at, at, f"tick {look}", ELECTION, text, row["topic"], "", brokers, finding))
    order = ("usual", "no-leader", "of-elr", "unclean", "unclean forced")
    return sorted(marks, key=lambda mark: order.index(mark.look.removeprefix("tick ")))


def _finding(row: Row, look: str, words: str, end: int) -> Mark:
    start, until = row["start_timestamp_ms"], row["end_timestamp_ms"]
    last = end if until is None else until
    verdict = verdict_of(row).name
    return Mark(
        start,
        max(start, last),
        look,
        row["kind"],
        f"{words} {partition_text(row)}, {_span(start, until)}, finding {visible(row['finding_id'])}",
        row["topic"],
        verdict,
        () if row["recorded_leader"] is None or row["recorded_leader"] < 0 else (row["recorded_leader"],),
        row["finding_id"],
    )


def _window(row: Row, end: int) -> Mark:
    verdict = verdict_of(row).name
    words = f"window, {verdict}, lost {loss_text(row)}, metadata offsets {window_text(row)},"
    return _finding(row, f"bar {verdict}", words, end)


def _window_lanes(windows: Sequence[Row], end: int) -> list[tuple[str, list[Mark]]]:
    """By partition if these are few, else by topic, the worst first; the last lane has the rest."""
    by_partition = _grouped(windows, partition_text)
    lanes = (
        by_partition if len(by_partition) <= MOST_WINDOW_LANES else _grouped(windows, lambda r: topic_text(r["topic"]))
    )
    ranked = sorted(lanes.items(), key=lambda lane: (min(-_PAINTED_LAST[verdict_of(r).name] for r in lane[1]), lane[0]))
    if len(ranked) > MOST_WINDOW_LANES:
        rest = ranked[MOST_WINDOW_LANES - 1 :]
        others = [row for _, rows in rest for row in rows]
        ranked = [*ranked[: MOST_WINDOW_LANES - 1], (f"{len(rest)} more topics", others)]
    painted = (
        (name, sorted(rows, key=lambda row: (_PAINTED_LAST[verdict_of(row).name], row["start_timestamp_ms"])))
        for name, rows in ranked
    )
    return [(name, [_window(row, end) for row in rows]) for name, rows in painted]


def _grouped(rows: Iterable[Row], name: Any) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row)
    return groups


def _other_lanes(events: Events, end: int) -> Iterator[tuple[str, list[Mark]]]:
    for kind, name, look in ((LEADERLESS, "no leader", "bar leaderless"), (LAST_REPLICA, "one replica", "bar alone")):
        if marks := [_finding(row, look, f"{name}:", end) for row in events.exposures if row["kind"] == kind]:
            yield name, marks
    for section, name in _OTHERS.items():
        rows = [row for row in events.others if kind_of(row["kind"]).section is section]
        if rows:
            yield (
                name,
                [_finding(row, "bar other", f"{visible(row['kind'])}:", row["start_timestamp_ms"]) for row in rows],
            )


def _deleted(row: Row) -> Mark:
    at, again = row["deleted_ms"], ""
    if row["next_id"] is not None:
        again = f"; created again {utc_text(row['next_ms'])} as topic id {row['next_id']}"
    text = f"deleted: topic {topic_text(row['topic'])}, topic id {row['topic_id']}, {utc_text(at)}{again}"
    return Mark(at, at, "tick failover", DELETED, text, row["topic"])


def _config(row: Row) -> Mark:
    at, of = row["timestamp_ms"], row["resource_type"]
    whose = f"{of} {visible(row['resource_name'])}" if row["resource_name"] else f"all {of}s"
    is_now, was = ("not set" if row[name] is None else visible(row[name]) for name in ("value", "before"))
    text = (
        f"config {visible(row['name'])} of {whose}: {was} to {is_now}, {utc_text(at)}, metadata offset {row['offset']}"
    )
    return Mark(at, at, "tick config", CONFIG, text, row["resource_name"] if of == "topic" else None)


def _captured(row: Row) -> Mark:
    at, nodes = row["captured_at_ms"], ", ".join(map(str, row["nodes"][:20]))
    text = (
        f"captured: {row['files']} files of nodes {nodes or 'unknown'}, {utc_text(at)} by the capturing machine's clock"
    )
    return Mark(at, at, "tick captured", CAPTURED, text)


def _left_out(events: Events) -> list[str]:
    texts = [f"{count} {_LEFT_OUT[name][0]} ({_LEFT_OUT[name][1]})" for name, count in events.left_out.items()]
    if events.no_time:
        texts.append(f"{events.no_time} findings and elections without a known time")
    return texts
