"""The command that says which findings need no alarm: `acknowledge`. No JVM starts."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from jobs.cli.reading import lake_to_show
from jobs.console.options import DEFAULT_LAKE, ClusterOption, FormatOption, LakeOption
from jobs.console.output import Format, print_rows, print_table, show_message, utc

_DROP = ("cluster_id", "severity", "acknowledged_by", "acknowledged (UTC)", "verdict", "note")


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
        print_table(list(shown[0]), shown, f"{len(rows)} findings {what}", _DROP)
    if undo:
        show_message("they count as known: an alarm on new findings leaves them out as long as they stay as they are")
