"""The command line. Results go to stdout, progress and logs to stderr. Spark is imported only by commands that need it.

Exit codes: 0 clean, 1 error, 2 usage, 3 findings at or above --fail-on, 4 quality failed.
"""

from __future__ import annotations

import io
import os
import signal
import sys

import typer

from evidence.errors import KraftForensicsError
from jobs.cli import capture_commands, listing_commands, question_commands, stage_commands, tool_commands
from jobs.console.failures import one_line
from jobs.console.output import show_message

# In the order of `--help`.
COMMANDS = (
    capture_commands.collect,
    capture_commands.check,
    stage_commands.run,
    stage_commands.ingest,
    stage_commands.replay,
    stage_commands.detect,
    stage_commands.quality,
    stage_commands.report,
    listing_commands.verdict,
    listing_commands.windows,
    listing_commands.findings,
    question_commands.explain,
    question_commands.describe,
    question_commands.whatif,
    question_commands.sql,
    tool_commands.inspect,
    tool_commands.conformance,
    tool_commands.doctor,
    tool_commands.bench,
)

app = typer.Typer(
    name="kraft-forensics",
    help="Replay Kafka's KRaft metadata log and find where acknowledged records were lost.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in COMMANDS:
    app.command()(command)
app.add_typer(tool_commands.config)


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
