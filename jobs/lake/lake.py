"""The lake, a folder of Delta tables, as Spark reads and writes it. Arrow tables on the driver do not need Spark:
jobs/lake/lake_files.py reads and writes those."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from jobs.lake.lake_files import LakeFiles, about_text, whole
from jobs.lake.tables import TABLES
from jobs.spark.types import spark_schema

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


class Lake(LakeFiles):
    """A lake in a session. Each write is one Delta commit; a re-run after a crash converges.

    spark: the session, or a function that starts it, which is called when Spark is needed for the first time.
    """

    def __init__(self, spark: SparkSession | Callable[[], SparkSession], root: Path) -> None:
        super().__init__(root)
        self._session = spark

    @cached_property
    def spark(self) -> SparkSession:
        return self._session() if callable(self._session) else self._session

    def start(self) -> SparkSession:
        """Start the session unless it is running, and return it: PySpark cannot make a column (F.col) without one."""
        return self.spark

    def table(self, name: str, cluster_id: str | None = None) -> DataFrame:
        """A table, or one cluster's rows of it. A column missing from a table of an earlier release is null."""
        frame = self.spark.read.format("delta").load(self.path(name))
        missing = set(TABLES[name].schema.names) - set(frame.columns)
        if missing:
            types = spark_schema(TABLES[name].schema)
            frame = frame.withColumns({n: F.lit(None).cast(types[n].dataType) for n in sorted(missing)})
        return frame if cluster_id is None else frame.where(F.col("cluster_id") == cluster_id)

    def frame(self, name: str, cluster_id: str, table: pa.Table) -> DataFrame:
        """Arrow rows of a table as a DataFrame. table: without cluster_id; strings may be dictionary-encoded."""
        return self.spark.createDataFrame(whole(name, cluster_id, table), schema=spark_schema(TABLES[name].schema))

    def append_new(self, name: str, rows: DataFrame, key: Sequence[str] = (), distinct: bool = False) -> int:
        """Append the rows whose key is new, and return their number. Existing rows are never updated.

        key: default, the table's key. distinct: no two of the rows have the same key.
        """
        key = ["cluster_id", *(key or TABLES[name].key)]
        new = rows if distinct else rows.dropDuplicates(key)
        if self.version(name) > 0:
            known = self.table(name).select(*(F.col(k).alias(f"known_{k}") for k in key))
            new = new.join(known, [F.col(k).eqNullSafe(F.col(f"known_{k}")) for k in key], "left_anti")
        return self._save(name, self._write(name, new).mode("append"))

    def replace(self, name: str, cluster_id: str, rows: DataFrame, about: Mapping[str, Any] | None = None) -> int:
        """Replace one cluster's rows in one commit with the metadata `about`; returns the number of rows written.
        Columns missing from a table of an earlier release are added."""
        condition = "cluster_id = '{}'".format(cluster_id.replace("\\", "\\\\").replace("'", "\\'"))
        writer = self._write(name, rows).mode("overwrite").option("replaceWhere", condition)
        writer = writer.option("mergeSchema", "true").option("userMetadata", about_text(cluster_id, about))
        before = self.version(name)
        written = self._save(name, writer)
        if about and self.version(name) == before:
            # Delta commits nothing if there are no rows to write or replace, but `about` needs a commit.
            with self._commit_metadata(cluster_id, about):
                path = self.path(name).replace("`", "``")
                self.spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('kraft_forensics.empty' = 'true')")
        return written

    def extend(
        self, name: str, cluster_id: str, rows: DataFrame, update: Sequence[str], about: Mapping[str, Any]
    ) -> int:
        """Like `merge`, in a commit with the metadata `about`; returns the number of rows inserted."""
        before = self.version(name)
        with self._commit_metadata(cluster_id, about):
            self.merge(name, rows, update)
        if self.version(name) == before:
            return 0
        return int(next(self.commits(name)).get("operationMetrics", {}).get("numTargetRowsInserted", 0))

    @contextmanager
    def _commit_metadata(self, cluster_id: str, about: Mapping[str, Any]) -> Iterator[None]:
        """Add the metadata `about` to commits made in this context."""
        self.spark.conf.set(_USER_METADATA, about_text(cluster_id, about))
        try:
            yield
        finally:
            self.spark.conf.unset(_USER_METADATA)

    def merge(self, name: str, rows: DataFrame, update: Sequence[str]) -> None:
        """Insert rows with a new key; for a known key, set the columns in `update` if they differ."""
        table = TABLES[name]
        same = " and ".join(f"t.{k} = s.{k}" for k in ("cluster_id", *table.key))
        differs = " or ".join(f"not t.{c} <=> s.{c}" for c in update)
        (
            DeltaTable.forPath(self.spark, self.path(name)).alias("t").merge(rows.alias("s"), same)
            .whenMatchedUpdate(differs, {c: f"s.{c}" for c in update})
            .whenNotMatchedInsertAll().execute()
        )  # fmt: skip

    def update(self, name: str, rows: DataFrame, on: Sequence[str], columns: Sequence[str]) -> None:
        """Set `columns` in the table's rows that have the same cluster_id and `on` as one of `rows`."""
        same = " and ".join(f"t.{k} = s.{k}" for k in ("cluster_id", *on))
        target = DeltaTable.forPath(self.spark, self.path(name)).alias("t")
        target.merge(rows.alias("s"), same).whenMatchedUpdate(set={c: f"s.{c}" for c in columns}).execute()

    def _write(self, name: str, rows: DataFrame) -> DataFrameWriter:
        return rows.select(*(f.name for f in TABLES[name].schema)).write.format("delta")

    def _save(self, name: str, writer: DataFrameWriter) -> int:
        """Write, and return the number of rows written. Delta makes no commit if there is nothing to write."""
        before = self.version(name)
        writer.save(self.path(name))
        if self.version(name) == before:
            return 0
        metrics = next(self.commits(name)).get("operationMetrics", {})
        return int(metrics.get("numOutputRows", 0))

    def register_views(self, query: str) -> None:
        """Register the tables whose names occur in a query as views of this session."""
        for name in TABLES:
            if re.search(rf"\b{name}\b", query, re.IGNORECASE):
                self.table(name).createOrReplaceTempView(name)
