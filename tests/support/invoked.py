"""A command of `kraft-forensics` in the process of the test."""

import io
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from jobs.cli import main
from jobs.cli.commands import app


def invoke(words: Iterable[str | Path], **options: Any) -> Result:
    """words: as in a shell. options: of CliRunner.invoke."""
    return CliRunner().invoke(app, [str(word) for word in words], **options)


def cli(*words: str | Path) -> Result:
    return invoke(words)


def printed_by_main(*words: str | Path) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of the whole program, which makes a line of an error."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["kraft-forensics", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    printed = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return int(ended.value.code or 0), printed[0], printed[1]
