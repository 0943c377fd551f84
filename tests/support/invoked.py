"""A command of `kraft-forensics` in the process of the test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from jobs.cli import app


def invoke(words: Iterable[str | Path], **options: Any) -> Result:
    """words: as in a shell. options: of CliRunner.invoke."""
    return CliRunner().invoke(app, [str(word) for word in words], **options)


def cli(*words: str | Path) -> Result:
    return invoke(words)
