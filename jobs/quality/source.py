"""A cluster's tables for the checks: held in memory if they are small, else read by tasks, by file and by bucket of
topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from jobs.config.settings import Settings
from jobs.lake.lake import Lake
from jobs.lake.row_groups import WITHOUT_TOPIC, Bucket, FilePart, power_of_two, read_bucket, slices_of
from jobs.lake.tables import TABLES
from jobs.replay.buckets import BucketFiles, BucketItem
from jobs.spark.tasks import cores, run_tasks
from quality.check import Check, Scope
from quality.columns import Rows, Tables
from quality.run import (
    TRANSACTIONS,
    InMemory,
    Needs,
    Outcomes,
    Part,
    Source,
    all_columns,
    names_by_table,
    top_level,
    transactions,
    with_codes,
)

# Tables that may have many rows.
_LARGE = (
    *("metadata_records", "snapshot_records", "log_end_offsets", "broker_log_events", "evidence_files"),
    *("partition_history", "elections", "findings"),
)
_RECORDS = "metadata_records"


def source_of(lake: Lake, cluster: str, checks: Sequence[Check], settings: Settings) -> Source:
    """Where the checks read a cluster's tables from. They are held in memory if they have at most
    `replay.rows_per_bucket` rows together."""
    if sum(file.rows for name in _LARGE for file in lake.files(name, cluster)) > settings.replay.rows_per_bucket:
        return LakeSource(lake, cluster, settings)
    needs = {name: top_level(columns) for name, columns in all_columns(checks).items() if name != TRANSACTIONS}
    if _RECORDS in needs:
        needs[_RECORDS] = tuple(dict.fromkeys((*needs[_RECORDS], "type")))
    return InMemory({name: lake.read(name, cluster, columns) for name, columns in needs.items()})


class LakeSource:
    """Tables of a lake, read by tasks. `replay.rows_per_bucket` bounds the rows of each large table that a task holds
    at once, but for the checks that must see a whole table."""

    def __init__(self, lake: Lake, cluster: str, settings: Settings) -> None:
        self._lake = lake
        self._cluster = cluster
        self._most = settings.replay.rows_per_bucket
        self._spark = settings.spark

    def each(self, checks: Sequence[Check], function: Callable[[Part], Outcomes]) -> Iterable[Outcomes]:
        rows = sum(file.rows for name in _LARGE for file in self._lake.files(name, self._cluster))
        parts = [*self._topics(checks, rows), *self._tables(checks), *self._files(checks)]
        # A task for each core: most parts take less time than starting a task does.
        most = min(cores(rows, self._spark), len(parts))
        shares = run_tasks(partial(_of_each, function), [parts[at::most] for at in range(most)], rows, self._spark)
        return chain.from_iterable(shares)

    def _files(self, checks: Sequence[Check]) -> Iterator[Part]:
        """The files of each table, for checks of rows."""
        for table, names in names_by_table(checks, Scope.ROWS).items():
            files: list[str | None] = [file.path for file in self._lake.files(table, self._cluster)]
            for file in files or [None]:
                yield _File(self._lake, names, table, file, self._most)

    def _topics(self, checks: Sequence[Check], rows: int) -> Iterator[Part]:
        """All topics, bucket by bucket, with as many parts as there are cores: each part reads the tables that are not
        sorted by topics once."""
        of_topics = [check for check in checks if check.scope is Scope.TOPIC]
        names = [check.full_name for check in of_topics]
        sliced = [name for name in all_columns(of_topics) if name in TABLES and TABLES[name].topics]
        files = BucketFiles(self._lake, self._cluster, sliced)
        # As many buckets as replay has, so that a file is not read for two of them.
        count = power_of_two(max(files.rows(name) for name in sliced) / self._most)
        items = [BucketItem(bucket, files.parts(bucket)) for bucket in (Bucket(n, count) for n in range(count))]
        most = min(cores(rows, self._spark), count)
        yield from (_Topics(self._lake, self._cluster, names, items[at::most]) for at in range(most))

    def _tables(self, checks: Sequence[Check]) -> Iterator[Part]:
        """The whole cluster: for each check alone if its table is large, so that its columns are all that is held."""
        for table, names in names_by_table(checks, Scope.CLUSTER).items():
            for of_part in [[name] for name in names] if table in _LARGE else [names]:
                yield _Whole(self._lake, self._cluster, of_part)


def _of_each(function: Callable[[Part], Outcomes], parts: Sequence[Part]) -> list[Outcomes]:
    return [function(part) for part in parts]


@dataclass(frozen=True)
class _File:
    """A file of a table; None: the table has none."""

    lake: Lake
    checks: Sequence[str]
    table: str
    file: str | None
    most: int

    def read(self, needs: Needs) -> Iterator[Tables]:
        rows = _rows(self.lake, self.table, [] if self.file is None else [self.file], needs[self.table])
        for at in range(0, max(len(rows), 1), self.most):
            yield {self.table: Rows(rows.slice(at, self.most))}


@dataclass(frozen=True)
class _Topics:
    """Buckets of topics, one after the other; of tables without topics all rows."""

    lake: Lake
    cluster: str
    checks: Sequence[str]
    items: Sequence[BucketItem]

    def read(self, needs: Needs) -> Iterator[Tables]:
        sliced = self.items[0].parts
        others = {name: _whole(self.lake, self.cluster, name, needs[name]) for name in needs if name not in sliced}
        for item in self.items:
            found = {name: Rows(_of_bucket(table, item.bucket)) for name, table in others.items()}
            for name, parts in item.parts.items():
                found[name] = Rows(_of_parts(self.lake, name, parts, needs[name], item.bucket))
            yield found


@dataclass(frozen=True)
class _Whole:
    """All rows of a cluster."""

    lake: Lake
    cluster: str
    checks: Sequence[str]

    def read(self, needs: Needs) -> Iterator[Tables]:
        yield {name: Rows(_whole(self.lake, self.cluster, name, columns)) for name, columns in needs.items()}


def _whole(lake: Lake, cluster: str, name: str, columns: Sequence[str]) -> pa.Table:
    if name == TRANSACTIONS:
        parts = BucketFiles(lake, cluster, [_RECORDS]).parts(WITHOUT_TOPIC)[_RECORDS]
        needed = (*columns, ".".join(TABLES[_RECORDS].topics))
        return transactions(_of_parts(lake, _RECORDS, parts, needed, WITHOUT_TOPIC))
    return _rows(lake, name, [file.path for file in lake.files(name, cluster)], columns)


def _rows(lake: Lake, name: str, files: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """All rows of files of a table."""
    return _of_parts(lake, name, [FilePart(f"{name}/{file}", None, True) for file in files], columns, Bucket(0, 1))


def _of_parts(lake: Lake, name: str, parts: Sequence[FilePart], columns: Sequence[str], bucket: Bucket) -> pa.Table:
    """Rows of a table; a column that a file lacks is null. columns: names, or dotted paths of fields."""
    found = read_bucket(lake.storage, parts, columns, bucket, TABLES[name].topics, as_codes=True)
    empty = _selected(TABLES[name].file_schema, columns).empty_table()
    return pa.concat_tables(map(with_codes, chain([empty], found)), promote_options="permissive")


def _selected(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Columns of a schema; columns of structs with the fields alone that dotted paths name."""
    fields = []
    for name in top_level(columns):
        field = schema.field(name)
        paths = {path for path in columns if path.startswith(f"{name}.")}
        if paths and name not in columns:
            field = pa.field(name, pa.struct([inner for inner in field.type if f"{name}.{inner.name}" in paths]))
        fields.append(field)
    return pa.schema(fields)


def _of_bucket(table: pa.Table, bucket: Bucket) -> pa.Table:
    """The rows of a bucket's topics, and those without a topic."""
    if "topic_id" not in table.column_names or bucket.count == 1:
        return table
    own = slices_of(table["topic_id"], bucket.count) == bucket.number
    return table.filter(pc.or_(pa.array(own), pc.is_null(table["topic_id"])))
