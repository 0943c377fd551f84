"""What commands print, and on which stream; options that they share; signals."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from rich.cells import cell_len

from jobs.console.log import DEBUG, ERROR, WARNING, configure, show_message
from jobs.console.options import FailOn, levels_from
from jobs.console.output import plain, print_table
from jobs.console.progress import progress_steps, progress_tasks
from jobs.console.run_log import of_files
from jobs.console.text import shortened, wrapped
from tests.support.paths import ROOT
from tests.support.stopping import GONE_S

ROW = {
    "topic": "a-topic-with-a-rather-long-name.of.some.team.v2",
    "since": "2026-11-21T00:39:25.233Z",
    "offset": 123456789012,
    "why": "the log has a hole, and nothing that was captured shows what was in it",
}


def printed(capsys: pytest.CaptureFixture[str], columns: int, rows: list[dict[str, Any]], **more: Any) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        print_table(list(rows[0]), rows, **more)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("columns", [20, 30, 40, 60, 80, 120, 200, 400])
@pytest.mark.parametrize("name", ["orders", "x" * 249, "订单" * 40, "one two three"])
def test_no_line_is_wider_than_the_terminal(capsys: pytest.CaptureFixture[str], columns: int, name: str) -> None:
    lines = printed(capsys, columns, [ROW, ROW | {"topic": name}], title="2 rows of a table with a rather long title")
    assert max(map(cell_len, lines)) <= columns


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_no_word_is_broken_and_no_number_shortened(capsys: pytest.CaptureFixture[str], columns: int) -> None:
    words = {word for value in ROW.values() for word in str(value).split()}
    lines = printed(capsys, columns, [ROW])
    shown = lines[2 : lines.index("")] if "" in lines else lines[2:]
    assert shown
    for word in " ".join(shown).split():
        assert word in words or "…" in word
        assert not word.replace("…", "").isdigit() or "…" not in word


def test_names_are_shortened_in_the_middle() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghij", 5) == "ab…ij"
    assert shortened("abcdefghij", 1) == "…"
    assert cell_len(shortened("订单订单订单", 7)) <= 7
    assert plain(datetime.fromtimestamp(1795221565.233, UTC)) == "2026-11-21T00:39:25.233Z", "24 columns: it has room"


def test_prose_is_broken_at_spaces_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = wrapped(f"broker-3 cut its log of {'t' * 60}-0 back", "  ", "    ")
    assert lines == ["  broker-3 cut its log of", f"    {'t' * 18}…{'t' * 15}-0", "    back"]


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


AGAIN = "What was committed stays: run the command again to go on."


NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES)
PATH, URL = "lake/findings/a.parquet", "http://127.0.0.1:1/lakes/a.json?X-Amz-Signature=secret"
OF_ARROW = "Error writing bytes to file. Detail: [errno 28] No space left on device"
# Causes that delta-rs writes below each other.
OF_DELTA = "Kernel error -> Generic S3 error\n     \x1b[31m↳\x1b[0m Error performing GET\n  \x1b[31m↳\x1b[0m 500"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        *((OSError(number, os.strerror(number), PATH), f"{PATH}: {os.strerror(number)}") for number in NUMBERS),
        (OSError(errno.ENOSPC, OF_ARROW), f"{OF_ARROW} (the lake's disk, or that of TMPDIR)"),
        (OSError(OF_DELTA), "Kernel error -> Generic S3 error: Error performing GET: 500"),
        (OSError(f"PUT {URL}: 500\n<Error>more</Error>"), "PUT http://127.0.0.1:1/lakes/a.json?... 500"),
        (TimeoutError(), "TimeoutError"),
    ],
    ids=str,
)
def test_an_error_of_a_file_names_it(error: OSError, text: str) -> None:
    assert of_files(error) == f"{text}. {AGAIN}"


def test_a_long_error_is_shortened() -> None:
    assert len(of_files(OSError("x" * 1000))) < 400


@pytest.mark.parametrize(
    ("given", "levels"),
    [
        ("none", set()),
        ("proven", {"proven"}),
        ("possible", {"proven", "possible"}),
        ("critical", {"critical"}),
        ("high", {"critical", "high"}),
        ("medium", {"critical", "high", "medium"}),
        ("low", {"critical", "high", "medium", "low"}),
        ("info", {"critical", "high", "medium", "low", "info"}),
        ("unknown", {"proven", "possible", "unknown"}),
        ("new-proven", {"new-proven"}),
        ("new-unknown", {"new-proven", "new-possible", "new-unknown"}),
        ("new-medium", {"new-critical", "new-high", "new-medium"}),
    ],
)
def test_a_level_includes_what_is_worse(given: FailOn, levels: set[str]) -> None:
    assert levels_from(given) == levels


def test_the_dags_take_the_same_levels() -> None:
    """The DAGs import nothing of the job, so that their schema repeats them."""
    text = (ROOT / "airflow_dags" / "kraft_forensics_dags" / "params.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["nightly"]["fail_on"]["enum"] == [*get_args(FailOn)]


_PROGRAM = """
import tempfile, time
from pathlib import Path
from jobs.console import signals
signals._MOST_S = 0.2
signals.watch_signals()
folder = Path(tempfile.mkdtemp())
for number in range(2000):
    (folder / str(number)).touch()
with signals.ends_by_signal():
    try:
        print(folder, flush=True)  # from here on the signal may come
        time.sleep(60)
    finally:
        time.sleep(60)  # a disk that is too slow
"""


def test_a_folder_that_takes_too_long_is_removed_after_the_end(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM]
    given = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=given, start_new_session=True, text=True) as program:
        assert program.stdout is not None
        folder = Path(program.stdout.readline().strip())
        assert len(list(folder.iterdir())) == 2000
        os.killpg(program.pid, signal.SIGTERM)
        assert program.wait() == 128 + signal.SIGTERM
    until = time.monotonic() + GONE_S
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not folder.exists()
