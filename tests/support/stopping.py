"""Commands as real processes that a signal stops."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

PROGRAM = (sys.executable, "-m", "jobs.cli")
GONE_S = 30  # a busy machine takes longer than the 5 s that the program promises
_LONGEST_S = 600


@dataclass(frozen=True)
class Stopped:
    """How a process ended. said: lines on stderr; left: names in its temporary folder; seconds: from the signal on."""

    code: int
    said: list[str]
    left: list[str]
    seconds: float

    def check(self, number: signal.Signals) -> None:
        """Raise AssertionError unless it ended in time as a command does that this signal stops."""
        assert (self.code, self.said[-1]) == (128 + number, f"stopped by {number.name}: run the command again to go on")
        assert not [
            line for line in self.said if "Exception" in line or "Traceback" in line or line.startswith("\tat ")
        ]
        assert (self.left, self.seconds < GONE_S) == ([], True)


def listening() -> None:
    """Called in a new process: a shell's background job ignores Ctrl-C, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def stopped(
    arguments: Sequence[str],
    number: signal.Signals,
    folder: Path,
    after: str,
    pause_s: float = 0.0,
    settings: Mapping[str, str] | None = None,
    script: str = "",
    on_stdout: bool = False,
) -> Stopped:
    """Start a command, and send it a signal some time after a line with this text on its stderr, or on its stdout.
    folder: to use. script: its stdin, which stays open. A command that goes on for too long is killed: its code is
    -9."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    env = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT), **(settings or {})}
    process = subprocess.Popen(
        [*PROGRAM, *arguments], cwd=ROOT, env=env, text=True, preexec_fn=listening, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if on_stdout else subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
    killer = threading.Timer(_LONGEST_S, process.kill)
    killer.start()
    assert process.stderr is not None
    assert process.stdin is not None
    process.stdin.write(script)
    process.stdin.flush()
    said = []
    for line in process.stdout or process.stderr:
        said.append(line.rstrip("\n"))
        if after in line:
            break
    time.sleep(pause_s)
    sent = time.monotonic()
    process.send_signal(number)
    said += process.stderr.read().splitlines()
    code = process.wait()
    seconds = time.monotonic() - sent
    killer.cancel()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
    return Stopped(code, said, sorted(file.name for file in temporary.iterdir()), seconds)


def processes_with(setting: str) -> list[int]:
    """Processes that have an environment variable with this value."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if setting.encode() in file.read_bytes().split(b"\0"):
                found.append(int(file.parent.name))
    return found


def left_with(setting: str) -> list[int]:
    """As processes_with, once those that a signal has ended had time to go."""
    until_s = time.monotonic() + GONE_S
    while (found := processes_with(setting)) and time.monotonic() < until_s:
        time.sleep(0.1)
    return found
