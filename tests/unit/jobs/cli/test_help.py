"""--help of every command, with examples that the command line takes; --version; options of the log."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from jobs.cli import app
from jobs.console.options import EXAMPLES

COMMAND: Any = typer.main.get_command(app)
NAMES = [*(name for name in COMMAND.commands if name != "config"), "config show"]


def command_of(name: str) -> Any:
    found = COMMAND
    for word in name.split():
        found = found.commands[word]
    return found


def test_every_command_has_an_example() -> None:
    assert set(EXAMPLES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_help_shows_the_examples(name: str) -> None:
    result = CliRunner().invoke(app, [*name.split(), "-h"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    assert all(" ".join(example.split()) in shown for example in EXAMPLES[name])
    assert {"--log-format", "--help"} <= set(shown.split())


@pytest.mark.parametrize(("name", "example"), [(name, each) for name, some in EXAMPLES.items() for each in some])
def test_examples_are_parsed(name: str, example: str, tmp_path: Path) -> None:
    (ours,) = [part for part in re.split(r" [|>] ", example) if part.startswith("kraft-forensics ")]
    words = shlex.split(ours)
    assert words[: 1 + len(name.split())] == ["kraft-forensics", *name.split()]
    command_of(name).make_context(name, words[1 + len(name.split()) :])


def test_version() -> None:
    assert re.fullmatch(r"kraft-forensics \S+\n", CliRunner().invoke(app, ["--version"]).stdout)


def test_errors_of_the_log_options() -> None:
    assert CliRunner().invoke(app, ["windows", "-v", "-q"]).exit_code == 2


def test_json_lines_of_a_command(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("node.id=1\n")
    words = ["ingest", str(tmp_path), "--lake", str(tmp_path / "lake"), "--log-format", "json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stderr.splitlines()]
    assert "warning" in {row["level"] for row in rows}
