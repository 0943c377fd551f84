"""Lines of `inspect` from the compiled loops: many thousands of records in one buffer."""

import struct
from collections.abc import Callable, Iterator

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.errors import Damage
from evidence.metadata_log.batch_kernel import Array
from evidence.metadata_log.columns import partition_changes
from evidence.metadata_log.compiled_reader import CompiledReader, Parsed
from evidence.metadata_log.partition_kernel import AT, BATCH_EPOCH, KIND, OFFSET, TIMESTAMP, TYPES, VERSION
from evidence.metadata_log.record_text import partition_text
from evidence.wire.records import Record

_NOTHING = np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)


def range_lines(
    reader: CompiledReader, end: bytes, line_of: Callable[[Record | Damage], bytes], show_secrets: bool
) -> Iterator[tuple[bytes | Array, bool]]:
    """The lines of all batches of a range, in the order of the file, in chunks; and whether a chunk has a record.

    end: what each line has between its `data` and its position. line_of: the line of what the loops leave.
    """
    for parsed, left in reader.read():
        lines, line_ends, positions = _written(parsed, end) if parsed else _NOTHING
        begin = 0
        for found in left:
            stop = int(line_ends[np.searchsorted(positions, found.position)])
            if stop > begin:
                yield lines[begin:stop], True
            begin = stop
            for item in reader.records(found, show_secrets):
                yield line_of(item), isinstance(item, Record)
        if begin < line_ends[-1]:
            yield lines[begin : int(line_ends[-1])], True


def _written(parsed: Parsed, end: bytes) -> tuple[Array, Array, Array]:
    """The lines of rows (uint8), a 0 and the end of each line, and the position of each row in the file."""
    count, (longs, ints, flags, *_) = parsed.rows, parsed.columns
    types, versions = TYPES.take(pa.array(flags[KIND, :count])), pa.array(flags[VERSION, :count])
    text = partition_text(types, versions, partition_changes(parsed))
    values = (
        ('{"offset":', longs[OFFSET, :count]),
        (',"timestamp":', longs[TIMESTAMP, :count]),
        (',"leaderEpoch":', ints[BATCH_EPOCH, :count]),
        (',"type":"', types),
        ('","version":', versions),
        (',"data":', pc.fill_null(text, "{}")),
        (end.decode(), longs[AT, :count]),
    )
    parts = [part for name, column in values for part in (name, pa.array(column).cast(pa.string()))]
    _, line_ends, lines = pc.binary_join_element_wise(*parts, "}\n", "").buffers()
    ends = np.frombuffer(line_ends, dtype=np.int32)[: count + 1]
    return np.frombuffer(lines, dtype=np.uint8), ends, longs[AT, :count]


def compile_loops() -> None:
    """Run every compiled loop once, on a batch with one PartitionChangeRecord: numba keeps what it compiles, so that no
    later process compiles."""
    value = bytes((1, 5, 0)) + bytes(21)  # frame 1, type 5, version 0; partition 0 of the zero id, no tagged fields
    record = bytes((0, 0, 0, 1, 2 * len(value))) + value + bytes(1)
    after_crc = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + bytes((2 * len(record),)) + record
    checked = struct.pack(">ibI", 0, 2, google_crc32c.value(after_crc)) + after_crc
    batch = struct.pack(">qi", 0, len(checked)) + checked
    reader = CompiledReader(batch, 0, len(batch), "")
    for _ in range_lines(reader, b"", lambda _: b"", show_secrets=False):
        pass
