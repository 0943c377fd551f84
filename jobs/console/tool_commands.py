"""Commands about the tool itself: its settings, and how fast its stages are. No JVM starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobs.console.options import FormatOption
from jobs.console.output import Format, print_rows, show_message

config = typer.Typer(name="config", help="Settings.", no_args_is_help=True)


@config.command("show")
def config_show(form: FormatOption = Format.TABLE) -> None:
    """Every setting that is in force, and where it comes from: default, a file, or an environment variable."""
    from jobs.config.origins import effective_settings, unknown_variables

    rows = effective_settings()
    if form is Format.TABLE:  # one column of text, whatever the values are
        rows = [{**row, "value": str(row["value"])} for row in rows]
    print_rows(list(rows[0]), rows, form)
    for name in unknown_variables():
        show_message(f"{name}: names no setting; nothing reads it")


def bench(
    log: Annotated[Path, typer.Argument(help="A metadata segment (.log) or snapshot (.checkpoint).")],
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs of each stage; the first one is the cold one.")] = 5,
    form: FormatOption = Format.TABLE,
) -> None:
    """Time the stages on a log: read, hash, check, decode, replay; each in a process of its own. Starts no JVM."""
    from bench.own import COLUMNS, measure_log

    print_rows(COLUMNS, measure_log(log, runs, show_message), form)
