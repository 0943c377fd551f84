"""One node: a shell on it, its clock, and what node.sh sends, all within a time limit."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from jobs.collect.clock import ClockReading, Offset, offset_of, parse_time, wait_before_next_s
from jobs.collect.frames import BrokenStream, Received, receive, shown

_ROUND_TRIPS = 8
# What a login or a proxy may print before the shell answers.
_MAX_NOISE_LINES = 1000
_LOOK_S = 0.2


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
    found, late = Visit(node_id), threading.Event()
    try:
        with shell(command) as process:

            def stop() -> None:
                late.set()
                _kill(process)

            timer = threading.Timer(timeout_s, stop)
            timer.start()
            try:
                _talk(process, script, folder, found)
            finally:
                timer.cancel()
                found.ended_ms = time.time_ns() // 1_000_000 + 1
    except BrokenStream as error:
        found.failure = f"not finished after {timeout_s:g} s" if late.is_set() else str(error)
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
    """A shell's output, for which a reader waits so many seconds, or until `stopped`. Errors: BrokenStream."""

    def __init__(self, pipe: IO[bytes], silence_s: float, stopped: threading.Event) -> None:
        self.pipe, self.silence_s, self.stopped = pipe, silence_s, stopped

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        until_s = time.monotonic() + self.silence_s
        while not select.select([self.pipe], [], [], _LOOK_S)[0]:
            if self.stopped.is_set():
                raise BrokenStream("stopped")
            if time.monotonic() > until_s:
                raise BrokenStream(f"no answer within {self.silence_s:g} s")
        data = os.read(self.pipe.fileno(), len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _talk(process: subprocess.Popen[bytes], script: bytes, folder: Path, found: Visit) -> None:
    to, back = process.stdin, process.stdout
    if to is None or back is None:
        raise BrokenStream("the shell has no input or output")
    greet(to, back)
    found.clock = offset_of(_ask_times(to, back))
    found.started_ms = time.time_ns() // 1_000_000
    # In its own thread: a node may send much before it has read the whole script.
    sender = threading.Thread(target=_send_quietly, args=(to, script), daemon=True)
    sender.start()
    receive(back, folder, found.received)  # type: ignore[arg-type]  # a pipe's stream is a BinaryIO
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


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the command and what it started: it has a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _close(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        _kill(process)
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
