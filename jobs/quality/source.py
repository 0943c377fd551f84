"""A cluster's tables for the checks: held in memory if they are small, else read by file and by bucket of topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from jobs.config.settings import Settings
from jobs.lake.lake import Lake
from jobs.lake.row_groups import Bucket, power_of_two, read_bucket, slices_of
from jobs.lake.tables import TABLES
from jobs.replay.buckets import BucketFiles
from quality.check import Check
from quality.columns import Rows, Tables
from quality.run import TRANSACTIONS, InMemory, Needs, Source, all_columns, transactions, with_codes

# Tables that may have many rows.
_LARGE = (
    *("metadata_records", "snapshot_records", "log_end_offsets", "broker_log_events", "evidence_files"),
    *("partition_history", "elections", "findings"),
)
_RECORDS = "metadata_records"


def source_of(lake: Lake, cluster: str, checks: Sequence[Check], settings: Settings) -> Source:
    """Where the checks read a cluster's tables from. They are held in memory if they have at most
    `replay.rows_per_bucket` rows together."""
    most = settings.replay.rows_per_bucket
    if sum(file.rows for name in _LARGE for file in lake.files(name, cluster)) > most:
        return LakeSource(lake, cluster, most)
    needs = {name: columns for name, columns in all_columns(checks).items() if name != TRANSACTIONS}
    if _RECORDS in needs:
        needs[_RECORDS] = tuple(dict.fromkeys((*needs[_RECORDS], "type")))
    return InMemory({name: lake.read(name, cluster, columns) for name, columns in needs.items()})


class LakeSource:
    """Tables of a lake, read when they are needed. rows_per_bucket: bounds the rows that are held at once."""

    def __init__(self, lake: Lake, cluster: str, rows_per_bucket: int) -> None:
        self._lake = lake
        self._cluster = cluster
        self._most = rows_per_bucket

    def whole(self, needs: Needs) -> Tables:
        return {name: Rows(self._read(name, columns)) for name, columns in needs.items()}

    def parts(self, table: str, columns: Sequence[str]) -> Iterator[Rows]:
        for part in self._lake.parts(table, self._cluster, columns):
            for at in range(0, max(len(part), 1), self._most):
                yield Rows(with_codes(part.slice(at, self._most)))

    def topics(self, needs: Needs) -> Iterator[Tables]:
        sliced = [name for name in needs if name in TABLES and TABLES[name].topics]
        files = BucketFiles(self._lake, self._cluster, sliced)
        count = power_of_two(files.rows(*sliced) / self._most)
        for bucket in (Bucket(number, count) for number in range(count)):
            parts = files.parts(bucket)
            found = {}
            for name, columns in needs.items():
                if name in sliced:
                    rows = read_bucket(self._lake.storage, parts[name], columns, bucket, TABLES[name].topics)
                    empty = TABLES[name].schema.empty_table().select(columns)
                    table = pa.concat_tables(
                        [with_codes(part) for part in (empty, *rows)], promote_options="permissive"
                    )
                    found[name] = Rows(table)
                else:
                    found[name] = Rows(_of_bucket(self._read(name, columns), bucket))
            yield found

    def _read(self, name: str, columns: Sequence[str]) -> pa.Table:
        if name == TRANSACTIONS:
            return with_codes(transactions(self._lake.read(_RECORDS, self._cluster, columns)))
        parts = self._lake.parts(name, self._cluster, columns)
        return pa.concat_tables([with_codes(part) for part in parts], promote_options="permissive")


def _of_bucket(table: pa.Table, bucket: Bucket) -> pa.Table:
    """The rows of a bucket's topics, and those without a topic."""
    if "topic_id" not in table.column_names or bucket.count == 1:
        return table
    own = slices_of(table["topic_id"], bucket.count) == bucket.number
    return table.filter(pc.or_(pa.array(own), pc.is_null(table["topic_id"])))
