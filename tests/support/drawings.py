"""The drawings of docs/concepts.md, made of the stories in tests/cases, and the one of docs/architecture.md.

`python -m tests.support.drawings` writes docs/images/*.svg. Every state, log and figure in them comes from playing the
story with `tests/support/story.py:Story`.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from tests.support.paths import ROOT
from tests.support.story import Story
from tests.support.svg import line, rect, words

IMAGES = ROOT / "docs" / "images"
CELL, ROW, TEXT, LABEL = 17, 26, 246, 62
STYLE = """
text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1b2230 }
.small { font-size: 11px; fill: #565f6e } .bold { font-weight: 600 } .gone { fill: #9aa3b0 }
.paper { fill: #ffffff } .stripe { fill: #f5f7fa }
.safe { fill: #bcd6f0; stroke: #2f6fb0 } .open { fill: #eef1f6; stroke: #8b95a5 }
.lost { fill: #fdecea; stroke: #b42318 }
.epoch { font-size: 10px; fill: #33405a } .red { fill: #b42318 }
.mark { stroke: #14213d; stroke-width: 2.5 } .arrow { stroke: #565f6e; stroke-width: 1.5 }
.leads { fill: #14213d } .isr { fill: #1f5fa8 } .elr { fill: #8a5a00 } .known { fill: #6d28d9 }
.badge { fill: #ffffff; font-size: 11px }
.window { fill: #b42318 } .room { fill: #f5f7fa; stroke: #8b95a5 } .axis { stroke: #8b95a5 }
"""

FLOW = {
    "evidence/ reads": ("open, hash, classify files", "frame batches", "decode records", "log ends, high watermarks"),
    "replay/ concludes": (
        "which log counts",
        "states, elections, windows",
        "what Kafka's rules predict",
        "bounds and verdicts",
        "findings with evidence",
    ),
    "jobs/ runs and keeps": (
        "ingest, range by range",
        "replay, bucket by bucket",
        "detect, bucket by bucket",
        "quality, report, queries",
    ),
}


@dataclass(frozen=True, slots=True)
class Moment:
    """A story's partition after a step. logs: leader epoch of each record, by broker. committed: how many records were
    ever below a high watermark; known: where the leader's high watermark is, None without a leader."""

    at: str
    alive: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    last_known_leader: int
    min_isr: int
    logs: dict[int, list[int]]
    committed: int
    known: int | None
    judged: list[dict[str, Any]]


def play(name: str) -> list[Moment]:
    """The moments of the story tests/cases/kip966_<name>, one for each of its steps."""
    found = tomllib.loads((ROOT / "tests" / "cases" / f"kip966_{name}" / "story.toml").read_text(encoding="utf-8"))
    story = Story.begin(found["delivery"], found["start"])
    moments = []
    for step in found["steps"]:
        for order in step["do"]:
            story.tell(order)
        moments.append(_moment(step["at"], story))
    return moments


def _moment(at: str, story: Story) -> Moment:
    now, state = story.observed(), story.state
    return Moment(
        at=at,
        alive=tuple(sorted(state.alive)),
        leader=now["leader"],
        isr=tuple(now["isr"]),
        elr=tuple(now["elr"]),
        last_known_elr=tuple(now["last_known_elr"]),
        last_known_leader=now["last_known_leader"],
        min_isr=state.min_insync_replicas,
        logs={broker: [record.leader_epoch for record in log] for broker, log in sorted(story.log.items())},
        committed=max((record.number + 1 for record in story.committed), default=0),
        known=now.get("high_watermark"),
        judged=now.get("windows", []),
    )


def strip(title: str, moments: Sequence[Moment], window: bool = False) -> str:
    """The moments from top to bottom: what happened, and each replica's log. window: mark where a window is open."""
    longest = max(max(moment.committed, *map(len, moment.logs.values())) for moment in moments)
    width = TEXT + LABEL + longest * CELL + 250
    shapes: list[Markup] = []
    top, opened = 8.0, None
    for number, moment in enumerate(moments):
        height = len(moment.logs) * ROW + 30
        if number % 2 == 0:
            shapes.append(rect("stripe", 0, top, width, height))
        shapes += _panel(moment, top)
        if opened is None and moment.leader == -1:
            opened = top
        if window and opened is not None and (moment.leader != -1 and len(moment.isr) >= moment.min_isr):
            shapes += _bracket(width - 22, opened + 6, top + height - 6)
            opened = None
            window = False
        top += height
    shapes.append(_legend(top + 18))
    return svg(title, width, top + 34, shapes)


def _panel(moment: Moment, top: float) -> list[Markup]:
    shapes = [words("", 12, top + 29 + 17 * n, text) for n, text in enumerate(textwrap.wrap(_sentence(moment.at), 32))]
    left = TEXT + LABEL
    for number, (broker, log) in enumerate(moment.logs.items()):
        y = top + 15 + number * ROW
        here = broker in moment.alive
        shapes.append(words("" if here else "gone", TEXT, y + 15, f"broker {broker}"))
        for offset, epoch in enumerate(log):
            x = left + offset * CELL
            safe = offset < (moment.committed if moment.known is None else moment.known)
            shapes.append(rect("safe" if safe else "open", x, y, CELL - 2, ROW - 6))
            shapes.append(words("epoch", x + (CELL - 2) / 2, y + 14, str(epoch), "middle"))
        if broker == moment.leader:
            for offset in range(len(log), moment.committed):
                shapes.append(rect("lost", left + offset * CELL, y, CELL - 2, ROW - 6))
        shapes += _badges(
            moment, broker, here, left + max(moment.committed, *map(len, moment.logs.values())) * CELL + 10, y
        )
    mark = left + (moment.committed if moment.known is None else moment.known) * CELL - 1
    shapes.append(line("mark", mark, top + 8, mark, top + 15 + len(moment.logs) * ROW))
    return shapes


def _sentence(at: str) -> str:
    """The words of a step. `false` and `true` are values of unclean.leader.election.enable."""
    text = at.replace("false:", "unclean elections off:").replace("true:", "unclean elections on:")
    return text[0].upper() + text[1:]


def _badges(moment: Moment, broker: int, here: bool, x: float, y: float) -> list[Markup]:
    """What the broker is in this state: leader, in the ISR, in the ELR, last known; or that it is down."""
    found = [
        (broker == moment.leader, "leads", "leader"),
        (broker in moment.isr, "isr", "ISR"),
        (broker in moment.elr, "elr", "ELR"),
        (broker == moment.last_known_leader, "known", "last known leader"),
    ]
    shapes = []
    for _, kind, text in (each for each in found if each[0]):
        wide = 12 + 6.4 * len(text)
        shapes += [
            rect(kind, x, y + 1, wide, 18, Markup(' rx="3"')),
            words("badge", x + wide / 2, y + 14, text, "middle"),
        ]
        x += wide + 5
    return shapes if here else [*shapes, words("small", x + 2, y + 14, "down")]


def _bracket(x: float, top: float, bottom: float) -> list[Markup]:
    turned = Markup(' transform="rotate(90 {} {})"').format(f"{x + 9:.0f}", f"{(top + bottom) / 2:.0f}")
    return [
        rect("window", x, top, 4, bottom - top),
        words("red bold", x + 9, (top + bottom) / 2, "the window", "middle", turned),
    ]


def _legend(y: float) -> Markup:
    parts = [
        rect("safe", 12, y - 10, 14, 14),
        words("small", 32, y + 1, "below the high watermark"),
        rect("open", 186, y - 10, 14, 14),
        words("small", 206, y + 1, "above it"),
        rect("lost", 266, y - 10, 14, 14),
        words("small", 286, y + 1, "lost"),
        line("mark", 326, y - 12, 326, y + 6),
        words("small", 334, y + 1, "high watermark"),
        words("small", 434, y + 1, "the figure in a record is its leader epoch"),
    ]
    return Markup("").join(parts)


def verdicts() -> str:
    """What is known at the end of the two stories of the last replica, as bounds on a line of offsets."""
    lost, kept = play("last_replica_standing_before_elr"), play("last_replica_standing_with_elr")
    shapes: list[Markup] = []
    rows = [("without ELR", lost), ("with ELR", kept)]
    for number, (title, moments) in enumerate(rows):
        judged = moments[-1].judged[0]
        elected = next(m for m in moments[4:] if m.leader == judged["leader"])
        floor = max(m.known or 0 for m in moments[:3])
        end = len(elected.logs[elected.leader])
        shapes += _bounds(title, judged, floor, min(end, floor - judged["loss_min"]), 14 + number * 104)
    return svg("Two verdicts as bounds", 760, 226, shapes)


def _bounds(title: str, judged: dict[str, Any], floor: int, end: int, top: float) -> list[Markup]:
    left, unit, y = 190, 22, top + 52
    verdict, least = judged["verdict"], judged["loss_min"]
    shapes = [
        words("bold", 12, top + 36, verdict),
        words("small", 12, top + 54, f"{title}: lost {least} or more"),
        line("axis", left, y, left + 24 * unit, y),
        rect("safe", left, y - 9, end * unit, 18),
        words("small", left + end * unit, y + 26, f"the new leader's log ended at {end}", "middle"),
        line("mark", left + floor * unit, y - 16, left + floor * unit, y + 12),
        words("small", left + floor * unit, y - 22, f"the high watermark had reached {floor}", "middle"),
    ]
    if floor > end:
        shapes += [
            rect("lost", left + end * unit, y - 9, (floor - end) * unit, 18),
            words("red bold", left + (floor + end) / 2 * unit, y + 4, f"{floor - end} lost", "middle"),
        ]
    else:
        shapes.append(words("small", left + (floor + 0.6) * unit, y - 6, "no upper bound is known"))
    return shapes


def data_flow() -> str:
    """How data moves through the program, for docs/architecture.md."""
    shapes: list[Markup] = []
    for number, (title, boxes) in enumerate(FLOW.items()):
        x = 20 + number * 260
        shapes += [rect("room", x, 20, 224, 232, Markup(' rx="4"')), words("bold", x + 14, 44, title)]
        for row, text in enumerate(boxes):
            shapes += [rect("open", x + 12, 58 + row * 37, 200, 28, Markup(' rx="3"'))]
            shapes += [words("", x + 24, 77 + row * 37, text)]
        if number:
            shapes += _arrow(x - 34, 136, x - 3)
    shapes += [
        rect("safe", 20, 276, 484, 36),
        words("", 34, 299, "pure: Arrow tables in, Arrow tables out; no Spark, no Delta"),
    ]
    shapes += [rect("safe", 540, 276, 224, 36), words("", 554, 299, "the lake: Delta tables")]
    return svg("How data moves", 784, 332, shapes)


def _arrow(x: float, y: float, end: float) -> list[Markup]:
    return [line("arrow", x, y, end, y), line("arrow", end - 6, y - 5, end, y), line("arrow", end - 6, y + 5, end, y)]


def svg(title: str, width: float, height: float, shapes: Sequence[Markup]) -> str:
    """A drawing on white paper, so that it can be read on any page. title: for screen readers."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n'
        + "\n".join([rect("paper", 0, 0, width, height), *shapes])
        + "\n</svg>\n"
    )


def drawings() -> dict[str, str]:
    """File name -> drawing."""
    loss, kept = play("last_replica_standing_before_elr"), play("last_replica_standing_with_elr")
    waits = play("nobody_left_phase_1")
    return {
        "replicas.svg": strip("A partition with three replicas", loss[:1]),
        "loss.svg": strip("How acknowledged records are lost", loss[:-1], window=True),
        "elr.svg": strip("The same with eligible leader replicas", kept[:-1]),
        "last_known_leader.svg": strip("The last known leader", [*waits[:2], waits[3]]),
        "verdicts.svg": verdicts(),
        "data_flow.svg": data_flow(),
    }


if __name__ == "__main__":
    for name, text in drawings().items():
        (IMAGES / name).write_text(text, encoding="utf-8")
