"""The commands of docs/tutorial.md, in its order: each prints what the page shows."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jobs.cli.commands import app
from tests.support.page_examples import commands
from tests.support.paths import ROOT

WIDTH = "100"


def shown(output: str) -> re.Pattern[str]:
    """What the page shows; a line `...` stands for any lines. The page has no spaces at the end of a line."""
    lines = (r"(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in output.splitlines())
    return re.compile("".join(lines))


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", WIDTH)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    steps = commands("docs/tutorial.md")
    asked = [shlex.split(command)[0] for command, _ in steps]
    assert asked == ["run", "explain", "explain", "describe", "whatif", "verdict", "check"]
    for command, output in steps:
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == (3 if command.startswith("check ") else 0), result.output
        printed = "".join(f"{line.rstrip()}\n" for line in result.stdout.splitlines())
        assert shown(output).fullmatch(printed), f"{command} prints\n{printed}"
    assert (tmp_path / "report.html").exists()
