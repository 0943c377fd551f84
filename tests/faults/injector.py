"""Faults in the file calls and the clock of one process: a small library in C that is preloaded into it."""

import ctypes
import subprocess
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

_SOURCE = Path(__file__).with_name("injector.c")
ALL = 2**62  # as the last call: all from the first on


class Mode(IntEnum):
    """What happens at a call; in the order of injector.c."""

    COUNT = 1
    KILL = 2
    FAIL = 3
    SLOW = 4
    CLOCK = 5


@dataclass(frozen=True)
class Injection:
    """Calls number first to last on files below `folder`, counted from 1, get a fault. on_reads: count calls that read,
    instead of those that write. value: an errno, or a pause in ms. shift_s: seconds to add to the clock."""

    folder: Path
    mode: Mode
    first: int = 1
    last: int = ALL
    value: int = 0
    on_reads: bool = False
    shift_s: int = 0

    def arm(self) -> None:
        """Begin, in this process, which has the library preloaded."""
        library = ctypes.CDLL(None)
        library.faults_arm.argtypes = [
            ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_int, ctypes.c_long,
        ]  # fmt: skip
        library.faults_arm(
            bytes(self.folder.resolve()), self.mode, self.on_reads, self.first, self.last, self.value, self.shift_s
        )


def calls() -> int:
    """How many calls this process has made since it was armed."""
    library = ctypes.CDLL(None)
    library.faults_calls.restype = ctypes.c_long
    return int(library.faults_calls())


def build(folder: Path) -> Path:
    """Compile the library with the system's C compiler. Errors: CalledProcessError."""
    target = folder / "injector.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", target, _SOURCE, "-ldl", "-pthread"], check=True)
    return target
