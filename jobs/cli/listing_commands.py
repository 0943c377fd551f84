"""Commands that list finished tables, `windows`, `findings`, `verdict`, and `acknowledge`, which says which findings
need no alarm. No JVM starts."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from typing import Annotated

import typer

from jobs.cli.reading import lake_to_show
from jobs.console.options import DEFAULT_LAKE, ClusterOption, FormatOption, LakeOption
from jobs.console.output import Format, print_rows, print_table, printable, show_message, utc

_MOST = 50
# Columns that a narrow table of findings leaves out, the least important first.
_DROP = ("cluster_id", "status", "since (UTC)", "severity", "partition", "verdict")
_DROP_ACKNOWLEDGED = ("cluster_id", "severity", "acknowledged_by", "acknowledged (UTC)", "verdict", "note")


def windows(
    lake: LakeOption = DEFAULT_LAKE,
    every: Annotated[bool, typer.Option("--all", help="Also list windows without a loss (excluded).")] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """List the flagged windows: where the high watermark went back, or may have."""
    from jobs.queries.flagged_windows import print_windows

    print_windows(lake_to_show(lake), form, every)


def findings(
    lake: LakeOption = DEFAULT_LAKE,
    section: Annotated[
        list[str] | None,
        typer.Option(
            "--section",
            help="windows, excluded, other_rules, exposures, cut_logs, rules, faults: as in the report; repeatable.",
        ),
    ] = None,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="A kind (docs/findings.md); repeatable.")] = None,
    verdict: Annotated[
        list[str] | None, typer.Option("--verdict", help="proven, possible, undetermined, excluded; repeatable.")
    ] = None,
    severity: Annotated[
        list[str] | None, typer.Option("--severity", help="critical, high, medium, low, info; repeatable.")
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="new (of the newest run that found any), known, acknowledged; repeatable."),
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", help="Only this partition.")] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Not ended before this time, e.g. 2026-11-21T00:40Z.", metavar="TIME"),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Started by this time.", metavar="TIME")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Print at most this many.")] = _MOST,
    cluster: ClusterOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """List findings in the order of the report. `explain` shows one finding with its evidence."""
    from jobs.queries.listing import FINDING_COLUMNS, Filter, list_findings, time_ms

    files = lake_to_show(lake, cluster)
    only = files.one_cluster(cluster) if cluster else None
    lists = (section or (), kind or (), verdict or (), severity or (), status or ())
    wanted = Filter(*lists, topic, partition, time_ms(since), time_ms(until))
    rows, count = list_findings(files, only, wanted, limit)
    if form is not Format.TABLE:
        print_rows(list(FINDING_COLUMNS), rows, form)
    elif not rows:
        print("no findings")
    else:
        names = ("finding_id", "kind", "verdict", "severity", "status")
        clusters = sorted({r["cluster_id"] for r in rows})
        more = ("cluster_id",) if len(clusters) > 1 else ()
        shown = [
            {
                **{n: r[n] for n in names},
                "partition": "" if r["topic"] is None else f"{r['topic']}-{r['partition']}",
                "since (UTC)": utc(r["start_timestamp_ms"]),
                **{n: r[n] for n in more},
            }
            for r in rows
        ]
        of = f"cluster {printable(clusters[0])}" if len(clusters) == 1 else f"{len(clusters)} clusters"
        print_table(list(shown[0]), shown, f"{count} finding{'' if count == 1 else 's'} of {of}", _DROP)
    if count > len(rows):
        show_message(f"{count - len(rows)} more findings are not shown: raise --limit or add filters")


class VerdictFormat(StrEnum):
    """--format of `verdict`. md and markdown are the same."""

    TEXT = "text"
    MD = "md"
    MARKDOWN = "markdown"
    JSON = "json"


def verdict(
    lake: LakeOption = DEFAULT_LAKE,
    cluster: ClusterOption = None,
    form: Annotated[VerdictFormat, typer.Option("--format", help="Output format.")] = VerdictFormat.TEXT,
    full: Annotated[bool, typer.Option("--full", help="Text: also commands, facts, rules and windows.")] = False,
) -> None:
    """Print what was lost and what to do: as text, as a ticket in Markdown, or as verdict.json (docs/verdict.md)."""
    from jobs.report.stage import page_in
    from jobs.report.texts import as_text, as_ticket
    from jobs.verdict.document import document, summarize

    files = lake_to_show(lake, cluster)
    only = files.one_cluster(cluster)
    found = document(summarize(files, only, page_in(files, only)))
    if form is VerdictFormat.JSON:
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(as_text(found, full)) if form is VerdictFormat.TEXT else as_ticket(found))


def acknowledge(
    finding_ids: Annotated[
        list[str] | None,
        typer.Argument(help="Ids of findings, or their first characters (at least 6).", show_default=False),
    ] = None,
    note: Annotated[
        str | None, typer.Option("--note", help="Why they need no alarm, e.g. the number of a ticket.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", help="Who acknowledges (default: the setting custody.ingested_by).")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All findings that are not acknowledged yet, e.g. after a first run.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="List what is acknowledged.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Remove the acknowledgement of these findings.")] = False,
    lake: LakeOption = DEFAULT_LAKE,
    cluster: ClusterOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Acknowledge findings: `--fail-on new-...` then leaves them out, until their verdict or severity changes."""
    from jobs.config.settings import load_settings
    from jobs.ingest.receipt import person
    from jobs.queries.acknowledge import COLUMNS, acknowledge, listed
    from jobs.queries.acknowledge import undo as remove

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
        print_rows(list(COLUMNS), rows, form)
    elif not rows:
        print("nothing is acknowledged")
    else:
        names = ("finding_id", "verdict", "severity")
        shown = [
            {
                **{name: row[name] for name in names},
                "acknowledged (UTC)": utc(row["acknowledged_ms"]),
                "acknowledged_by": row["acknowledged_by"],
                "note": row["note"],
                "cluster_id": row["cluster_id"],
            }
            for row in rows
        ]
        what = "no longer acknowledged" if undo else "acknowledged"
        print_table(list(shown[0]), shown, f"{len(rows)} findings {what}", _DROP_ACKNOWLEDGED)
    if undo:
        show_message("they count as known: an alarm on new findings leaves them out as long as they stay as they are")
