"""Draw the timeline of a flagged partition as inline SVG: the leader, ISR and ELR, state by state.

Per state: every state of `partition_history` gets a column of the same width, because on a time axis a burst would be a
single line. To scale: the window, and as much before and after it. A column starts at the record that made the state.
Pure: rows in, `Markup` out; all text is escaped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from markupsafe import Markup

from jobs.report.filters import brokers_text, leader_text, partition_text, utc_text, window_text
from jobs.report.states import Row, TimelineSpan, lanes_of, membership, state_at
from jobs.report.svg import NOTHING, line, rect, words

MAX_LANES = 40

MIN_GUTTER = 92
PLOT_WIDTH = 1070
MIN_COLUMN = 17.0
MIN_WINDOW = 3.0
LABELS_TOP = 46
STRIP_HEIGHT = 24
LANE_HEIGHT = 34
LANE_GAP = 7
HORIZONTAL_LABELS_FROM = 96.0  # least column width for a horizontal "22:06:16.570"
LANE_CHAR_WIDTH = 7.6  # of the bold 12 px font of lane names
CHAR_WIDTH = 6.1  # of the 11 px font, a little generous
LEGEND_LINE = 22

BAND_LABELS = {"isr": "ISR", "elr": "ELR", "out": "out", "unknown": "?"}


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions in SVG units. offsets: metadata offsets of the columns, ascending; edges: left edges of the columns and
    the right edge of the last one; left: of the drawing."""

    offsets: list[int]
    edges: list[float]
    lanes: list[int]
    left: float

    def x(self, index: int) -> float:
        return self.edges[index]

    def width(self, begin: int, end: int) -> float:
        return self.edges[end] - self.edges[begin]

    def lane_y(self, broker: int) -> float:
        return LABELS_TOP + STRIP_HEIGHT + LANE_GAP + self.lanes.index(broker) * (LANE_HEIGHT + LANE_GAP)

    @property
    def right(self) -> float:
        return self.edges[-1]

    @property
    def bottom(self) -> float:
        return LABELS_TOP + STRIP_HEIGHT + LANE_GAP + len(self.lanes) * (LANE_HEIGHT + LANE_GAP)


def draw_timeline(span: TimelineSpan, finding: Row, element_id: str) -> Markup:
    """The `<svg>` of a finding's span (at least one state): each state is equally wide, so that bursts can be read.
    `element_id` must be a safe id, unique on the page."""
    states = span.states
    lanes = lanes_of(states)[:MAX_LANES]
    left = max([MIN_GUTTER, *(len(_lane_name(broker)) * LANE_CHAR_WIDTH + 16 for broker in lanes)])
    layout = Layout([s["offset"] for s in states], _edges(states, left), lanes, left)
    axis, axis_height = _axis(layout, span)
    legend, legend_height = _legend(layout, layout.bottom + axis_height + 20, element_id)
    width, height = round(layout.right + 24), round(layout.bottom + axis_height + legend_height + 20)
    shapes = [
        Markup('<title id="{0}-title">{1}</title><desc id="{0}-desc">{2}</desc>').format(
            element_id, f"Timeline of {partition_text(finding)}", _description(span, finding)
        ),
        _patterns(element_id),
        _leaderless(layout, states),
        _leader_strip(layout, states),
        *(_lane(layout, states, broker, element_id) for broker in layout.lanes),
        _leader_line(layout, states),
        _window(layout, finding),
        _election(layout, finding),
        axis,
        legend,
    ]
    return Markup(
        '<svg class="timeline" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img"'
        ' aria-labelledby="{id}-title {id}-desc">{body}</svg>'
    ).format(w=width, h=height, id=element_id, body=NOTHING.join(shapes))


def _edges(states: Sequence[Row], left: float) -> list[float]:
    column = max(PLOT_WIDTH / len(states), MIN_COLUMN)
    return [round(left + index * column, 1) for index in range(len(states) + 1)]


def _description(span: TimelineSpan, finding: Row) -> str:
    states = span.states
    leaderless = sum(1 for state in states if state["leader"] == -1)
    end = "" if states[-1]["removed"] else f", and ends with leader {leader_text(states[-1]['leader'])}"
    return (
        f"{len(states)} states of {partition_text(finding)} at metadata offsets {states[0]['offset']} to"
        f" {states[-1]['offset']}; replicas {brokers_text(lanes_of(states))}; {leaderless} states have no leader."
        f" It starts with leader {leader_text(states[0]['leader'])}{end}."
        f" The window is {window_text(finding)}; the judged election is at offset {finding['election_offset']}."
        " A table below has the same states."
    )


def _patterns(element_id: str) -> Markup:
    return Markup(
        '<defs><pattern id="{0}-hatch" width="7" height="7" patternUnits="userSpaceOnUse"'
        ' patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="7"/></pattern></defs>'
    ).format(element_id)


def _leaderless(layout: Layout, states: Sequence[Row]) -> Markup:
    top = LABELS_TOP
    return NOTHING.join(
        rect("leaderless", layout.x(begin), top, layout.width(begin, end), layout.bottom - top)
        for value, begin, end in _runs([state["leader"] for state in states])
        if value == -1
    )


def _leader_strip(layout: Layout, states: Sequence[Row]) -> Markup:
    """The row above the lanes: the leader's id (and leader epoch) for each run of states, or "no leader"."""
    shapes = [words("axis-name", layout.left - 10, LABELS_TOP + 16, "leader", "end")]
    for (leader, epoch, removed), begin, end in _runs([(s["leader"], s["leader_epoch"], s["removed"]) for s in states]):
        width = layout.width(begin, end)
        short = "×" if removed else "–" if leader == -1 else leader_text(leader)
        long = "removed" if removed else "no leader" if leader == -1 else f"broker {leader_text(leader)}"
        texts = (long if removed else f"{long}, epoch {epoch}", long)
        fitting = next((text for text in texts if len(text) * CHAR_WIDTH + 8 <= width), "")
        if not fitting and len(short) * CHAR_WIDTH <= width:
            fitting = short
        kind = "strip none" if leader == -1 else "strip"
        shapes.append(rect(kind, layout.x(begin), LABELS_TOP, width, STRIP_HEIGHT))
        shapes.append(words("strip-text", layout.x(begin) + width / 2, LABELS_TOP + 16, fitting, "middle"))
    return NOTHING.join(shapes)


def _lane(layout: Layout, states: Sequence[Row], broker: int, element_id: str) -> Markup:
    y = layout.lane_y(broker)
    shapes = [words("lane-name", layout.left - 10, y + 21, _lane_name(broker), "end")]
    for kind, begin, end in _runs([membership(state, broker) for state in states]):
        x, width = layout.x(begin), layout.width(begin, end)
        label = BAND_LABELS.get(kind, "")
        if kind == "isr":
            shapes.append(rect("band isr", x, y, width, LANE_HEIGHT))
        elif kind == "elr":
            shapes.append(rect("band elr", x, y + 6, width, LANE_HEIGHT - 12))
        elif kind in ("out", "unknown"):
            shapes.append(line(f"band {kind}", x, y + LANE_HEIGHT / 2, x + width, y + LANE_HEIGHT / 2))
        if label and width >= len(label) * CHAR_WIDTH + 8:
            shapes.append(words(f"band-text {kind}", x + 5, y + (21 if kind == "elr" else 13), label))
    recovering = [state["leader"] == broker and state["leader_recovery_state"] == "RECOVERING" for state in states]
    for value, begin, end in _runs(recovering):
        if value:
            x, width = layout.x(begin), layout.width(begin, end)
            fill = Markup(' fill="url(#{}-hatch)"').format(element_id)
            shapes.append(rect("recovering", x, y, width, LANE_HEIGHT, fill))
    return Markup('<g class="lane">{}</g>').format(NOTHING.join(shapes))


def _leader_line(layout: Layout, states: Sequence[Row]) -> Markup:
    """A line along the leader's lane, with a dot where a leader epoch starts and a step where the leader changes."""
    shapes = []
    runs = _runs([(state["leader"], state["leader_epoch"]) for state in states])
    for number, ((leader, _), begin, end) in enumerate(runs):
        if leader not in layout.lanes or not layout.width(begin, end):
            continue
        y = layout.lane_y(leader) + LANE_HEIGHT - 11
        shapes.append(line("leader-line", layout.x(begin), y, layout.x(end), y))
        following = runs[number + 1][0][0] if number + 1 < len(runs) else None
        if following in layout.lanes and following != leader and layout.x(end) < layout.right:
            x = layout.x(end)
            shapes.append(line("leader-step", x, y, x, layout.lane_y(following) + LANE_HEIGHT - 11))
        shapes.append(Markup('<circle class="leader-dot" cx="{}" cy="{}" r="4.5"/>').format(layout.x(begin), y))
    return NOTHING.join(shapes)


def _window(layout: Layout, finding: Row) -> Markup:
    """The outline of the window. A side that is outside the states shown, or that does not exist, stays open."""
    start, end = finding["start_offset"], finding["end_offset"]
    if start is None:
        return NOTHING
    offsets = layout.offsets
    open_left = start < offsets[0]
    open_right = end is None or end > offsets[-1]
    left = layout.x(state_at(offsets, start, default=0))
    right = layout.right if end is None else layout.x(bisect_left(offsets, end))
    right = max(right, left + MIN_WINDOW)
    top, bottom = LABELS_TOP - 4, layout.bottom + 1
    path = f"M{right} {top}H{left}{'M' if open_left else 'V'}{f'{left} {bottom}' if open_left else bottom}H{right}"
    if not open_right:
        path += f"V{top}"
    near_right = left > layout.left + PLOT_WIDTH * 0.6
    label_x, anchor = (right, "end") if near_right else (left, "start")
    return Markup('<g class="window"><path d="{}"/>{}</g>').format(
        path, words("window-text", label_x, 14, f"window: metadata offsets {window_text(finding)}", anchor)
    )


def _election(layout: Layout, finding: Row) -> Markup:
    """The judged election, and the leader that the policy would have elected (a prediction) as a dashed diamond."""
    offset = finding["election_offset"]
    if offset is None or not layout.offsets[0] <= offset <= layout.offsets[-1]:
        return NOTHING
    x = layout.x(state_at(layout.offsets, offset, default=0))
    anchor, shift = ("end", -9) if x > layout.left + PLOT_WIDTH * 0.6 else ("start", 9)
    shapes = [
        line("election", x, LABELS_TOP - 12, x, layout.bottom + 6),
        Markup('<path class="election-mark" d="M{} {}l-6 -9h12z"/>').format(x, LABELS_TOP - 5),
        words("election-text", x + shift, LABELS_TOP - 16, f"judged election: offset {offset}", anchor),
    ]
    would_be = finding["would_be_leader"]
    if would_be in layout.lanes:
        y = layout.lane_y(would_be) + LANE_HEIGHT / 2
        shapes.append(Markup('<path class="would-be" d="M{} {}l9 9l-9 9l-9 -9z"/>').format(x, y - 9))
    return Markup('<g class="judged">{}</g>').format(NOTHING.join(shapes))


def _axis(layout: Layout, span: TimelineSpan) -> tuple[Markup, float]:
    """A tick with offset and UTC time under the left edge of every column; returns the drawing and its height."""
    level = layout.width(0, 1) >= HORIZONTAL_LABELS_FROM
    y, longest = layout.bottom + 6, 0
    date = first_date = utc_text(span.states[0]["timestamp_ms"]).partition(" ")[0]
    shapes = []
    for index, state in enumerate(span.states):
        moment = utc_text(state["timestamp_ms"])
        day, _, clock = moment.partition(" ")
        shown = clock if clock and day == date else moment
        date = day if clock else date
        x = layout.x(index)
        tick = line("tick", x, y, x, y + 5)
        if level:
            lines = [str(state["offset"]), *reversed(shown.split(" "))]
            texts = [words("tick-text", x, y + 18 + 14 * row, text, "middle") for row, text in enumerate(lines)]
            labels = NOTHING.join(texts)
        else:
            text = f"{state['offset']} · {shown}"
            longest = max(longest, len(text))
            turn = Markup(' transform="rotate(-60 {} {})"').format(x + 3, y + 14)
            labels = words("tick-text", x + 3, y + 14, text, "end", turn)
        shapes.append(Markup('<g class="state">{}{}</g>').format(tick, labels))
    height = 54 if level else 22 + longest * CHAR_WIDTH * 0.87
    name = f"one column per state, starting at its record: metadata offset, UTC time from {first_date}"
    shapes.append(words("axis-name", layout.right, layout.bottom + height + 10, name, "end"))
    if span.before:
        shapes.append(words("axis-name", layout.left, 30, f"◂ {span.before} earlier states not shown"))
    if span.after:
        shapes.append(words("axis-name", layout.right, 30, f"{span.after} later states not shown ▸", "end"))
    return NOTHING.join(shapes), height + 12


def _legend(layout: Layout, top: float, element_id: str) -> tuple[Markup, float]:
    hatch = Markup(' fill="url(#{}-hatch)"').format(element_id)
    entries = [
        (rect("band isr", 0, 0, 26, 14), "in ISR"),
        (rect("band elr", 0, 2, 26, 10), "in ELR"),
        (line("band out", 0, 7, 26, 7), "assigned, in neither"),
        (line("leader-line", 0, 7, 26, 7) + Markup('<circle class="leader-dot" cx="3" cy="7" r="4.5"/>'), "leader"),
        (rect("leaderless", 0, 0, 26, 14), "no leader"),
        (rect("band isr", 0, 0, 26, 14) + rect("recovering", 0, 0, 26, 14, hatch), "leader is RECOVERING"),
        (Markup('<g class="window"><path d="M1 1H25V13H1z"/></g>'), "window"),
        (
            line("election", 13, 0, 13, 14) + Markup('<path class="election-mark" d="M13 9l-6 -9h12z"/>'),
            "judged election",
        ),
        (Markup('<path class="would-be" d="M13 -1l8 8l-8 8l-8 -8z"/>'), "would-be leader (prediction)"),
    ]
    shapes, x, y = [], layout.left, top
    for drawing, label in entries:
        width = 34 + len(label) * CHAR_WIDTH * 1.1 + 8
        if x + width > layout.right + 24:
            x, y = layout.left, y + LEGEND_LINE
        shapes.append(
            Markup('<g transform="translate({} {})">{}{}</g>').format(
                round(x, 1), round(y, 1), drawing, words("legend-text", 33, 11, label)
            )
        )
        x += width
    return Markup('<g class="legend">{}</g>').format(NOTHING.join(shapes)), y - top + LEGEND_LINE


def _lane_name(broker: int) -> str:
    return f"broker {broker}"


def _runs(values: Sequence[Any]) -> list[tuple[Any, int, int]]:
    """Runs of equal values as (value, first index, index after the last)."""
    runs, begin = [], 0
    for value, group in groupby(values):
        end = begin + sum(1 for _ in group)
        runs.append((value, begin, end))
        begin = end
    return runs
