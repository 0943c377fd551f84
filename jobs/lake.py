"""The lake: a folder with one Delta table each for evidence and results. All writing of tables is here, and what Spark
reads of them; what is little is read without it (jobs/lake_files.py)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from jobs import delta_log
from jobs.lake_files import LakeFiles
from jobs.tables import TABLES, Table

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# Beside the tables: what Spark is to write and the driver has laid down for it. A process that is killed leaves its own
# folder in there, which nothing reads.
STAGING = "_staging"
STAGED_ROWS, FILE_ROWS = 200_000, 1_000_000


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema; the fields' comments come along."""
    plain = from_arrow_schema(schema)
    comments = [(field.metadata or {}).get(b"comment", b"").decode() for field in schema]
    return StructType(
        [StructField(f.name, f.dataType, True, {"comment": c}) for f, c in zip(plain.fields, comments, strict=True)]
    )


def table_properties(table: Table) -> dict[str, str]:
    """The Delta properties of a table."""
    properties = {"delta.appendOnly": "true"} if table.append_only else {}
    properties |= {f"delta.constraints.{name}": condition for name, condition in table.checks}
    return {**properties, "delta.dataSkippingStatsColumns": ",".join(["cluster_id", table.key[-1]])}


def _whole(name: str, cluster_id: str, table: pa.Table) -> pa.Table:
    """The rows with cluster_id, typed as the lake's table is."""
    target = TABLES[name].schema
    columns = {"cluster_id": pa.repeat(pa.scalar(cluster_id), len(table))}
    columns |= {field.name: table[field.name] for field in target if field.name != "cluster_id"}
    return pa.table(columns, schema=target)


def _about(cluster_id: str, about: Mapping[str, Any] | None) -> str:
    return json.dumps({"cluster_id": cluster_id, **(about or {})})


class Lake(LakeFiles):
    """A lake in a session. Writes are one Delta commit each; a re-run after a crash converges."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        super().__init__(root)
        self.spark = spark

    def create(self) -> None:
        """Create every table that is not there yet."""
        for table in TABLES.values():
            folder = self.root / table.name
            if not delta_log.is_table(folder):
                schema = spark_schema(table.schema).json()
                delta_log.make_table(folder, table.comment, schema, table_properties(table))

    def table(self, name: str, cluster_id: str | None = None) -> DataFrame:
        """A table, or one cluster's rows of it."""
        frame = self.spark.read.format("delta").load(self.path(name))
        return frame if cluster_id is None else frame.where(F.col("cluster_id") == cluster_id)

    def frame(self, name: str, cluster_id: str, table: pa.Table) -> DataFrame:
        """An Arrow table of a table's columns (without cluster_id; texts may be encoded) as that table's DataFrame."""
        return self.spark.createDataFrame(_whole(name, cluster_id, table), schema=spark_schema(TABLES[name].schema))

    @contextmanager
    def staged(self, name: str, cluster_id: str, table: pa.Table) -> Iterator[DataFrame]:
        """As `frame`, of a table of any size, which must be used in here: a large one does not go through the driver's
        JVM but as files, in a folder of the lake that every executor sees and that is removed in the end."""
        if len(table) <= STAGED_ROWS:
            yield self.frame(name, cluster_id, table)
            return
        folder = self.root.resolve() / STAGING / uuid4().hex
        folder.mkdir(parents=True)
        try:
            for begin in range(0, len(table), FILE_ROWS):
                rows = _whole(name, cluster_id, table.slice(begin, FILE_ROWS))
                pq.write_table(rows, folder / f"{begin:012d}.parquet")
            yield self.spark.read.schema(spark_schema(TABLES[name].schema)).parquet(str(folder))
        finally:
            rmtree(folder)

    def append_new(self, name: str, rows: DataFrame, key: Sequence[str] = (), distinct: bool = False) -> int:
        """Append the rows whose key (the table's, unless given) is not there yet; returns how many. distinct: no two of
        the rows have one key. Rows are immutable: nothing is updated."""
        key = ["cluster_id", *(key or TABLES[name].key)]
        new = rows if distinct else rows.dropDuplicates(key)
        if self.version(name) > 0:
            known = self.table(name).select(*(F.col(k).alias(f"known_{k}") for k in key))
            new = new.join(known, [F.col(k).eqNullSafe(F.col(f"known_{k}")) for k in key], "left_anti")
        return self._save(name, self._write(name, new).mode("append"))

    def replace(self, name: str, cluster_id: str, rows: DataFrame, about: Mapping[str, Any] | None = None) -> int:
        """Replace one cluster's rows in one commit, which also carries `about`; returns the rows written. A column that
        the table lacks, since an earlier release made it, is added."""
        condition = "cluster_id = '{}'".format(cluster_id.replace("\\", "\\\\").replace("'", "\\'"))
        writer = self._write(name, rows).mode("overwrite").option("replaceWhere", condition)
        writer = writer.option("mergeSchema", "true").option("userMetadata", _about(cluster_id, about))
        before = self.version(name)
        written = self._save(name, writer)
        if about and self.version(name) == before:
            # There was nothing to write and nothing to replace; what is said of that has to be in a commit, too.
            with self._saying(cluster_id, about):
                path = self.path(name).replace("`", "``")
                self.spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('kraft_forensics.empty' = 'true')")
        return written

    def extend(
        self, name: str, cluster_id: str, rows: DataFrame, update: Sequence[str], about: Mapping[str, Any]
    ) -> int:
        """As `merge`, in a commit that carries `about`; returns the rows inserted."""
        before = self.version(name)
        with self._saying(cluster_id, about):
            self.merge(name, rows, update)
        if self.version(name) == before:
            return 0
        return int(next(self.commits(name)).get("operationMetrics", {}).get("numTargetRowsInserted", 0))

    @contextmanager
    def _saying(self, cluster_id: str, about: Mapping[str, Any]) -> Iterator[None]:
        """Commits made in here carry `about`."""
        self.spark.conf.set(_USER_METADATA, _about(cluster_id, about))
        try:
            yield
        finally:
            self.spark.conf.unset(_USER_METADATA)

    def merge(self, name: str, rows: DataFrame, update: Sequence[str]) -> None:
        """Insert rows with a new key; on a known key set the columns in `update` where they differ."""
        table = TABLES[name]
        same = " and ".join(f"t.{k} = s.{k}" for k in ("cluster_id", *table.key))
        differs = " or ".join(f"not t.{c} <=> s.{c}" for c in update)
        (
            DeltaTable.forPath(self.spark, self.path(name)).alias("t").merge(rows.alias("s"), same)
            .whenMatchedUpdate(differs, {c: f"s.{c}" for c in update})
            .whenNotMatchedInsertAll().execute()
        )  # fmt: skip

    def update(self, name: str, rows: DataFrame, on: Sequence[str], columns: Sequence[str]) -> None:
        """Set `columns` of the rows that `rows` names by cluster_id and `on`."""
        same = " and ".join(f"t.{k} = s.{k}" for k in ("cluster_id", *on))
        target = DeltaTable.forPath(self.spark, self.path(name)).alias("t")
        target.merge(rows.alias("s"), same).whenMatchedUpdate(set={c: f"s.{c}" for c in columns}).execute()

    def _write(self, name: str, rows: DataFrame) -> DataFrameWriter:
        return rows.select(*(f.name for f in TABLES[name].schema)).write.format("delta")

    def _save(self, name: str, writer: DataFrameWriter) -> int:
        """Write, and return how many rows that wrote. Delta makes no commit where there is nothing to write."""
        before = self.version(name)
        writer.save(self.path(name))
        if self.version(name) == before:
            return 0
        metrics = next(self.commits(name)).get("operationMetrics", {})
        return int(metrics.get("numOutputRows", 0))

    def register_views(self, query: str) -> None:
        """Make the tables that a query may mean known to SQL under their own names, for this session."""
        for name in TABLES:
            if re.search(rf"\b{name}\b", query, re.IGNORECASE):
                self.table(name).createOrReplaceTempView(name)
