"""A log that grows: append the batches of a written log to a copy at a rate, for a `watch` beside it.

    python -m tests.bench.growing LOG FOLDER RATE SECONDS
    python -m tests.bench.growing --quiet LOG OUT RECORDS CHANGES

Prints a line for each second: time (ms), the first metadata offset that is not appended yet. --quiet writes a log of so
many records: the first CHANGES of LOG, and all others no-ops in between, as a controller without work writes two a
second.
"""

from __future__ import annotations

import struct
import sys
import time
from pathlib import Path

from evidence.wire.batches import scan_batches
from tests.bench.inputs import METADATA_LOG, SEGMENT
from tests.support import writer

_AT_ONCE = 1 << 24
_AT_A_TIME = 1000  # no-ops in a batch


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


def dilute(log: Path, out: Path, records: int, changes: int) -> None:
    """Write a quiet log. Offsets and epochs are not under a batch's checksum (Kafka's DefaultRecordBatch)."""
    data = log.read_bytes()
    batches = [batch for batch in scan_batches(data).batches if batch.base_offset < changes]
    no_ops = writer.batch([writer.no_op()] * _AT_A_TIME, timestamp_ms=batches[-1].max_timestamp_ms)
    each = max(0, records - changes) // len(batches) // _AT_A_TIME
    offset = 0
    with out.open("wb") as file:
        for batch in batches:
            for content, count in (
                (data[batch.position : batch.end], batch.last_offset - batch.base_offset + 1),
                *[(no_ops, _AT_A_TIME)] * each,
            ):
                file.write(struct.pack(">q", offset) + content[8:12] + struct.pack(">i", batch.epoch) + content[16:])
                offset += count


if __name__ == "__main__":
    if sys.argv[1] == "--quiet":
        dilute(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
        raise SystemExit
    grow(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
