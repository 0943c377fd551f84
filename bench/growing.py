"""A log that grows: append the batches of a written log to a copy at a rate, for a `watch` beside it.

    python -m bench.growing LOG FOLDER RATE SECONDS

Prints a line for each second: time (ms), the first metadata offset that is not appended yet.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bench.inputs import METADATA_LOG, SEGMENT
from evidence.wire.batches import scan_batches

_AT_ONCE = 1 << 24


def grow(log: Path, folder: Path, rate: int, seconds: int) -> None:
    """Append so many records a second, in whole batches. The first `_AT_ONCE` bytes that hold topics go at once."""
    target = folder / METADATA_LOG / SEGMENT
    target.parent.mkdir(parents=True, exist_ok=True)
    begun, appended, start = time.time(), 0, None
    with log.open("rb") as source, target.open("wb") as copy:
        rest = b""
        while data := source.read(_AT_ONCE):
            rest += data
            batches = scan_batches(rest).batches
            for batch in batches:
                copy.write(rest[batch.position : batch.end])
                appended = batch.last_offset + 1
                start = appended if start is None else start
                due = begun + (appended - start) / rate
                if due > time.time():
                    copy.flush()
                    print(int(time.time() * 1000), appended, flush=True)
                    time.sleep(max(0.0, min(1.0, due + 0.5 - time.time())))
                if time.time() > begun + seconds:
                    return
            rest = rest[batches[-1].end :] if batches else rest


if __name__ == "__main__":
    grow(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
