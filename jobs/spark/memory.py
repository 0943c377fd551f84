"""The memory of a process: how much it took at most, and what is free is given back to the system. After large work
Arrow and the C library keep hundreds of megabytes of it.

Source: Linux, proc_pid_status(5) (VmHWM) and proc_pid_clear_refs(5).
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

_trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)  # glibc has it, other C libraries do not


def release() -> None:
    """Give it back. It takes milliseconds, so call it after much work only."""
    pa.default_memory_pool().release_unused()
    _trim(0)


def forget_peak() -> None:
    """Begin to measure anew: `peak_bytes` is of what comes from now on."""
    with suppress(OSError):  # no Linux, or not allowed: then it is of the whole process
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int | None:
    """The most resident memory of this process; None where the system does not say."""
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)
    return None
