"""`spark.read.format("kraft")`: read metadata segments and snapshots as rows, without ingest (a Python data source).

    register(spark)                                     # build_session does it
    spark.read.format("kraft").option("types", "PARTITION_CHANGE_RECORD").load("/captures/controllers/3000")
    spark.readStream.format("kraft").load("/captures/controllers/3000")

    CREATE TEMPORARY VIEW log USING kraft OPTIONS (path '/captures/controllers/*', startOffset '1000')

`path`: a file, a folder to search for segments and snapshots, a pattern (`*`, `?`, `[`), or a URL; `load` also takes a
list. Each file gives its own rows: the logs of three controllers give a record three times, and `path` says whose it
is. Read one controller's folder for one log. The other options are in kraft_options.toml. Secrets are redacted.

Records of a snapshot are numbered from 0 and have a `snapshot_end_offset`; records of the log do not. With `.schema()`
only its columns are given. Batches outside of `startOffset` and `endOffset` are not decoded. Filters are not pushed
down: Spark 4.2 keeps with a DataFrame what was pushed down last (PythonScanBuilder.pushFilters), so that other queries
on it, or on its view, would lack rows.

A stream gives the records of segments as files grow, up to the last whole batch; what is torn or damaged after it waits
for the next whole one. Spark's checkpoint has the place in each file, so a restart neither repeats nor skips a record:
if a segment was deleted before all of it was read, the query fails, unless failOnDataLoss is false. Rows are what the
file has. The end of a log may not be committed yet: if a controller cuts it off, the query fails, and its error names
the file and the byte from which rows no longer stand there.
"""

import glob
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession, datasource
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from evidence import kinds, tables
from evidence.capture.remote import Location, Remote, Source, Store, StoredFile, location
from evidence.errors import Damage, KraftForensicsError
from evidence.metadata_log.columns import DECODED, arrow_batches, decode_arrow
from evidence.metadata_log.record_text import with_text
from evidence.metadata_log.rows import ByteRange, read_byte_range
from evidence.wire.batches import Batch, read_head, scan_batches
from evidence.wire.records import type_names
from replay.arrow.ragged import INT64_MAX, Row

_HIDDEN = {"capture", "sha256"}
_PAYLOAD = tables.column("payload", pa.string(), "the record in Kafka's JSON form, secrets redacted")
_SCHEMA = pa.schema(
    [
        *(_PAYLOAD if f.name == _PAYLOAD.name else f for f in tables.SNAPSHOT_RECORDS if f.name not in _HIDDEN),
        tables.column(
            "_corrupt_record", pa.string(), "damage: what could not be read, with file, byte position and offset"
        ),
    ]
)
_KINDS = (kinds.METADATA_SEGMENT, kinds.METADATA_CHECKPOINT)


class DamagedFile(KraftForensicsError):
    """Damage found in mode FAILFAST."""


class CutFile(KraftForensicsError):
    """A file that a stream has read was cut off or rewritten since, or deleted before all of it was read."""


_OPTIONS = tomllib.loads(files(__package__).joinpath("kraft_options.toml").read_text("utf-8"))


@dataclass(frozen=True)
class _Options:
    """What to read. first, last: of the wanted offsets. types: None: all."""

    places: list[str]
    first: int
    last: int
    types: frozenset[str] | None
    fail_fast: bool
    split_bytes: int
    columns: tuple[str, ...]
    fail_on_loss: bool = True


@dataclass
class _Split(datasource.InputPartition):
    """Consecutive batches of one file at bytes [start, end), and the damage before them."""

    source: Source
    start: int
    end: int
    damage: list[Damage]


class KraftDataSource(datasource.DataSource):
    """The data source `kraft` (see the module docstring)."""

    @classmethod
    def name(cls) -> str:
        return "kraft"

    def schema(self) -> StructType:
        return spark_schema(_SCHEMA)

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        return _Reader(_options(self.options, schema))

    def streamReader(self, schema: StructType) -> datasource.DataSourceStreamReader:
        return _StreamReader(_options(self.options, schema))


def register(session: SparkSession) -> None:
    """Make `kraft` known to a session."""
    session.dataSource.register(KraftDataSource)


def read_rows(places: Sequence[str], **given: str) -> pa.Table:
    """The rows of some places without Spark; given: options of the source. Files are read one after the other."""
    options = _options({**given, "paths": json.dumps([*places])}, spark_schema(_SCHEMA))
    splits = (split for file in _files(options) for split in _splits(file, options))
    return pa.Table.from_batches((batch for split in splits for batch in _read(split, options)), _SCHEMA)


def _options(given: Mapping[str, str], schema: StructType) -> _Options:
    known = {name.lower(): name for name in ("path", "paths", *_OPTIONS)}
    if unknown := sorted(name for name in given if name.lower() not in known):
        listed = "".join(f"\n  {name}: {of['meaning']}" for name, of in _OPTIONS.items())
        raise KraftForensicsError(f"kraft: no option {', '.join(unknown)}. The options are{listed}")
    places = json.loads(given.get("paths", "[]")) or [given.get("path")]
    if not places[0]:
        raise KraftForensicsError("kraft: give a path: a segment, a snapshot, or a folder that has some")
    values = {name: given.get(name, of["default"]) for name, of in _OPTIONS.items()}
    for name, of in _OPTIONS.items():
        if re.fullmatch(of["form"], values[name], re.IGNORECASE) is None:
            raise KraftForensicsError(f"kraft: {name} {values[name]!r} is {of['wrong']} ({of['meaning']})")
    types = frozenset(name.strip().upper() for name in values["types"].split(",") if name.strip())
    known_types = type_names() if types else set()
    for name in sorted(name for name in types - known_types if not name.startswith("UNKNOWN_")):
        near = "".join(f" ({close} is)" for close in get_close_matches(name, sorted(known_types), 1))
        raise KraftForensicsError(f"kraft: types: {name} is no record type{near}")
    first, end, split_bytes = (min(int(values[n]), INT64_MAX + 1) for n in ("startOffset", "endOffset", "splitBytes"))
    return _Options(
        places=[place.removeprefix("file:") for place in places],
        first=min(first, INT64_MAX),
        last=end - 1,
        types=types or None,
        fail_fast=values["mode"].upper() == "FAILFAST",
        split_bytes=max(1, split_bytes),
        columns=_columns(schema),
        fail_on_loss=values["failOnDataLoss"].lower() == "true",
    )


def _columns(schema: StructType) -> tuple[str, ...]:
    known = {field.name: field.dataType for field in spark_schema(_SCHEMA)}
    for field in schema:
        if field.name not in known:
            raise KraftForensicsError(f"kraft: no column {field.name}. The columns are {', '.join(known)}")
        if field.dataType != known[field.name]:
            wanted, has = field.dataType.simpleString(), known[field.name].simpleString()
            raise KraftForensicsError(f"kraft: column {field.name} is {has}, not {wanted}")
    return tuple(schema.names)


class _Reader(datasource.DataSourceReader):
    def __init__(self, options: _Options) -> None:
        self.options = options

    def partitions(self) -> Sequence[datasource.InputPartition]:
        found = [split for file in _files(self.options) for split in _splits(file, self.options)]
        return found or [_Split(Path(), 0, 0, [])]  # of none Spark makes a partition that is no split

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self.options)


class _StreamReader(datasource.DataSourceStreamReader):
    """Offsets: by a segment's path, the byte `position` up to which it was read, the byte and CRC32C of the last batch
    before that, by which a file that was cut off is recognised, and the metadata offset after it, `next`: the name of
    the segment that follows, if the file was read to its end."""

    def __init__(self, options: _Options) -> None:
        self.options = options

    def initialOffset(self) -> Row:
        return {}

    def latestOffset(self, start: Row, limit: Any) -> Row:
        segments = [file for file in _files(self.options, (kinds.METADATA_SEGMENT,)) if isinstance(file, Path)]
        found = start | {str(file): at for file in segments if (at := _followed(file, start.get(str(file))))}
        known = {*start, *map(str, segments)}
        for path in known - {*map(str, segments)} if self.options.fail_on_loss else ():
            if str(Path(path).with_name(f"{start[path]['next']:020}.log")) not in known:
                raise _deleted(path, start[path])
        return found

    def partitions(self, start: Row, end: Row) -> Sequence[datasource.InputPartition]:
        found: list[_Split] = []
        for path, at in end.items():
            begin = start.get(path, {"position": 0})["position"]
            if begin < at["position"]:
                try:
                    _check_batch(Path(path), at)
                    found += _splits(Path(path), self.options, begin, at["position"])
                except FileNotFoundError:
                    if not self.options.fail_on_loss:
                        raise
                    raise _deleted(path, start.get(path, {})) from None
        return found

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self.options)


def _followed(path: Path, last: Row | None) -> Row | None:
    """The place after the last whole batch of a segment; null if it has none. last: the place known before."""
    begin = last["position"] if last else 0
    try:
        if last:
            _check_batch(path, last)
        with path.open("rb") as file:
            file.seek(begin)
            batches = scan_batches(file.read()).batches
    except FileNotFoundError:  # deleted since the folder was listed
        return last
    if not batches:
        return last
    end = batches[-1]
    place = {"position": begin + end.end, "batch": begin + end.position}
    return place | {"crc": end.crc, "next": end.last_offset + 1}


def _deleted(path: str, last: Row) -> CutFile:
    """The error of a segment that is gone and was not read to its end. last: the place up to which it was read."""
    what = f"its records from metadata offset {last['next']} on are" if "next" in last else "records of it are"
    return CutFile(
        f"{path}: deleted before all of it was read: {what} missing. A snapshot has the state that they led to. "
        "Start the query anew, with a new checkpoint."
    )


def _check_batch(path: Path, last: Row) -> None:
    """Check that a segment still has the batch that was read last. Errors: CutFile."""
    with path.open("rb") as file:
        file.seek(last["batch"])
        head = read_head(file.read(last["position"] - last["batch"]), 0)
    if not isinstance(head, Batch) or head.crc != last["crc"]:
        raise CutFile(
            f"{path}: the batch at byte {last['batch']} that was read before is not there any more: the controller "
            "has cut its log off, because that end of it was never committed. Rows from there on, or from an earlier "
            "byte, do not count. Start the query anew, with a new checkpoint."
        )


def _files(options: _Options, wanted: tuple[str, ...] = _KINDS) -> list[Source]:
    """Each file once, also where `**` or several places find it again."""
    return list({str(file): file for place in options.places for file in _files_at(place, wanted)}.values())


def _files_at(place: str, wanted: tuple[str, ...]) -> list[Source]:
    where: Location = location(place)
    found: list[Source] = []
    if isinstance(where, Remote):
        if wanted != _KINDS:
            raise KraftForensicsError(f"kraft: {where}: a stream reads files of this machine, not of a store")
        store = Store(where)
        for path, info in sorted(store.objects().items()):
            if kinds.classify(PurePosixPath(path)) in wanted:
                found.append(StoredFile(store, path, int(info["size"]), store.identity(path)))
    elif where.is_file():
        return [where]
    else:
        tops = [where] if where.is_dir() else [Path(each) for each in sorted(glob.glob(place, recursive=True))]
        inside = [file for top in tops for file in ([top] if top.is_file() else sorted(top.rglob("*")))]
        found += [file for file in inside if file.is_file() and kinds.classify(PurePosixPath(file)) in wanted]
    if not found:
        what = "metadata segment or snapshot" if wanted == _KINDS else "metadata segment"
        raise KraftForensicsError(f"kraft: {where}: no {what} here")
    return found


def _splits(source: Source, options: _Options, start: int = 0, end: int | None = None) -> list[_Split]:
    """Splits of about `split_bytes` of the wanted batches at bytes [start, end) of a file; damage goes with the batch
    after it."""
    data = source.read_bytes() if end is None else read_byte_range(source, start, end)[start:end]
    scan = scan_batches(data)
    splits: list[_Split] = []
    waiting = [replace(damage, position=start + damage.position) for damage in scan.damage]
    for batch in (b for b in scan.batches if _wanted(b, options)):
        first, after = start + batch.position, start + batch.end
        ahead = [d for d in waiting if d.position < first]
        waiting = waiting[len(ahead) :]
        last = splits[-1] if splits else None
        if last and not ahead and last.end == first and after - last.start <= options.split_bytes:
            last.end = after
        else:
            splits.append(_Split(source, first, after, ahead))
    return [*splits, _Split(source, 0, 0, waiting)] if waiting else splits


def _read(split: datasource.InputPartition, options: _Options) -> Iterator[pa.RecordBatch]:
    assert isinstance(split, _Split)
    return (batch.select(options.columns) for batch in _whole_rows(split, options))


def _whole_rows(split: _Split, options: _Options) -> Iterator[pa.RecordBatch]:
    path = str(split.source)
    yield from arrow_batches((_corrupt(path, d.describe(path), asdict(d), options) for d in split.damage), _SCHEMA)
    if split.start == split.end:
        return
    end_offset, epoch = kinds.checkpoint_name(PurePosixPath(path).name) or (None, None)
    work = ByteRange(
        split.source, path, "", kinds.METADATA_SEGMENT, split.start, split.end,
        snapshot_end_offset=end_offset, snapshot_epoch=epoch,
    )  # fmt: skip
    for batch in decode_arrow(read_byte_range(split.source, split.start, split.end), work, ""):
        damaged = batch.column("damage").drop_null().to_pylist()
        # Damage with no bytes is a note on a record that is still used.
        bad = (_corrupt(path, d["message"], d, options) for d in damaged if d["length_bytes"])
        yield from arrow_batches(bad, _SCHEMA)
        offset = batch.column("offset")
        rows = batch.filter(pc.and_(pc.greater_equal(offset, options.first), pc.less_equal(offset, options.last)))
        if options.types is not None:
            rows = rows.filter(pc.is_in(rows.column("type"), pa.array(sorted(options.types), pa.string())))
        rows = with_text(rows) if _PAYLOAD.name in options.columns else rows
        columns = [rows.column(n) if n in DECODED.names else pa.nulls(len(rows), pa.string()) for n in _SCHEMA.names]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _wanted(batch: Batch, options: _Options) -> bool:
    """Whether a batch can have wanted records."""
    return batch.last_offset >= options.first and batch.base_offset <= options.last


def _corrupt(path: str, message: str, damage: Row, options: _Options) -> Row:
    if options.fail_fast:
        raise DamagedFile(message)
    return {"path": path, "position": damage["position"], "offset": damage["offset"], "_corrupt_record": message}


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema, with the comments of its fields, to a Spark schema."""
    plain = from_arrow_schema(schema)
    comments = [(field.metadata or {}).get(b"comment", b"").decode() for field in schema]
    return StructType(
        [StructField(f.name, f.dataType, True, {"comment": c}) for f, c in zip(plain.fields, comments, strict=True)]
    )
