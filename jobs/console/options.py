"""Options that several or all commands share, and the meaning of their values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from evidence.capture.remote import location
from jobs.console.log import LogFormat, configure
from jobs.console.output import Format, utc_ms
from replay.loss.verdicts import POSSIBLE, PROVEN, SEVERITIES

DEFAULT_LAKE = Path("lake")


# Worst first.
_LOSS = (PROVEN, POSSIBLE, "unknown")
_SCALES = (_LOSS, SEVERITIES, *(tuple(f"new-{level}" for level in scale) for scale in (_LOSS, SEVERITIES)))


class _Level(StrEnum):
    def levels(self) -> set[str]:
        """This level and the worse ones on its scale; empty for NONE."""
        scale = next((s for s in _SCALES if self in s), ())
        return {level for level in scale if scale.index(level) <= scale.index(self)}


# --fail-on: the least verdict or severity of a finding that gives exit code 3; with `new-`, only of a finding that is
# new in this run and not acknowledged.
_LEVELS = (*reversed(_LOSS), *SEVERITIES)
_NAMED = ("none", *_LEVELS, *(f"new-{level}" for level in _LEVELS))
FailOn = _Level("FailOn", [(level.upper().replace("-", "_"), level) for level in _NAMED])


# --start: where the replay begins (jobs/replay/cluster_state.py). --engine: what runs the tasks of a stage
# (jobs/spark/tasks.py).
Start = Literal["earliest", "newest-checkpoint"]
Engine = Literal["spark", "local", "auto"]
# --format of results that are not rows, and of `status`.
DocumentFormat = Literal["table", "json"]
StatusFormat = Literal["table", "json", "openmetrics"]


def time_ms(text: str) -> int:
    """As `utc_ms`, for options. Errors: BadParameter."""
    try:
        return utc_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def duration_ms(text: str) -> int:
    """A time such as 26h, 90min or `1d 2h` (as pandas.Timedelta has it) in ms. Errors: BadParameter."""
    from pandas import Timedelta

    try:
        found = Timedelta(text).total_seconds()
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no time such as 26h, 90min or '1d 2h'") from error
    if not found > 0 or text.strip().isdecimal():  # a number without a unit would be nanoseconds
        raise typer.BadParameter(f"{text!r}: give a time with its unit, e.g. 26h")
    return round(found * 1000)


Captures = Annotated[
    list[str],
    typer.Argument(
        help="A folder, an archive (.tar, .tar.gz, .tar.xz, .zip) or a segment: a path, or a URL such as "
        "s3://bucket/incident.tar.xz (docs/cluster.md)."
    ),
]
# typer knows no unions: the value is what `location` makes of the text, a path or a URL.
LakeOption = Annotated[
    Any,
    typer.Option(
        "--lake", parser=location, metavar="DIR|URL", help="Folder or URL (s3://, gs://, abfs://) of the Delta tables."
    ),
]
LakeArgument = Annotated[
    Any,
    typer.Argument(parser=location, metavar="LAKE", help="Folder or URL of the lake, as --lake.", show_default=False),
]
LakesArgument = Annotated[
    list[Any] | None,
    typer.Argument(parser=location, metavar="LAKE...", help="Folders or URLs of lakes.", show_default=False),
]
ClusterOption = Annotated[str | None, typer.Option("--cluster", help="Cluster id; required if the lake has several.")]
CaptureOption = Annotated[
    str | None, typer.Option("--capture", help="Path or URL of the ingested capture, to show the original bytes.")
]
StartOption = Annotated[
    Start, typer.Option("--start", help="Replay the whole captured log, or only from the newest usable snapshot.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="Output format.")]
DocumentFormatOption = Annotated[DocumentFormat, typer.Option("--format", help="Output format.")]
FailOnOption = Annotated[
    FailOn,
    typer.Option(
        "--fail-on",
        help="Exit with code 3 if any finding has this verdict or severity, or a worse one. unknown: also if a window "
        "is undetermined, the log has a gap, or nothing was replayed. new-...: only findings that are new in this run "
        "and not acknowledged.",
    ),
]
EngineOption = Annotated[
    Engine | None,
    typer.Option(
        "--engine",
        help="What runs the tasks: Spark; local: this process, without Java; auto: Spark for large captures only "
        "(default: the setting `engine`, spark).",
    ),
]
VerdictOption = Annotated[
    Path | None,
    typer.Option(
        "--verdict",
        help="JSON index over the clusters to write; their documents are written beside it, verdict-<cluster>.json "
        "(default: <lake>/verdict.json).",
    ),
]


# Of every command.
_Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Log details, times and levels; name the log file.", rich_help_panel="Log"),
]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Log errors only.", rich_help_panel="Log")]
_LogForm = Annotated[
    LogFormat, typer.Option("--log-format", help="Log lines on stderr: text, or JSON objects.", rich_help_panel="Log")
]
_OPTIONS = {"verbose": (_Verbose, False), "quiet": (_Quiet, False), "log_format": (_LogForm, "text")}


def with_log_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with --verbose, --quiet and --log-format, which take effect before it starts."""
    signature = inspect.signature(command, eval_str=True)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _OPTIONS.items()
    ]

    @wraps(command)
    def logged(*arguments: Any, verbose: bool, quiet: bool, log_format: LogFormat, **options: Any) -> None:
        if verbose and quiet:
            raise typer.BadParameter("give --verbose or --quiet, not both")
        configure(verbose, quiet, log_format)
        command(*arguments, **options)

    both = signature.replace(parameters=[*signature.parameters.values(), *more])
    logged.__signature__ = both  # type: ignore[attr-defined]
    logged.__annotations__ = {parameter.name: parameter.annotation for parameter in both.parameters.values()}
    return logged
