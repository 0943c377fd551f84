"""Commands about the tool itself: its settings and the speed of its stages. No JVM starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobs.console.options import FormatOption
from jobs.console.output import Format, print_rows, show_message

config = typer.Typer(name="config", help="Show the settings.", no_args_is_help=True)


@config.command("show")
def config_show(form: FormatOption = Format.TABLE) -> None:
    """Show every effective setting and where it comes from: the defaults, a file or an environment variable."""
    from jobs.config.origins import effective_settings, unknown_variables

    rows = effective_settings()
    if form is Format.TABLE:  # one column of text, whatever the types of the values
        rows = [{**row, "value": str(row["value"])} for row in rows]
    print_rows(list(rows[0]), rows, form)
    for name in unknown_variables():
        show_message(f"{name}: not a setting; it has no effect")


def bench(
    log: Annotated[Path, typer.Argument(help="A metadata segment (.log) or snapshot (.checkpoint).")],
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs of each stage; the first one is cold.")] = 5,
    form: FormatOption = Format.TABLE,
) -> None:
    """Time the stages on a log (read, hash, check, decode, replay), each in its own process. Starts no JVM."""
    from bench.own import COLUMNS, measure_log

    print_rows(COLUMNS, measure_log(log, runs, show_message), form)
