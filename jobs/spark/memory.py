"""Give free memory back to the system: after large work Arrow and the C library keep hundreds of megabytes of it."""

from __future__ import annotations

import ctypes

import pyarrow as pa

_trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)  # glibc has it, other C libraries do not


def release() -> None:
    """Give it back. It takes milliseconds, so call it after much work only."""
    pa.default_memory_pool().release_unused()
    _trim(0)
