"""Decode ranges of batches into Arrow by column: the rows of `decode_range`, many times as fast.

Large ranges of uncompressed batches go through compiled loops (evidence/metadata_log/compiled_reader.py), which skip
whatever is in doubt. evidence/wire/records.py reads the skipped records and all small ranges. Both give the same rows.
"""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence import kinds, tables
from evidence.capture.accounts import damage_columns
from evidence.errors import Damage
from evidence.metadata_log.record_text import without_text
from evidence.metadata_log.rows import PAYLOADS, ByteRange, decode_range, record_row
from evidence.tables import Row

if TYPE_CHECKING:
    from evidence.metadata_log.compiled_reader import Parsed

Array = np.ndarray[Any, Any]

DAMAGE = pa.struct(
    [
        (name, tables.QUARANTINE.field(name).type)
        for name in ("position", "length_bytes", "offset", "reason", "message", "raw")
    ]
)
# A record (the columns of snapshot_records; holds: see ByteRange), or a damage, with null for all columns but those of
# the file.
DECODED = pa.schema([*tables.SNAPSHOT_RECORDS, pa.field("holds", pa.string()), pa.field("damage", DAMAGE)])

# Smaller ranges are decoded without the compiled loops: loading these takes about a second, and starting them costs
# time even if they are loaded.
COMPILED_FROM_BYTES = 512 << 10
LOADED_FROM_BYTES = 8 << 10
_CHUNK_ROWS = 20_000
_LIST_NAMES = ("replicas", "isr", "removing_replicas", "adding_replicas", "elr", "last_known_elr", "directories")
_SCALAR_NAMES = ("leader", "leader_epoch", "partition_epoch", "leader_recovery_state")


def decode_arrow(
    data: bytes, work: ByteRange, capture: str, compiled_from: int | None = None
) -> Iterator[pa.RecordBatch]:
    """DECODED batches of a range, in no particular order.

    data: the whole file, or read_byte_range's view of it. compiled_from: the number of bytes from which the compiled
    loops are used; None: chosen by speed.
    Errors: CaptureError when the file changed since it was framed.
    """
    if compiled_from is None:
        is_loaded = "evidence.metadata_log.partition_kernel" in sys.modules
        compiled_from = LOADED_FROM_BYTES if is_loaded else COMPILED_FROM_BYTES
    if work.kind == kinds.DUMP_LOG or work.holds == PAYLOADS or work.end - work.start < compiled_from:
        yield from item_batches(decode_range(data, work, capture), data, work, capture)
    else:
        yield from CompiledDecoder(data, work, capture).decode()


def arrow_batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows as record batches of limited size."""
    rows = iter(rows)
    while chunk := list(islice(rows, _CHUNK_ROWS)):
        yield from pa.Table.from_pylist(chunk, schema=schema).to_batches()


def item_batches(items: Iterable[Row | Damage], data: bytes, work: ByteRange, capture: str) -> Iterator[pa.RecordBatch]:
    """DECODED batches of rows of `decode_range`, and of damage in the same file."""
    return map(without_text, arrow_batches(_rows(items, data, work, capture), DECODED))


def _rows(items: Iterable[Row | Damage], data: bytes, work: ByteRange, capture: str) -> Iterator[Row]:
    place = {"capture": capture, "path": work.path, "sha256": work.sha256}
    for item in items:
        if isinstance(item, Damage):
            yield {**place, "damage": damage_columns(data, work.path, item)}
        else:
            yield {**item, "holds": work.holds}


class CompiledDecoder:
    """Decodes one range; see decode_arrow. compiled_rows: number of rows from the compiled loops so far."""

    def __init__(self, data: bytes, work: ByteRange, capture: str) -> None:
        from evidence.metadata_log import partition_kernel
        from evidence.metadata_log.compiled_reader import CompiledReader

        self.records = partition_kernel
        self.data, self.work, self.capture = data, work, capture
        self.reader = CompiledReader(data, work.start, work.end, work.path)
        self.compiled_rows = 0
        constant: Row = {
            "capture": capture,
            "path": work.path,
            "sha256": work.sha256,
            "snapshot_end_offset": work.snapshot_end_offset,
            "snapshot_epoch": work.snapshot_epoch,
            "holds": work.holds,
            "damage": None,
            "is_control": False,
        }
        self.scalars = {name: pa.scalar(value, DECODED.field(name).type) for name, value in constant.items()}
        self.constants: dict[str, pa.Array] = {}

    def decode(self) -> Iterator[pa.RecordBatch]:
        """All rows and damage of the range, from the compiled loops and, for the rest, from the Python reader."""
        waiting: list[Row | Damage] = []
        for parsed, left in self.reader.read():
            if parsed:
                self.compiled_rows += parsed.rows
                yield self._arrow(parsed)
            for found in left:
                for item in self.reader.records(found, self.work.show_secrets):
                    row = item if isinstance(item, Damage) else record_row(self.capture, self.work, found.batch, item)
                    waiting.append(row)
                    if len(waiting) == _CHUNK_ROWS:
                        yield from item_batches(waiting, self.data, self.work, self.capture)
                        waiting = []
        yield from item_batches(waiting, self.data, self.work, self.capture)

    def _arrow(self, parsed: "Parsed") -> pa.RecordBatch:
        """The rows of one call of the loop, as DECODED."""
        kernel, columns, count = self.records, parsed.columns, parsed.rows
        longs, flags = columns.longs[:, :count], columns.flags[:, :count]
        arrays = self._constants(count) | {
            "offset": pa.array(longs[kernel.OFFSET]),
            "epoch": pa.array(columns.ints[kernel.BATCH_EPOCH, :count]),
            "timestamp_ms": pa.array(longs[kernel.TIMESTAMP]),
            "type": kernel.TYPES.take(pa.array(flags[kernel.KIND])),
            "version": pa.array(flags[kernel.VERSION].astype(np.int16)),
            "payload": pc.if_else(pa.array(flags[kernel.KIND] == kernel.NO_OP), "{}", None),
            "partition_change": partition_changes(parsed),
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


def partition_changes(parsed: "Parsed") -> pa.Array:
    """The partition_change column of rows."""
    from evidence.metadata_log import partition_kernel as kernel

    columns, count = parsed.columns, parsed.rows
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
