"""The reference of the command line, made of the Typer application."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import typer

from jobs.cli.commands import app
from jobs.console.options import EXAMPLES

HEAD = """# Command line

Made from the program: the same texts as `kraft-forensics COMMAND --help`. Every command also has `-h`, `-v` (details),
`-q` (errors only) and `--log-format json`. The [overview](overview.md#how-it-works) has exit codes.
"""
COMMON = {"verbose", "quiet", "log_format", "help"}


def commands() -> Iterator[tuple[str, click.Command]]:
    """(name, command) in the order of `--help`; `config show` is a command of a group."""
    yield from _within(typer.main.get_command(app), "")


def _within(group: click.Command, prefix: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in getattr(group, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from _within(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def cli_page() -> str:
    return "\n".join([HEAD, *(_section(name, command) for name, command in commands())])


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"kraft-forensics {name}")
    usage = " ".join([f"kraft-forensics {name}", *command.collect_usage_pieces(context)])
    lines = [f"## {name}", "", _text(command.help or ""), "", f"```\n{usage}\n```", ""]
    rows = [_row(each, context) for each in command.params if each.name not in COMMON]
    if rows:
        lines += ["| argument or option | does |", "|---|---|", *rows, ""]
    if name in EXAMPLES:
        lines += ["```", *EXAMPLES[name], "```", ""]
    return "\n".join(lines)


def _row(parameter: click.Parameter, context: click.Context) -> str:
    names, does = parameter.get_help_record(context) or (parameter.human_readable_name, "")
    choices = re.search(r" <(\S+\|\S+)>$", names)
    if choices:
        names, does = names[: choices.start()], f"{does} One of: {', '.join(choices[1].split('|'))}."
    return f"| `{_cell(names)}` | {_text(_cell(does))} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _text(text: str) -> str:
    """Plain text as Markdown."""
    return text.strip().replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")
