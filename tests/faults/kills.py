"""kill -9 of the driver, of the JVM and of a Python worker: at named steps, random moments and random file calls."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from tests.faults.ground import STEPS, Ground, LostError, Trial, ends_clearly, removed
from tests.faults.injector import Injection, Mode
from tests.faults.program import ALWAYS_SPARK, Running, started_anew
from tests.support.stopping import GONE_S, processes_with

_MARK = "TEST_FAULTS_RUN"  # in the environment of all children
_SPARK_STEPS = ("decoding", "replaying", "judging", "checking", "writing the report")
_IN_A_ROW = 4  # kills of one lake before a run is left alone


def trials(seed: int, moments: int) -> Iterator[tuple[str, str, Trial]]:
    """(fault, where, trial). moments: number of kills at random moments, and a quarter of it at file calls."""
    for step in STEPS:
        yield "kill -9 of the driver, no Spark", f"step `{step}`", at_step(step)
    for victim in ("driver", "JVM", "Python worker"):
        for step in _SPARK_STEPS:
            yield f"kill -9 of the {victim}, with Spark", f"step `{step}`", _with_spark(victim, step)
    source = random.Random(seed)
    for at in range(0, moments, _IN_A_ROW):
        shares = [source.random() for _ in range(min(_IN_A_ROW, moments - at))]
        yield "kill -9 of the driver, no Spark", "random moments", _at_moments(shares)
    for at in range(0, moments // 4, _IN_A_ROW):
        shares = [source.random() for _ in range(min(_IN_A_ROW, moments // 4 - at))]
        yield "kill -9 of the driver, no Spark", "random write calls (injector)", _at_calls(shares)


def at_step(step: str) -> Trial:
    def go(ground: Ground) -> int:
        place = ground.place()
        running = ground.run(place)
        if not running.wait_for(step):
            raise LostError(f"no line {step!r}: {running.ended()}")
        running.kill()
        _is_killed(running)
        ground.recovers(place)
        return 1

    return go


def _at_moments(shares: list[float]) -> Trial:
    """Shares of the time that a run takes. The next run goes on with the lake that the last one left."""

    def go(ground: Ground) -> int:
        place, killed = ground.place(), 0
        for share in shares:
            running = ground.run(place)
            running.wait(share * ground.seconds)
            running.kill()
            killed += running.ended().code == -signal.SIGKILL  # or it was faster this time
            ground.is_before_or_after(place / "lake")
        ground.converges(place)
        removed(place)
        return killed

    return go


def _at_calls(shares: list[float]) -> Trial:
    """Shares of the calls that write below the lake in a run: the call does not happen any more."""

    def go(ground: Ground) -> int:
        place, killed = ground.place(), 0
        for share in shares:
            killed += killed_at_call(ground, place, share)
            ground.is_before_or_after(place / "lake")
        ground.converges(place)
        removed(place)
        return killed

    return go


def killed_at_call(ground: Ground, place: Path, share: float) -> bool:
    """Kill a run at a share of the calls that write; False if it ended before, since it had less to write."""
    call = 1 + int(share * ground.writes)
    done = ground.run(place, injection=Injection(place / "lake", Mode.KILL, call)).ended()
    if done.code not in (0, -signal.SIGKILL):
        raise LostError(f"exit code {done.code}: {done.said[-600:]}")
    return done.code == -signal.SIGKILL


def _with_spark(victim: str, step: str) -> Trial:
    def go(ground: Ground) -> int:
        place, mark = ground.place(), uuid4().hex
        settings = {**ALWAYS_SPARK, "KRAFT_FORENSICS_QUALITY__SPARK_FROM_ROWS": "0", _MARK: mark}
        running = started_anew(place, ground.words(place), settings)
        if not running.wait_for(step):
            raise LostError(f"no line {step!r}: {running.ended()}")
        if victim == "driver":
            running.kill()
            _is_killed(running)
        else:
            killed = _kill_child(running, f"{_MARK}={mark}", victim)
            ends_clearly(running.ended())
            if not killed:
                return 0
        _all_gone(f"{_MARK}={mark}")
        ground.recovers(place)
        return 1

    return go


def _is_killed(running: Running) -> None:
    done = running.ended()
    if done.code != -signal.SIGKILL:
        raise LostError(f"ended with {done.code} before it was killed: {done.said[-600:]}")


def _kill_child(running: Running, setting: str, victim: str) -> bool:
    """Kill the JVM, or a Python worker as soon as there is one; False if the run ended before."""
    while not running.has_ended():
        found = [pid for pid in processes_with(setting) if _is(pid, victim)]
        if found:
            os.kill(found[-1], signal.SIGKILL)  # the newest: workers are forked from the first
            return True
        time.sleep(0.02)
    return False


def _is(pid: int, victim: str) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return (b"pyspark" in command and b"daemon" in command) if victim == "Python worker" else b"java" in command[:200]


def _all_gone(setting: str) -> None:
    until = time.monotonic() + GONE_S
    while left := processes_with(setting):
        if time.monotonic() > until:
            raise LostError(f"processes are left: {left}")
        time.sleep(0.1)
