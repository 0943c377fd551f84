"""Commands as processes that faults hit: forked from a server that has imported the program once, so that a small run
takes a few seconds, or started anew if Spark is to run."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from pathlib import Path
from uuid import uuid4

from tests.faults.injector import Injection, calls
from tests.support.paths import ROOT
from tests.support.stopping import PROGRAM, listening, processes_with

LONGEST_S = 1800  # a machine that does other work as well may be slow
ALWAYS_SPARK = {"KRAFT_FORENSICS_SPARK__FROM_ROWS": "0"}
NEVER_SPARK = {"KRAFT_FORENSICS_SPARK__FROM_ROWS": str(10**9)}
_POLL_S = 0.01
_MARK = "TEST_FAULTS_RUN"

_context = get_context("forkserver")


def serve(library: Path) -> None:
    """Start the server from which `started` forks. library: of the injector."""
    _context.set_forkserver_preload(["tests.faults.preloaded"])
    os.environ["LD_PRELOAD"] = str(library)
    try:
        ensure_running()
    finally:
        del os.environ["LD_PRELOAD"]


@dataclass(frozen=True)
class Ended:
    """How a command ended. code: minus the signal if one killed it. said: its stderr. calls: on files, if counted."""

    code: int
    said: str
    calls: int = 0

    @property
    def errors(self) -> list[str]:
        return [line for line in self.said.splitlines() if line.startswith("error: ")]


@dataclass
class Running:
    """A command that runs. process: its process id is `pid`. mark: what the environment of all its processes has, as
    NAME=VALUE; empty: it has no other processes."""

    process: BaseProcess | subprocess.Popen[bytes]
    stderr: Path
    mark: str = ""
    started_s: float = field(default_factory=time.monotonic)

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def has_ended(self) -> bool:
        if isinstance(self.process, subprocess.Popen):
            return self.process.poll() is not None
        return self.process.exitcode is not None

    def wait_for(self, text: str) -> bool:
        """Wait until a line on stderr has this text; False if the command ended before."""
        while text not in self.stderr.read_text(errors="replace"):
            if self.has_ended():
                return False
            self._sleep()
        return True

    def wait_until(self, spent_s: float) -> None:
        """Wait until it has used so much processor time, or ends."""
        while not self.has_ended() and self.spent_s() < spent_s:
            self._sleep()

    def spent_s(self) -> float:
        """Processor time of the process, of children that it has waited for and, if it has a mark, of all that carry
        it; 0 if it is gone. Resolution: a tick, usually 10 ms."""
        pids = {self.pid, *processes_with(self.mark)} if self.mark else {self.pid}
        return sum(map(_processor_s, pids))

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def ended(self) -> Ended:
        """Wait until it has ended. Errors: TimeoutError."""
        while not self.has_ended():
            self._sleep()
        if isinstance(self.process, subprocess.Popen):
            code = self.process.returncode
        else:
            code = self.process.exitcode or 0
            self.process.close()
        counted = self.stderr.with_suffix(".calls")
        return Ended(code, self.stderr.read_text(errors="replace"), int(counted.read_text() if counted.exists() else 0))

    def _sleep(self) -> None:
        if time.monotonic() - self.started_s > LONGEST_S:
            self.kill()
            raise TimeoutError(f"{self.stderr}: still running after {LONGEST_S} s")
        time.sleep(_POLL_S)


def started(
    folder: Path,
    arguments: Sequence[str],
    injection: Injection | None = None,
    file_bytes: int | None = None,
    settings: Mapping[str, str | None] | None = None,
) -> Running:
    """Start a command by forking. folder: for its stderr and temporary files. file_bytes: the largest file that it may
    write (a quota's EFBIG). settings: environment variables; None: not to be set."""
    temporary, stderr = folder / "tmp", folder / f"{uuid4().hex[:8]}.err"
    temporary.mkdir(parents=True, exist_ok=True)
    stderr.touch()
    wanted = {**os.environ, **NEVER_SPARK, "TMPDIR": str(temporary), **(settings or {})}
    environment = {name: value for name, value in wanted.items() if value is not None}
    process = _context.Process(target=_run, args=(list(arguments), stderr, environment, injection, file_bytes))
    process.start()
    return Running(process, stderr)


def started_anew(folder: Path, arguments: Sequence[str], settings: Mapping[str, str]) -> Running:
    """Start a command as a new program, with a mark of its own."""
    temporary, stderr, mark = folder / "tmp", folder / f"{uuid4().hex[:8]}.err", uuid4().hex
    temporary.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT), _MARK: mark, **settings}
    with stderr.open("wb") as file:
        process = subprocess.Popen(
            [*PROGRAM, *arguments], cwd=ROOT, env=env, preexec_fn=listening, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=file, start_new_session=True)  # fmt: skip
    return Running(process, stderr, f"{_MARK}={mark}")


def _processor_s(pid: int) -> float:
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return 0.0
    utime, stime, of_children, system_of_children = map(int, after_name.split()[11:15])
    return (utime + stime + of_children + system_of_children) / os.sysconf("SC_CLK_TCK")


def _run(
    arguments: list[str], stderr: Path, environment: dict[str, str], injection: Injection | None, file_bytes: int | None
) -> None:
    import tempfile

    from jobs.cli import main

    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(stderr, os.O_WRONLY | os.O_APPEND), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", buffering=1, closefd=False)
    sys.argv = ["kraft-forensics", *arguments]
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if injection is not None:
        injection.arm()
    try:
        main()
    finally:
        if injection is not None and file_bytes is None:
            stderr.with_suffix(".calls").write_text(str(calls()))
