"""The whole report as Markdown, for a wiki, and as JSON. Pure; the same rows as the page, and as bounded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from jobs.console.output import plain
from jobs.report import filters, sections, words
from jobs.report.rows import MAX_LISTED, ReportInput, Row, Section, by_section, verdict_of
from jobs.report.texts import MORE_COMMANDS, MOST_COMMANDS, escaped
from replay.findings.kinds import HWM_REGRESSION
from replay.incident.answer import topic_text
from replay.incident.causes import labelled
from replay.loss.verdicts import likely_text

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
