"""Ranges of batches -> Arrow, column by column: what `decode_range` gives row by row, many times as fast.

Large ranges of uncompressed batches go through compiled loops (evidence/partition_kernel.py) as far as these are sure
of what they see; what is left, and every small range, is read by evidence/records.py. Both ways give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from evidence import kinds, tables
from evidence.batches import HEAD_BYTES, Batch
from evidence.decode import PAYLOADS, ByteRange, decode_range, heads, record_row
from evidence.errors import Damage
from evidence.records import read_record, read_records
from evidence.segments import damage_columns

Array = np.ndarray[Any, Any]
Row = dict[str, Any]

DAMAGE = pa.struct(
    [
        (name, tables.QUARANTINE.field(name).type)
        for name in ("position", "length_bytes", "offset", "reason", "message", "raw")
    ]
)
# A record (the columns of snapshot_records; holds: see ByteRange), or a damage and null for everything but the file.
DECODED = pa.schema([*tables.SNAPSHOT_RECORDS, pa.field("holds", pa.string()), pa.field("damage", DAMAGE)])

_CHUNK_ROWS = 20_000
# Fewer bytes are decoded before the compiled loops are loaded.
COMPILED_FROM_BYTES = 512 << 10
_CHUNK_RECORDS = 50_000
# A record is not shorter: length, attributes, two deltas, key length, value length, header count.
_LEAST_RECORD_BYTES = 7
_SAFE_TIME = 1 << 61
_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", dtype=np.uint8)
_LIST_NAMES = (
    "replicas",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "elr",
    "last_known_elr",
)


def decode_arrow(
    data: bytes, work: ByteRange, capture: str, compiled_from: int = COMPILED_FROM_BYTES
) -> Iterator[pa.RecordBatch]:
    """DECODED batches of a range, in no particular order. data: the whole file; compiled_from: from how many bytes on
    the compiled loops are used.

    Errors: CaptureError when the file is not what was framed any more.
    """
    if work.kind == kinds.DUMP_LOG or work.holds == PAYLOADS or work.end - work.start < compiled_from:
        yield from arrow_batches(_rows(decode_range(data, work, capture), data, work, capture), DECODED)
        return
    for batches in _chunks(heads(data, work.start, work.end, work.path)):
        yield from _decode(data, batches, work, capture)


def arrow_batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows as record batches of bounded size."""
    rows = iter(rows)
    while chunk := list(islice(rows, _CHUNK_ROWS)):
        yield from pa.Table.from_pylist(chunk, schema=schema).to_batches()


def _rows(items: Iterable[Row | Damage], data: bytes, work: ByteRange, capture: str) -> Iterator[Row]:
    place = {"capture": capture, "path": work.path, "sha256": work.sha256}
    for item in items:
        if isinstance(item, Damage):
            yield {**place, "damage": damage_columns(data, work.path, item)}
        else:
            yield {**item, "holds": work.holds}


def _chunks(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Batches in groups of about as many records as one Arrow batch shall have."""
    group: list[Batch] = []
    records = 0
    for batch in batches:
        group.append(batch)
        records += batch.record_count
        if records >= _CHUNK_RECORDS:
            yield group
            group, records = [], 0
    if group:
        yield group


def _decode(data: bytes, batches: list[Batch], work: ByteRange, capture: str) -> Iterator[pa.RecordBatch]:
    plain = [b for b in batches if _is_plain(b)]
    left: list[Row | Damage] = []
    if plain:
        found = PlainRecords(data, plain)
        yield from found.to_arrow(work, capture)
        left += found.left(data, work, capture)
        plain = [b for b, first in zip(plain, found.first.tolist(), strict=True) if first >= 0]
    done = set(map(id, plain))
    for batch in (b for b in batches if id(b) not in done):
        left += (_row(item, batch, work, capture) for item in read_records(data, batch))
    yield from arrow_batches(_rows(left, data, work, capture), DECODED)


def _is_plain(batch: Batch) -> bool:
    """Whether its records may be walked: as they lie in the file, and as many as can lie there."""
    room = (batch.size_bytes - HEAD_BYTES) // _LEAST_RECORD_BYTES
    usual = batch.codec == "none" and not batch.is_control and not batch.log_append_time
    return usual and batch.record_count <= room and abs(batch.base_timestamp_ms) < _SAFE_TIME


def _row(item: Any, batch: Batch, work: ByteRange, capture: str) -> Row | Damage:
    if isinstance(item, Damage):
        return item
    place = {"snapshot_end_offset": work.snapshot_end_offset, "snapshot_epoch": work.snapshot_epoch}
    return {**place, **record_row(capture, work.path, work.sha256, batch, item)}


@dataclass(slots=True)
class PlainRecords:
    """The records of some batches as the compiled loops see them, an element a record; kind 0: left to the reader."""

    data: Array
    batches: list[Batch]
    first: Array
    batch: Array
    number: Array
    at: Array
    body: Array
    end: Array
    kind: Array
    fields: Array
    lists: Array

    def __init__(self, data: bytes, batches: list[Batch]) -> None:
        from evidence import partition_kernel as kernel

        self.data, self.batches = np.frombuffer(data, dtype=np.uint8), batches
        count = np.array([b.record_count for b in batches], dtype=np.int64)
        start = np.array([b.position + HEAD_BYTES for b in batches], dtype=np.int64)
        stop = np.array([b.position + b.size_bytes for b in batches], dtype=np.int64)
        self.first = np.cumsum(count) - count
        total = int(count.sum())
        self.at, self.body, self.end = (np.zeros(total, dtype=np.int64) for _ in range(3))
        self.batch = np.repeat(np.arange(len(batches)), count)
        self.number = np.arange(total) - np.repeat(self.first, count)
        kernel.walk(self.data, start, stop, count, self.first, self.body, self.end, self.at)
        walked = self.first[self.batch] >= 0
        self.batch, self.number = self.batch[walked], self.number[walked]
        self.at, self.body, self.end = self.at[walked], self.body[walked], self.end[walked]
        total = len(self.at)
        self.kind = np.zeros(total, dtype=np.int8)
        self.fields = np.zeros((total, kernel.FIELDS), dtype=np.int64)
        self.lists = np.zeros((total, kernel.LISTS, 2), dtype=np.int64)
        kernel.parse(self.data, self.body, self.end, self.number, self.kind, self.fields, self.lists)
        self.kind[np.abs(self.fields[:, kernel.TIMESTAMP_DELTA]) >= _SAFE_TIME] = kernel.LEFT

    def left(self, data: bytes, work: ByteRange, capture: str) -> Iterator[Row | Damage]:
        """What the compiled loops were not sure of, by the reader that knows everything."""
        for index in np.flatnonzero(self.kind == 0).tolist():
            batch = self.batches[self.batch[index]]
            item = read_record(
                data, batch, int(self.number[index]), int(self.at[index]), int(self.body[index]), int(self.end[index])
            )
            yield _row(item, batch, work, capture)

    def to_arrow(self, work: ByteRange, capture: str) -> Iterator[pa.RecordBatch]:
        """One DECODED batch of the partition records."""
        from evidence import partition_kernel as kernel

        known = np.flatnonzero(self.kind != kernel.LEFT)
        if not len(known):
            return
        kind, fields = self.kind[known], self.fields[known]
        lists = self.lists[known]
        payload = self._json(known, kind, fields, lists)
        # A PartitionRecord's absent lists are empty, its absent directories MIGRATING (see decode.partition_change).
        full = kind == kernel.FULL
        for which in (kernel.ELR, kernel.LAST_KNOWN_ELR):
            lists[full & (lists[:, which, kernel.COUNT] < 0), which, kernel.COUNT] = 0
        bare = full & (lists[:, kernel.DIRECTORIES, kernel.COUNT] <= 0)
        lists[bare, kernel.DIRECTORIES, kernel.AT] = -1
        lists[bare, kernel.DIRECTORIES, kernel.COUNT] = lists[bare, kernel.REPLICAS, kernel.COUNT]
        of = self.batch[known]
        base = np.array([b.base_offset for b in self.batches], dtype=np.int64)[of]
        time = np.array([b.base_timestamp_ms for b in self.batches], dtype=np.int64)[of]
        epoch = np.array([b.epoch for b in self.batches], dtype=np.int32)[of]
        crc = np.array([b.crc for b in self.batches], dtype=np.int64)[of]
        types = pa.array(["PARTITION_CHANGE_RECORD", "PARTITION_RECORD"])
        columns = {
            "offset": base + self.number[known],
            "epoch": epoch,
            "timestamp_ms": time + fields[:, kernel.TIMESTAMP_DELTA],
            "type": types.take(pa.array(full.astype(np.int8))),
            "version": fields[:, kernel.VERSION].astype(np.int16),
            "is_control": np.zeros(len(known), dtype=bool),
            "payload": payload,
            "partition_change": self._change(full, fields, lists),
            "batch_base_offset": base,
            "batch_crc": crc,
            "position": self.at[known],
        }
        same: dict[str, str | int | None] = {
            "capture": capture,
            "path": work.path,
            "sha256": work.sha256,
            "holds": work.holds,
        }
        same |= {"snapshot_end_offset": work.snapshot_end_offset, "snapshot_epoch": work.snapshot_epoch}
        arrays = [
            pa.repeat(pa.scalar(same.get(field.name), field.type), len(known))
            if field.name in same or field.name == "damage"
            else pa.array(columns[field.name], type=field.type)
            for field in DECODED
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=DECODED)

    def _json(self, known: Array, kind: Array, fields: Array, lists: Array) -> pa.Array:
        from evidence import partition_text as text

        names = [name.encode() for name in text.JSON_NAMES]
        name_at = np.cumsum([0, *map(len, names)])
        room = len(known) * text.JSON_FIXED_BYTES + 5 * int((self.end - self.body)[known].sum())
        out, ends = np.empty(room, dtype=np.uint8), np.zeros(len(known), dtype=np.int64)
        joined = np.frombuffer(b"".join(names), dtype=np.uint8)
        text.write_json(self.data, kind, fields, lists, _LETTERS, joined, name_at, out, ends)
        return _strings(out[: ends[-1]], np.append(0, ends))

    def _change(self, full: Array, fields: Array, lists: Array) -> pa.Array:
        """The partition_change column."""
        from evidence import partition_kernel as kernel
        from evidence.partition_text import gather_int32, gather_uuid

        count = len(full)
        topic = np.empty(count * 22, dtype=np.uint8)
        offsets = np.arange(count + 1)
        gather_uuid(self.data, np.ascontiguousarray(fields[:, kernel.TOPIC_AT]), offsets, _LETTERS, topic)
        leader, recovery = fields[:, kernel.LEADER], fields[:, kernel.RECOVERY]
        columns: dict[str, Any] = {
            "topic_id": _strings(topic, offsets * 22),
            "partition": pa.array(fields[:, kernel.PARTITION], type=pa.int32()),
            "leader": pa.array(leader, type=pa.int32(), mask=~full & (leader == kernel.NO_LEADER)),
            "leader_recovery_state": pa.array(recovery, type=pa.int8(), mask=~full & (recovery == kernel.NO_RECOVERY)),
        }
        for name, column in (("leader_epoch", kernel.LEADER_EPOCH), ("partition_epoch", kernel.PARTITION_EPOCH)):
            columns[name] = pa.array(fields[:, column], type=pa.int32(), mask=~full)
        for which, name in enumerate(_LIST_NAMES):
            at, null, offsets = _layout(lists[:, which])
            numbers = np.empty(offsets[-1], dtype=np.int32)
            gather_int32(self.data, at, offsets, numbers)
            columns[name] = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(numbers), mask=null)
        at, null, offsets = _layout(lists[:, kernel.DIRECTORIES])
        letters = np.empty(int(offsets[-1]) * 22, dtype=np.uint8)
        gather_uuid(self.data, at, offsets, _LETTERS, letters)
        ids = _strings(letters, np.arange(offsets[-1] + 1) * 22)
        columns["directories"] = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), ids, mask=null)
        children = list(tables.PARTITION_CHANGE)
        return pa.StructArray.from_arrays([columns[f.name] for f in children], fields=children)


def _layout(lists: Array) -> tuple[Array, pa.Array, Array]:
    """(where in the bytes, which rows are null, offsets of the elements) of one list column."""
    at, count = np.ascontiguousarray(lists[:, 0]), lists[:, 1]
    return at, pa.array(count < 0), np.append(0, np.cumsum(np.maximum(count, 0)))


def _strings(text: Array, offsets: Array) -> pa.Array:
    """A string column from its bytes and offsets."""
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(text))
