"""Commands that answer from finished tables: they list, print and explain what was found, say which findings need no
alarm (`acknowledge`), and show what was, or would be. Only `sql` starts a JVM."""

import json
import re
import time
from collections.abc import Sequence
from typing import Any, Literal

import typer

from evidence.limits import int32_of
from jobs.cli.lakes import lake_to_show
from jobs.cli.stage_commands import EXIT_FINDINGS
from jobs.console.log import WARNING, show_message
from jobs.console.options import DEFAULT_LAKE, DocumentFormat
from jobs.console.output import Format, print_rows, print_table, printable, utc
from jobs.console.text import known_width

_MOST = 50
# Columns that a narrow table of findings leaves out, the least important first.
_DROP = ("cluster_id", "status", "since (UTC)", "severity", "partition", "verdict")
_ACKNOWLEDGED = "finding_id", "verdict", "severity", "acknowledged (UTC)", "acknowledged_by", "note", "cluster_id"
_DROP_ACKNOWLEDGED = ("cluster_id", "severity", "acknowledged_by", "acknowledged (UTC)", "verdict", "note")


def windows(lake: Any = DEFAULT_LAKE, every: bool = False, form: Format = Format.TABLE) -> None:
    """List the flagged windows: where the high watermark went back, or may have."""
    from jobs.queries.flagged_windows import print_windows

    print_windows(lake_to_show(lake), form, every)


def findings(
    lake: Any = DEFAULT_LAKE,
    section: list[str] | None = None,
    kind: list[str] | None = None,
    verdict: list[str] | None = None,
    severity: list[str] | None = None,
    status: list[str] | None = None,
    topic: str | None = None,
    partition: int | None = None,
    since: int | None = None,
    until: int | None = None,
    limit: int = _MOST,
    cluster: str | None = None,
    form: Format = Format.TABLE,
) -> None:
    """List findings in the order of the report. `explain` shows one finding with its evidence."""
    from jobs.queries.listing import FINDING_COLUMNS, list_findings

    files = lake_to_show(lake, cluster)
    only = files.one_cluster(cluster) if cluster else None
    wanted = {"section": section, "kind": kind, "verdict": verdict, "severity": severity, "status": status}
    rows, count = list_findings(files, only, limit, wanted, since, until, topic=topic, partition=partition)
    if form is not Format.TABLE:
        print_rows(list(FINDING_COLUMNS), rows, form)
    elif not rows:
        print("no findings")
    else:
        clusters = sorted({row["cluster_id"] for row in rows})
        for row in rows:
            row["partition"] = "" if row["topic"] is None else f"{row['topic']}-{row['partition']}"
            row["since (UTC)"] = utc(row["start_timestamp_ms"])[:19]
            row["finding"] = row["finding_id"][:8]
        shown = ["finding", "kind", "verdict", "severity", "status", "partition", "since (UTC)"]
        shown += ["cluster_id"] if len(clusters) > 1 else []
        of = f"cluster {printable(clusters[0])}" if len(clusters) == 1 else f"{len(clusters)} clusters"
        print_table(shown, rows, f"{count} finding{'' if count == 1 else 's'} of {of}", _DROP)
    if count > len(rows):
        show_message(f"{count - len(rows)} more findings are not shown: raise --limit or add filters")


def verdict(
    lake: Any = DEFAULT_LAKE,
    cluster: str | None = None,
    form: Literal["text", "md", "json"] = "text",
    full: bool = False,
) -> None:
    """Print what was lost and what to do: as text, as a ticket in Markdown, or as verdict.json (docs/verdict.md)."""
    from jobs.report.stage import page_in
    from jobs.report.texts import as_text, as_ticket
    from jobs.verdict.document import document

    files = lake_to_show(lake, cluster)
    only = files.one_cluster(cluster)
    found = document(files, only, page_in(files, only))
    if form == "json":
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(as_text(found, full, str(lake))) if form == "text" else as_ticket(found))


def acknowledge(
    finding_ids: list[str] | None = None,
    note: str | None = None,
    by: str | None = None,
    every: bool = False,
    show: bool = False,
    undo: bool = False,
    lake: Any = DEFAULT_LAKE,
    cluster: str | None = None,
    form: Format = Format.TABLE,
) -> None:
    """Acknowledge findings: `--fail-on new-...` then leaves them out, until their verdict or severity changes."""
    from jobs.config.settings import load_settings
    from jobs.ingest.captures import person
    from jobs.queries.listing import ACKNOWLEDGEMENT_COLUMNS, acknowledge, listed
    from jobs.queries.listing import undo as remove

    ids = finding_ids or []
    if (bool(ids), every, show).count(True) != 1 or (undo and not ids):
        raise typer.BadParameter("give ids of findings, --all or --list; --undo needs ids")
    if not show and (note is None or not note.strip()) != undo:
        raise typer.BadParameter("an acknowledgement has a --note, and --undo has none")
    files = lake_to_show(lake, cluster)
    only = files.one_cluster(cluster) if cluster else None
    if show:
        rows = listed(files, only)
    elif undo:
        rows = remove(files, ids, only)
    else:
        who = by or person(load_settings().custody.ingested_by)
        rows = acknowledge(files, None if every else ids, only, str(note), who, time.time_ns() // 1_000_000)
    if form is not Format.TABLE:
        print_rows(list(ACKNOWLEDGEMENT_COLUMNS), rows, form)
    elif not rows:
        print("nothing is acknowledged")
    else:
        rows = [{**row, "acknowledged (UTC)": utc(row["acknowledged_ms"])} for row in rows]
        what = "no longer acknowledged" if undo else "acknowledged"
        print_table(_ACKNOWLEDGED, rows, f"{len(rows)} {what}", _DROP_ACKNOWLEDGED)
    if undo:
        show_message("they count as known: an alarm on new findings leaves them out as long as they stay as they are")


def describe(
    lake: Any = DEFAULT_LAKE,
    topic: str | None = None,
    at_offset: int | None = None,
    at_ms: int | None = None,
    cluster: str | None = None,
    form: Format = Format.TABLE,
) -> None:
    """Show topics and partitions as `kafka-topics --describe` does, at any point of the captured log; exit code 1
    outside of it, and where no partition is known. Starts no JVM."""
    if at_offset is not None and at_ms is not None:
        raise typer.BadParameter("give --at-offset or --at-time, not both")
    from jobs.incident.document import log_range
    from jobs.queries.describe import COLUMNS, as_kafka_topics, outside_log, partitions_at

    files = lake_to_show(lake, cluster)
    only = files.one_cluster(cluster)
    rows = partitions_at(files, only, topic, at_offset, at_ms)
    if form is not Format.TABLE:
        print_rows(COLUMNS, rows, form)
    elif rows:
        typer.echo(as_kafka_topics(rows, known_width()))
    missing = "" if rows else "no partition is known at that point"
    if problems := [*filter(None, (missing, outside_log(log_range(files, only), at_offset, at_ms)))]:
        show_message("; ".join(problems), WARNING)
        raise typer.Exit(1)


def explain(
    finding_id: str,
    lake: Any = DEFAULT_LAKE,
    capture: str | None = None,
    cluster: str | None = None,
    form: DocumentFormat = "table",
) -> None:
    """Explain a finding, with the rows, files and bytes that support it."""
    from evidence.capture.files import check_location
    from evidence.capture.remote import location
    from jobs.queries.explain import explain, print_explained

    place = location(capture) if capture else None
    if place:
        check_location(place)
    files = lake_to_show(lake, cluster)
    print_explained(explain(files, finding_id, files.one_cluster(cluster) if cluster else None, place), form)


def whatif(
    lake: Any = DEFAULT_LAKE,
    policy: str | None = None,
    strategy: str | None = None,
    profile: str | None = None,
    min_isr: int | None = None,
    unclean: bool | None = None,
    elr: bool | None = None,
    deprioritized: str = "",
    designate: int | None = None,
    topic: str | None = None,
    from_offset: int = 0,
    to_offset: int | None = None,
    cluster: str | None = None,
    form: Format = Format.TABLE,
) -> None:
    """Predict how leadership, exposure and loss would differ under other rules. Predictions are never facts."""
    from jobs.config.settings import load_settings
    from jobs.queries.whatif import WhatifQuestion, print_differences, question_of, whatif

    last = _deprioritized(deprioritized)
    given = (policy, strategy, profile, min_isr, unclean, elr, designate)
    if all(value is None for value in given) and not last:
        raise typer.BadParameter("name at least one rule to change, e.g. --strategy balanced or --min-isr 2")
    rules = question_of(strategy, policy), profile, min_isr, unclean, elr, last, designate
    question = WhatifQuestion(*rules, topic, from_offset, to_offset)
    question.scenario()  # reject an invalid question before the lake is read
    files = lake_to_show(lake, cluster)
    only = files.one_cluster(cluster)
    print_differences(whatif(files, only, question, load_settings()), form, only)


def _deprioritized(text: str) -> tuple[tuple[int, int | None, int | None], ...]:
    """(broker, first offset, last offset) of each entry; None: the bound of the command's range."""
    entries = [re.fullmatch(r"(\d+)(?:@(\d+)-(\d+))?", entry.strip()) for entry in text.split(",") if entry.strip()]
    found = [entry.groups() for entry in entries if entry]
    if len(found) < len(entries):
        raise typer.BadParameter(f"{text!r} is not a list of broker ids, e.g. 1,2 or 1@500-900,2")
    return tuple((int(b), int(first) if first else None, int(last) if last else None) for b, first, last in found)


def ahead(
    stop: list[str] | None = None,
    start: list[int] | None = None,
    setting: list[str] | None = None,
    topic: str | None = None,
    elect: list[str] | None = None,
    restart_all: bool = False,
    lake: Any = DEFAULT_LAKE,
    cluster: str | None = None,
    form: DocumentFormat = "table",
) -> None:
    """Predict what a step would do to the newest state, before you take it; exit code 3 if it is not safe. Several are
    taken in the order --set, --start, --elect, --stop."""
    from jobs.config.settings import load_settings
    from jobs.queries.ahead import ahead, parse_elect, parse_set, print_answer
    from replay.whatif.ahead import START, STOP, ClusterAction

    if topic is not None and not setting:
        raise typer.BadParameter("--topic belongs to --set")
    steps = [
        *(parse_set(text, topic) for text in setting or ()),
        *(ClusterAction(START, broker) for broker in start or ()),
        *(parse_elect(text) for text in elect or ()),
        *(ClusterAction(STOP, broker) for broker in _brokers(stop or ())),
    ]
    if not steps and not restart_all:
        raise typer.BadParameter("name at least one step, e.g. --stop 3, or --restart-all")
    files = lake_to_show(lake, cluster)
    answer = ahead(files, files.one_cluster(cluster), steps, restart_all, load_settings())
    print_answer(answer, form)
    if not answer.safe:
        raise typer.Exit(EXIT_FINDINGS)


def _brokers(lists: Sequence[str]) -> list[int]:
    found = [int32_of(entry.strip()) for text in lists for entry in text.split(",")]
    if None in found:
        raise typer.BadParameter(f"{','.join(lists)!r} is not a list of broker ids, e.g. 1,2,3")
    return [broker for broker in found if broker is not None]


def sql(
    query: str | None = None,
    lake: Any = DEFAULT_LAKE,
    cluster: str | None = None,
    form: Format = Format.TABLE,
    ddl: str | None = None,
) -> None:
    """Run Spark SQL on the tables and views, which have their names (docs/views.md). Nothing can be changed."""
    if ddl is not None:
        if query is not None or cluster is not None:
            raise typer.BadParameter("--ddl prints the tables of the whole lake: give no query and no --cluster")
        from jobs.views.catalogue import quoted
        from jobs.views.in_spark import definitions

        typer.echo(f"create database if not exists {quoted(ddl)};")
        for statement in definitions([lake_to_show(lake)], database=ddl, external_tables=True):
            typer.echo(f"{statement};")
        return
    from jobs.views.sql import ReadOnlySql, prompt

    statements = ReadOnlySql(lake, cluster)
    if query is None:
        prompt(statements, form)
    else:
        print_rows(*statements.run(query), form)
