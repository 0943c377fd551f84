"""A cluster's tables for the checks: held in memory if they are small, else read by tasks, by file and by bucket of
topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.config.settings import Settings
from jobs.lake.lake import Lake
from jobs.lake.row_groups import WITHOUT_TOPIC, Bucket, power_of_two, slices_of
from jobs.lake.tables import TABLES
from jobs.quality.lake_tables import LakeTables
from jobs.quality.spans import Span, spans
from jobs.replay.buckets import BucketFiles, BucketItem
from jobs.spark.tasks import cores, run_tasks
from quality.check import Check, Scope
from quality.columns import Array, Rows, Tables
from quality.digests import DIGESTS
from quality.run import InMemory, Needs, Outcomes, Part, Source, all_columns, names_by_table, top_level

# Tables that may have many rows.
_LARGE = (
    *("metadata_records", "snapshot_records", "log_end_offsets", "broker_log_events", "evidence_files"),
    *("partition_history", "cluster_metrics", "elections", "rule_differences", "findings"),
)
_KEYS = 4  # times as many rows of a key as of a whole row are held
_STATES = 8  # rows of a history for each row that is compared with it


def source_of(lake: Lake, cluster: str, checks: Sequence[Check], settings: Settings) -> Source:
    """Where the checks read a cluster's tables from. They are held in memory if they have at most
    `replay.rows_per_bucket` rows together."""
    if sum(file.rows for name in _LARGE for file in lake.files(name, cluster)) > settings.replay.rows_per_bucket:
        return LakeSource(lake, cluster, settings)
    needs: dict[str, dict[str, None]] = {}
    for name, columns in all_columns(checks).items():
        table, read = (DIGESTS[name].table, DIGESTS[name].columns) if name in DIGESTS else (name, columns)
        needs.setdefault(table, {}).update(dict.fromkeys(top_level(read)))
    return InMemory({name: lake.read(name, cluster, list(columns)) for name, columns in needs.items()})


class LakeSource:
    """Tables of a lake, read by tasks. `replay.rows_per_bucket` bounds the rows of each large table that a task holds
    at once, but for the checks that must see a whole table."""

    def __init__(self, lake: Lake, cluster: str, settings: Settings) -> None:
        self._lake = lake
        self._cluster = cluster
        self._most = settings.replay.rows_per_bucket
        self._tables = LakeTables(lake, cluster, self._most)
        self._settings = settings

    def each(self, checks: Sequence[Check], function: Callable[[Part], Outcomes]) -> Iterable[Outcomes]:
        rows = sum(file.rows for name in _LARGE for file in self._lake.files(name, self._cluster))
        at_once = cores(rows, self._settings)
        parts = [
            *self._topics(checks, at_once),
            *self._wholes(checks),
            *self._values(checks),
            *self._names(checks),
            *self._rows(checks, at_once),
        ]
        # A task for each core: most parts take less time than starting a task does.
        most = min(at_once, len(parts))
        name = f"quality: {len(checks)} checks of {self._cluster}"
        shares = run_tasks(
            partial(_of_each, function), [parts[at::most] for at in range(most)], rows, self._settings, name
        )
        return chain.from_iterable(shares)

    def _rows(self, checks: Sequence[Check], most: int) -> Iterator[Part]:
        """The files of each table, for checks of rows."""
        for table, names in names_by_table(checks, Scope.ROWS).items():
            files = [file.path for file in self._lake.files(table, self._cluster)]
            yield from (_Files(self._tables, names, table, files[at::most]) for at in range(min(most, len(files))))

    def _topics(self, checks: Sequence[Check], most: int) -> Iterator[Part]:
        """All topics, bucket by bucket, with as many parts as there are cores: each part reads the tables that are not
        sorted by topics once. Then the rows without a topic of tables that are."""
        of_topics = [check for check in checks if check.scope is Scope.TOPIC]
        if not of_topics:
            return
        names = [check.full_name for check in of_topics]
        sliced = [name for name in all_columns(of_topics) if name in TABLES and TABLES[name].topics]
        files = BucketFiles(self._lake, self._cluster, sliced)
        # As many buckets as replay has, so that a file is not read for two of them.
        count = power_of_two(max(files.rows(name) for name in sliced) / self._most)
        items = [BucketItem(bucket, files.parts(bucket)) for bucket in (Bucket(n, count) for n in range(count))]
        yield from (_Topics(self._tables, names, items[at::most]) for at in range(min(most, count)))
        of_sliced = [check.full_name for check in of_topics if check.table in sliced]
        yield _Topics(self._tables, of_sliced, [BucketItem(WITHOUT_TOPIC, files.parts(WITHOUT_TOPIC))])

    def _wholes(self, checks: Sequence[Check]) -> Iterator[Part]:
        """The whole cluster: for each check alone if its table is large, so that its columns are all that is held."""
        for table, names in names_by_table(checks, Scope.CLUSTER).items():
            for of_part in [[name] for name in names] if table in _LARGE else [names]:
                yield _Whole(self._tables, of_part)

    def _values(self, checks: Sequence[Check]) -> Iterator[Part]:
        """Each table, span by span of the values of a key's last column."""
        for check in (check for check in checks if check.scope is Scope.VALUE):
            files, column = self._lake.files(check.table, self._cluster), check.key[-1]
            found = [Span()]
            if column == TABLES[check.table].bounds:
                found = spans(files, -(-sum(file.rows for file in files) // (_KEYS * self._most)))
            for span in found:
                read = [file.path for file in files if span.may_be_in(file)]
                yield _Values(self._tables, [check.full_name], check.table, column, span, read)

    def _names(self, checks: Sequence[Check]) -> Iterator[Part]:
        """Topics by their names, as a hash of them says."""
        for check in (check for check in checks if check.scope is Scope.NAME):
            rows = sum(file.rows for file in self._lake.files(check.table, self._cluster))
            count = power_of_two(rows * _STATES / self._most)
            for number in range(count if rows else 0):
                yield _Names(self._tables, [check.full_name], check.table, Bucket(number, count))


def _of_each(function: Callable[[Part], Outcomes], parts: Sequence[Part]) -> list[Outcomes]:
    return [function(part) for part in parts]


@dataclass(frozen=True)
class _Files:
    """Files of a table."""

    tables: LakeTables
    checks: Sequence[str]
    table: str
    files: Sequence[str]

    def read(self, needs: Needs) -> Iterator[Tables]:
        others = {name: Rows(self.tables.whole(name, needs[name])) for name in needs if name != self.table}
        for piece in self.tables.pieces(self.table, needs[self.table], self.files):
            yield {**others, self.table: Rows(piece)}


@dataclass(frozen=True)
class _Topics:
    """Buckets of topics, one after the other; of tables without topics all rows."""

    tables: LakeTables
    checks: Sequence[str]
    items: Sequence[BucketItem]

    def read(self, needs: Needs) -> Iterator[Tables]:
        sliced = self.items[0].parts
        others = {name: self.tables.whole(name, needs[name]) for name in needs if name not in sliced}
        for item in self.items:
            found = {name: Rows(_of_bucket(table, item.bucket)) for name, table in others.items()}
            for name, parts in item.parts.items():
                if name in needs:
                    found[name] = Rows(self.tables.of_parts(name, parts, needs[name], item.bucket))
            yield found


@dataclass(frozen=True)
class _Values:
    """The rows of a table in a span of values of a column."""

    tables: LakeTables
    checks: Sequence[str]
    table: str
    column: str
    span: Span
    files: Sequence[str]

    def read(self, needs: Needs) -> Iterator[Tables]:
        found = self.tables.pieces(self.table, needs[self.table], self.files)
        if not self.span.is_all:
            found = (piece.filter(pa.array(self.span.has(Rows(piece).ints(self.column)))) for piece in found)
        yield {self.table: Rows(pa.concat_tables(found))}


@dataclass(frozen=True)
class _Names:
    """The rows of a table whose topic's name has a hash, and those of other tables with these names or without one."""

    tables: LakeTables
    checks: Sequence[str]
    table: str
    bucket: Bucket

    def read(self, needs: Needs) -> Iterator[Tables]:
        own = Rows(self._where(self.table, needs[self.table], self._is_own))
        if not len(own):
            return
        names = frozenset(own.table["topic"].unify_dictionaries().unique().to_pylist())
        found = {self.table: own}
        for name in needs.keys() - {self.table}:
            if "topic" in needs[name]:
                found[name] = Rows(
                    self._where(name, needs[name], lambda rows: rows.in_set("topic", names) | ~rows.valid("topic"))
                )
            else:
                found[name] = Rows(self.tables.whole(name, needs[name]))
        yield found

    def _is_own(self, rows: Rows) -> Array:
        found: Array = np.maximum(slices_of(rows.table["topic"], self.bucket.count), 0) == self.bucket.number
        return found

    def _where(self, name: str, columns: Sequence[str], holds: Callable[[Rows], Array]) -> pa.Table:
        pieces = map(Rows, self.tables.pieces(name, columns))
        return pa.concat_tables(rows.where(holds(rows)).table for rows in pieces)


@dataclass(frozen=True)
class _Whole:
    """All rows of a cluster."""

    tables: LakeTables
    checks: Sequence[str]

    def read(self, needs: Needs) -> Iterator[Tables]:
        yield {name: Rows(self.tables.whole(name, columns)) for name, columns in needs.items()}


def _of_bucket(table: pa.Table, bucket: Bucket) -> pa.Table:
    """The rows of a bucket's topics, and those without a topic."""
    if "topic_id" not in table.column_names or bucket.count == 1:
        return table
    own = slices_of(table["topic_id"], bucket.count) == bucket.number
    return table.filter(pc.or_(pa.array(own), pc.is_null(table["topic_id"])))
