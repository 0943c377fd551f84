"""Decode ranges of batches into Arrow by column: the rows of `decode_range`, many times as fast.

Large ranges of uncompressed batches go through compiled loops (evidence/metadata_log/compiled_reader.py), which skip
whatever is in doubt. evidence/wire/records.py reads the skipped records and all small ranges. Both give the same rows.
"""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice

import pyarrow as pa

from evidence import kinds, tables
from evidence.capture.accounts import damage_columns
from evidence.errors import Damage
from evidence.metadata_log.record_text import without_text
from evidence.metadata_log.rows import PAYLOADS, ByteRange, decode_range
from evidence.tables import Row

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
        from evidence.metadata_log.compiled_reader import CompiledDecoder

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
