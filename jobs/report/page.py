"""Render the incident report: one self-contained HTML page from rows of the result tables.

Pure: no Spark, and no disk except the templates in the package. The page loads nothing and runs one script of its own,
for the timeline (a CSP forbids everything else); without it the page is complete. The same rows give the same bytes:
the page has no creation time and no path of the machine that made it.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from operator import itemgetter
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from jobs.incident.focus import Focus
from jobs.report import filters, words
from jobs.report.rendering import rendered
from jobs.report.rows import MAX_DETAILS, MAX_LISTED, VERDICTS, Row, Verdict, broker_life, same_answers, verdict_of
from jobs.report.texts import as_ticket, document_of
from jobs.report.timeline import timeline_of
from jobs.report.words import reason_by_nature
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
    lists = {
        section: [_listed(row, section is Section.WINDOWS and n < MAX_DETAILS) for n, row in enumerate(found["rows"])]
        for section, found in report["findings"].items()
    }
    listed = {item["row"]["finding_id"] for found in lists.values() for item in found}
    further = [_listed(row, False) for row in events.windows if row["finding_id"] not in listed]
    anchors = {item["row"]["finding_id"]: item["anchor"] for found in (*lists.values(), further) for item in found}
    by_finding = groups(report["predictions"], itemgetter("finding_id"))
    by_partition = groups(_ordered(of_page["elections"], "offset"), itemgetter("topic_id", "partition"))
    details = [_detail(item, report, by_finding, by_partition) for item in lists[Section.WINDOWS] if item["detailed"]]
    totals = {section: found["total"] for section, found in report["findings"].items()}
    cluster, focus = report["cluster_id"], of_page["focus"]
    drawn = (*events.windows, *events.exposures, *events.others) if events.log and events.shown else ()
    days = {moment(each["at_ms"])[:10] for each in report["page_one"]["timeline"]}
    return rendered(
        "report.html.j2",
        report=report,
        **_script(),
        focus=words.focus_text(focus),
        tally={each.name: sum(_windows(of_page["totals"], each)) for each in VERDICTS},
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
        brokers=[broker_life(broker, found) for broker, found in events.brokers.items()],
        rules=sorted({(g["rule"], g["rule_version"]) for g in of_page["totals"] if g["rule"] is not None}, key=str),
        max_captures=MAX_CAPTURES,
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


def _listed(row: Row, detailed: bool) -> Row:
    """A finding in a list. detailed: the page has its detail; reason: by nature; anchor: the id of its place."""
    reason = reason_by_nature(row) if "reason" in row else []
    more = {"verdict": verdict_of(row), "detailed": detailed, "reason": reason, "anchor": f"f-{row['finding_id']}"}
    return {"row": row, **more}


def exposure_groups(items: Sequence[Any], totals: Sequence[Row]) -> list[Row]:
    """The listed exposures by kind and topic: rows {total, listed}. total: of the report's `exposures`; the
    last one, of groups without it, has None. items: with `row`."""
    by_key = groups(items, lambda item: (item["row"]["kind"], item["row"]["topic"]))
    found = [{"total": total, "listed": by_key.pop((total["kind"], total["topic"]), [])} for total in totals]
    rest = [item for others in by_key.values() for item in others]
    return [*found, {"total": None, "listed": rest}] if rest else found


def _windows(totals: Iterable[Row], verdict: Verdict) -> Iterator[int]:
    """The numbers of windows with a verdict."""
    return (each["findings"] for each in totals if each["kind"] == HWM_REGRESSION and verdict_of(each) is verdict)


def _states(details: Sequence[Row]) -> dict[str, tuple[str, list[Row]]]:
    """Name of a partition -> (finding_id of its worst window, the states near its windows in order)."""
    found: dict[str, tuple[Row, dict[int, Row]]] = {}
    for detail in details:
        window = detail["item"]["row"]
        worst, states = found.setdefault(filters.partition_text(window), (window, {}))
        if worst["topic_id"] == window["topic_id"]:
            states |= {state["offset"]: state for state in detail["states"]}
    return {
        name: (worst["finding_id"], [states[offset] for offset in sorted(states)])
        for name, (worst, states) in found.items()
    }


def _detail(
    item: Row, report: Row, by_finding: Mapping[str, list[Row]], by_partition: Mapping[tuple[Any, ...], list[Row]]
) -> Row:
    """The detail of a window. causes: (label, line) of its chain; states: around it; before, after: how many states the
    partition has before and after these; exposed: the state at its start; judged: its
    election; counterfactuals: by family of policies; evidence: its first pieces; hidden_evidence: how many are not
    shown."""
    row = item["row"]
    near = report["page"]["states"].get(row["finding_id"], [])
    states = [state for state in near if state["shown"]]
    elections = by_partition.get((row["topic_id"], row["partition"]), [])
    judged = next((each for each in elections if each["offset"] == row["election_offset"]), None)
    if states:
        first, last = states[0]["offset"], states[-1]["offset"]
        elections = [each for each in elections if first <= each["offset"] <= last]
    return {
        "item": item,
        "causes": list(labelled(report["causes"].get(row["finding_id"], ()))),
        "states": states,
        "before": states[0]["place"] if states else 0,
        "after": states[-1]["total"] - states[-1]["place"] - 1 if states else 0,
        "exposed": next((state for state in near if state["offset"] == row["start_offset"]), None),
        "judged": judged,
        "elections": elections,
        "counterfactuals": [
            (family, same_answers(found)) for family, found in words.by_family(by_finding.get(row["finding_id"], []))
        ],
        "evidence": (row["evidence"] or [])[:MAX_EVIDENCE],
        "hidden_evidence": max(len(row["evidence"] or []) - MAX_EVIDENCE, 0),
    }


def _ordered(rows: Iterable[Row], *columns: str) -> list[Row]:
    """Rows sorted by these columns, null first, so that the page does not depend on the order of the input."""
    return sorted(rows, key=lambda row: tuple((row[name] is not None, row[name]) for name in columns))
