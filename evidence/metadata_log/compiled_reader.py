"""Decode a range of consecutive batches with the compiled loops, and what these leave with evidence/wire/records.py."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence import tables
from evidence.errors import Damage
from evidence.metadata_log import partition_kernel
from evidence.metadata_log.columns import DECODED, item_batches
from evidence.metadata_log.partition_kernel import Array, Columns
from evidence.metadata_log.rows import ByteRange, heads, record_row
from evidence.tables import Row
from evidence.wire.batches import Batch
from evidence.wire.records import Record, read_record, read_records

_LIST_NAMES = ("replicas", "isr", "removing_replicas", "adding_replicas", "elr", "last_known_elr", "directories")
_OF_RANGE = ("path", "sha256", "snapshot_end_offset", "snapshot_epoch", "holds")
_SCALAR_NAMES = ("leader", "leader_epoch", "partition_epoch", "leader_recovery_state")
# Batches are grouped until they hold so many records or bytes. A controller writes no larger batch, into a snapshot
# either (KafkaRaftClient.MAX_BATCH_SIZE_BYTES).
_GROUP_RECORDS, _GROUP_BYTES = 32_768, 8 << 20
_LEFT_ROWS = 20_000  # of the Python reader, which are held until there are so many


class CompiledDecoder:
    """Decodes one range; see columns.decode_arrow. compiled_rows: number of rows from the compiled loops so far."""

    def __init__(self, data: bytes, work: ByteRange, capture: str) -> None:
        self.data, self.work, self.capture = data, work, capture
        self.bytes = np.frombuffer(data, dtype=np.uint8)
        self.bytes.flags.writeable = False  # the compiled loops get one array type, for any buffer
        self.compiled_rows = 0
        constant: Row = {
            **{name: getattr(work, name) for name in _OF_RANGE},
            "capture": capture,
            "damage": None,
            "is_control": False,
        }
        self.scalars = {name: pa.scalar(value, DECODED.field(name).type) for name, value in constant.items()}
        self.constants: dict[str, pa.Array] = {}

    def decode(self) -> Iterator[pa.RecordBatch]:
        """All rows and damage of the range, from the compiled loops and, for the rest, from the Python reader.

        Errors: CaptureError when there is no good batch where one is expected: the file changed.
        """
        left: list[Row | Damage] = []
        for found in self._read():
            if isinstance(found, pa.RecordBatch):
                yield found
            else:
                left.append(found)
            if len(left) >= _LEFT_ROWS:
                yield from item_batches(left, self.data, self.work, self.capture)
                left.clear()
        yield from item_batches(left, self.data, self.work, self.capture)

    def _read(self) -> Iterator[Any]:
        """DECODED batches of the loops; a row or Damage of each record that these leave."""
        position = self.work.start
        while position < self.work.end:
            found, following = self._heads(position)
            if len(found):
                yield from self._parsed(found)
            else:
                # Not a batch that the compiled loop accepts: the Python reader decodes it or raises.
                batch = self._head(position)
                yield from self._whole(batch)
                following = batch.end
            position = following

    def _heads(self, position: int) -> tuple[Array, int]:
        """The heads of some plain batches from `position` on, whose CRCs hold, and the position after them."""
        end, found = self.work.end, np.empty((_GROUP_RECORDS, partition_kernel.HEAD_FIELDS), dtype=np.int64)
        count, following = partition_kernel.find_heads(self.bytes, position, end, _GROUP_RECORDS, _GROUP_BYTES, found)
        found = found[:count]
        starts = found[:, partition_kernel.POSITION]
        covered = map(slice, (starts + 21).tolist(), (starts + found[:, partition_kernel.SIZE]).tolist())
        crcs = np.array([google_crc32c.value(self.data[part]) for part in covered], dtype=np.int64)
        for wrong in np.flatnonzero(crcs != found[:, partition_kernel.CRC])[:1].tolist():
            return found[:wrong], starts[wrong].item()
        return found, following

    def _parsed(self, run: Array) -> Iterator[Any]:
        """As `_read`, of one call of the loop."""
        columns = partition_kernel.columns(run[:, partition_kernel.COUNT].sum(), run[:, partition_kernel.SIZE].sum())
        count, left = partition_kernel.parse(self.bytes, run, columns)
        self.compiled_rows += count
        if count:
            yield self._arrow(columns, count)
        batch: Batch | None = None
        for head, number, at, body, end in columns.left[:left].tolist():
            start = run[head, partition_kernel.POSITION].item()
            batch = batch if batch and batch.position == start else self._head(start)
            if number < 0:
                yield from self._whole(batch)
            else:
                record = read_record(self.data[body:end], batch, number, at, end - at, self.work.show_secrets)
                yield self._row(batch, record)

    def _whole(self, batch: Batch) -> Iterator[Row | Damage]:
        return (self._row(batch, item) for item in read_records(self.data, batch, self.work.show_secrets))

    def _row(self, batch: Batch, item: Record | Damage) -> Row | Damage:
        return item if isinstance(item, Damage) else record_row(self.capture, self.work, batch, item)

    def _head(self, position: int) -> Batch:
        return next(heads(self.data, position, self.work.end, self.work.path))

    def _arrow(self, columns: Columns, count: int) -> pa.RecordBatch:
        """The first rows of one call of the loop, as DECODED."""
        kernel = partition_kernel
        longs, flags = columns.longs[:, :count], columns.flags[:, :count]
        arrays = self._constants(count) | {
            "offset": pa.array(longs[kernel.OFFSET]),
            "epoch": pa.array(columns.ints[kernel.BATCH_EPOCH, :count]),
            "timestamp_ms": pa.array(longs[kernel.TIMESTAMP]),
            "type": kernel.TYPES.take(pa.array(flags[kernel.KIND])),
            "version": pa.array(flags[kernel.VERSION].astype(np.int16)),
            "payload": pc.if_else(pa.array(flags[kernel.KIND] == kernel.NO_OP), "{}", None),
            "partition_change": partition_changes(columns, count),
            "batch_base_offset": pa.array(longs[kernel.FIRST_OFFSET]),
            "batch_crc": pa.array(longs[kernel.BATCH_CRC]),
            "position": pa.array(longs[kernel.AT]),
        }
        return pa.RecordBatch.from_arrays([arrays[name] for name in DECODED.names], schema=DECODED)

    def _constants(self, count: int) -> dict[str, pa.Array]:
        """The columns that have one value in the whole range."""
        if not self.constants or len(self.constants["holds"]) < count:
            room = (count // 4096 + 1) * 4096
            self.constants = {name: pa.repeat(value, room) for name, value in self.scalars.items()}
        return {name: array.slice(0, count) for name, array in self.constants.items()}


def partition_changes(columns: Columns, count: int) -> pa.Array:
    """The partition_change column of the first rows."""
    kernel = partition_kernel
    bits = np.packbits(columns.flags[: kernel.CHANGE_VALID + 1, :count], axis=1, bitorder="little")
    valid = [pa.py_buffer(row) for row in bits]
    ends = columns.ends[:, : count + 1]
    uuids = int(ends[kernel.DIRECTORIES, -1])
    fields = {
        "topic_id": _strings(columns.topics, _uuid_offsets(count)),
        "partition": pa.array(columns.ints[kernel.PARTITION, :count]),
    }
    for which, name in enumerate(_SCALAR_NAMES, kernel.LEADER):
        values = columns.ints[which - kernel.LISTS, :count]
        fields[name] = pa.Array.from_buffers(pa.int32(), count, [valid[which], pa.py_buffer(values)])
    fields["leader_recovery_state"] = fields["leader_recovery_state"].cast(pa.int8())
    elements = [pa.array(values[: ends[which, -1]].copy()) for which, values in enumerate(columns.numbers)]
    elements.append(_strings(columns.directories[: kernel.UUID_TEXT // 2 * uuids].copy(), _uuid_offsets(uuids)))
    for which, name in enumerate(_LIST_NAMES):
        dtype = tables.PARTITION_CHANGE.field(name).type
        buffers = [valid[which], pa.py_buffer(ends[which])]
        fields[name] = pa.Array.from_buffers(dtype, count, buffers, children=[elements[which]])
    children = [fields[field.name] for field in tables.PARTITION_CHANGE]
    return pa.Array.from_buffers(tables.PARTITION_CHANGE, count, [valid[kernel.CHANGE_VALID]], children=children)


def _uuid_offsets(count: int) -> Array:
    """The string offsets of `count` UUIDs as text."""
    return np.arange(0, 22 * (count + 1), 22, dtype=np.int32)


def _strings(text: Array, offsets: Array) -> pa.Array:
    """A string column from its bytes and offsets."""
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(text))


def compile_loops() -> None:
    """Run every compiled loop once, on a batch with one PartitionChangeRecord: numba keeps what it compiles, so that no
    later process compiles."""
    value = bytes((1, 5, 0)) + bytes(21)  # frame 1, type 5, version 0; partition 0 of the zero id, no tagged fields
    record = bytes((0, 0, 0, 1, 2 * len(value))) + value + bytes(1)
    after_crc = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + bytes((2 * len(record),)) + record
    checked = struct.pack(">ibI", 0, 2, google_crc32c.value(after_crc)) + after_crc
    batch = struct.pack(">qi", 0, len(checked)) + checked
    for _ in CompiledDecoder(batch, ByteRange(Path(), "", "", "", 0, len(batch)), "").decode():
        pass
