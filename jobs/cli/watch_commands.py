"""The command that follows a cluster while it runs: `watch`. Starts Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.console.log import WARNING
from jobs.console.options import DocumentFormat, DocumentFormatOption
from jobs.console.output import printable, show_message, utc


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
    watch(folders, into, load_settings().spark, _teller(form, called), every, once)


def _teller(form: DocumentFormat, hook: Callable[[dict[str, Any]], object] | None) -> Callable[[dict[str, Any]], None]:
    def tell(alarm: dict[str, Any]) -> None:
        text = _line(alarm)
        typer.echo(json.dumps(alarm) if form is DocumentFormat.JSON else printable(text))
        if hook is not None:
            try:
                hook({**alarm, "event": "alarm", "cluster": alarm["cluster_id"], "text": text})
            except Exception as error:  # noqa: BLE001 whatever the hook's module raises: the watch goes on
                show_message(f"the hook failed: {type(error).__name__}: {error}", WARNING)

    return tell


def _line(alarm: dict[str, Any]) -> str:
    place = f" {alarm['topic']}-{alarm['partition']}" if alarm["topic"] is not None else ""
    marks = [word for word in (alarm["status"], alarm["commit_state"]) if word in ("withdrawn", "uncommitted")]
    mark = f" [{', '.join(marks)}]" if marks else ""
    return f"{utc(alarm['timestamp_ms'])} {alarm['kind']}{place} at {alarm['offset']}{mark}: {alarm['text']}"
