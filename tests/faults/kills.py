"""kill -9 of the driver, of the JVM and of a Python worker: at named steps, random moments and random file calls."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.ground import STEPS, Ground, LostError, Trial, ends_clearly, on_a_copy, removed
from tests.faults.injector import Injection, Mode
from tests.faults.program import Running
from tests.support.stopping import GONE_S, processes_with

_SPARK_STEPS = ("decoding", "replaying", "judging", "checking", "writing the report")
_IN_A_ROW = 4  # kills of one lake before a run is left alone
_ONE_WITH_SPARK = 20  # of so many random moments
_TIMES, _EARLIER = 5, 0.9  # a moment after the end is tried again, earlier


def trials(seed: int, moments: int) -> Iterator[tuple[str, str, Trial]]:
    """(fault, where, trial). moments: number of kills at random moments, some of them
    with Spark, and a quarter of it at file calls."""
    for step in STEPS:
        yield "kill -9 of the driver, no Spark", f"step `{step}`", at_step(step)
    for victim in ("driver", "JVM", "Python worker"):
        for step in _SPARK_STEPS:
            yield f"kill -9 of the {victim}, with Spark", f"step `{step}`", _with_spark(victim, step)
    source = random.Random(seed)
    dear = -(-moments // _ONE_WITH_SPARK)
    for share in _spread(moments - dear, source):
        yield "kill -9 of the driver, no Spark", "random moments", _at_moment(share, with_spark=False)
    for share in _spread(dear, source):
        yield "kill -9 of the driver, with Spark", "random moments", _at_moment(share, with_spark=True)
    for at in range(0, moments // 4, _IN_A_ROW):
        shares = [source.random() for _ in range(min(_IN_A_ROW, moments // 4 - at))]
        yield "kill -9 of the driver, no Spark", "random write calls (injector)", _at_calls(shares)


def at_step(step: str) -> Trial:
    return on_a_copy(lambda ground, place: _killed_at(ground.run(place), step))


def _killed_at(running: Running, step: str) -> None:
    _at(running, step)
    running.kill()
    done = running.ended()
    if done.code != -signal.SIGKILL:
        raise LostError(f"ended with {done.code} before it was killed: {done.said[-600:]}")


def _at(running: Running, step: str) -> None:
    if not running.wait_for(step):
        raise LostError(f"no line {step!r}: {running.ended()}")


def _spread(count: int, source: random.Random) -> list[float]:
    """Random numbers in [0, 1), in any order: one in each of `count` equal parts."""
    found = [(part + source.random()) / count for part in range(count)]
    source.shuffle(found)
    return found


def _at_moment(share: float, with_spark: bool) -> Trial:
    """share: of the processor time that a run left alone takes; other work on the machine does not move it."""

    def go(ground: Ground) -> int:
        moment = share * ground.length_s(with_spark)
        for _ in range(_TIMES):
            place = ground.place()
            running = ground.run_with_spark(place) if with_spark else ground.run(place)
            running.wait_until(moment)
            running.kill()
            done = running.ended()
            if done.code == -signal.SIGKILL:
                _all_gone(running)
                ground.recovers(place)
                return 1
            ends_clearly(done, (0,))
            moment *= _EARLIER  # it was faster this time
            removed(place)
        return 0

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
    def act(ground: Ground, place: Path) -> bool:
        running, killed = ground.run_with_spark(place), True
        if victim == "driver":
            _killed_at(running, step)
        else:
            _at(running, step)
            killed = _kill_child(running, victim)
            ends_clearly(running.ended())
        _all_gone(running)
        return killed

    return on_a_copy(act)


def _kill_child(running: Running, victim: str) -> bool:
    """Kill the JVM, or a Python worker as soon as there is one; False if the run ended before."""
    while not running.has_ended():
        found = [pid for pid in processes_with(running.mark) if _is(pid, victim)]
        if found:
            os.kill(max(found), signal.SIGKILL)  # the newest: workers are forked from the first
            return True
        time.sleep(0.02)
    return False


def _is(pid: int, victim: str) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return (b"pyspark" in command and b"daemon" in command) if victim == "Python worker" else b"java" in command[:200]


def _all_gone(running: Running) -> None:
    until = time.monotonic() + GONE_S
    while left := processes_with(running.mark) if running.mark else []:
        if time.monotonic() > until:
            raise LostError(f"processes are left: {left}")
        time.sleep(0.1)
