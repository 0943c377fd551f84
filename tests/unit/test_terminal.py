"""What people read on a terminal: golden files of the bundled capture, of some commands at 80, 120 and 200 columns.

To update them, run `python -m tests.unit.test_terminal` and read the diff.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rich.cells import cell_len

from tests.support.invoked import invoke
from tests.support.paths import ROOT

GOLDEN = Path(__file__).parent / "golden" / "terminal"
WIDTHS = (80, 120, 200)
CAPTURE = ROOT / "examples" / "unclean.tar.xz"
COMMANDS = {
    "windows": ["windows", "--all"],
    "findings": ["findings", "--limit", "12"],
    "verdict": ["verdict"],
    "explain": ["explain", "ac1562"],
    "describe": ["describe", "--topic", "ledger", "--at-offset", "300"],
    "run": ["run", str(CAPTURE)],
}
# One width shows all of these.
MORE = {
    "ahead": ["ahead", "--start", "2"],
    "ahead_order": ["ahead", "--restart-all"],
    "ahead_stop": ["ahead", "--stop", "1"],
    "explain_bytes": ["explain", "ac1562", "--capture", str(CAPTURE)],
    "explain_exact": ["explain", "2c6b35"],
    "explain_leaderless": ["explain", "3c2591"],
    "explain_possible": ["explain", "e45914"],
    "postmortem": ["report", "--format", "postmortem", "--output", "-"],
    "ticket": ["verdict", "--format", "md"],
    "verdict_full": ["verdict", "--full"],
    "whatif": ["whatif", "--min-isr", "1"],
    "whatif_aggressive": ["whatif", "--strategy", "aggressive"],
}
PRINTED = [*((name, columns) for name in COMMANDS for columns in WIDTHS), *((name, 120) for name in MORE)]
# Lines to copy are never broken: commands of tools, records as JSON, and what identifies a file.
COPIED = re.compile(r"^ *(command |record |SHA-256 |file |(head|tail|od|kafka-|curl|dd) ?)|^ {13,}")


def terminal(lake: Path, name: str, columns: int) -> str:
    """What a command prints to stdout, then to stderr, on a terminal of that width."""
    words = (COMMANDS | MORE)[name]
    environment = {"COLUMNS": str(columns), "TERM": "dumb", "NO_COLOR": "1"}
    result = invoke([*words, "--lake", str(lake)], env=environment)
    assert result.exit_code == (3 if name == "ahead" else 0), result.output
    text = result.stdout + ("--- stderr\n" + result.stderr if result.stderr else "")
    return text.replace(str(lake), "LAKE").replace(str(ROOT), "ROOT")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of the capture, after a second run: its findings are known. The first run is the whole job by the local
    engine, in a process whose environment has no Java."""
    folder = tmp_path_factory.mktemp("terminal").resolve()
    words = ["run", str(CAPTURE), "--lake", str(folder / "lake")]
    command = [sys.executable, "-m", "jobs.cli", *words, "--engine", "local"]
    environment = {"PATH": str(folder), "JAVA_HOME": str(folder), "HOME": str(folder)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert invoke(words).exit_code == 0
    return folder / "lake"


@pytest.mark.parametrize(("name", "columns"), PRINTED)
def test_the_terminal_is_the_golden_one(lake: Path, name: str, columns: int) -> None:
    """And no line of a result is wider than the terminal."""
    printed = terminal(lake, name, columns)
    assert printed == (GOLDEN / f"{name}-{columns}.txt").read_text(encoding="utf-8")
    lines = printed.partition("--- stderr\n")[0].splitlines() if name in COMMANDS else []
    wide = [line for line in lines if cell_len(line.expandtabs()) > columns]
    assert [line for line in wide if not COPIED.match(line)] == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--at-offset", "999999"], "metadata offset 999999 is after the end of the captured log"),
        (["--at-time", "2200-01-01"], "is after the end of the captured log"),
        (["--at-time", "2001-01-01"], "is before the start of the captured log"),
        (["--at-offset", "3"], "no partition is known at that point"),
    ],
)
def test_describe_says_where_nothing_is_known(lake: Path, words: list[str], line: str) -> None:
    result = invoke(["describe", "--lake", str(lake), *words])
    assert (result.exit_code, line in result.stderr) == (1, True)


def test_a_reader_that_leaves_changes_no_exit_code() -> None:
    code = (
        "import sys; from jobs.console.output import reader_may_leave\n"
        "with reader_may_leave():\n    print('\\n'.join(['x' * 100] * 100_000))\n"
        "sys.exit(3)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        assert (program.stderr.read(), program.wait()) == (b"", 3)


def _update() -> Iterator[Path]:
    with TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        made = Path(folder).resolve() / "lake"
        for _ in range(2):
            invoke(["run", str(CAPTURE), "--lake", str(made)])
        for name, columns in PRINTED:
            file = GOLDEN / f"{name}-{columns}.txt"
            file.write_text(terminal(made, name, columns), encoding="utf-8")
            yield file


if __name__ == "__main__":
    os.environ["TERM"] = "dumb"
    for written in _update():
        sys.stdout.write(f"{written}\n")
