"""Ctrl-C and SIGTERM: within 5 s every command ends with one line, and neither files nor processes are left."""

from __future__ import annotations

import os
import signal
import time
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
_ENDLESS = "select count(*) from range(1000000000000) where sha2(cast(id as string), 256) = 'x'"
_SPARK_STEPS = ("opening", "decoding", "replaying", "judging", "checking")
_INTO_SPARK_S = 1.5
_DRILL = ("drill", "unclean_by_config", "--jars", str(ROOT / ".kafka" / "drill"))


@dataclass(frozen=True)
class _Stop:
    """When to stop which command. words: `{capture}`, `{lake}` and `{place}` are filled in. at: a line on its stderr,
    or the processor time that it has used, in seconds. pause_s: how much later. before: commands that run first.
    times: how often, by SIGINT and SIGTERM in turn."""

    words: Sequence[str]
    at: str | float
    pause_s: float = 0.0
    settings: Mapping[str, str] = field(default_factory=lambda: NEVER_SPARK)
    before: Sequence[Sequence[str]] = ()
    times: int = 4


_RUN, _LAKE = ("run", "{capture}", "--lake", "{lake}"), ("--lake", "{lake}")
# By stage: its command, and the step at which it is stopped.
_STAGES = {
    "ingest": (("ingest", "{capture}", *_LAKE), "decoding"),
    "replay": (("replay", *_LAKE), "replaying"),
    "detect": (("detect", *_LAKE), "judging"),
    "quality": (("quality", *_LAKE), "checking"),
}


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
    for stage, (words, step) in _STAGES.items():
        yield f"`{stage}`", _Stop(words, step, before=list(done))
        done.append(words)
    yield "`report`", _Stop(("report", "--output", "{place}/page.html", *_LAKE), 0.8)
    yield "`verify --all`", _Stop(("verify", "{lake}", "--all"), 1.5)
    yield "`maintain`", _Stop(("maintain", *_LAKE), 0.8)
    yield "`sql`, a statement of Spark", _Stop(("sql", _ENDLESS, *_LAKE), 25.0, settings=ALWAYS_SPARK)
    collect = ("collect", "--node", "1=ssh:node", "--output", "{place}/c")
    yield "`collect`, `ssh` does not answer", _Stop(collect, 0.1, 1)
    yield "`drill`, Kafka's nodes start", _Stop((*_DRILL, "--out", "{place}/drills"), "start 3 controllers", 4, times=2)
    yield "`drill`, a capture is made", _Stop((*_DRILL, "--out", "{place}/drills"), "capture", 0.3, times=2)


def _stopped(where: str, stop: _Stop) -> Trial:
    def go(ground: Ground) -> int:
        longest_s = 0.0
        for number in range(stop.times):
            place = ground.place()
            names = {"capture": str(ground.capture), "lake": str(place / "lake"), "place": str(place)}
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
