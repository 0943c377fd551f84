"""Commands that answer a question: `describe`, `explain`, `whatif`, `ahead`, `sql`. Only `sql` starts a JVM."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

import typer

from jobs.cli.reading import lake_to_show
from jobs.console.log import WARNING
from jobs.console.options import (
    DEFAULT_LAKE,
    CaptureOption,
    ClusterOption,
    DocumentFormat,
    DocumentFormatOption,
    FormatOption,
    LakeOption,
)
from jobs.console.output import Format, print_rows, show_message
from jobs.console.text import known_width


def _parse_time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not an ISO 8601 time, e.g. 2026-11-21T00:39:36.570Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def describe(
    lake: LakeOption = DEFAULT_LAKE,
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.")] = None,
    at_offset: Annotated[
        int | None, typer.Option("--at-offset", min=0, help="State after the record at this metadata offset.")
    ] = None,
    at_time: Annotated[
        datetime | None,
        typer.Option("--at-time", parser=_parse_time, metavar="ISO", help="State at this time (UTC if no zone)."),
    ] = None,
    cluster: ClusterOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show topics and partitions as `kafka-topics --describe` does, at any point of the captured log; exit code 1
    outside of it. Starts no JVM."""
    if at_offset is not None and at_time is not None:
        raise typer.BadParameter("give --at-offset or --at-time, not both")
    from jobs.queries.describe import COLUMNS, as_kafka_topics, outside_log, partitions_at
    from jobs.verdict.document import log_range

    files = lake_to_show(lake, cluster)
    at_ms = None if at_time is None else int(at_time.timestamp() * 1000)
    only = files.one_cluster(cluster)
    rows = partitions_at(files, only, topic, at_offset, at_ms)
    if form is Format.TABLE:
        typer.echo(as_kafka_topics(rows, known_width()))
    else:
        print_rows(COLUMNS, rows, form)
    if outside := outside_log(log_range(files, only), at_offset, at_ms):
        show_message(outside, WARNING)
        raise typer.Exit(1)


def explain(
    finding_id: Annotated[str, typer.Argument(help="Id of a finding, or its first characters (at least 6).")],
    lake: LakeOption = DEFAULT_LAKE,
    capture: CaptureOption = None,
    cluster: ClusterOption = None,
    form: DocumentFormatOption = DocumentFormat.TABLE,
) -> None:
    """Explain a finding, with the rows, files and bytes that support it."""
    from evidence.capture.files import check_location
    from evidence.capture.remote import location
    from jobs.explain.finding import explain
    from jobs.explain.output import print_explained

    place = location(capture) if capture else None
    if place:
        check_location(place)
    files = lake_to_show(lake, cluster)
    print_explained(explain(files, finding_id, files.one_cluster(cluster) if cluster else None, place), form)


def whatif(
    lake: LakeOption = DEFAULT_LAKE,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="Policy that elects a leader from outside the ISR and ELR; docs/whatif.md lists them.",
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy", metavar="NAME", help="Strategy of unclean recovery: none, balanced, aggressive (KIP-966)."
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="Rules of a release: 4.0, 4.1.0, 4.1.1 or 4.3 (also for 4.4). See docs/rules.md",
        ),
    ] = None,
    min_isr: Annotated[int | None, typer.Option("--min-isr", min=1, metavar="N", help="min.insync.replicas.")] = None,
    unclean: Annotated[
        bool | None, typer.Option("--unclean/--no-unclean", help="Unclean leader election on or off.")
    ] = None,
    elr: Annotated[bool | None, typer.Option("--elr/--no-elr", help="Eligible leader replicas on or off.")] = None,
    deprioritized: Annotated[
        str,
        typer.Option(
            "--deprioritized",
            help="Brokers to elect last, e.g. 1,2, or 1@500-900 for a range of offsets (KIP-491).",
            metavar="IDS",
        ),
    ] = "",
    designate: Annotated[
        int | None,
        typer.Option("--designate", metavar="ID", help="Broker to elect when no member of the ISR or ELR can lead."),
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="NAME", help="Only this topic.")] = None,
    from_offset: Annotated[
        int, typer.Option("--from-offset", min=0, metavar="N", help="Start from the state after this metadata offset.")
    ] = 0,
    to_offset: Annotated[
        int | None,
        typer.Option(
            "--to-offset", min=0, metavar="N", help="Stop after this metadata offset (default: end of the log)."
        ),
    ] = None,
    cluster: ClusterOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Predict how leadership, exposure and loss would differ under other rules. Predictions are never facts."""
    from jobs.config.settings import load_settings
    from jobs.queries.whatif import WhatifQuestion, question_of, whatif
    from jobs.queries.whatif_output import print_differences

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


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            help="A statement of Spark SQL that only reads; without it, a prompt for many.", show_default=False
        ),
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    cluster: ClusterOption = None,
    form: FormatOption = Format.TABLE,
    ddl: Annotated[
        str | None,
        typer.Option(
            "--ddl",
            metavar="DATABASE",
            help="Print statements that make the lake's tables and views known to a catalog; runs nothing.",
        ),
    ] = None,
) -> None:
    """Run Spark SQL on the tables and views, which have their names (docs/views.md). Nothing can be changed."""
    if ddl is not None:
        from jobs.views.in_spark import definitions, quoted

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
