"""The error of this room, and how it runs commands."""

import contextlib
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evidence.errors import KraftForensicsError

# What a command begins with, so that the kernel kills its process when the thread that started it ends, after SIGKILL,
# too (prctl(2), PR_SET_PDEATHSIG).
DIES_WITH_THIS = ("setpriv", "--pdeathsig", "KILL", "--")


class DrillError(KraftForensicsError):
    """A drill that cannot start or go on: a scenario, jars, memory, or a node that does not do what the step needs."""


def call(*words: str) -> str:
    """What a command prints. Errors: DrillError if it fails or is not installed."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise DrillError(f"a drill needs {words[0]}, which is not installed") from None
    if done.returncode:
        told = " ".join(f"{done.stderr} {done.stdout}".split())
        raise DrillError(f"{' '.join(words[:4])} failed: {told[-400:]}")
    return done.stdout


def spawn(words: Iterable[str], log: Path, **options: Any) -> subprocess.Popen[bytes]:
    """A process that ends with the thread that started it. log: gets what it prints. Its session is its own: Ctrl-C is
    for the drill, which ends its processes itself."""
    with log.open("ab") as out:
        command = [*DIES_WITH_THIS, *words]
        return subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, **options)


@contextlib.contextmanager
def finally_run(*commands: str) -> Iterator[None]:
    """Run commands of a shell in the end, whatever they return; also when this process is killed."""
    words = ["sh", "-c", "; ".join(("cat", *commands))]  # `cat` reads until this process closes its end, or ends
    quiet = subprocess.DEVNULL
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True):
        yield
