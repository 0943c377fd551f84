"""The commands. Results go to stdout, progress and logs to stderr. Spark is imported only by commands that need it.

Exit codes: 0 clean, 1 error, 2 usage, 3 findings at or above --fail-on (`ahead`: not safe), 4 quality failed, 5 the
lake is of another release, 130 Ctrl-C, 141 SIGPIPE, 143 SIGTERM.
"""

import atexit
import io
import os
import re
import signal
import sys
from itertools import chain
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from evidence.errors import KraftForensicsError
from jobs.cli import answer_commands, capture_commands, lake_commands, stage_commands, tool_commands
from jobs.console import run_log
from jobs.console.log import DEBUG, ERROR, is_verbose, show_message
from jobs.console.options import GROUPS, epilog, with_options
from jobs.console.run_log import AGAIN, of_files, one_line
from jobs.console.signals import ends_by_signal, watch_signals
from jobs.console.version import tool_version

_MODULES = (answer_commands, capture_commands, lake_commands, stage_commands, tool_commands)
_FUNCTIONS: dict[str, Any] = {
    name: each for m in _MODULES for name, each in vars(m).items() if getattr(each, "__module__", "") == m.__name__
}


class _InGroups(TyperGroup):
    """Lists the commands in their groups, each with the first sentence of its help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(n, re.split(r"[.:;](?:\s|$)", str(self.commands[n].help))[0]) for n in names])


app = typer.Typer(
    cls=_InGroups,
    name="kraft-forensics",
    help="Replay Kafka's KRaft metadata log and find where acknowledged records were lost.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes take half of the screen, and break the examples
    context_settings={"help_option_names": ["-h", "--help"]},
)
config = typer.Typer(name="config", help="Show the settings.", no_args_is_help=True)
for name in chain.from_iterable(GROUPS.values()):
    if name != config.info.name:
        app.command(epilog=epilog(name))(with_options(_FUNCTIONS[name]))
config.command("show", epilog=epilog("config show"))(with_options(tool_commands.config_show))
app.add_typer(config)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kraft-forensics {tool_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def _line_of(error: Exception) -> str | None:
    """The line for an error of Spark, Delta, a file, a disk or a store; None for others, which are this program's.
    Imports no library."""
    of_spark = type(error).__module__.split(".")[0] in ("pyspark", "py4j")
    session, delta = (sys.modules.get(name) for name in ("jobs.spark.session", "deltalake.exceptions"))
    if session and (of_spark or isinstance(error, OSError)) and session.has_died():
        return f"Spark: its JVM has ended, killed or without memory. {AGAIN} ({one_line(error)})"
    if of_spark or (delta and isinstance(error, delta.DeltaError)):
        return f"{'Spark' if of_spark else 'Delta'}: {one_line(error)}"
    return of_files(error) if isinstance(error, OSError) else None


def _run() -> None:
    """Run the command. Errors: BrokenPipeError if the reader of stdout has gone, of which typer makes exit code 1."""
    try:
        app()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        sys.stdout.flush()
        raise


def _end_silently() -> None:
    """DuckDB complains of all its objects if a thread, as Spark's, still holds one when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def main() -> None:
    """Entry point. Errors of this project, of files, Spark and Delta become one line on stderr and an exit code; what
    Spark and Delta say beyond that line goes to the run's log file, which a run that succeeds removes."""
    if None in (sys.stdout, sys.stderr):  # closed by who called it: >&-
        nowhere = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # JSON is UTF-8 in every locale, and a name in a capture must not crash the program.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    watch_signals()
    atexit.register(_end_silently)
    try:
        with ends_by_signal():
            _run()
    except SystemExit as end:
        if end.code != KraftForensicsError.exit_code and not is_verbose():
            run_log.discard()
        elif run_log.existing():
            show_message(f"log file: {run_log.existing()}", DEBUG)
        raise
    except KraftForensicsError as error:
        if (file := run_log.existing()) and str(file) not in str(error):  # else what Spark printed has no part in it
            run_log.discard()
        show_message(str(error), ERROR)
        raise SystemExit(error.exit_code) from error
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe: print nothing more, and leave nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + signal.SIGPIPE) from None
    except Exception as error:
        line = _line_of(error)
        if line is None:
            raise
        show_message(line, ERROR)
        raise SystemExit(KraftForensicsError.exit_code) from error
