"""Ctrl-C and SIGTERM: every command ends within 5 s with one line and exit code 128 + the signal's number.

The main thread is interrupted by an exception, so that blocks that own something (a temporary folder, a scratch file)
end as after an error. A thread waits beside it: if the main thread is inside a call that cannot be interrupted, it ends
the process itself, and removes the temporary folders. Spark's JVM and its Python workers are stopped in both cases.
After 4.5 s the process and its children are gone in any case.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from jobs.console import run_log
from jobs.console.first import SIGNALS, stopped_by
from jobs.console.log import show_message

_UNWIND_S, _JVM_S = 1.0, 2.0  # for the main thread, then for the JVM
_PR_SET_CHILD_SUBREAPER = 36
_GONE_S = 0.3  # for killed processes to be gone
_MOST_S = 4.5  # for all of it: a reader of stderr that does not read, folders of a million files


class StoppedError(BaseException):
    """A signal has come. Not an Exception: no `except Exception` may go on after it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Watch:
    """What has to be ended: temporary folders of this process. numbers: the signals that end it; received: the one that
    has come."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.numbers: list[signal.Signals] = []
        self.folders: list[str] = []
        self.is_going_on = threading.Event()
        self.lock = threading.Lock()


_watch = _Watch()


def watch_signals() -> None:
    """Install the handlers; once, from the main thread, before a command runs."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    with suppress(FileNotFoundError):
        tempfile.gettempdir()  # writes a file to try the folder, which a signal in the middle would leave there
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    wakes, woken = socket.socketpair()
    woken.setblocking(False)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    for number in SIGNALS:
        # A parent that ignores Ctrl-C (nohup, a shell's background job) wants that for its children, too.
        if signal.getsignal(number) is not signal.SIG_IGN:
            _watch.numbers.append(number)
    _listen()
    sys.addaudithook(_note_folder)
    sys.unraisablehook = _unless_stopped
    threading.Thread(target=_force, args=(wakes, woken), daemon=True).start()


@contextmanager
def ends_by_signal() -> Iterator[None]:
    """Run a command: whatever it raises after a signal ends the process as the signal does."""
    try:
        yield
    except BaseException:
        if _watch.received is not None:
            end(_watch.received)
        raise


def received() -> int | None:
    """The signal that ends the command, whatever is raised: a library (DuckDB) may raise its own error instead."""
    return _watch.received


def go_on() -> None:
    """The signal was answered, and the command goes on: `sql` at a prompt."""
    _watch.received = None
    _listen()
    _watch.is_going_on.set()


def end(number: int) -> NoReturn:
    """Say that a signal has ended the command, and end the process and Spark."""
    with _watch.lock:  # never left: the first caller ends the process
        with suppress(OSError, ValueError):
            show_message(stopped_by(number))
            sys.stderr.flush()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # threads that talk to the JVM complain when it is gone
        _adopt_orphans()
        jvm = _jvm()
        if jvm is not None and jvm.stdin is not None:
            with suppress(OSError):
                jvm.stdin.close()
        run_log.discard()
        for folder in _watch.folders:
            shutil.rmtree(folder, ignore_errors=True)
        if jvm is not None:
            with suppress(subprocess.TimeoutExpired):
                jvm.wait(_JVM_S)
        _kill_descendants()
        run_log.discard()  # another thread may have begun one
        os._exit(128 + number)


def _listen() -> None:
    for number in _watch.numbers:
        signal.signal(number, _interrupt)


def _interrupt(number: int, _: FrameType | None) -> None:
    for other in _watch.numbers:
        signal.signal(other, signal.SIG_IGN)
    _watch.received = number
    raise StoppedError(number)


def _note_folder(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "tempfile.mkdtemp":
        _watch.folders.append(arguments[0])


def _unless_stopped(found: Any) -> None:
    """A StoppedError in a destructor is lost, and no message for people; `_force` ends the process then."""
    if not isinstance(found.exc_value, StoppedError):
        sys.__unraisablehook__(found)


def _force(wakes: socket.socket, _: socket.socket) -> None:
    """End the process if the main thread does not do so in time after a signal."""
    while data := wakes.recv(1):
        if data[0] not in _watch.numbers:
            continue
        _watch.received = data[0]
        last = threading.Timer(_MOST_S, _leave, data)
        last.daemon = True
        last.start()
        if not _watch.is_going_on.wait(_UNWIND_S):
            end(data[0])
        last.cancel()
        _watch.is_going_on.clear()


def _leave(number: int) -> NoReturn:
    """End the process and all that it has started at once, whatever it waits for. Temporary folders that are still
    there (a slow disk, many files) are removed by a process of its own, which no signal to this group ends."""
    _adopt_orphans()
    _kill_descendants()
    if folders := [folder for folder in _watch.folders if Path(folder).exists()]:
        with suppress(OSError):
            nowhere, command = subprocess.DEVNULL, ["rm", "-rf", "--", *folders]
            subprocess.Popen(command, start_new_session=True, stdin=nowhere, stdout=nowhere, stderr=nowhere)
    os._exit(128 + number)


def _jvm() -> subprocess.Popen[bytes] | None:
    """The JVM that this process has started. It deletes its folders and stops its Python workers when its stdin
    ends."""
    context = sys.modules.get("pyspark.core.context")
    gateway = getattr(getattr(context, "SparkContext", None), "_gateway", None)
    return getattr(gateway, "proc", None)


def _adopt_orphans() -> None:
    """Make what a dead child has started a child of this process (Linux: prctl(2), PR_SET_CHILD_SUBREAPER): the JVM may
    start a Python worker while it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _kill_descendants() -> None:
    """Kill all that this process has started, and wait a moment until it is gone."""
    until = time.monotonic() + _GONE_S
    while (processes := _descendants("self")) and time.monotonic() < until:
        for process in processes:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def _descendants(of: int | str) -> list[int]:
    """Process ids of a process's children, of theirs, and so on; on systems without /proc none are known."""
    found = []
    for file in Path(f"/proc/{of}/task").glob("*/children"):
        with suppress(OSError):  # the process has ended
            found += [int(number) for number in file.read_text(encoding="ascii").split()]
    return found + [each for child in found for each in _descendants(child)]
