"""One node: a shell on it, its clock, and what node.sh sends, all within a time limit.

How far the node's clock is ahead of this machine's follows from answers to "what time is it". A node that answers
`time` to a question that was sent at `asked` and answered by `answered` read its clock in between. So the difference
lies between time - answered and time + granularity - asked: the smaller the round trip, the closer. Ranges of several
answers hold at once, if no clock was set meanwhile.
"""

import contextlib
import io
import os
import re
import secrets
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import IO, Any

from jobs.collect.frames import BrokenStream, Received, receive, shown

_ROUND_TRIPS = 8
# What a login or a proxy may print before the shell answers.
_MAX_NOISE_LINES = 1000
_LOOK_S = 0.2
_ANSWER = re.compile(r"(?P<seconds>[0-9]{9,11})(?P<nanos>[0-9]{9})?\D{0,4}")
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A node's time, with the times of this machine before the question and after the answer; ns since the epoch.
    granularity_ns: 1, or a second where the node's `date` prints no fraction."""

    asked_ns: int
    time_ns: int
    answered_ns: int
    granularity_ns: int = 1


@dataclass(frozen=True, slots=True)
class Offset:
    """The node's clock minus this machine's, and by how much that may be wrong; in ms."""

    offset_ms: int
    error_ms: int


def parse_time(text: str) -> tuple[int, int] | None:
    """(ns since the epoch, granularity in ns) of what `date +%s%N` printed; a `date` that does not know %N prints the
    seconds and perhaps a letter. None for anything else."""
    found = _ANSWER.fullmatch(text)
    if found is None:
        return None
    if found["nanos"]:
        return int(found["seconds"]) * _SECOND + int(found["nanos"]), 1
    return int(found["seconds"]) * _SECOND, _SECOND


def common_range(answers: Sequence[ClockReading]) -> tuple[int, int]:
    """The range (ns) of the difference that all answers allow; that of the quickest answer if they contradict each
    other (a clock that is being adjusted)."""
    ranges = [(a.time_ns - a.answered_ns, a.time_ns + a.granularity_ns - a.asked_ns) for a in answers]
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    return (low, high) if low <= high else min(ranges, key=lambda r: r[1] - r[0])


def offset_of(answers: Sequence[ClockReading]) -> Offset | None:
    """The middle of the common range, and half its width rounded up; None without answers."""
    if not answers:
        return None
    low, high = common_range(answers)
    middle = round((low + high) / 2 / 1e6)
    return Offset(middle, ceil(max(high / 1e6 - middle, middle - low / 1e6)))


def wait_before_next_s(answers: Sequence[ClockReading], now_ns: int) -> float:
    """How long to wait before the next question. 0 if the node prints fractions; else until the middle of the range
    puts the node's clock at the turn of a second: each answer then halves the range."""
    if not answers or answers[-1].granularity_ns == 1:
        return 0.0
    low, high = common_range(answers)
    return (-(now_ns + (low + high) // 2) % _SECOND) / 1e9


@dataclass(slots=True)
class Visit:
    """What one node gave. started_ms, ended_ms: by this machine's clock, around all reading on the node. clock: None if
    it was not measured. failure: why the visit ended early; None if node.sh came to its end."""

    node_id: int
    received: Received = field(default_factory=Received)
    started_ms: int | None = None
    ended_ms: int | None = None
    clock: Offset | None = None
    failure: str | None = None


def visit(node_id: int, command: list[str], script: bytes, folder: Path, timeout_s: float) -> Visit:
    """Open a shell with `command`, measure the node's clock, run the script, and write its files into `folder`.

    After timeout_s the command is killed; whole files stay. A node that fails is no error: `failure` says why.
    """
    found = Visit(node_id)
    try:
        with shell(command) as process:
            try:
                _talk(process, script, folder, found, timeout_s)
            finally:
                found.ended_ms = time.time_ns() // 1_000_000 + 1
    except BrokenStream as error:
        found.failure = str(error)
    return found


@contextlib.contextmanager
def shell(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command that opens a shell, and end it. Errors: BrokenStream if it cannot be run or its connection ends,
    with the last line that it printed as an error."""
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        except OSError as error:
            raise BrokenStream(f"{command[0]} cannot be run: {error.strerror}") from error
        try:
            yield process
        except (BrokenStream, BrokenPipeError, ConnectionResetError) as error:
            said = _last_line(errors)
            why = str(error) if isinstance(error, BrokenStream) else "the connection ended before everything was sent"
            raise BrokenStream(why + (f" ({said})" if said else "")) from error
        finally:
            _close(process)


class Patient(io.RawIOBase):
    """A shell's output. stopped: a reader waits until then, or so many seconds for each answer; None: so many seconds
    for all of it. Errors: BrokenStream."""

    def __init__(self, pipe: IO[bytes], most_s: float, stopped: threading.Event | None = None) -> None:
        self.pipe, self.most_s, self.stopped = pipe, most_s, stopped
        self.until_s = time.monotonic() + most_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.stopped is not None:
            self.until_s = time.monotonic() + self.most_s
        is_ready = False
        while not is_ready:
            is_ready = bool(select.select([self.pipe], [], [], _LOOK_S)[0])
            if self.stopped is not None and self.stopped.is_set():
                raise BrokenStream("stopped")
            if time.monotonic() > self.until_s:
                what = "not finished after" if self.stopped is None else "no answer within"
                raise BrokenStream(f"{what} {self.most_s:g} s")
        data = os.read(self.pipe.fileno(), len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _talk(process: subprocess.Popen[bytes], script: bytes, folder: Path, found: Visit, timeout_s: float) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    to, back = process.stdin, io.BufferedReader(Patient(process.stdout, timeout_s))
    greet(to, back)
    found.clock = offset_of(_ask_times(to, back))
    found.started_ms = time.time_ns() // 1_000_000
    # In its own thread: a node may send much before it has read the whole script.
    sender = threading.Thread(target=_send_quietly, args=(to, script), daemon=True)
    sender.start()
    receive(back, folder, found.received)
    sender.join()


def greet(to: IO[bytes], back: IO[bytes]) -> None:
    """Wait until the shell answers. Errors: BrokenStream."""
    mark = f"ready-{secrets.token_hex(8)}"
    with contextlib.suppress(BrokenPipeError):  # the end of its output says the same
        send(to, f"LC_ALL=C; export LC_ALL; echo {mark}\n".encode())
    for _ in range(_MAX_NOISE_LINES):
        line = back.readline(1 << 16)
        if not line:
            raise BrokenStream("the shell did not start")
        if line.strip() == mark.encode():
            break
    else:
        raise BrokenStream("the shell did not answer")


def _ask_times(to: IO[bytes], back: IO[bytes]) -> list[ClockReading]:
    answers: list[ClockReading] = []
    for _ in range(_ROUND_TRIPS):
        time.sleep(wait_before_next_s(answers, time.time_ns()))
        asked = time.time_ns()
        send(to, b"date +%s%N\n")
        line = back.readline(1 << 10)
        answered = time.time_ns()
        if not line:
            raise BrokenStream("the connection ended before everything was sent")
        parsed = parse_time(line.decode("latin-1").strip())
        # A clock of this machine that was set back meanwhile measures nothing.
        if parsed is not None and asked <= answered:
            answers.append(ClockReading(asked, parsed[0], answered, parsed[1]))
    return answers


def send(to: IO[bytes], data: bytes) -> None:
    """Write to a shell at once."""
    to.write(data)
    to.flush()


def _send_quietly(to: IO[bytes], script: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):
        send(to, script)
        to.close()


def _close(process: subprocess.Popen[bytes]) -> None:
    """End the command and what it started: it has a session of its own."""
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - 4096))
    lines = [line.strip() for line in errors.read().decode("utf-8", "backslashreplace").splitlines()]
    return shown(next((line for line in reversed(lines) if line), ""))[:300]
