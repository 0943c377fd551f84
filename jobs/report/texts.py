"""The incident in plain text and Markdown: the verdict on a terminal, a ticket, and a draft of a postmortem; the report
as JSON. Each renders page one (jobs/incident/document.py); names from a capture cannot mark anything up."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from jobs.console.output import plain, printable
from jobs.console.text import wrapped
from jobs.report import filters, words
from jobs.report.rendering import rendered
from jobs.report.rows import Row
from replay.incident.causes import labelled
from replay.plan.step import place

_IN_TICKET, _MOST_IN_TICKET = 8, 40  # moments, losses, fewer if there are more lines
_MOST_LINES = 25  # on a terminal; what stays if there are more: (moments, whether predictions, what is not known)
_LESS = (*((most, True, 3) for most in range(6, 1, -1)), (2, False, 3), (0, False, 3), (0, False, 1), (0, False, 0))


def document_of(report: Row, link: str | None = None) -> Row:
    """A report as `as_ticket` and `as_postmortem` take it. link: where its page is."""
    evidence, focus = {"captures": report["captures"]}, words.focus_text(report["page"]["focus"])
    return {**report, "evidence": evidence, "report": link, "focus": focus}


def as_text(document: Row, full: bool = False, lake: str = "lake") -> list[str]:
    """Lines for a terminal. document: of jobs/verdict/document.py; full: also commands, facts, rules and windows."""
    for most, prevention, unknown in _LESS:
        less: Row = {"full": full, "prevention": prevention, "most_unknown": unknown, "lake": lake}
        lines = _of_terminal(_template("verdict.txt.j2", most, document, **less))
        if full or len(lines) <= _MOST_LINES:
            break
    return lines


def _of_terminal(text: str) -> list[str]:
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
        text = _template("ticket.md.j2", most, document, filters.escaped, most_losses=most)
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
        filters.escaped,
        chains=chains[:_IN_TICKET],
        factors=[*facts.get("prevent_next", ()), *facts.get("turn_off_unclean", ())],
    )


def _template(name: str, most_moments: int, document: Row, write: Callable[[object], str] = str, **more: Any) -> str:
    """Render a template, which has the document's keys. write: how a value is written."""
    answer = document["answer"]
    return rendered(
        name,
        write,
        **{"focus": "", **document},
        losses=[*answer["proven"], *answer["undecided"]],
        moments=_worst(document["page_one"]["timeline"], most_moments),
        **more,
    )


def _worst(timeline: Sequence[Row], most: int) -> list[Row]:
    """At most so many moments, by time; those of a proven loss come first."""
    words = ("lost", "elected", "no leader")
    ranked = sorted(timeline, key=lambda row: (not row["proven"], *(word not in row["text"] for word in words)))
    return sorted(ranked[:most], key=lambda row: row["at_ms"])


def as_json(report: Row) -> str:
    """The report as one JSON object (docs/report.md), with a line end. ASCII: captured names cannot control a
    terminal."""
    document = {name: value for name, value in report.items() if name != "page"}
    return json.dumps(plain({**document, "timeline": asdict(report["timeline"])}), indent=1) + "\n"
