"""Run the compiled loops over a range of consecutive batches: rows of partition records, and, in the order of the file,
what the loops leave to evidence/wire/records.py.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c
import numpy as np

from evidence.errors import Damage
from evidence.metadata_log import batch_kernel, partition_kernel
from evidence.metadata_log.batch_kernel import Array
from evidence.metadata_log.partition_kernel import Columns
from evidence.metadata_log.rows import heads
from evidence.wire.batches import Batch
from evidence.wire.records import Record, read_record, read_records

# Batches are grouped until they hold so many records or bytes. A Parsed has at most _MAX_ROWS rows, and its records at
# most _MAX_BYTES bytes.
_GROUP_RECORDS, _GROUP_BYTES = 32_768, 4 << 20
_MAX_ROWS, _MAX_BYTES = 65_536, 8 << 20


class Left(NamedTuple):
    """A record that the loop did not read, as in partition_kernel.Columns.left. number -1: the whole batch."""

    batch: Batch
    number: int
    position: int
    body: int
    end: int


class Parsed(NamedTuple):
    """The rows of one call of the loop, in the order of the file. columns: `rows` of them are filled."""

    rows: int
    columns: Columns


class CompiledReader:
    """Reads the batches of data[start:end). data: the whole file, or rows.read_byte_range's view of it. path: for
    errors."""

    def __init__(self, data: bytes, start: int, end: int, path: str) -> None:
        self.data, self.start, self.end, self.path = data, start, end, path
        self.bytes = np.frombuffer(data, dtype=np.uint8)
        self.bytes.flags.writeable = False  # the compiled loops get one array type, for any buffer

    def read(self) -> Iterator[tuple[Parsed | None, list[Left]]]:
        """All batches in the order of the file: rows, and what was left before, between and after them, by position.

        Errors: CaptureError when there is no good batch where one is expected: the file changed.
        """
        position = self.start
        while position < self.end:
            found, following = self._heads(position)
            if not len(found):
                # Not a batch that the compiled loop accepts: the Python reader decodes it or raises.
                whole = self._whole(position)
                yield None, [whole]
                position = whole.end
                continue
            position = following
            is_left = found[:, batch_kernel.STATE] == batch_kernel.LEFT_BATCH
            for run in np.split(found, np.flatnonzero(np.diff(is_left)) + 1):
                if run[0, batch_kernel.STATE] == batch_kernel.LEFT_BATCH:
                    yield None, [self._whole(start) for start in run[:, batch_kernel.POSITION].tolist()]
                    continue
                resume = np.zeros(3, dtype=np.int64)
                while resume[0] < len(run):
                    yield self._parsed(run, resume)

    def records(self, left: Left, show_secrets: bool = False) -> Iterator[Record | Damage]:
        """What the loop left, read by the Python reader."""
        if left.number < 0:
            yield from read_records(self.data, left.batch, show_secrets)
        else:
            yield read_record(self.data, *left, show_secrets)

    def _heads(self, position: int) -> tuple[Array, int]:
        """The heads of some batches from `position` on, and the position after them."""
        found = np.empty((_GROUP_RECORDS, batch_kernel.HEAD_FIELDS), dtype=np.int64)
        count, following = batch_kernel.find_heads(self.bytes, position, self.end, _GROUP_RECORDS, _GROUP_BYTES, found)
        found = found[:count]
        for i in np.flatnonzero(found[:, batch_kernel.STATE] == batch_kernel.PLAIN_UNCHECKED).tolist():
            start, size = found[i, batch_kernel.POSITION].item(), found[i, batch_kernel.SIZE].item()
            if google_crc32c.value(self.data[start + 21 : start + size]) != found[i, batch_kernel.CRC]:
                return found[:i], start
        return found, following

    def _parsed(self, run: Array, resume: Array) -> tuple[Parsed | None, list[Left]]:
        rows = min(int(run[:, batch_kernel.COUNT].sum()), _MAX_ROWS)
        size = min(int(run[:, batch_kernel.SIZE].sum()), _MAX_BYTES)
        columns = partition_kernel.columns(rows, size)
        count, left = partition_kernel.parse(self.bytes, run, resume, size, columns)
        return Parsed(count, columns) if count else None, self._left(run, columns.left[:left])

    def _left(self, run: Array, left: Array) -> list[Left]:
        found: list[Left] = []
        for head, number, position, body, end in left.tolist():
            start = run[head, batch_kernel.POSITION].item()
            if number < 0:
                found.append(self._whole(start))
            else:
                same = found and found[-1].batch.position == start
                found.append(Left(found[-1].batch if same else self._head(start), number, position, body, end))
        return found

    def _whole(self, position: int) -> Left:
        batch = self._head(position)
        return Left(batch, -1, position, position, batch.end)

    def _head(self, position: int) -> Batch:
        return next(heads(self.data, position, self.end, self.path))


def compile_loops() -> None:
    """Run every compiled loop once, on a batch with one PartitionChangeRecord: numba keeps what it compiles, so that no
    later process compiles."""
    value = bytes((1, 5, 0)) + bytes(21)  # frame 1, type 5, version 0; partition 0 of the zero id, no tagged fields
    record = bytes((0, 0, 0, 1, 2 * len(value))) + value + bytes(1)
    after_crc = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + bytes((2 * len(record),)) + record
    checked = struct.pack(">ibI", 0, 2, google_crc32c.value(after_crc)) + after_crc
    batch = struct.pack(">qi", 0, len(checked)) + checked
    for _ in CompiledReader(batch, 0, len(batch), "").read():
        pass
