"""Captures of hostile sizes: refused with the setting's name, or read, within bounds of memory and time."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.faults.ground import Ground, LostError, Trial, removed
from tests.faults.program import NEVER_SPARK
from tests.support import writer
from tests.support.paths import ROOT
from tests.support.stopping import PROGRAM

FAULT = "hostile size"
EPOCH_LINES = 50_000_000
WINDOWS = 1_000_000
LINES = f"leader-epoch-checkpoint of {EPOCH_LINES:,} lines"
COUNTED = f"{LINES}, limits.text_file_bytes raised"
LARGER = {"KRAFT_FORENSICS_LIMITS__TEXT_FILE_BYTES": str(1 << 30)}
# More than is needed, and less than with a whole file, or what is worked out for windows, in memory.
_LINES_MIB, _WINDOWS_MIB = 400, 4500
_IN_A_BATCH = 10_000
_LINES_OF_A_PART = 8000
_LONGEST_S = 1800


def trials() -> Iterator[tuple[str, str, Trial]]:
    """(fault, where, trial)."""
    yield FAULT, LINES, epochs(LINES, {}, "limits.text_file_bytes")
    yield FAULT, COUNTED, epochs(COUNTED, LARGER, "limits.partition_lines")
    windows = f"{WINDOWS:,} windows of one partition"
    yield FAULT, windows, _windows(windows)


def epochs(where: str, settings: Mapping[str, str], setting: str) -> Trial:
    """The file is quarantined, and the rest of the capture is ingested. setting: which the reason names."""

    def go(ground: Ground) -> int:
        place = ground.folder / setting  # two of them may be tried at once
        write_epochs(place / "capture", EPOCH_LINES)
        words = ["ingest", str(place / "capture"), "--lake", str(place / "lake")]
        peak_mib, cpu_s = _ran(place, words, settings, 0, setting)
        ground.said[FAULT, where] = _bounded(peak_mib, _LINES_MIB, cpu_s)
        removed(place)
        return 1

    return go


def _windows(where: str) -> Trial:
    """Ingested and replayed; not judged."""

    def go(ground: Ground) -> int:
        place = ground.folder / "windows"
        write_windows(place / "capture", WINDOWS)
        lake = ["--lake", str(place / "lake")]
        said = []
        for words, code, text in (
            (["ingest", str(place / "capture")], 0, ""),
            (["replay"], 0, ""),
            (["detect"], 1, f"{WINDOWS} windows to judge, limits.topic_windows = 100000 allows fewer"),
        ):
            peak_mib, cpu_s = _ran(place, [*words, *lake], {}, code, text)
            said.append(f"{words[0]} {_bounded(peak_mib, _WINDOWS_MIB, cpu_s)}")
        ground.said[FAULT, where] = "; ".join(said)
        removed(place)
        return 1

    return go


def write_epochs(folder: Path, lines: int) -> None:
    """A capture of a broker with one leader-epoch-checkpoint of so many entries, the same ones again and again."""
    partition = folder / "snapshots" / "1795000000000" / "broker-1" / "orders-0"
    partition.mkdir(parents=True)
    (partition.parent / "meta.properties").write_text("node.id=1\ncluster.id=sizes\n")
    part = b"".join(b"%d %d\n" % (epoch, 10**6 + epoch) for epoch in range(1000, 1000 + _LINES_OF_A_PART))
    with (partition / "leader-epoch-checkpoint").open("wb") as file:
        file.write(b"0\n%d\n" % lines)
        for _ in range(lines // _LINES_OF_A_PART):
            file.write(part)


def write_windows(folder: Path, windows: int) -> None:
    """A capture of a controller whose log makes one partition leaderless, and gives it a leader again, so often."""
    log = folder / "controllers" / "3000" / "__cluster_metadata-0"
    log.mkdir(parents=True)
    (log.parent / "meta.properties").write_text("node.id=3000\ncluster.id=sizes\n")
    lists = b"".join(writer.int32s(v) for v in ([1, 2], [1, 2], [], []))
    body = struct.pack(">i", 0) + writer.TOPIC_ID + lists + struct.pack(">iii", 1, 0, 0) + b"\x01" + writer.tagged()
    leaders = [writer.partition_change(0, {1: struct.pack(">i", leader)}) for leader in (-1, 1)]
    # The base offset comes first in a batch, and its CRC does not cover it: all these batches are one.
    batch = writer.batch(leaders * min(_IN_A_BATCH // 2, windows))
    with (log / f"{0:020d}.log").open("wb") as file:
        file.write(writer.control_batch(writer.LEADER_CHANGE, writer.leader_change(), 0, 1))
        file.write(writer.batch([writer.topic("orders"), writer.frame(3, 2, body)], 1, 1))
        for first in range(3, 3 + 2 * windows, _IN_A_BATCH):
            file.write(struct.pack(">q", first) + batch[8:])


def _ran(place: Path, words: list[str], settings: Mapping[str, str], code: int, text: str) -> tuple[int, float]:
    """Peak of memory in MiB and processor time of a command that must end with this code, and say or store the text."""
    temporary = place / "tmp"
    temporary.mkdir(exist_ok=True)
    env = {**os.environ, **NEVER_SPARK, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT), **settings}
    measured = [sys.executable, "-m", "tests.faults.measured", *PROGRAM, *words]
    done = subprocess.run(measured, cwd=ROOT, env=env, stdout=subprocess.PIPE, check=True, timeout=_LONGEST_S)
    found = json.loads(done.stdout)
    if found["code"] != code or "Traceback" in found["said"] or text not in found["said"]:
        raise LostError(f"{words[0]}: exit code {found['code']}, without {text!r}: {found['said'][-600:]}")
    return found["peak_mib"], found["cpu_s"]


def _bounded(peak_mib: int, most_mib: int, cpu_s: float) -> str:
    if peak_mib > most_mib:
        raise LostError(f"{peak_mib} MiB of memory, more than {most_mib}")
    return f"{peak_mib:,} MiB, {cpu_s:.0f} s of CPU"
