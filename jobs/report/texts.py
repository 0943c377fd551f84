"""The incident in plain text and Markdown: the verdict on a terminal, a ticket, a draft of a postmortem, and the report
in full. Each renders page one (jobs/incident/document.py); names from a capture cannot mark anything up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from jobs.console.output import printable
from jobs.console.text import wrapped
from jobs.report import filters, words
from jobs.report.rows import ReportInput
from replay.incident.answer import proven_text, topic_text, undecided_text
from replay.incident.causes import labelled
from replay.plan.step import moment, place

Row = dict[str, Any]

MOST_COMMANDS = 10  # of a step
MORE_COMMANDS = "{} more: kraft-forensics verdict --format json"
_IN_TICKET, _MOST_IN_TICKET = 8, 40  # moments, losses, fewer if there are more lines
_MOST_LINES = 25  # on a terminal; what goes if there are more: (moments, whether the predictions stay)
_LESS = (*((most, True) for most in range(6, 1, -1)), (2, False), (0, False))
_MOST_UNKNOWN = 3
_MARKED = re.compile(r"([\\`*_{}\[\]<>#|!~&])")


def escaped(text: object) -> str:
    """Text that marks nothing up in Markdown."""
    return _MARKED.sub(r"\\\1", filters.visible(text))


def document_of(report: ReportInput, link: str | None = None) -> Row:
    """A report's rows as `as_ticket` and `as_postmortem` take them. link: where its page is."""
    return {
        "cluster_id": report.cluster_id,
        "page_one": report.page_one,
        "answer": report.answer,
        "plan": report.plan,
        "evidence": {"captures": report.generated_from},
        "report": link,
        "focus": words.focus_text(report.focus),
    }


def as_text(document: Row, full: bool = False) -> list[str]:
    """Lines for a terminal. document: of jobs/verdict/document.py; full: also commands, facts, rules and windows."""
    for most, prevention in _LESS:
        lines = _lines(document, full, most, prevention)
        if full or len(lines) <= _MOST_LINES:
            break
    return lines


def _lines(document: Row, full: bool, most_moments: int, prevention: bool) -> list[str]:
    lists = list(_lists(document["answer"]))
    text = _template("verdict.txt.j2", most_moments, document, full=full, prevention=prevention, lists=lists)
    lines = []
    for line in text.splitlines():
        if line.startswith(">"):
            lines.append(printable(line[1:]))  # a command to copy
        else:
            indent = line[: len(line) - len(line.lstrip())]
            lines += wrapped(printable(line.strip()), indent, indent + "  ") or [""]
    return lines


def as_ticket(document: Row) -> str:
    """Markdown of at most 40 lines. document: as in `as_text`."""
    for most in range(_IN_TICKET, 2, -1):
        text = _template("ticket.md.j2", most, document, escaped, most_losses=most)
        if len(text.splitlines()) <= _MOST_IN_TICKET:
            break
    return text


def as_postmortem(document: Row, causes: Mapping[str, Sequence[str]]) -> str:
    """A draft in Markdown. causes: finding_id -> its chain (replay/incident/causes.py)."""
    answer = document["answer"]
    places = {row["finding_id"]: place(row) for row in answer["proven"]}
    chains = [(places[key], list(labelled(lines))) for key, lines in causes.items() if key in places]
    facts = {step["code"]: step["facts"] for step in document["plan"]["steps"]}
    return _template(
        "postmortem.md.j2",
        _IN_TICKET,
        document,
        escaped,
        chains=chains[:_IN_TICKET],
        factors=[*facts.get("prevent_next", ()), *facts.get("turn_off_unclean", ())],
        went_well=list(_went_well(answer)),
    )


def _went_well(answer: Row) -> Iterator[str]:
    decided = answer["windows"] - answer["undecided_windows"]
    if answer["windows"]:
        every = words.count(answer["windows"], "window")
        yield f"The evidence decides {decided} of {every} in which records could have been lost."
    if answer["replayed_states"] and not (answer["gap_count"] or answer["conflicts"]):
        yield f"The metadata log has no gap: {answer['replayed_states']} partition states were replayed from it."


def _template(name: str, most_moments: int, document: Row, write: Callable[[object], str] = str, **more: Any) -> str:
    """Render a template. write: how a value is written."""
    answer, page = document["answer"], document["page_one"]
    losses = [*answer["proven"], *answer["undecided"]]
    until = answer["until_ms"]
    environment = Environment(
        loader=PackageLoader("jobs.report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        finalize=lambda value: value if isinstance(value, int) else write(value),
    )
    environment.filters |= {
        "clock": lambda at_ms: moment(at_ms)[11:] or moment(at_ms),
        "second": moment,
        "clock_or_open": lambda at_ms: "still open" if at_ms is None else moment(at_ms)[11:],
        "place": place,
        "loss": filters.lost_text,
        "dash": filters.or_dash,
    }
    environment.globals["folded"] = words.folded
    return environment.get_template(name).render(
        page=page,
        plan=document["plan"],
        cluster=document["cluster_id"],
        captures=document["evidence"]["captures"],
        report=document["report"],
        focus=document.get("focus", ""),
        losses=losses,
        window_count=(answer["lost"] or {"windows": 0})["windows"] + answer["undecided_windows"],
        moments=_worst(page["timeline"], most_moments),
        unknown=page["unknown"][:_MOST_UNKNOWN],
        scope=answer["text"][-1],
        ended="" if until is None else f" ({moment(until)} UTC)",
        log_ends="" if until is None else f", log captured until {moment(until)} UTC",
        first=next((row["finding_id"] for row in losses), None),
        most_commands=MOST_COMMANDS,
        **more,
    )


def _worst(timeline: Sequence[Row], most: int) -> list[Row]:
    """At most so many moments, by time; those of a proven loss come first."""
    ranked = sorted(
        timeline, key=lambda row: ("lost" not in row["text"], not row["proven"], "no leader" not in row["text"])
    )
    return sorted(ranked[:most], key=lambda row: row["at_ms"])


def _lists(answer: Row) -> Iterator[tuple[str, list[str]]]:
    """(title, items) of each list under the answer."""
    if topics := [*map(topic_text, answer["topics"]), *_more(answer["topics_left_out"], "more topics")]:
        yield "By topic", topics
    left = (answer["lost"] or {"windows": 0})["windows"] - len(answer["proven"])
    more = _more(left, "more: kraft-forensics findings --section windows --verdict proven")
    if proven := [*map(proven_text, answer["proven"]), *more]:
        yield "Proven windows, the largest loss first", proven
    left = answer["undecided_windows"] - len(answer["undecided"])
    if windows := [
        *map(undecided_text, answer["undecided"]),
        *_more(left, "more: kraft-forensics findings --section windows"),
    ]:
        yield "Undecided windows: likely losses first, then by what they can have cost", windows


def _more(count: int, text: str) -> Iterable[str]:
    return [f"{count} {text}"] if count else []
