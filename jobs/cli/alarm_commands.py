"""Commands about alarms: `watch` raises them, with Spark; `acknowledge` says which findings need none, without."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.cli.reading import lake_to_show
from jobs.console.log import WARNING
from jobs.console.options import (
    DEFAULT_LAKE,
    ClusterOption,
    DocumentFormat,
    DocumentFormatOption,
    FormatOption,
    LakeOption,
)
from jobs.console.output import Format, print_rows, print_table, printable, show_message, utc

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


def watch(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders with metadata logs that grow: of a controller itself, or copies; best of all."),
    ],
    into: Annotated[Path, typer.Option("--into", help="Folder for its tables and what a restart needs.")] = Path(
        "watch"
    ),
    hook: Annotated[
        str | None,
        typer.Option(
            "--hook", metavar="MODULE:FUNCTION", help="Is called with each alarm, as the hook of the DAGs is."
        ),
    ] = None,
    every: Annotated[float, typer.Option("--every", min=0.5, help="Seconds between two looks at the files.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Read what is there, and end.")] = False,
    form: DocumentFormatOption = DocumentFormat.TABLE,
) -> None:
    """Follow metadata logs and tell of windows that open, elections from outside ISR and ELR, partitions one failure
    from loss and a changed plan, within seconds. Ends with Ctrl-C and goes on where it was."""
    from jobs.config.settings import load_settings
    from jobs.watch.stream import load_hook, watch

    called = load_hook(hook) if hook else None
    watch(folders, into, load_settings().spark, _teller(form, called, into), every, once)


def _teller(
    form: DocumentFormat, hook: Callable[[dict[str, Any]], object] | None, into: Path
) -> Callable[[dict[str, Any]], None]:
    def tell(alarm: dict[str, Any]) -> None:
        text = _line(alarm)
        typer.echo(json.dumps(alarm) if form is DocumentFormat.JSON else printable(text))
        if hook is not None:
            try:
                hook({**alarm, "event": "alarm", "cluster": alarm["cluster_id"], "lake": str(into), "text": text})
            except Exception as error:  # noqa: BLE001 whatever the hook's module raises: the watch goes on
                show_message(f"the hook failed: {type(error).__name__}: {error}", WARNING)

    return tell


def _line(alarm: dict[str, Any]) -> str:
    place = f" {alarm['topic']}-{alarm['partition']}" if alarm["topic"] is not None else ""
    marks = [word for word in (alarm["status"], alarm["commit_state"]) if word in ("withdrawn", "uncommitted")]
    mark = f" [{', '.join(marks)}]" if marks else ""
    return f"{utc(alarm['timestamp_ms'])} {alarm['kind']}{place} at {alarm['offset']}{mark}: {alarm['text']}"
