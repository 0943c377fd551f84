"""Ctrl-C and SIGTERM: within 5 s every command ends with one line, and neither files nor processes are left."""

import os
import signal
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.ground import STEPS, Ground, LostError, Trial, ends_clearly
from tests.faults.program import ALWAYS_SPARK, NEVER_SPARK, Running, started_anew
from tests.support.paths import ROOT
from tests.support.stopping import processes_with

FAULT = "Ctrl-C, SIGTERM"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
_MOST_S = 5.0
_SPARK_STEPS = ("opening", "decoding", "replaying", "judging", "checking")
_INTO_SPARK_S = 1.5
_JARS = str(ROOT / ".kafka" / "drill")


@dataclass(frozen=True)
class _Stop:
    """When to stop which command. words: `{capture}`, `{lake}`, `{place}` and `{jars}` are filled in. at: a line on its
    stderr, or the processor time that it has used, in seconds. pause_s: how much later. before: commands that run
    first. times: how often, by SIGINT and SIGTERM in turn."""

    words: Sequence[str]
    at: str | float
    pause_s: float = 0.0
    settings: Mapping[str, str] = field(default_factory=lambda: NEVER_SPARK)
    before: Sequence[Sequence[str]] = ()
    times: int = 4


_RUN = ("run", "{capture}", "--lake", "{lake}")


def trials() -> Iterator[tuple[str, str, Trial]]:
    """(fault, where, trial)."""
    for where, stop in _stops():
        yield FAULT, where, _stopped(where, stop)


def _stops() -> Iterator[tuple[str, _Stop]]:
    for step in STEPS:
        yield f"`run`, step `{step}`", _Stop(_RUN, step)
    for step in _SPARK_STEPS:
        yield f"`run` with Spark, step `{step}`", _Stop(_RUN, step, _INTO_SPARK_S, Ground.spark)
    done: list[Sequence[str]] = []
    for row in tomllib.loads(Path(__file__).with_name("stops.toml").read_text(encoding="utf-8"))["stop"]:
        where, is_stage = row.pop("where"), row.pop("stage", False)
        settings = ALWAYS_SPARK if row.pop("with_spark", False) else NEVER_SPARK
        yield where, _Stop(**row, settings=settings, before=list(done) if is_stage else ())
        done += [row["words"]] if is_stage else []


def _stopped(where: str, stop: _Stop) -> Trial:
    def go(ground: Ground) -> int:
        longest_s = 0.0
        for number in range(stop.times):
            place = ground.place()
            names = {"capture": str(ground.capture), "lake": str(place / "lake"), "place": str(place), "jars": _JARS}
            settings = {**stop.settings, "PATH": f"{_with_silent_ssh(place)}:{os.environ['PATH']}"}
            for words in stop.before:
                ends_clearly(started_anew(place, _filled(words, names), settings).ended(), (0,))
            running = started_anew(place, _filled(stop.words, names), settings)
            longest_s = max(longest_s, _send(running, stop, SIGNALS[number % len(SIGNALS)]))
            if left := [file.name for file in (place / "tmp").iterdir()]:
                raise LostError(f"temporary files are left: {', '.join(left)}")
            ground.recovers(place)
        ground.said[FAULT, where] = f"{longest_s:.1f} s at most"
        return stop.times

    return go


def _send(running: Running, stop: _Stop, number: signal.Signals) -> float:
    """Stop a command when it is there. Returns the seconds until it has ended."""
    if isinstance(stop.at, str):
        running.wait_for(stop.at)
    else:
        running.wait_until(stop.at)
    time.sleep(stop.pause_s)
    sent = time.monotonic()
    os.kill(running.pid, number)
    done = ends_clearly(running.ended(), (128 + number,))
    seconds = time.monotonic() - sent
    if seconds > _MOST_S:
        raise LostError(f"ended {seconds:.1f} s after {number.name}")
    if done.said.splitlines()[-1] != f"stopped by {number.name}: run the command again to go on":
        raise LostError(f"other last words: {done.said[-600:]}")
    if left := processes_with(running.mark):
        raise LostError(f"processes are left: {left}")
    return seconds


def _filled(words: Sequence[str], names: Mapping[str, str]) -> list[str]:
    return [word.format(**names) for word in words]


def _with_silent_ssh(place: Path) -> Path:
    """A folder with an `ssh` that never answers."""
    folder = place / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / "ssh"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    return folder
