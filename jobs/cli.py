"""The command line. Results go to stdout, progress and logs to stderr. Spark is imported only by commands that need it.

Exit codes: 0 clean, 1 error, 2 usage, 3 findings at or above --fail-on, 4 quality failed.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evidence.capture.remote import Location
from evidence.errors import KraftForensicsError
from jobs.console import tool_commands
from jobs.console.failures import one_line
from jobs.console.options import (
    DEFAULT_LAKE,
    CaptureOption,
    Captures,
    ClusterOption,
    DocumentFormat,
    DocumentFormatOption,
    FailOn,
    FailOnOption,
    FormatOption,
    LakeOption,
    Start,
    StartOption,
    VerdictOption,
)
from jobs.console.output import Format, print_rows, show_message
from jobs.queries import commands

if TYPE_CHECKING:
    from jobs.pipeline import Pipeline

EXIT_FINDINGS, EXIT_QUALITY = 3, 4

app = typer.Typer(
    name="kraft-forensics",
    help="Replay Kafka's KRaft metadata log and find where acknowledged records were lost.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _pipeline(lake: Location, captures: Sequence[str] = ()) -> Pipeline:
    from jobs.pipeline import Pipeline

    return Pipeline(lake, captures)


@app.command()
def run(
    captures: Captures,
    lake: LakeOption = DEFAULT_LAKE,
    report: Annotated[
        Path | None, typer.Option("--report", help="HTML page to write (default: <lake>/report.html).")
    ] = None,
    start: StartOption = Start.EARLIEST,
    form: FormatOption = Format.TABLE,
    fail_on: FailOnOption = FailOn.NONE,
    verdict: VerdictOption = None,
) -> None:
    """Run the whole job: ingest, replay, detect, quality and report, one after the other."""
    from jobs.queries.flagged_windows import print_windows

    pipeline = _pipeline(lake, captures)
    outcome = pipeline.run(report, start, verdict)
    print_windows(pipeline.lake, form)
    for line in outcome.summary:
        show_message(line)
    _exit(outcome.levels, fail_on, outcome.quality_failed)


@app.command()
def ingest(captures: Captures, lake: LakeOption = DEFAULT_LAKE) -> None:
    """Decode captures into the evidence tables. Rows that are already in the lake are not written again."""
    _pipeline(lake, captures).ingest()


@app.command()
def replay(lake: LakeOption = DEFAULT_LAKE, start: StartOption = Start.EARLIEST) -> None:
    """Build or extend the history of every partition from the ingested metadata log."""
    _pipeline(lake).replay(start)


@app.command()
def detect(
    lake: LakeOption = DEFAULT_LAKE,
    form: FormatOption = Format.TABLE,
    fail_on: FailOnOption = FailOn.NONE,
    verdict: VerdictOption = None,
) -> None:
    """Check every leader change for lost records, and predict which leader other rules would have elected."""
    from jobs.queries.flagged_windows import print_windows

    pipeline = _pipeline(lake)
    lines = pipeline.detect(verdict)
    print_windows(pipeline.lake, form)
    for line in lines:
        show_message(line)
    _exit(pipeline.levels(), fail_on, [])


@app.command()
def quality(lake: LakeOption = DEFAULT_LAKE) -> None:
    """Check `partition_history` against the expectation suite and write Data Docs."""
    _exit(set(), FailOn.NONE, _pipeline(lake).quality())


@app.command()
def report(
    lake: LakeOption = DEFAULT_LAKE,
    output: Annotated[
        Path | None, typer.Option("--output", help="HTML page to write (default: <lake>/report.html).")
    ] = None,
) -> None:
    """Write the HTML incident report."""
    from jobs.lake.lake import Lake
    from jobs.report.stage import write_reports

    for path in write_reports(Lake(lake), output):
        typer.echo(path)


@app.command()
def inspect(
    files: Annotated[list[Path], typer.Argument(help="Metadata segments (.log) or snapshots (.checkpoint).")],
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Show what is redacted by default.")] = False,
) -> None:
    """Print the records of metadata files, one JSON object per line; damage has an `error` field. Starts no JVM."""
    from evidence.metadata_log.inspect import print_file

    failed = False
    for file in files:
        sys.stdout.flush()
        if not print_file(file, sys.stdout.buffer, show_secrets) and file.stat().st_size:
            show_message(f"error: {file}: holds no record of the metadata log. Give a segment (.log) or a snapshot.")
            failed = True
    if failed:
        raise typer.Exit(KraftForensicsError.exit_code)


def _parse_time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not an ISO 8601 time, e.g. 2026-11-21T00:39:36.570Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@app.command()
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
    """Show topics and partitions as `kafka-topics --describe` does, at any point in history. Starts no JVM."""
    if at_offset is not None and at_time is not None:
        raise typer.BadParameter("give --at-offset or --at-time, not both")
    from jobs.lake.lake import Lake
    from jobs.queries.describe import COLUMNS, as_kafka_topics, partitions_at

    files = Lake(lake)
    at_ms = None if at_time is None else int(at_time.timestamp() * 1000)
    rows = partitions_at(files, files.one_cluster(cluster), topic, at_offset, at_ms)
    if form is Format.TABLE:
        typer.echo(as_kafka_topics(rows))
    else:
        print_rows(COLUMNS, rows, form)


@app.command()
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
    from jobs.lake.lake import Lake
    from jobs.queries.explain import explain
    from jobs.queries.explain_output import print_explained

    files = Lake(lake)
    place = location(capture) if capture else None
    if place:
        check_location(place)
    files.require()
    print_explained(explain(files, finding_id, files.one_cluster(cluster) if cluster else None, place), form)


@app.command()
def whatif(
    lake: LakeOption = DEFAULT_LAKE,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", help="Policy that elects a leader from outside the ISR and ELR; docs/whatif.md lists them."
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option("--strategy", help="unclean.recovery.strategy: none, balanced, aggressive (KIP-966)."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", help="Rules of a release: 4.0, 4.1.0, 4.1.1 or 4.3 (also for 4.4). See docs/rules.md"
        ),
    ] = None,
    min_isr: Annotated[int | None, typer.Option("--min-isr", min=1, help="min.insync.replicas.")] = None,
    unclean: Annotated[
        bool | None, typer.Option("--unclean/--no-unclean", help="unclean.leader.election.enable.")
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
        int | None, typer.Option("--designate", help="Broker to elect when no member of the ISR or ELR can lead.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.")] = None,
    from_offset: Annotated[
        int, typer.Option("--from-offset", min=0, help="Start from the state after this metadata offset.")
    ] = 0,
    to_offset: Annotated[
        int | None,
        typer.Option("--to-offset", min=0, help="Stop after this metadata offset (default: end of the log)."),
    ] = None,
    cluster: ClusterOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Predict how leadership, exposure and loss would differ under other rules. Predictions are never facts."""
    from jobs.config.settings import load_settings
    from jobs.lake.lake import Lake
    from jobs.queries.whatif import WhatifQuestion, question_of, whatif
    from jobs.queries.whatif_output import print_differences

    last = _deprioritized(deprioritized)
    given = (policy, strategy, profile, min_isr, unclean, elr, designate)
    if all(value is None for value in given) and not last:
        raise typer.BadParameter("name at least one rule to change, e.g. --strategy balanced or --min-isr 2")
    rules = question_of(strategy, policy), profile, min_isr, unclean, elr, last, designate
    question = WhatifQuestion(*rules, topic, from_offset, to_offset)
    question.scenario()  # reject an invalid question before the lake is read
    files = Lake(lake)
    print_differences(whatif(files, files.one_cluster(cluster), question, load_settings()), form)


def _deprioritized(text: str) -> tuple[tuple[int, int | None, int | None], ...]:
    """(broker, first offset, last offset) of each entry; None: the bound of the command's range."""
    entries = [re.fullmatch(r"(\d+)(?:@(\d+)-(\d+))?", entry.strip()) for entry in text.split(",") if entry.strip()]
    found = [entry.groups() for entry in entries if entry]
    if len(found) < len(entries):
        raise typer.BadParameter(f"{text!r} is not a list of broker ids, e.g. 1,2 or 1@500-900,2")
    return tuple((int(b), int(first) if first else None, int(last) if last else None) for b, first, last in found)


@app.command()
def conformance(
    cases: Annotated[list[Path], typer.Argument(help="Policy cases: one JSON object per line, .jsonl or .jsonl.gz.")],
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", help="Predict every case by these rules (4.0, 4.1.0, 4.1.1, 4.3), not by its release."
        ),
    ] = None,
) -> None:
    """Predict what a controller writes in each case and compare it with the output of Kafka's own class.

    Starts no JVM.
    """
    from jobs.queries.conformance import check_cases, named_profile

    rules = named_profile(profile)
    results = [(file, check_cases(file, rules)) for file in cases]
    for file, result in results:
        for line, difference in result.differing[:5]:
            show_message(f"{file}: line {line}: {json.dumps(difference)}")
    matched, differ = (sum(counts) for counts in zip(*((r.matched, len(r.differing)) for _, r in results), strict=True))
    typer.echo(f"{matched} matched, {differ} differ")
    if differ:
        raise typer.Exit(1)


@app.command()
def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            help="A statement of Spark SQL that only reads; without it, a prompt for many.", show_default=False
        ),
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    form: FormatOption = Format.TABLE,
) -> None:
    """Run Spark SQL on the tables, which have their names. Nothing can be changed."""
    from jobs.queries.sql import ReadOnlySql, prompt

    statements = ReadOnlySql(lake)
    if query is None:
        prompt(statements, form)
    else:
        print_rows(*statements.run(query), form)


@app.command()
def doctor(lake: LakeOption = DEFAULT_LAKE, form: FormatOption = Format.TABLE) -> None:
    """Check Java, packages, jars, disk and permissions."""
    from jobs.config.doctor import run_checks
    from jobs.config.settings import load_settings
    from jobs.lake.storage import check_root

    check_root(lake)
    checks = run_checks(load_settings(), lake)
    rows = [
        {"check": c.what, "ok": "ok" if c.ok else "FAILED", "found": c.found, "what to do": "" if c.ok else c.advice}
        for c in checks
    ]
    print_rows(list(rows[0]), rows, form)
    if not all(c.ok for c in checks):
        raise typer.Exit(1)


for command in (commands.windows, commands.findings, commands.verdict, tool_commands.bench):
    app.command()(command)
app.add_typer(tool_commands.config)


def _exit(levels: set[str], fail_on: FailOn, quality_failed: list[str]) -> None:
    for line in quality_failed:
        show_message(f"quality: not met: {line}")
    if levels & fail_on.levels():
        raise typer.Exit(EXIT_FINDINGS)
    if quality_failed:
        raise typer.Exit(EXIT_QUALITY)


def _library_of(error: Exception) -> str | None:
    """The library whose errors are shown on one line: Spark, Delta or None. Imports neither library."""
    if type(error).__module__.split(".")[0] in ("pyspark", "py4j"):
        return "Spark"
    delta = sys.modules.get("deltalake.exceptions")
    return "Delta" if delta and isinstance(error, delta.DeltaError) else None


def main() -> None:
    """Entry point. Errors of this project, Spark and Delta become one line on stderr and an exit code; what Spark and
    Delta say beyond that line goes to a log file."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # JSON is UTF-8 in every locale, and a name in a capture must not crash the program.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app()
    except KraftForensicsError as error:
        show_message(f"error: {error}")
        raise SystemExit(error.exit_code) from error
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe: print nothing more, and leave nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + signal.SIGPIPE) from None
    except Exception as error:
        library = _library_of(error)
        if library is None:
            raise
        show_message(f"error: {library}: {one_line(error)}")
        raise SystemExit(KraftForensicsError.exit_code) from error


if __name__ == "__main__":
    main()
