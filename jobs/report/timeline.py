"""The timeline of the whole incident, to scale: lanes of marks, each lane one SVG that is as wide as the page.

A lane's SVG has 1000 units from the left to the right edge of the span that is shown; its height is stretched. So the
lanes need no script. The script (templates/timeline.js) moves the marks when the reader zooms, from the times in
their attributes. Pure; all text is escaped.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import itemgetter
from typing import Any

from markupsafe import Markup, escape

from jobs.incident.events import IncidentEvents
from jobs.report import marks as of
from jobs.report.filters import axis_texts, partition_text, topic_text, visible
from jobs.report.marks import BROKER, CONTROLLER, ELECTION, STATE, Mark
from jobs.report.rows import VERDICTS, WORDS, verdict_of
from replay.arrow.runs import groups
from replay.findings.kinds import LAST_REPLICA, LEADERLESS, Section, kind_of
from replay.plan.step import Row

WIDTH = 1000
MOST_WINDOW_LANES = 30
PRINTED_LANES = 14  # of brokers, and of windows; the others are not printed
_PAINTED_LAST = {verdict.name: -rank for rank, verdict in enumerate(VERDICTS)}
_BOXES = WORDS["boxes"]
_OTHERS = {Section.CUT_LOGS: "truncated logs", Section.RULES: "Kafka's rules", Section.FAULTS: "faults"}


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
    brokers = [(f"broker {n}", of.sessions(n, rows, events.departures, end)) for n, rows in events.brokers.items()]
    lanes_of: list[tuple[str, list[tuple[str, list[Mark]]]]] = [
        ("Controllers", list(_controller_lanes(events.controllers, end))),
        ("Brokers", brokers),
        ("Elections", [("elections", _elections(events))] if events.elections else []),
        ("Windows", _window_lanes(events.windows, states, end)),
        ("Other findings", list(_other_lanes(events, end))),
        ("Topics", [("deleted", [of.deleted(row) for row in events.deleted])] if events.deleted else []),
        ("Settings", [("changed", [of.config(row) for row in events.configs])] if events.configs else []),
        ("Evidence", [("captured", [of.captured(row) for row in events.captured])] if events.captured else []),
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
        "ticks": axis_texts(*events.shown),
        "groups": drawn,
        "topics": [topic_text(topic) for topic in topics],
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
        marks = [of.term(row, end) for row in own]
        yield f"controller {leader}", marks + [of.fail_over(*pair) for pair in fail_overs.get(leader, ())]


def _elections(events: IncidentEvents) -> list[Mark]:
    judged = {(w["topic_id"], w["partition"], w["election_offset"]): w["finding_id"] for w in events.windows}
    rows = ((row, judged.get((row["topic_id"], row["partition"], row["offset"]))) for row in events.elections)
    order = ("usual", "no-leader", "of-elr", "unclean", "unclean forced")
    marks = (of.election(row, finding_id) for row, finding_id in rows)
    return sorted(marks, key=lambda mark: order.index(mark.look.removeprefix("tick ")))


def _window_lanes(
    windows: Sequence[Row], states: Mapping[str, tuple[str, Sequence[Row]]], end: int
) -> list[tuple[str, list[Mark]]]:
    """By partition if these are few, with its states; else by topic. The worst first; the last lane has the rest."""
    by_partition = groups(windows, partition_text)
    is_few = len(by_partition) <= MOST_WINDOW_LANES
    lanes = by_partition if is_few else groups(windows, lambda row: topic_text(row["topic"]))
    ranked = sorted(lanes.items(), key=lambda lane: (min(-_PAINTED_LAST[verdict_of(r).name] for r in lane[1]), lane[0]))
    if len(ranked) > MOST_WINDOW_LANES:
        rest = ranked[MOST_WINDOW_LANES - 1 :]
        others = [row for _, rows in rest for row in rows]
        ranked = [*ranked[: MOST_WINDOW_LANES - 1], (f"{len(rest)} more topics", others)]
    drawn = []
    for name, rows in ranked:
        finding_id, history = states.get(name, ("", ())) if is_few else ("", ())
        rows = sorted(rows, key=lambda row: (_PAINTED_LAST[verdict_of(row).name], row["start_timestamp_ms"]))
        bars = [of.finding(row, f"bar {verdict_of(row).name}", "window", end) for row in rows]
        drawn.append((name, [*of.states(history, finding_id, end), *bars]))
    return drawn


def _other_lanes(events: IncidentEvents, end: int) -> Iterator[tuple[str, list[Mark]]]:
    for kind, name, look in ((LEADERLESS, "no leader", "bar leaderless"), (LAST_REPLICA, "one replica", "bar alone")):
        if marks := [of.finding(row, look, name, end) for row in events.exposures if row["kind"] == kind]:
            yield name, marks
    for section, name in _OTHERS.items():
        rows = [row for row in events.others if kind_of(row["kind"]).section is section]
        if rows:
            yield name, [of.finding(row, "bar other", visible(row["kind"]), row["start_timestamp_ms"]) for row in rows]
