"""Ctrl-C and SIGTERM on real processes: one line, the signal's exit code, nothing left behind, and a run again goes on.
tests/slow/test_signals_with_spark.py: the same with a JVM."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobs.lake.lake import Lake
from tests.support.digests import digests
from tests.support.paths import ROOT, capture, captured_file
from tests.support.stopping import GONE_S, PROGRAM, left_with, listening, processes_with, stopped

RUN = ("run", str(capture("unclean")), "--lake")


@contextmanager
def begun(*words: str, **environment: str) -> Iterator[Any]:
    """Python as a process of its own, which is gone after the block. Its pipes are small: it is never far ahead of who
    reads them."""
    given = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "pipesize": 4096}
    with subprocess.Popen([sys.executable, *words], cwd=ROOT, env=given, preexec_fn=listening, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_run_stops_at_any_step_and_the_next_run_goes_on(without_spark: Path, tmp_path: Path) -> None:
    """Stopped again and again, it becomes that of a run left alone."""
    cut = tmp_path / "cut"
    steps = ("opening", "decoding", "replaying", "judging")
    for step, number in zip(steps, (signal.SIGINT, signal.SIGTERM) * 2, strict=True):
        stopped([*RUN, str(cut)], number, tmp_path, after=step).check(number)
    subprocess.run([*PROGRAM, *RUN, str(cut)], cwd=ROOT, capture_output=True, check=True)
    assert digests(Lake(cut)) == digests(Lake(without_spark))


def test_inspect_stops_while_its_reader_waits(tmp_path: Path) -> None:
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(captured_file("unclean", f"controllers/3000/__cluster_metadata-0/{segment.name}"))
    with begun(*PROGRAM[1:], "inspect", *[str(segment)] * 200) as process:
        assert process.stdout.read(10)  # it prints, and then waits for the reader
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert time.monotonic() - started < GONE_S
        assert process.stderr.read() == "stopped by SIGINT: run the command again to go on\n"


def test_a_main_thread_that_cannot_be_interrupted_is_ended(tmp_path: Path) -> None:
    program = (
        "import sys, tempfile, threading\n"
        "from jobs.console.signals import ends_by_signal, watch_signals\n"
        "watch_signals()\n"
        "with ends_by_signal():\n"
        "    tempfile.mkdtemp(prefix='kraft-forensics-')\n"
        "    print('ready', flush=True)\n"
        "    while True:\n"
        "        try:\n"
        "            threading.Event().wait()\n"
        "        except BaseException:\n"
        "            pass\n"
    )
    with begun("-c", program, TMPDIR=str(tmp_path)) as process:
        assert process.stdout.readline() == "ready\n"
        assert list(tmp_path.iterdir()) != []
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (143, "stopped by SIGTERM: run the command again to go on\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_reader_of_stderr_that_does_not_read_keeps_nobody(number: signal.Signals) -> None:
    """The pipe is full: the line cannot be written, and a child runs."""
    mark = f"MARK={os.getpid()}-{number}"
    program = (
        "import os, subprocess, sys, threading\n"
        "from jobs.console.signals import ends_by_signal, watch_signals\n"
        "watch_signals()\n"
        "with ends_by_signal():\n"
        "    subprocess.Popen(['sleep', '600'])\n"
        "    os.set_blocking(2, False)\n"
        "    try:\n"
        "        while True:\n"
        "            os.write(2, b'x' * 4096)\n"
        "    except BlockingIOError:\n"
        "        os.set_blocking(2, True)\n"
        "    print('ready', flush=True)\n"
        "    threading.Event().wait()\n"
    )
    with begun("-c", program, MARK=mark[5:]) as process:
        assert process.stdout.readline() == "ready\n"
        # Linux shows an empty environment for the moment in which the child becomes `sleep`.
        until_s = time.monotonic() + GONE_S
        while len(processes_with(mark)) < 2 and time.monotonic() < until_s:
            time.sleep(0.05)
        assert len(processes_with(mark)) == 2
        process.send_signal(number)
        assert process.wait(GONE_S) == 128 + number
        assert left_with(mark) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["-m jobs.cli", "-c from jobs.cli import main; main()"])
def test_a_signal_while_python_imports_the_program(number: signal.Signals, name: str) -> None:
    # Python names each module on stderr when it has imported it.
    with begun("-X", "importtime", *name.split(" ", 1), "--help") as process:
        for line in process.stderr:
            if line.rstrip().endswith("click.exceptions"):
                break
        process.send_signal(number)
        out, rest = process.communicate(timeout=GONE_S)
    said = [line for line in rest.splitlines() if not line.startswith("import time:")]
    assert (process.returncode, out) == (128 + number, "")
    assert said == [f"stopped by {number.name}: run the command again to go on"]
