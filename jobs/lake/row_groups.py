"""Parquet files whose row groups are slices: rows of the topics whose id has the same hash. A task that works on a
bucket of topics reads its own row groups of every file, so no rows are exchanged between tasks.

The footer of a file says how it is sliced, so each file may have its own number of slices, a power of two. A file that
another program wrote, or rewrote, has no such footer: it is read whole, and its rows are filtered.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.lake.storage import HashingSink, Storage
from replay.arrow.ragged import Array
from replay.arrow.schemas import CODES

_KEY = b"kraft_forensics.slices"
# Whoever reads a slice reads the whole footer, which has an entry for each column of each slice.
_ROWS_A_SLICE, _MOST_SLICES = 150_000, 64
MOST_ROWS = 100_000  # of a row group
_BATCH_ROWS = 16_384  # to encode at once: of Arrow's 1024 a tenth of the time goes into the steps
_MOST_FOOTERS = 128  # to hold: one with 64 slices takes 1 MB; ingest merges more than 100 files
NO_TOPIC = -1


def power_of_two(least: float) -> int:
    """The smallest power of two that is not below `least`; at least 1."""
    return 1 << max(0, int(np.ceil(np.log2(max(least, 1)))))


def slice_count(rows: int) -> int:
    """The number of slices for a table of so many rows."""
    return min(power_of_two(rows / _ROWS_A_SLICE), _MOST_SLICES)


def slices_of(topic_ids: pa.ChunkedArray | pa.Array, count: int) -> Array:
    """int64 slice of each topic id; NO_TOPIC for null."""
    encoded = topic_ids if pa.types.is_dictionary(topic_ids.type) else topic_ids.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()  # with one dictionary: each id is hashed once
    ids = encoded.dictionary.to_pylist()
    found = np.array([*(crc32(topic_id.encode()) & (count - 1) for topic_id in ids), NO_TOPIC], dtype=np.int64)
    return found[encoded.indices.fill_null(len(ids)).to_numpy()]


class SlicedFile:
    """A file that is being written, slice by slice. topics: path of the column with the topic ids; empty for a file
    that is not sliced."""

    def __init__(self, storage: Storage, name: str, schema: pa.Schema, count: int, topics: Sequence[str]) -> None:
        self.count = count
        self.topics = topics
        self._groups: list[int] = []
        self._schema = schema
        # Texts are in files once, and as codes: those that come as codes need not be looked up one by one.
        self._coded = texts_coded(schema)
        self._sink = HashingSink(storage.new(name))
        # int64 columns are offsets, times and places, which mostly rise: as differences they take less time and space.
        rising = [field.name for field in schema if pa.types.is_int64(field.type)]
        self._writer = pq.ParquetWriter(
            self._sink,
            self._coded,
            store_schema=False,
            use_dictionary=[path for path in _leaves(schema) if path not in rising],
            # No reader looks for the bounds of what is in a list or a struct.
            write_statistics=[path for path in _leaves(schema) if path in schema.names],
            write_batch_size=_BATCH_ROWS,
            column_encoding=dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
        )

    def write(self, rows: pa.Table) -> None:
        """Append rows of the file's schema, in any order; texts may be dictionary-encoded."""
        rows = rows.cast(self._coded)
        if not self.topics:
            self._writer.write_table(rows, MOST_ROWS)
            return
        slices = slices_of(_column(rows, self.topics), self.count)
        order = np.argsort(slices, kind="stable")
        found, starts = np.unique(slices[order], return_index=True)
        if len(found) > 1:
            # Of chunks, Arrow's take joins all strings anew.
            rows = rows.combine_chunks().take(pa.array(order))
        for number, (start, end) in zip(found, pairwise([*starts.tolist(), len(rows)]), strict=True):
            part = rows.slice(start, end - start)
            self._writer.write_table(part, MOST_ROWS)
            self._groups += [int(number)] * -(-len(part) // MOST_ROWS)

    def close(self) -> int:
        """Finish the file. Returns its size in bytes."""
        if self.topics:
            text = json.dumps({"count": self.count, "groups": self._groups})
            self._writer.add_key_value_metadata({_KEY: text.encode()})
        # What Arrow itself adds, with texts as texts.
        self._writer.add_key_value_metadata({b"ARROW:schema": b64encode(self._schema.serialize())})
        self._writer.close()
        size = int(self._sink.tell())
        self._sink.close()
        return size

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes written so far, hex."""
        return self._sink.sha256.hexdigest()


@dataclass(frozen=True, slots=True)
class FilePart:
    """The part of a file that may have rows of a bucket. row_groups: None for all. sure: whether all of its rows
    are the bucket's. rows, size_bytes: of the part, before compression."""

    name: str
    row_groups: tuple[int, ...] | None
    sure: bool
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TopicBucket:
    """The topics whose id has the hash `number` modulo `count`, a power of two."""

    number: int
    count: int


WITHOUT_TOPIC = TopicBucket(NO_TOPIC, 1)  # rows of no topic


class Slices:
    """How some files of a storage are sliced; their footers are read once."""

    def __init__(self, storage: Storage, names: Iterable[str]) -> None:
        self._of = {name: _footer(storage, name) for name in names}

    @property
    def count(self) -> int:
        """The most slices that one of the files has."""
        return max((footer.sliced["count"] for footer in self._of.values() if footer.sliced), default=1)

    def parts(self, bucket: TopicBucket) -> list[FilePart]:
        """The parts that a task has to read for a bucket."""
        return [part for name, footer in self._of.items() if (part := _part(name, footer, bucket)) is not None]


@dataclass(frozen=True, slots=True)
class _Footer:
    """rows, size_bytes: of each row group. sliced: its number of slices and the slice of each row group; None if it has
    none."""

    rows: list[int]
    size_bytes: list[int]
    sliced: dict[str, Any] | None


def _footer(storage: Storage, name: str) -> _Footer:
    with storage.open(name) as file:
        read = pq.read_metadata(file)
    text = (read.metadata or {}).get(_KEY)
    groups = [read.row_group(number) for number in range(read.num_row_groups)]
    sliced = json.loads(text) if text else None
    return _Footer([g.num_rows for g in groups], [g.total_byte_size for g in groups], sliced)


def _part(name: str, footer: _Footer, bucket: TopicBucket) -> FilePart | None:
    if footer.sliced is None:
        return FilePart(name, None, False, sum(footer.rows), sum(footer.size_bytes))
    # Both numbers are powers of two, so a slice is part of one bucket, or holds several buckets.
    count = footer.sliced["count"]
    common = min(count, bucket.count) - 1
    groups = [place for place, number in enumerate(footer.sliced["groups"]) if _is_of(number, bucket.number, common)]
    return _of_groups(name, footer, groups, count >= bucket.count) if groups else None


def _of_groups(name: str, footer: _Footer, groups: Sequence[int], sure: bool) -> FilePart:
    rows, size = (sum(values[place] for place in groups) for values in (footer.rows, footer.size_bytes))
    return FilePart(name, tuple(groups), sure, rows, size)


def _is_of(number: int, bucket: int, common: int) -> bool:
    if NO_TOPIC in (number, bucket):
        return number == bucket
    return number & common == bucket & common


def pieces_of(storage: Storage, names: Iterable[str], most: int) -> list[list[FilePart]]:
    """Files as pieces of at most so many rows, and at least one row group."""
    footers = {name: _footer(storage, name) for name in names}
    pieces, held = [dict[str, list[int]]()], 0
    for name, footer in footers.items():
        for number, rows in enumerate(footer.rows):
            if held + rows > most and pieces[-1]:
                pieces.append({})
                held = 0
            pieces[-1].setdefault(name, []).append(number)
            held += rows
    return [[_of_groups(n, footers[n], groups, True) for n, groups in piece.items()] for piece in pieces if piece]


# Of the files that this process has read last, for other buckets: one with many slices takes longer to read than a
# slice. By path and size.
_footers: dict[tuple[str, int], pq.FileMetaData] = {}


def read_bucket(
    storage: Storage,
    parts: Iterable[FilePart],
    columns: Sequence[str],
    bucket: TopicBucket,
    topics: Sequence[str],
    as_codes: bool = False,
) -> Iterable[pa.Table]:
    """The bucket's rows, part by part; rows of no topic are in WITHOUT_TOPIC alone. columns: names, or dotted paths of
    fields. topics: path of the column with the topic ids, which must be among them. as_codes: columns of strings are
    dictionary-encoded, as they are in the files."""
    for part in parts:
        with storage.open(part.name) as source:
            known = storage.path(part.name), source.size()
            file = pq.ParquetFile(source, metadata=_footers.pop(known, None))
            _footers[known] = file.metadata
            if len(_footers) > _MOST_FOOTERS:
                del _footers[next(iter(_footers))]
            if as_codes:  # not by file.metadata.schema: it and the footer refer to each other, and stay in memory
                strings = [field.name for field in file.schema_arrow if pa.types.is_string(field.type)]
                file = pq.ParquetFile(source, metadata=file.metadata, read_dictionary=strings)
            groups = range(file.num_row_groups) if part.row_groups is None else part.row_groups
            rows = file.read_row_groups(list(groups), list(columns), use_threads=False)
        if not part.sure:
            rows = rows.filter(pa.array(slices_of(_column(rows, topics), bucket.count) == bucket.number))
        yield rows


def texts_coded(schema: pa.Schema) -> pa.Schema:
    """The schema with its texts dictionary-encoded."""
    return pa.schema([field.with_type(CODES) if pa.types.is_string(field.type) else field for field in schema])


@cache
def _leaves(schema: pa.Schema) -> tuple[str, ...]:
    """The paths of a schema's columns in Parquet, where a list or a field of a struct is a column of its own."""
    pq.write_metadata(schema, file := BytesIO())
    columns = pq.read_metadata(file).schema
    return tuple(columns.column(number).path for number in range(len(columns)))


def _column(rows: pa.Table, path: Sequence[str]) -> pa.ChunkedArray:
    column = rows[path[0]]
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column
