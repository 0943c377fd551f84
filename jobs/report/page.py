"""Render the incident report: one self-contained HTML page from rows of the result tables.

Pure: no Spark, and no disk except the templates in the package. The page loads nothing and runs one script of its own,
for the timeline (a CSP forbids everything else); without it the page is complete. The same rows give the same bytes:
the page has no creation time and no path of the machine that made it.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from operator import itemgetter
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from jobs.incident.lookup import Focus
from jobs.report import filters, words
from jobs.report.rendering import rendered
from jobs.report.rows import MAX_DETAILS, MAX_LISTED, MAX_SESSIONS, VERDICTS, Row, same_answers, verdict_of
from jobs.report.texts import as_ticket, document_of
from jobs.report.timeline import timeline_of
from replay.arrow.runs import groups
from replay.findings.kinds import HWM_REGRESSION, Section
from replay.incident.answer import LOST, NOT_KNOWN, NOT_LOST
from replay.incident.causes import labelled
from replay.plan.step import moment

MAX_EVIDENCE = 50  # pieces in a detail
MAX_CAPTURES = 20  # in the head
QUALITY_ORDER = ("success", "suite", "table", "column", "expectation")
_STATUSES = (LOST, NOT_KNOWN, NOT_LOST)

HEAD_BYTES = 2048  # the fingerprint is in these first bytes of a page
_FINGERPRINT = re.compile(rb'<meta name="kraft-forensics-fingerprint" content="([0-9a-f]+)">')


def render_report(report: Row) -> str:
    """The page as a string. report: of load.py:load_report."""
    events, of_page = report["timeline"], report["page"]
    lists = {section: found["rows"] for section, found in report["findings"].items()}
    listed = {row["finding_id"] for rows in lists.values() for row in rows}
    further = [row for row in events.windows if row["finding_id"] not in listed]
    anchors = {row["finding_id"]: words.anchor(row) for rows in (*lists.values(), further) for row in rows}
    by_finding = groups(report["predictions"], itemgetter("finding_id"))
    by_partition = groups(_ordered(of_page["elections"], "offset"), itemgetter("topic_id", "partition"))
    details = [_detail(row, report, by_finding, by_partition) for row in lists[Section.WINDOWS][:MAX_DETAILS]]
    windows = [total for total in of_page["totals"] if total["kind"] == HWM_REGRESSION]
    totals = {section: found["total"] for section, found in report["findings"].items()}
    cluster, focus = report["cluster_id"], of_page["focus"]
    drawn = (*events.windows, *events.exposures, *events.others) if events.log and events.shown else ()
    days = {moment(each["at_ms"])[:10] for each in report["page_one"]["timeline"]}
    return rendered(
        "report.html.j2",
        report=report,
        **_script(),
        focus=words.focus_text(focus),
        tally={each.name: sum(of["findings"] for of in windows if verdict_of(of) is each) for each in VERDICTS},
        verdicts=VERDICTS,
        page=report["page_one"],
        day=days.pop() if len(days) == 1 else "",
        scope=report["answer"]["text"][-1 - len(report["answer"]["deleted"]) :],
        ticket=as_ticket(document_of(report)),
        timeline=timeline_of(events, anchors, _states(details)),
        marked={row["finding_id"] for row in drawn},
        lists=lists,
        further=further,
        policies=words.by_family(report["policies"]),
        exposed=exposure_groups(lists[Section.EXPOSURES], report["exposures"]),
        details=details,
        totals=totals,
        commands={name: words.list_command(name, cluster, total, focus) for name, total in totals.items()},
        quality=sorted(_ordered(report["quality"], *QUALITY_ORDER), key=lambda row: row["success"] is True),
        quarantine=_ordered(report["quarantine"], "capture", "path", "position", "reason")[:MAX_LISTED],
        brokers=events.brokers,
        max_sessions=MAX_SESSIONS,
        rules=sorted({(g["rule"], g["rule_version"]) for g in of_page["totals"] if g["rule"] is not None}, key=str),
        max_captures=MAX_CAPTURES,
        max_evidence=MAX_EVIDENCE,
    )


def render_index(answers: Sequence[tuple[str, str, Row]], focus: Focus) -> str:
    """The index page. answers: (cluster, its page's file name, its answer)."""
    found = [(cluster, quote(page), answer, answer["text"]) for cluster, page, answer in answers]
    found.sort(key=lambda each: (_STATUSES.index(each[2]["status"]), each[0]))
    return rendered("index.html.j2", clusters=found, focus=words.focus_text(focus), **_script(False))


def _script(used: bool = True) -> dict[str, Any]:
    """The script, and the Content-Security-Policy that allows it alone, by its hash."""
    text = files("jobs.report.templates").joinpath("timeline.js").read_text(encoding="utf-8") if used else ""
    digest = b64encode(sha256(text.encode()).digest()).decode()
    allowed = f"; script-src 'sha256-{digest}'" if used else ""
    policy = f"default-src 'none'; style-src 'unsafe-inline'{allowed}; base-uri 'none'; form-action 'none'"
    return {"script": Markup(text), "policy": policy}


def fingerprint_in(head: bytes) -> str | None:
    """The fingerprint of the tables that a page was made from, in its first HEAD_BYTES; None if it has none."""
    found = _FINGERPRINT.search(head[:HEAD_BYTES])
    return None if found is None else found[1].decode()


def exposure_groups(rows: Sequence[Row], totals: Sequence[Row]) -> list[Row]:
    """The listed exposures by kind and topic: rows {total, listed}. total: of the report's `exposures`; the
    last one, of groups without it, has None."""
    by_key = groups(rows, itemgetter("kind", "topic"))
    found = [{"total": total, "listed": by_key.pop((total["kind"], total["topic"]), [])} for total in totals]
    rest = [row for others in by_key.values() for row in others]
    return [*found, {"total": None, "listed": rest}] if rest else found


def _states(details: Sequence[Row]) -> dict[str, tuple[str, list[Row]]]:
    """Name of a partition -> (finding_id of its worst window, the states near its windows in order)."""
    found: dict[str, tuple[Row, dict[int, Row]]] = {}
    for detail in details:
        window = detail["row"]
        worst, states = found.setdefault(filters.partition_text(window), (window, {}))
        if worst["topic_id"] == window["topic_id"]:
            states |= {state["offset"]: state for state in detail["near"] if state["shown"]}
    return {
        name: (worst["finding_id"], [states[offset] for offset in sorted(states)])
        for name, (worst, states) in found.items()
    }


def _detail(
    row: Row, report: Row, by_finding: Mapping[str, list[Row]], by_partition: Mapping[tuple[Any, ...], list[Row]]
) -> Row:
    """The detail of a window. causes: (label, line) of its chain; near: states around it, some of them `shown`;
    elections: of the partition, in order; counterfactuals: by family of policies."""
    answers = words.by_family(by_finding.get(row["finding_id"], []))
    return {
        "row": row,
        "causes": list(labelled(report["causes"].get(row["finding_id"], ()))),
        "near": report["page"]["states"].get(row["finding_id"], []),
        "elections": by_partition.get((row["topic_id"], row["partition"]), []),
        "counterfactuals": [(family, same_answers(found)) for family, found in answers],
    }


def _ordered(rows: Iterable[Row], *columns: str) -> list[Row]:
    """Rows sorted by these columns, null first, so that the page does not depend on the order of the input."""
    return sorted(rows, key=lambda row: tuple((row[name] is not None, row[name]) for name in columns))
