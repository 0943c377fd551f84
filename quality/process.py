"""Great Expectations in a process of its own. To import it takes seconds of computing: in a thread of this process, all
other threads would wait for the interpreter meanwhile."""

from __future__ import annotations

import atexit
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import LazyLoader, find_spec, module_from_spec
from pathlib import Path
from subprocess import PIPE, Popen

from quality.check import Check
from quality.run import Outcome


def prepare() -> None:
    """Start the process, so that it imports while this one does other work."""
    if not _is_here():
        _process()


def run_suites(
    checks: Sequence[Check], found: Mapping[str, Outcome], warns: Mapping[str, bool], docs: Path
) -> dict[str, bool]:
    """quality/suites.py:run_suites, there. Errors: as there; ChildProcessError if the process ended."""
    if _is_here():
        from quality import suites

        return suites.run_suites(checks, found, warns, docs)
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        pickle.dump((checks, found, warns, docs), process.stdin)
        process.stdin.flush()
        answer = pickle.load(process.stdout)
    except (EOFError, BrokenPipeError):
        _process.cache_clear()
        status = process.wait()
        raise ChildProcessError(f"the process of Great Expectations ended with exit status {status}") from None
    if isinstance(answer, Exception):
        raise answer
    met: dict[str, bool] = answer
    return met


def _is_here() -> bool:
    """Whether this process has imported the library anyway."""
    return "great_expectations" in sys.modules


@cache
def _process() -> Popen[bytes]:
    """It is in a group of its own, so that Ctrl-C ends this process alone; it ends with its standard input."""
    command = [sys.executable, "-m", __name__]
    path = os.pathsep.join(sys.path)
    process = Popen(command, stdin=PIPE, stdout=PIPE, env={**os.environ, "PYTHONPATH": path}, process_group=0)
    atexit.register(_end, process)
    return process


def _end(process: Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def _serve() -> None:
    """Answer what standard input asks, until it ends."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    sys.modules["pyspark"] = None  # type: ignore[assignment]  # so that the library does without it, and imports less
    _import_when_used("scipy.stats")  # a quarter of the library's start, for expectations that are not used here
    from quality import suites  # takes seconds

    while True:
        try:
            asked = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: object = suites.run_suites(*asked)
        except Exception as error:  # noqa: BLE001 - the asker raises it
            answer = error
        pickle.dump(answer, answers)
        answers.flush()


def _import_when_used(name: str) -> None:
    spec = find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    spec.loader = LazyLoader(spec.loader)
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    parent, _, own = name.rpartition(".")
    setattr(sys.modules[parent], own, module)


if __name__ == "__main__":
    _serve()
