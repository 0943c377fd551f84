"""Options that every command has: how much is logged on stderr, and in which form."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from jobs.console.log import LogFormat, configure

_Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Log details, times and levels; name the log file.", rich_help_panel="Log"),
]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Log errors only.", rich_help_panel="Log")]
_Form = Annotated[
    LogFormat,
    typer.Option("--log-format", help="Log lines on stderr: text, or JSON objects.", rich_help_panel="Log"),
]
_OPTIONS = {"verbose": (_Verbose, False), "quiet": (_Quiet, False), "log_format": (_Form, LogFormat.TEXT)}


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
