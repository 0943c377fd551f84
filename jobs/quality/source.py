"""A cluster's tables for the checks: held in memory if they are small, else read by tasks, by file and by bucket of
topics."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from jobs.config.settings import Settings
from jobs.lake.lake import Lake
from jobs.lake.row_groups import WITHOUT_TOPIC, FilePart, TopicBucket, pieces_of, power_of_two, read_bucket, slices_of
from jobs.lake.tables import TABLES
from jobs.replay.buckets import BucketFiles, BucketItem
from jobs.spark.tasks import cores, run_tasks
from quality.check import Check, Scope, digests_of, needs_of, values
from quality.run import InMemory, Needs, Outcomes, Part, Rows, Source, Stream
from replay.arrow.runs import groups
from replay.arrow.schemas import CODES

# Tables that may have many rows.
_LARGE = (
    *("metadata_records", "snapshot_records", "log_end_offsets", "broker_log_events", "evidence_files"),
    *("partition_history", "cluster_metrics", "elections", "rule_differences", "findings"),
)
_ALL = TopicBucket(0, 1)
_SCHEMAS = {name: table.file_schema for name, table in TABLES.items()}


def source_of(lake: Lake, cluster: str, checks: Sequence[Check], settings: Settings) -> Source:
    """Where the checks read a cluster's tables from. They are held in memory if they have at most
    `replay.rows_per_bucket` rows together."""
    if _large_rows(lake, cluster) > settings.replay.rows_per_bucket:
        return LakeSource(lake, cluster, settings)
    needs = needs_of(checks, _SCHEMAS, digests_of(checks).values())
    return InMemory({n: lake.read(n, cluster, _top_level(columns), as_codes=True) for n, columns in needs.items()})


@dataclass(frozen=True)
class LakeSource:
    """Tables of a lake, read by tasks. `replay.rows_per_bucket` bounds the rows of each large table that a task holds
    at once (a row group may have more); what a check must see as a whole, DuckDB reads piece by piece. columns,
    everywhere: names, or dotted paths of fields. A column that a file of an earlier release lacks is null. Strings are
    dictionary-encoded."""

    lake: Lake
    cluster: str
    settings: Settings

    @property
    def most(self) -> int:
        """Rows of a piece."""
        return self.settings.replay.rows_per_bucket

    def each(self, checks: Sequence[Check], function: Callable[[Sequence[Part]], Outcomes]) -> Iterable[Outcomes]:
        rows = _large_rows(self.lake, self.cluster)
        at_once = cores(rows, self.settings)
        parts = [*self._topics(checks, at_once), *self._wholes(checks), *self._rows(checks, at_once)]
        # A task for each core: most parts take less time than starting a task does.
        most = min(at_once, len(parts))
        name = f"quality: {len(checks)} checks of {self.cluster}"
        return run_tasks(function, [parts[at::most] for at in range(most)], rows, self.settings, name)

    def _topics(self, checks: Sequence[Check], most: int) -> Iterator[Part]:
        """All topics, bucket by bucket, with as many parts as there are cores: each part reads the tables that are not
        cut by topics once. Then the rows without a topic."""
        # Also those that could see any rows, of a table that is read by topics for others.
        own = [c for c in checks if c.scope is Scope.TOPIC or (c.scope is Scope.ROW and values()[c.table].by_topic)]
        if not own:
            return
        cut = [name for name in needs_of(own, _SCHEMAS) if TABLES[name].topics]
        files = BucketFiles(self.lake, self.cluster, cut)
        # As many buckets as replay has, so that a file is not read for two of them.
        count = power_of_two(max(files.rows(name) for name in cut) / self.most)
        items = [BucketItem(bucket, files.parts(bucket)) for bucket in (TopicBucket(n, count) for n in range(count))]
        split = [items[at::most] for at in range(min(most, count))]
        for some in (*split, [BucketItem(WITHOUT_TOPIC, files.parts(WITHOUT_TOPIC))]):
            yield Part(own, _SCHEMAS, partial(self.by_topic, some), self.whole)

    def _wholes(self, checks: Sequence[Check]) -> Iterator[Part]:
        """The whole cluster: each check of a large table alone, so that only its columns are read."""
        for table, own in _by_table(checks, Scope.CLUSTER).items():
            for together in [[check] for check in own] if table in _LARGE else [own]:
                yield Part(together, _SCHEMAS, self.all_rows, self.whole)

    def _rows(self, checks: Sequence[Check], most: int) -> Iterator[Part]:
        """The files of each other table."""
        for table, own in _by_table(checks, Scope.ROW).items():
            files = [] if values()[table].by_topic else [file.path for file in self.lake.files(table, self.cluster)]
            for at in range(min(most, len(files))):
                yield Part(own, _SCHEMAS, partial(self.by_file, table, files[at::most]), self.whole)

    def pieces(self, name: str, columns: Sequence[str], files: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows of a table, or of some of its files, piece by piece."""
        paths = [file.path for file in self.lake.files(name, self.cluster)] if files is None else files
        for parts in pieces_of(self.lake.storage, [f"{name}/{path}" for path in paths], self.most):
            rows = self.of_parts(name, parts, columns, _ALL)
            yield from (rows.slice(at, self.most) for at in range(0, len(rows), self.most))
            pa.default_memory_pool().release_unused()

    def held(self, name: str, columns: Sequence[str]) -> pa.Table:
        """All rows of a table."""
        return pa.concat_tables([_empty(name, columns), *self.pieces(name, columns)], promote_options="permissive")

    def stream(self, name: str, columns: Sequence[str]) -> Stream:
        """All rows of a table, read when they are wanted."""
        rows = sum(file.rows for file in self.lake.files(name, self.cluster))
        return Stream(rows, _empty(name, columns).schema, partial(self.pieces, name, columns))

    def whole(self, name: str, columns: Sequence[str], without_topic: bool) -> Rows:
        """All rows of a table, or those without a topic."""
        if not without_topic:
            return self.stream(name, columns)
        parts = BucketFiles(self.lake, self.cluster, [name]).parts(WITHOUT_TOPIC)[name]
        return self.of_parts(name, parts, (*columns, ".".join(TABLES[name].topics)), WITHOUT_TOPIC)

    def by_file(self, table: str, files: Sequence[str], needs: Needs) -> Iterator[Mapping[str, Rows]]:
        """The rows of some files of a table, piece by piece, each with all rows of the others."""
        others = {name: self.held(name, columns) for name, columns in needs.items() if name != table}
        for piece in self.pieces(table, needs[table], files):
            yield {**others, table: piece}

    def by_topic(self, items: Sequence[BucketItem], needs: Needs) -> Iterator[Mapping[str, Rows]]:
        """The rows of buckets of topics, one bucket after the other; of tables without topic ids all rows."""
        held = {name: self.held(name, columns) for name, columns in needs.items() if name not in items[0].parts}
        for item in items:
            found = {name: _of_bucket(rows, item.bucket) for name, rows in held.items()}
            for name in needs.keys() - held.keys():
                columns = tuple(dict.fromkeys((*needs[name], ".".join(TABLES[name].topics))))
                found[name] = self.of_parts(name, item.parts[name], columns, item.bucket)
            yield found
            del found  # before the next bucket's rows are read

    def all_rows(self, needs: Needs) -> Iterator[Mapping[str, Rows]]:
        """All rows of a cluster; those of large tables piece by piece."""
        yield {n: (self.stream if n in _LARGE else self.held)(n, columns) for n, columns in needs.items()}

    def of_parts(self, name: str, parts: Sequence[FilePart], columns: Sequence[str], bucket: TopicBucket) -> pa.Table:
        """The rows of a bucket."""
        found = read_bucket(self.lake.storage, parts, columns, bucket, TABLES[name].topics, as_codes=True)
        return pa.concat_tables([_empty(name, columns), *found], promote_options="permissive")


def _large_rows(lake: Lake, cluster: str) -> int:
    return sum(file.rows for name in _LARGE for file in lake.files(name, cluster))


def _by_table(checks: Sequence[Check], scope: Scope) -> dict[str, list[Check]]:
    return groups((check for check in checks if check.scope is scope), lambda check: check.table)


def _of_bucket(table: pa.Table, bucket: TopicBucket) -> pa.Table:
    """The rows of a bucket's topics."""
    if "topic_id" not in table.column_names:
        return table
    return table.filter(pa.array(slices_of(table["topic_id"], bucket.count) == bucket.number))


def _empty(name: str, columns: Sequence[str]) -> pa.Table:
    """No rows of some columns of a table, strings encoded; of a struct with the fields that dotted paths name."""
    fields = []
    for column in _top_level(columns):
        field = _SCHEMAS[name].field(column)
        inner = [path.partition(".")[2] for path in columns if path.startswith(f"{column}.")]
        if inner:
            field = pa.field(column, pa.struct([each for each in field.type if each.name in inner]))
        fields.append(field.with_type(CODES) if pa.types.is_string(field.type) else field)
    return pa.schema(fields).empty_table()


def _top_level(columns: Sequence[str]) -> list[str]:
    """The columns that dotted paths of fields are in."""
    return list(dict.fromkeys(name.partition(".")[0] for name in columns))
