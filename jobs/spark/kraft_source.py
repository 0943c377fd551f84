"""`spark.read.format("kraft")`: read metadata segments and snapshots as rows, without ingest (a Python data source).

    spark.dataSource.register(KraftDataSource)          # build_session does it
    spark.read.format("kraft").option("types", "PARTITION_CHANGE_RECORD").load("/captures/controllers")

    CREATE TEMPORARY VIEW log USING kraft OPTIONS (path '/captures/controllers', startOffset '1000')

Options: `path` (a file, or a folder to search for segments and snapshots), `startOffset` and `endOffset` (exclusive;
batches outside the range are not decoded), `types` (comma-separated record types), `mode` (PERMISSIVE: damage becomes
a row with `_corrupt_record`; FAILFAST: damage is an error), `splitBytes` (several tasks read a larger segment; default
8 MiB).
Secrets are redacted. Records of a snapshot are numbered from 0 and have a `snapshot_end_offset`; records of the log do
not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from evidence import kinds, tables
from evidence.errors import Damage, KraftForensicsError
from evidence.metadata_log.columns import DECODED, arrow_batches, decode_arrow
from evidence.metadata_log.rows import ByteRange, read_byte_range
from evidence.wire.batches import Batch, scan_batches
from jobs.spark.types import spark_schema

Row = dict[str, Any]

_HIDDEN = {"capture", "sha256"}
_SCHEMA = pa.schema(
    [
        *(field for field in tables.SNAPSHOT_RECORDS if field.name not in _HIDDEN),
        tables.column(
            "_corrupt_record", pa.string(), "damage: what could not be read, with file, byte position and offset"
        ),
    ]
)
_KINDS = (kinds.METADATA_SEGMENT, kinds.METADATA_CHECKPOINT)


class DamagedFile(KraftForensicsError):
    """Damage found in mode FAILFAST."""


@dataclass(frozen=True)
class _Options:
    path: str
    start_offset: int
    end_offset: int | None
    types: frozenset[str]
    fail_fast: bool
    split_bytes: int


@dataclass
class _Split(InputPartition):
    """Consecutive batches of one file at bytes [start, end), and the damage before them."""

    path: str
    start: int
    end: int
    damage: list[Damage]


class KraftDataSource(DataSource):
    """The data source `kraft` (see the module docstring)."""

    @classmethod
    def name(cls) -> str:
        return "kraft"

    def schema(self) -> StructType:
        return spark_schema(_SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(_options(self.options))


def _options(given: Any) -> _Options:
    path = given.get("path")
    if not path:
        raise KraftForensicsError("kraft: give a path: a segment, a snapshot, or a folder that has some")
    mode = given.get("mode", "PERMISSIVE").upper()
    if mode not in ("PERMISSIVE", "FAILFAST"):
        raise KraftForensicsError(f"kraft: mode {mode!r} is neither PERMISSIVE nor FAILFAST")
    end = given.get("endOffset")
    types = given.get("types", "")
    return _Options(
        path=path.removeprefix("file:"),
        start_offset=int(given.get("startOffset", 0)),
        end_offset=None if end is None else int(end),
        types=frozenset(t.strip().upper() for t in types.split(",") if t.strip()),
        fail_fast=mode == "FAILFAST",
        split_bytes=int(given.get("splitBytes", 8 << 20)),
    )


class _Reader(DataSourceReader):
    def __init__(self, options: _Options) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [split for file in _files(Path(self.options.path)) for split in _splits(file, self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Split):
            raise TypeError(f"not a split of this source: {partition!r}")
        return _read(partition, self.options)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(f for f in path.rglob("*") if f.is_file() and kinds.classify(PurePosixPath(f)) in _KINDS)
    if not found:
        raise KraftForensicsError(f"kraft: {path}: no metadata segment or snapshot in this folder")
    return found


def _splits(path: Path, options: _Options) -> list[_Split]:
    """Splits of about `split_bytes` of the file's wanted batches; damage goes with the batch after it."""
    scan = scan_batches(path.read_bytes())
    splits: list[_Split] = []
    waiting = list(scan.damage)
    for batch in (b for b in scan.batches if _wanted(b, options)):
        ahead = [d for d in waiting if d.position < batch.position]
        waiting = waiting[len(ahead) :]
        last = splits[-1] if splits else None
        if last and not ahead and last.end == batch.position and batch.end - last.start <= options.split_bytes:
            last.end = batch.end
        else:
            splits.append(_Split(str(path), batch.position, batch.end, ahead))
    return [*splits, _Split(str(path), 0, 0, waiting)] if waiting else splits


def _read(split: _Split, options: _Options) -> Iterator[pa.RecordBatch]:
    yield from arrow_batches(
        (_corrupt(split.path, d.describe(split.path), asdict(d), options) for d in split.damage), _SCHEMA
    )
    if split.start == split.end:
        return
    name = kinds.checkpoint_name(Path(split.path).name) or (None, None)
    snapshot = {"snapshot_end_offset": name[0], "snapshot_epoch": name[1]}
    source = Path(split.path)
    work = ByteRange(source, split.path, "", kinds.METADATA_SEGMENT, split.start, split.end, **snapshot)
    for batch in decode_arrow(read_byte_range(source, split.start, split.end), work, ""):
        damaged = batch.column("damage").drop_null().to_pylist()
        # Damage with no bytes is a note on a record that is still used.
        bad = (_corrupt(split.path, d["message"], d, options) for d in damaged if d["length_bytes"])
        yield from arrow_batches(bad, _SCHEMA)
        rows = batch.filter(_selected(batch, options))
        columns = [rows.column(n) if n in DECODED.names else pa.nulls(len(rows), pa.string()) for n in _SCHEMA.names]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _selected(batch: pa.RecordBatch, options: _Options) -> pa.Array:
    """Mask of the records with the wanted offsets and types."""
    selected = pc.greater_equal(batch.column("offset"), options.start_offset)
    if options.end_offset is not None:
        selected = pc.and_(selected, pc.less(batch.column("offset"), options.end_offset))
    if options.types:
        selected = pc.and_(selected, pc.is_in(batch.column("type"), pa.array(sorted(options.types))))
    return selected


def _wanted(batch: Batch, options: _Options) -> bool:
    return batch.last_offset >= options.start_offset and (
        options.end_offset is None or batch.base_offset < options.end_offset
    )


def _corrupt(path: str, message: str, damage: Row, options: _Options) -> Row:
    if options.fail_fast:
        raise DamagedFile(message)
    return {"path": path, "position": damage["position"], "offset": damage["offset"], "_corrupt_record": message}
