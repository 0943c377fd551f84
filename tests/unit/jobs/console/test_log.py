"""Messages on stderr: plain, with times and levels, or as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from jobs.console.log import DEBUG, ERROR, WARNING, configure, show_message
from jobs.console.progress import progress_steps, progress_tasks


@pytest.fixture(autouse=True)
def _plain() -> Iterator[None]:
    configure()
    yield
    configure()


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    show_message("detail", DEBUG)
    show_message("done [b]")
    show_message("look", WARNING)
    show_message("gone", ERROR)
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err.splitlines()


@pytest.mark.parametrize(("quiet", "shown"), [(False, ["done [b]", "look", "error: gone"]), (True, ["error: gone"])])
def test_text_is_plain(quiet: bool, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    configure(quiet=quiet)
    assert lines(capsys) == shown


@pytest.mark.parametrize("level", [WARNING, ERROR])
def test_a_captured_name_cannot_control_the_terminal(level: int, capsys: pytest.CaptureFixture[str]) -> None:
    show_message("of cluster A\x1b[31m\r\x9b2J\u202eB (caf\u00e9)", level)
    assert capsys.readouterr().err.endswith("of cluster A\\u001b[31m\\u000d\\u009b2J\\u202eB (caf\u00e9)\n")


def test_verbose_text_has_details_times_and_levels(capsys: pytest.CaptureFixture[str]) -> None:
    configure(verbose=True)
    shown = lines(capsys)
    assert [line.split(" ", 1)[1] for line in shown] == ["DEBUG detail", "INFO done [b]", "WARNING look", "ERROR gone"]
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", line) for line in shown)


def test_json_has_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure(form="json")
    rows = [json.loads(line) for line in lines(capsys)]
    assert [(row["level"], row["message"]) for row in rows] == [
        ("info", "done [b]"),
        ("warning", "look"),
        ("error", "gone"),
    ]
    assert all(row["time"].endswith("Z") for row in rows)


def test_without_a_terminal_progress_is_a_line_for_each_message(capsys: pytest.CaptureFixture[str]) -> None:
    configure(verbose=True)
    with progress_steps(2) as (describe, advance):
        describe("reading")
        advance()
        describe("writing")
        with progress_tasks(9) as show:
            assert show is None
        advance()
    shown = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert [re.sub(r"\d+\.\d", "N", line) for line in shown] == [
        "INFO reading",
        "DEBUG reading: N s",
        "INFO writing",
        "DEBUG writing: N s",
    ]
