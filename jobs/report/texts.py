"""The incident in plain text and Markdown: the verdict on a terminal, a ticket, a draft of a postmortem, and the report
in full. Each renders page one (jobs/incident/document.py); names from a capture cannot mark anything up."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from jobs.console.output import plain, printable
from jobs.console.text import wrapped
from jobs.report import filters, sections, words
from jobs.report.rows import MAX_LISTED, ReportInput, Row, Section, by_section, verdict_of
from replay.findings.kinds import HWM_REGRESSION
from replay.incident.answer import proven_text, topic_text, undecided_text
from replay.incident.causes import labelled
from replay.loss.verdicts import likely_text
from replay.plan.step import moment, place

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
        lines = _of_terminal(document, full, most, prevention)
        if full or len(lines) <= _MOST_LINES:
            break
    return lines


def _of_terminal(document: Row, full: bool, most_moments: int, prevention: bool) -> list[str]:
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


MOST_LINES = 50  # of a list, in Markdown
_TITLES = {
    Section.CUT_LOGS: "Truncated logs",
    Section.RULES: "Deviations from Kafka's rules",
    Section.FAULTS: "Faults in the log and the evidence",
}


def as_json(report: ReportInput) -> str:
    """The report as one JSON object (docs/report.md), with a line end. ASCII: captured names cannot control a
    terminal."""
    found = by_section(report.findings)
    totals = {section: report.totals.of(section) for section in Section}
    document = {
        "cluster_id": report.cluster_id,
        "narrowed_to": asdict(report.focus) if report.focus.narrows else None,
        "captures": report.generated_from,
        "page_one": report.page_one,
        "answer": report.answer,
        "plan": report.plan,
        "causes": report.causes,
        "findings": {
            section: {"total": totals[section], "left_out": totals[section] - len(rows[:MAX_LISTED]), "rows": rows}
            for section, rows in ((section, rows[:MAX_LISTED]) for section, rows in found.items())
        },
        "policies": list(report.policies),
        "predictions": report.counterfactuals,
        "exposures": list(report.exposure_groups),
        "timeline": asdict(report.events),
        "evidence": asdict(report.captured),
        "quality": report.quality,
        "quality_runs": list(report.quality_runs),
        "quarantine": [{name: value for name, value in row.items() if name != "raw"} for row in report.quarantine],
        "rows": report.counts,
        "made_from": report.made_from,
    }
    return json.dumps(plain(document), indent=1) + "\n"


def as_markdown(report: ReportInput, digests: bool = False) -> str:
    """The report as Markdown: answer, plan, windows, policies, exposures, evidence, and the digests of what it is made
    from. Names from a capture cannot mark anything up."""
    return "\n".join(_lines(report, digests)) + "\n"


def _lines(report: ReportInput, digests: bool) -> Iterator[str]:
    first, *more = report.answer["text"]
    yield f"# Kafka metadata incident report: {escaped(report.cluster_id)}"
    if focus := words.focus_text(report.focus):
        yield from (
            "",
            f"**Narrowed to {escaped(focus)}.** Findings outside are not counted here; the plan is not narrowed.",
        )
    yield from ("", f"**{escaped(first)}**", "")
    yield from (f"- {escaped(text)}" for text in more)
    topics = [topic_text(topic) for topic in report.answer["topics"]]
    yield from _list("By topic", topics, report.answer["topics_left_out"])
    yield from _plan(report.plan)
    found = by_section(report.findings)
    yield from _windows(report, found)
    yield from _policies(report)
    yield from _exposures(report)
    for section, title in _TITLES.items():
        texts = [f"{filters.partition_text(row)}: {_first_line(row)} ({row['finding_id']})" for row in found[section]]
        yield from _list(title, texts, report.totals.of(section) - len(texts))
    yield from _evidence(report)
    if digests:
        yield from _made_from(report.made_from)


def _code(command: str) -> str:
    """A command as code. Backticks cannot be escaped there: with one in it, the command is text."""
    shown = filters.visible(command)
    return escaped(shown) if "`" in shown else f"`{shown}`"


def _plan(plan: Row) -> Iterator[str]:
    """The plan, with what is behind its steps below it."""
    if not plan["steps"]:
        return
    yield from ("", "## What to do, in this order", "")
    for number, step in enumerate(plan["steps"], 1):
        yield f"{number}. {escaped(step['text'])}"
        yield from (f"   - {_code(command)}" for command in step["commands"][:MOST_COMMANDS])
        if (more := len(step["commands"]) - MOST_COMMANDS) > 0:
            yield f"   - {MORE_COMMANDS.format(more)}"
    yield from (("", *(f"- `{name}`: {escaped(text)}" for name, text in plan["fill_in"].items())))
    yield from ("", "## Facts and rules behind each step", "")
    for number, step in enumerate(plan["steps"], 1):
        yield f"{number}. {step['code'].replace('_', ' ')}"
        yield from (f"   - {label}: {escaped(text)}" for label, text in words.folded(step))


def _windows(report: ReportInput, found: dict[Section, list[Row]]) -> Iterator[str]:
    rows = [*found[Section.WINDOWS], *found[Section.EXCLUDED]]
    tally = report.totals.by_verdict(HWM_REGRESSION)
    yield from ("", "## Windows", "", ", ".join(f"{count} {name}" for name, count in tally.items()) + ".")
    if rows:
        cells = (
            (
                filters.partition_text(row),
                ", ".join(filter(None, [verdict_of(row).name, likely_text(row)])),
                filters.loss_text(row),
                filters.utc_text(row["start_timestamp_ms"]),
                filters.duration_text(row["start_timestamp_ms"], row["end_timestamp_ms"]),
                filters.leader_text(row["recorded_leader"]),
                row["finding_id"],
            )
            for row in rows[:MOST_LINES]
        )
        yield from _table(("Partition", "Verdict", "Lost", "Since (UTC)", "For", "Leader", "Finding"), cells)
        yield from _left_out(sum(tally.values()) - min(len(rows), MOST_LINES))
    for row in rows:
        if chain := report.causes.get(row["finding_id"]):
            yield from ("", f"### How {escaped(filters.partition_text(row))} lost records ({row['finding_id']})", "")
            yield from (f"1. {label}: {escaped(text)}" for label, text in labelled(chain))


def _policies(report: ReportInput) -> Iterator[str]:
    families = sections.policies_by_family(report.policies)
    if not families:
        return
    yield from ("", "## What would have been lost under each policy (predictions)", "")
    yield "None of this happened: each line applies other rules to the same recorded windows."
    cells = (
        (
            words.policy_name(row["policy"]),
            *(str(row[name]) for name in ("windows", "elected", "waits", "undetermined", "loss_min")),
            filters.or_unknown(row["loss_max"]),
        )
        for _, rows in families
        for row in rows
    )
    yield from _table(("Policy", "Windows", "Elects", "Waits", "Undetermined", "At least", "At most"), cells)


def _exposures(report: ReportInput) -> Iterator[str]:
    yield from _list("Exposures", [_exposure(row) for row in report.exposure_groups], 0)


def _exposure(row: Row) -> str:
    often, where = words.count(row["findings"], "time"), words.count(row["partitions"], "partition")
    longest = words.span_text(row["longest_ms"], row["unended"] > 0)
    kind = sections.EXPOSURE_NAMES[row["kind"]]
    return f"{filters.topic_text(row['topic'])}: {kind}, {often} in {where}, longest {longest}"


def _evidence(report: ReportInput) -> Iterator[str]:
    captured = report.captured
    yield from ("", "## Evidence", "")
    yield f"- Kafka release: {escaped(', '.join(captured.releases) or 'no capture names it')}"
    for row in captured.captures[:MOST_LINES]:
        amounts = ", ".join(
            f"{filters.or_unknown(row[f'{name}_bytes'])} bytes {name}" for name in ("parsed", "quarantined", "trailing")
        )
        yield f"- {escaped(filters.visible(row['capture']))}: {row['files']} files; {amounts}"
    yield "- `kraft-forensics explain FINDING_ID` shows a finding with its rows, files and bytes."


def _made_from(made_from: Row) -> Iterator[str]:
    if made_from:
        yield from ("", "Digests (SHA-256) of what this is made from; `kraft-forensics verify` checks them.")
        captures = sorted(made_from["captures"].items())[:MOST_LINES]
        cells = [(f"files of {capture}", digest) for capture, digest in captures]
        cells += [
            (f"{name}, version {at['version']}", at["digest"]) for name, at in sorted(made_from["tables"].items())
        ]
        yield from _table(("Files of a capture, newest commit of a table", "SHA-256"), cells)


def _list(title: str, texts: Sequence[str], left_out: int) -> Iterator[str]:
    if texts:
        yield from ("", f"## {title}", "", *(f"- {escaped(text)}" for text in texts[:MOST_LINES]))
        yield from _left_out(len(texts) + left_out - min(len(texts), MOST_LINES))


def _left_out(count: int) -> Iterator[str]:
    if count:
        yield from ("", f"{count} more are not shown: kraft-forensics findings")


def _table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield from ("", f"| {' | '.join(names)} |", f"|{'---|' * len(names)}")
    yield from (f"| {' | '.join(escaped(filters.or_unknown(cell)) for cell in row)} |" for row in rows)


def _first_line(row: Row) -> str:
    return next(iter(filters.paragraphs(row["explanation"])), str(row["kind"]))
