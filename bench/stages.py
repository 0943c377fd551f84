"""The stages that need no JVM, from the bytes of a log to its history.

One run of a stage is a sequence of works. Only the time of their calls counts, not the time between them, such as that
of reading the next bucket.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import google_crc32c
import numpy as np

from bench.prepared import CAPTURE, Prepared
from evidence.capture.files import open_capture
from evidence.metadata_log.columns import decode_arrow
from evidence.metadata_log.rows import ByteRange
from evidence.metadata_log.scan import scan_files
from evidence.wire.batches import Batches, scan_batches
from replay.partitions.reducer import build_history

_CRC_FROM = 21  # of a batch: its CRC32C covers the attributes and what follows


@dataclass(frozen=True, slots=True)
class Work:
    """call: the function to time. rows: the number of rows it processes, 0 if it processes none; None: the call returns
    the number."""

    call: Callable[[], Any]
    rows: int | None = 0


@dataclass(frozen=True, slots=True)
class Stage:
    """run: the works of one run. floor: the stage that does only the unavoidable work of this one. replays: it reads a
    log's partition changes, which are prepared first (bench/prepared.py)."""

    run: Callable[[Prepared], Iterator[Work]]
    floor: str | None = None
    replays: bool = False


def _read(inputs: Prepared) -> Iterator[Work]:
    for file in inputs.files:
        yield Work(file.read_bytes)


def _sha256(inputs: Prepared) -> Iterator[Work]:
    for file in inputs.files:
        data = file.read_bytes()
        yield Work(partial(sha256, data))


def _crc(inputs: Prepared) -> Iterator[Work]:
    for file in inputs.files:
        data = file.read_bytes()
        yield Work(partial(_checked, data, scan_batches(data).batches), None)


def _checked(data: bytes, batches: Batches) -> int:
    """The number of records in batches whose CRC32C is right."""
    value = google_crc32c.value
    return sum(b.record_count for b in batches if value(data[b.position + _CRC_FROM : b.end]) == b.crc)


def _frame(inputs: Prepared) -> Iterator[Work]:
    yield Work(partial(_framed, inputs), None)


def _framed(inputs: Prepared) -> int:
    with open_capture(inputs.source) as capture:
        scanned = scan_files(capture.files)
    return scanned.batches.record_count + sum(b.record_count for s in scanned.snapshots for b in s.batches)


def _decode(inputs: Prepared) -> Iterator[Work]:
    for data, work in inputs.ranges():
        yield Work(partial(_decoded, data, work), None)


def _decoded(data: Any, work: ByteRange) -> int:
    return sum(batch.column("damage").null_count for batch in decode_arrow(data, work, CAPTURE))


def _reduce(inputs: Prepared) -> Iterator[Work]:
    state = inputs.state()
    for changes in inputs.changes():
        yield Work(partial(build_history, changes, state.topic_events, state.configs), len(changes))


def _sort(inputs: Prepared) -> Iterator[Work]:
    """The floor of reduce and detect: a history must be in order."""
    for changes in inputs.changes():
        topic = changes["topic_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        keys = (changes["offset"].to_numpy(), changes["partition"].to_numpy(), topic)
        yield Work(partial(np.lexsort, keys), len(changes))


STAGES = {
    "read": Stage(_read),
    "sha256": Stage(_sha256),
    "crc": Stage(_crc, floor="read"),
    "frame": Stage(_frame, floor="sha256"),
    "decode": Stage(_decode, floor="sha256"),
    "sort": Stage(_sort, replays=True),
    "reduce": Stage(_reduce, floor="sort", replays=True),
}
