"""Processes of this machine that run tasks. Each reads tasks from its standard input, answers on its standard output,
and ends when its input does: so none outlives its command, however that ends.

Not `multiprocessing`: it needs a socket in the temporary folder, whose path may be too long for one, and it runs the
program's main module again.

The memory of a process: how much it took at most, and what is free is given back to the system. After large work Arrow
and the C library keep hundreds of megabytes of it. Source: Linux, proc_pid_status(5) (VmHWM) and
proc_pid_clear_refs(5).
"""

import atexit
import ctypes
import gc
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from subprocess import PIPE, Popen
from threading import Lock
from typing import Any

import pyarrow as pa

# Until `release`, a process that runs tasks keeps what it frees for what it makes next: pages that come anew are filled
# with zeros first. Of the C library (mallopt(3)), in bytes; of Arrow's allocator, in milliseconds.
MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "MIMALLOC_PURGE_DELAY": str(100_000),
}
# What tasks need: imported before the first task comes.
TASK_MODULES = ("jobs.ingest.records", "jobs.replay.task", "jobs.detect.task", "jobs.quality.source")
# Spark's workers run others' functions, too, so these have what Arrow knows of pandas.
_OWN_MODULES = ("jobs.spark.lean", *TASK_MODULES)
_trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)  # glibc has it, other C libraries do not


class EndedError(Exception):
    """A process ended in the middle of its task. status: its exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Workers:
    """So many processes, which begin at once, in groups of their own: Ctrl-C is for the command to answer. modules:
    what they import first."""

    def __init__(self, count: int, modules: tuple[str, ...] = _OWN_MODULES) -> None:
        self._known_by = count, modules
        path = os.pathsep.join(sys.path)
        environment = {**MEMORY, **os.environ, "PYTHONPATH": path}
        command = [sys.executable, "-m", __name__, *modules]
        self._processes = [
            Popen(command, stdin=PIPE, stdout=PIPE, env=environment, process_group=0) for _ in range(count)
        ]
        self._free: SimpleQueue[Popen[bytes]] = SimpleQueue()
        for process in self._processes:
            self._free.put(process)
        atexit.register(self.end)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function, in the next process that is free. Errors: EndedError; what the function raises,
        with the trace of that process as a note."""
        process = self._free.get()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((function, arguments), process.stdin)
            process.stdin.flush()
            result, error = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError):
            raise EndedError(process.wait()) from None
        finally:
            self._free.put(process)  # the next task fails at once in one that has ended
        if error is not None:
            raise error
        return result

    def end(self) -> None:
        """End them in the middle of what they do."""
        _started.pop(self._known_by, None)
        atexit.unregister(self.end)
        for process in self._processes:
            with suppress(BrokenPipeError), process:  # closes its pipes, and waits for it
                process.kill()


def started(count: int, modules: tuple[str, ...] = _OWN_MODULES) -> Workers:
    """The processes that all jobs of this command share."""
    with _one_at_a_time:
        if (count, modules) not in _started:
            _started[count, modules] = Workers(count, modules)
        return _started[count, modules]


_one_at_a_time = Lock()
_started: dict[tuple[int, tuple[str, ...]], Workers] = {}


def release() -> None:
    """Give it back. It takes milliseconds, so call it after much work only."""
    pa.default_memory_pool().release_unused()
    _trim(0)


def forget_peak() -> None:
    """Begin to measure anew: `peak_bytes` is of what comes from now on."""
    with suppress(OSError):  # no Linux, or not allowed: then it is of the whole process
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int | None:
    """The most resident memory of this process; None where the system does not say."""
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)
    return None


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a task prints is no answer
    gc.set_threshold(100_000, 20, 100)  # as in the command itself (jobs/cli/__init__.py)
    for name in sys.argv[1:]:
        import_module(name)
    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: tuple[Any, Exception | None]
        try:
            answer = function(*arguments), None
        except Exception as error:  # noqa: BLE001 - it goes to the command
            error.add_note(traceback.format_exc())
            answer = None, error
        try:
            pickle.dump(answer, answers)
            answers.flush()
        except BrokenPipeError:
            return  # the command is gone


if __name__ == "__main__":
    main()
