"""The options of all commands, the meaning of their values, and what --help says: options.toml, and the lines of
examples.txt, each of which a test parses."""

import inspect
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from evidence.capture.remote import location
from evidence.limits import MAX_INT64
from jobs.console.log import LogFormat, configure
from jobs.console.output import utc_ms
from replay.loss.verdicts import POSSIBLE, PROVEN, SEVERITIES

DEFAULT_LAKE = Path("lake")

# --fail-on: the least verdict or severity of a finding that gives exit code 3; with `new-`, only of a finding that is
# new in this run and not acknowledged.
_NewLosses = Literal["new-unknown", "new-possible", "new-proven"]
_NewSeverities = Literal["new-critical", "new-high", "new-medium", "new-low", "new-info"]
_Severities = Literal["critical", "high", "medium", "low", "info"]
FailOn = Literal["none", "unknown", "possible", "proven", _Severities, _NewLosses, _NewSeverities]
_WORST_FIRST = ((PROVEN, POSSIBLE, "unknown"), SEVERITIES)


def levels_from(least: FailOn) -> set[str]:
    """This level and the worse ones on its scale; empty for none."""
    new = "new-" if least.startswith("new-") else ""
    level = least.removeprefix(new)
    scale = next((scale for scale in _WORST_FIRST if level in scale), ())
    return {f"{new}{worse}" for worse in scale[: scale.index(level) + 1]} if scale else set()


# --start: where the replay begins (jobs/replay/cluster_state.py). --engine: what runs the tasks of a stage
# (jobs/spark/tasks.py).
Start = Literal["earliest", "newest-checkpoint"]
Engine = Literal["spark", "local", "auto"]
# --format of results that are not rows, of `report` and of `status`.
DocumentFormat = Literal["table", "json"]
PageFormat = Literal["html", "md", "postmortem", "json"]
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


_DECLARED = tomllib.loads(files(__package__).joinpath("options.toml").read_text("utf-8"))
GROUPS: dict[str, list[str]] = _DECLARED["groups"]  # of commands, by title
# typer knows no unions: the value of a place is what `location` makes of the text, a path or a URL.
_PARSERS = {"location": location, "time_ms": time_ms, "duration_ms": duration_ms}
_LOG = {"verbose": (bool, False), "quiet": (bool, False), "log_format": (LogFormat, "text")}  # of every command


def declared(command: str, parameter: str, kind: Any) -> Any:
    """The annotation by which typer makes an argument or option of a command's parameter: what options.toml says.
    kind: its type."""
    given = _DECLARED.get(command, {}).get(parameter) or _DECLARED["shared"][parameter]
    settings = {"help": given} if isinstance(given, str) else dict(given)
    names = settings.pop("names", [f"--{parameter.replace('_', '-')}"] if kind is bool else [])
    make = typer.Argument if settings.pop("is_argument", False) else typer.Option
    if make is typer.Option and "list[" in str(kind):
        settings.setdefault("metavar", (names or [parameter])[0].lstrip("-").upper())
    if name := settings.get("parser"):
        settings["parser"] = _PARSERS[name]
    return Annotated[kind, make(*names, **settings)]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its options as declared, and --verbose, --quiet and --log-format, which take effect before it
    starts."""
    signature = inspect.signature(command, eval_str=True)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in _LOG.items()
    ]
    parameters = [
        each.replace(annotation=declared(command.__name__, each.name, each.annotation))
        for each in (*signature.parameters.values(), *more)
    ]

    @wraps(command)
    def logged(*arguments: Any, verbose: bool, quiet: bool, log_format: LogFormat, **options: Any) -> None:
        if verbose and quiet:
            raise typer.BadParameter("give --verbose or --quiet, not both")
        from jobs.console import without_pandas  # noqa: F401 - before anything imports more of Arrow

        configure(verbose, quiet, log_format)
        for number in (each for given in options.values() for each in (given if isinstance(given, list) else [given])):
            if isinstance(number, int) and abs(number) > MAX_INT64:
                raise typer.BadParameter(f"{number} is beyond 64 bits")
        command(*arguments, **options)

    logged.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    logged.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return logged


EXAMPLES: dict[str, list[str]] = defaultdict(list)
for _line in files(__package__).joinpath("examples.txt").read_text("utf-8").splitlines():
    for _name in re.findall(r"kraft-forensics (config show|\w+)", _line):
        EXAMPLES[_name].append(_line)


def epilog(name: str) -> str:
    """The examples of a command, at the end of its --help: whole lines, to copy."""
    return "\n  ".join(["\b\nExamples:", *EXAMPLES[name]])
