"""Sample the memory of a process and its descendants in /proc, every 200 ms.

The memory of a process is its PSS (smaps_rollup), which divides a page among the processes that share it. If the kernel
does not show that, it is the RSS, which counts shared pages once per process.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from pathlib import Path

_EVERY_S = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


class Sampler:
    """Peaks in bytes during the block. driver: the process itself; jvm: its Java descendants; worker: the largest
    Python process below; workers, all: the sum of those, and of everything, at one time. kind: PSS or RSS."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.peaks = dict.fromkeys(("driver", "jvm", "worker", "workers", "all"), 0)
        self.kind = "PSS"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def mib(self) -> dict[str, int]:
        return {name: size >> 20 for name, size in self.peaks.items()}

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            self.look()

    def look(self) -> None:
        """Take one sample."""
        names = processes_below(self.pid)
        sizes = {pid: self._size_bytes(pid) for pid in names}
        workers = [sizes[pid] for pid, name in names.items() if pid != self.pid and name.startswith("python")]
        now = {
            "driver": sizes.get(self.pid, 0),
            "jvm": sum(sizes[pid] for pid, name in names.items() if name == "java"),
            "worker": max(workers, default=0),
            "workers": sum(workers),
            "all": sum(sizes.values()),
        }
        self.peaks = {name: max(size, now[name]) for name, size in self.peaks.items()}

    def _size_bytes(self, pid: int) -> int:
        """The memory of a process in bytes; 0 if it has ended."""
        try:
            lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
            return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
        except PermissionError:
            self.kind = "RSS"
            return int((_PROC / str(pid) / "statm").read_text().split()[1]) * _PAGE
        except (FileNotFoundError, ProcessLookupError):
            return 0


def processes_below(pid: int) -> dict[int, str]:
    """The process and its descendants: process id -> program name."""
    children: dict[int, list[int]] = defaultdict(list)
    names: dict[int, str] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit() and (status := _stat(folder)):
            names[int(folder.name)], parent = status
            children[parent].append(int(folder.name))
    found, waiting = {}, [pid]
    while waiting:
        each = waiting.pop()
        if each in names:
            found[each] = names[each]
            waiting += children[each]
    return found


def _stat(folder: Path) -> tuple[str, int] | None:
    """(name, parent) of a process; None if it has ended. The name may hold blanks and brackets."""
    try:
        begin, _, rest = (folder / "stat").read_text().rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return begin.partition("(")[2], int(rest.split()[1])
