"""One node: a shell on it, its clock, and what node.sh sends, all within a time limit."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from jobs.collect.clock import Answer, Offset, offset_of, parse_time, wait_before_next_s
from jobs.collect.frames import BrokenStream, Received, receive, shown

_ROUND_TRIPS = 8
# What a login or a proxy may print before the shell answers.
_MAX_NOISE_LINES = 1000


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
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        except OSError as error:
            found.failure = f"{command[0]} cannot be run: {error.strerror}"
            return found
        late = threading.Event()

        def stop() -> None:
            late.set()
            _kill(process)

        timer = threading.Timer(timeout_s, stop)
        timer.start()
        try:
            _talk(process, script, folder, found)
        except (BrokenStream, BrokenPipeError, ConnectionResetError) as error:
            said = _last_line(errors)
            why = str(error) if isinstance(error, BrokenStream) else "the connection ended before everything was sent"
            found.failure = (
                f"not finished after {timeout_s:g} s" if late.is_set() else why + (f" ({said})" if said else "")
            )
        finally:
            timer.cancel()
            found.ended_ms = time.time_ns() // 1_000_000 + 1
            _close(process)
    return found


def _talk(process: subprocess.Popen[bytes], script: bytes, folder: Path, found: Visit) -> None:
    to, back = process.stdin, process.stdout
    if to is None or back is None:
        raise BrokenStream("the shell has no input or output")
    mark = f"ready-{secrets.token_hex(8)}"
    with contextlib.suppress(BrokenPipeError):  # the end of its output says the same
        _send(to, f"LC_ALL=C; export LC_ALL; echo {mark}\n".encode())
    for _ in range(_MAX_NOISE_LINES):
        line = back.readline(1 << 16)
        if not line:
            raise BrokenStream("the shell did not start")
        if line.strip() == mark.encode():
            break
    else:
        raise BrokenStream("the shell did not answer")
    found.clock = offset_of(_ask_times(to, back))
    found.started_ms = time.time_ns() // 1_000_000
    # In its own thread: a node may send much before it has read the whole script.
    sender = threading.Thread(target=_send_quietly, args=(to, script), daemon=True)
    sender.start()
    receive(back, folder, found.received)  # type: ignore[arg-type]  # a pipe's stream is a BinaryIO
    sender.join()


def _ask_times(to: IO[bytes], back: IO[bytes]) -> list[Answer]:
    answers: list[Answer] = []
    for _ in range(_ROUND_TRIPS):
        time.sleep(wait_before_next_s(answers, time.time_ns()))
        asked = time.time_ns()
        _send(to, b"date +%s%N\n")
        line = back.readline(1 << 10)
        answered = time.time_ns()
        if not line:
            raise BrokenStream("the connection ended before everything was sent")
        parsed = parse_time(line.decode("latin-1").strip())
        # A clock of this machine that was set back meanwhile measures nothing.
        if parsed is not None and asked <= answered:
            answers.append(Answer(asked, parsed[0], answered, parsed[1]))
    return answers


def _send(to: IO[bytes], data: bytes) -> None:
    to.write(data)
    to.flush()


def _send_quietly(to: IO[bytes], script: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):
        _send(to, script)
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
