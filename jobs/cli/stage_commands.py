"""Commands that run stages: `run`, `ingest`, `replay`, `detect`, `quality`, `report`."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evidence.capture.remote import Location
from jobs.cli.lakes import lake_to_show, recorded
from jobs.console.log import WARNING, show_message
from jobs.console.options import DEFAULT_LAKE, Engine, FailOn, PageFormat, Start, levels_from
from jobs.console.output import Format, reader_may_leave
from jobs.console.progress import progress_steps

if TYPE_CHECKING:
    from jobs.lake.runs import Run
    from jobs.pipeline import Pipeline

EXIT_FINDINGS, EXIT_QUALITY = 3, 4
MOST_WINDOWS = 100  # in the table that `run` and `detect` print


def run(
    captures: list[str],
    lake: Any = DEFAULT_LAKE,
    report: Path | None = None,
    start: Start = "earliest",
    form: Format = Format.TABLE,
    fail_on: FailOn = "none",
    engine: Engine | None = None,
) -> None:
    """Run the whole job: ingest, replay, detect, quality and report, one after the other."""
    with recorded("run", lake) as record:
        pipeline = _pipeline(lake, record, captures, engine)
        pipeline.run(report, start)
        _show(pipeline, form, f"next:      kraft-forensics verdict --lake {pipeline.lake.root}")
        _exit(pipeline, fail_on)


def ingest(captures: list[str], lake: Any = DEFAULT_LAKE, engine: Engine | None = None) -> None:
    """Decode captures into the evidence tables. Rows that are already in the lake are not written again."""
    with recorded("ingest", lake) as record:
        _pipeline(lake, record, captures, engine).ingest()


def replay(lake: Any = DEFAULT_LAKE, start: Start = "earliest", engine: Engine | None = None) -> None:
    """Build or extend the history of every partition from the ingested metadata log."""
    with recorded("replay", lake) as record:
        _pipeline(lake, record, engine=engine).replay(start)


def detect(
    lake: Any = DEFAULT_LAKE, form: Format = Format.TABLE, fail_on: FailOn = "none", engine: Engine | None = None
) -> None:
    """Check every leader change for lost records, and predict which leader other rules would have elected."""
    with recorded("detect", lake) as record:
        pipeline = _pipeline(lake, record, engine=engine)
        pipeline.detect()
        _show(pipeline, form)
        _exit(pipeline, fail_on)


def quality(lake: Any = DEFAULT_LAKE, engine: Engine | None = None) -> None:
    """Check every table against its expectation suite and write Data Docs."""
    with recorded("quality", lake) as record:
        pipeline = _pipeline(lake, record, engine=engine)
        pipeline.quality()
        _exit(pipeline)


def report(
    lake: Any = DEFAULT_LAKE,
    output: Path | None = None,
    form: PageFormat = "html",
    incident: str | None = None,
    topic: str | None = None,
) -> None:
    """Write the incident report: a page, a ticket, a postmortem or JSON. With several clusters also an index page."""
    from jobs.incident.lookup import Focus, parse_span, require_topic
    from jobs.report.stage import report_texts, write_pages

    try:
        focus = Focus(*(parse_span(incident) if incident is not None else (None, None)), topic)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with recorded("report", lake) as record:
        files, began = lake_to_show(lake), time.monotonic()
        require_topic(files, None, topic)
        if output == Path("-"):
            with reader_may_leave():
                for text in report_texts(files, form, focus):
                    sys.stdout.write(text)
            return
        clusters = files.clusters()
        with progress_steps(len(clusters)) as (describe, _):
            pages = write_pages(files, clusters, output, describe, form, focus)
        for path in pages:
            typer.echo(path)
        for cluster in clusters:
            record.took("report", cluster, (time.monotonic() - began) / len(clusters))


def _pipeline(lake: Location, record: "Run", captures: Sequence[str] = (), engine: Engine | None = None) -> "Pipeline":
    from jobs.pipeline import Pipeline

    return Pipeline(lake, captures, record, engine)


def _show(pipeline: "Pipeline", form: Format, *more: str) -> None:
    from jobs.queries.flagged_windows import print_windows

    with reader_may_leave():
        answers = {cluster: document["answer"] for cluster, document in pipeline.documents.items()}
        print_windows(pipeline.lake, form, most=MOST_WINDOWS, answers=answers)
    for line in (*pipeline.summary, *more):
        show_message(line)


def _exit(pipeline: "Pipeline", fail_on: FailOn = "none") -> None:
    for line in pipeline.failed:
        show_message(f"quality: not met: {line}", WARNING)
    if pipeline.levels & levels_from(fail_on):
        raise typer.Exit(EXIT_FINDINGS)
    if pipeline.failed:
        raise typer.Exit(EXIT_QUALITY)
